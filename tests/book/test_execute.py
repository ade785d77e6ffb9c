"""The execution of chapters: what is kept, what is removed, what happens when a cell fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import execute
import nbformat
import pytest
import setup_cell
from nbformat import v4

pytestmark = pytest.mark.slow

PARAMETERS = 'preset = "quick"  # quick, book or paper\nseed = 0\ndevice = "auto"'


def chapter(path: Path, *sources: str) -> Path:
    """Write a small chapter with these working cells."""
    cells = [v4.new_markdown_cell("# A chapter")]
    cells += [v4.new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})]
    cells += [v4.new_code_cell(s, metadata={"tags": ["kept"], "scrolled": True}) for s in sources]
    notebook = v4.new_notebook(cells=cells)
    setup_cell.place(notebook, setup_cell.text())
    nbformat.write(notebook, path)
    return path


def run(*arguments: Any) -> subprocess.CompletedProcess[str]:
    script = Path(execute.__file__)
    command = [sys.executable, str(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Three chapters, the second of which fails, executed into another folder."""
    folder = tmp_path_factory.mktemp("book")
    good = 'from pathlib import Path\nprint(preset, seed, sorted(Path(".").iterdir()))'
    paths = [
        chapter(folder / "31_first.ipynb", good, "x = 1", "print(x)\nprint(x + 1)"),
        chapter(folder / "32_second.ipynb", "a = 1", "a / 0  # the culprit", "print('never')"),
        chapter(folder / "33_third.ipynb", good),
    ]
    before = {p: p.read_bytes() for p in paths}
    into = folder / "out"
    done = run("--into", into, "--preset", "book", *paths)
    return {"done": done, "paths": paths, "before": before, "into": into}


def test_failing_chapter_does_not_stop_the_others(executed: dict[str, Any]) -> None:
    done = executed["done"]
    assert done.returncode == 1
    assert "31_first.ipynb: done" in done.stdout
    assert "32_second.ipynb: FAILED" in done.stdout
    assert "33_third.ipynb: done" in done.stdout
    # one line for each chapter and no bar, since nobody watches
    assert len(done.stdout.strip().splitlines()) == 3


def test_the_end_names_the_cell_that_failed(executed: dict[str, Any]) -> None:
    lines = executed["done"].stderr.strip().splitlines()
    assert lines[-1] == "1 of 3 chapters failed."
    assert (
        "32_second: cell 6 (In [5], 'a / 0  # the culprit') raised ZeroDivisionError" in lines[-2]
    )


def test_sources_stay_untouched(executed: dict[str, Any]) -> None:
    assert {p: p.read_bytes() for p in executed["paths"]} == executed["before"]


def test_preset_is_passed_on_and_the_folder_is_empty(executed: dict[str, Any]) -> None:
    notebook = nbformat.read(executed["into"] / "31_first.ipynb", as_version=4)
    printed = "".join(o.text for c in notebook.cells for o in c.get("outputs", []))
    assert printed.startswith("book 0 []\n")


def test_status_is_recorded_for_what_succeeded(executed: dict[str, Any]) -> None:
    entries = json.loads((executed["into"] / "status.json").read_text())
    assert set(entries) == {"31_first", "33_third"}
    assert all(e["preset"] == "book" and e["seconds"] > 0 for e in entries.values())
    assert all(1 <= e["threads"] <= (os.cpu_count() or 1) for e in entries.values())


def test_result_holds_nothing_that_changes_from_run_to_run(executed: dict[str, Any]) -> None:
    notebook = nbformat.read(executed["into"] / "31_first.ipynb", as_version=4)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    for cell in notebook.cells:
        assert set(cell.metadata) <= {"tags"}
    assert "papermill" not in (executed["into"] / "31_first.ipynb").read_text()
    # the two prints of one cell are one output, wherever the kernel cut the stream
    assert [o.text for o in notebook.cells[-1].outputs] == ["1\n2\n"]


def test_execution_in_place_twice_gives_the_same_file(tmp_path: Path) -> None:
    path = chapter(tmp_path / "41_same.ipynb", "print(preset)")
    first = execute.execute(path, path, {})
    text = path.read_bytes()
    second = execute.execute(path, path, {})
    assert (first.failure, second.failure) == ("", "")
    assert path.read_bytes() == text
    assert "injected-parameters" not in text.decode()


def test_failure_in_place_leaves_the_stored_outputs(tmp_path: Path) -> None:
    path = chapter(tmp_path / "42_bad.ipynb", "raise RuntimeError('no')")
    before = path.read_bytes()
    result = execute.execute(path, path, {})
    assert "raised RuntimeError: no" in result.failure
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_dying_kernel_is_a_failure_like_any_other(tmp_path: Path) -> None:
    path = chapter(tmp_path / "43_dead.ipynb", "import os\nos._exit(9)")
    assert "Kernel died" in execute.execute(path, tmp_path / "out.ipynb", {}).failure


def test_stored_outputs_are_those_of_the_default_parameters(tmp_path: Path) -> None:
    path = chapter(tmp_path / "44_any.ipynb", "print(1)")
    refused = run("--preset", "paper", path)
    assert refused.returncode == 2
    assert "use --into with --preset" in refused.stderr
    absent = run(tmp_path / "45_absent.ipynb")
    assert absent.returncode == 2
    assert "there is no chapter" in absent.stderr


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("preset = some()", "malformed node"),
        ("import os", "assignments to names only"),
    ],
)
def test_parameters_are_literals(source: str, message: str) -> None:
    notebook = v4.new_notebook(cells=[v4.new_code_cell(source, metadata={"tags": ["parameters"]})])
    with pytest.raises(ValueError, match=message):
        execute.parameters(notebook)
    with pytest.raises(ValueError, match="0 cells are tagged parameters"):
        execute.parameters(v4.new_notebook())


def test_set_up_cell_is_placed_once() -> None:
    notebook = v4.new_notebook(cells=[v4.new_markdown_cell("# T"), v4.new_code_cell("x = 1")])
    assert setup_cell.place(notebook, "first")
    assert notebook.cells[1].source == "first"
    assert setup_cell.place(notebook, "second")
    assert not setup_cell.place(notebook, "second")
    assert [c.source for c in notebook.cells] == ["# T", "second", "x = 1"]
    notebook.cells.append(notebook.cells[1])
    with pytest.raises(ValueError, match="exactly one"):
        setup_cell.place(notebook, "third")
