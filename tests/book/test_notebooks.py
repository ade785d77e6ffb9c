"""What every chapter promises: its form, its stored outputs, its parameters, its presets."""

from __future__ import annotations

import ast
import base64
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import execute
import nbformat
import project
import pytest
import setup_cell

CHAPTERS = project.chapters()
CLOSING = ("Measured against reported", "What remains doubtful", "Exercises")

chapters = pytest.mark.parametrize("path", CHAPTERS, ids=[p.stem for p in CHAPTERS])


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def code_cells(path: Path) -> list[Any]:
    return [c for c in read(path).cells if c.cell_type == "code"]


def tags(cell: Any) -> list[str]:
    return list(cell.metadata.get("tags", []))


def markdown(path: Path) -> str:
    return "\n\n".join(c.source for c in read(path).cells if c.cell_type == "markdown")


def lines_of_code(path: Path, left_out: tuple[str, ...] = ()) -> int:
    """Lines of code that are neither empty nor comments, without set-up and parameters."""
    without = {"setup", "parameters", *left_out}
    sources = [c.source for c in code_cells(path) if not without & set(tags(c))]
    lines = "\n".join(sources).splitlines()
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in lines)


@chapters
def test_metadata_are_complete_and_minimal(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    assert notebook.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python", "pygments_lexer": "ipython3"},
    }
    for cell in notebook.cells:
        assert set(cell.metadata) <= set(execute.KEPT_CELL_METADATA)
    assert path.read_text(encoding="utf-8") == nbformat.writes(execute.clean(notebook)) + "\n"


@chapters
def test_opens_with_its_question_then_set_up_then_parameters(path: Path) -> None:
    cells = read(path).cells
    first = cells[0]
    assert first.cell_type == "markdown"
    assert re.match(r"(\(.*\)=\n)?# \S", first.source), "a chapter opens with its title"
    opening = "\n".join(c.source for c in cells[: cells.index(code_cells(path)[0])])
    assert "?" in opening, "a chapter opens with the question it answers"
    assert re.search(r"run time|seconds|minute", opening, re.I), "the opening gives the run time"
    assert "GPU" in opening, "the opening says whether a GPU helps"
    code = code_cells(path)
    assert tags(code[0]) == setup_cell.TAGS
    assert code[0].source == setup_cell.text()
    assert code[0].outputs == [], "the set-up cell says nothing outside Colab"
    assert tags(code[1]) == ["parameters"]
    assert [k for k, c in enumerate(code) if "parameters" in tags(c)] == [1]
    assert [k for k, c in enumerate(code) if "setup" in tags(c)] == [0]


@chapters
def test_parameters_are_preset_seed_and_device(path: Path) -> None:
    values = execute.parameters(read(path))
    assert list(values) == ["preset", "seed", "device"]
    assert values["preset"] == "quick"
    assert isinstance(values["seed"], int)
    assert values["device"] == "auto"


@chapters
def test_every_code_cell_was_executed_in_order(path: Path) -> None:
    """nbval does not compare a cell that was never executed, and does not say so."""
    counts = [c.execution_count for c in code_cells(path)]
    assert counts == list(range(1, len(counts) + 1))
    assert all(c.source.strip() for c in read(path).cells), "no empty cells"
    assert not any("injected-parameters" in tags(c) for c in code_cells(path))


@chapters
def test_stored_outputs_hold_no_error_warning_or_address(path: Path) -> None:
    for number, cell in enumerate(code_cells(path), 1):
        for output in cell.outputs:
            where = f"{path.name}, In [{number}]"
            assert output.output_type != "error", where
            assert output.get("name") != "stderr", f"{where} wrote to stderr"
            text = output.get("text", "") + "".join(
                str(v) for k, v in output.get("data", {}).items() if k.startswith("text/")
            )
            assert not re.search(r"0x[0-9a-fA-F]{5,}", text), f"{where} shows an address"
            assert not re.search(r"\w*Warning\b", text), f"{where} shows a warning"
            assert "Traceback" not in text, where
            assert not re.search(r"\d+%\|", text), f"{where} shows a progress bar"
            assert not re.search(r"/(work|tmp|root|home)/", text), f"{where} shows a local path"


@chapters
def test_cells_do_not_escape_the_comparison(path: Path) -> None:
    """Only output may be ignored, and only where there is something to guard it."""
    for number, cell in enumerate(code_cells(path), 1):
        assert not {"nbval-skip", "skip-execution", "raises-exception"} & set(tags(cell)), number
        assert not re.search(r"#\s*(NBVAL|PYTEST_VALIDATE)", cell.source), number
    asserts = [c for c in code_cells(path) if re.search(r"^\s*assert ", c.source, re.M)]
    assert len(asserts) >= 3, "claims that a number can support are asserted"


@chapters
def test_figures_are_png_with_alt_text_and_caption(path: Path) -> None:
    for number, cell in enumerate(code_cells(path), 1):
        where = f"{path.name}, In [{number}]"
        images = [
            kind
            for o in cell.outputs
            for kind in o.get("data", {})
            if kind.startswith(("image/", "application/")) or kind == "text/html"
        ]
        pictures = [k for k in images if k.startswith("image/")]
        assert set(pictures) <= {"image/png"}, f"{where}: PNG only"
        assert not any(k.startswith("application/") for k in images), f"{where}: no widgets"
        if not pictures:
            continue
        shown = cell.metadata.get("mystnb", {})
        alt = shown.get("image", {}).get("alt", "")
        assert len(alt.split()) >= 5, f"{where}: alt text says what the figure shows"
        caption = shown.get("figure", {}).get("caption", "")
        assert len(caption.split()) >= 5, f"{where}: a caption says how to read it"
        assert shown["figure"].get("name", "").startswith("fig-"), where
        for output in cell.outputs:
            data = output.get("data", {}).get("image/png")
            if data:
                assert base64.b64decode(data).startswith(b"\x89PNG"), where


def test_figure_names_are_unique() -> None:
    names = [
        c.metadata["mystnb"]["figure"]["name"]
        for p in CHAPTERS
        for c in code_cells(p)
        if c.metadata.get("mystnb", {}).get("figure", {}).get("name")
    ]
    assert sorted(names) == sorted(set(names))


@chapters
def test_length_is_that_of_one_sitting(path: Path) -> None:
    """What is read counts; drawings and bookkeeping in folded cells may be as long again."""
    assert lines_of_code(path, left_out=("hide-input",)) <= 250
    assert 100 <= lines_of_code(path) <= 500


@chapters
def test_closes_with_comparison_doubts_and_exercises(path: Path) -> None:
    headings = re.findall(r"^##\s+(.+?)\s*$", markdown(path), re.M)
    assert tuple(headings[-3:]) == CLOSING
    text = markdown(path)
    exercises = re.findall(r"\{exercise(?:-start)?\}", text)
    solutions = re.findall(r"\{solution(?:-start)?\}", text)
    assert exercises, "a chapter has exercises"
    assert len(exercises) == len(solutions), "every exercise has a solution"
    assert text.count(":class: dropdown") >= len(solutions), "solutions are folded"


@chapters
def test_nothing_is_drawn_from_the_global_generator(path: Path) -> None:
    """Draws take an explicit generator, so that a cell gives the same wherever it stands."""
    for number, cell in enumerate(code_cells(path)[1:], 2):
        tree = ast.parse(cell.source)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                assert name not in ("torch.manual_seed", "np.random.seed"), (path.name, number)
                if name in ("torch.rand", "torch.randn", "torch.randint", "torch.randperm"):
                    given = {k.arg for k in node.keywords}
                    assert "generator" in given, f"{path.name}, In [{number}]: {name}"


@chapters
def test_chapter_refuses_an_unknown_preset_in_its_first_working_cell(
    path: Path, tmp_path: Path
) -> None:
    result = execute.execute(path, tmp_path / path.name, {"preset": "fast"})
    assert "raised ValueError" in result.failure
    assert "'fast'" in result.failure
    for name in ("quick", "book", "paper"):
        assert name in result.failure
    # set-up, parameters, the injected cell, then the first working cell
    assert "(In [4]" in result.failure


@chapters
@pytest.mark.parametrize("preset", ["book", "paper"])
@pytest.mark.skipif(not os.environ.get("TVAE_DATA"), reason="needs the full data: set TVAE_DATA")
def test_chapter_accepts_the_larger_presets(
    path: Path, preset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few steps with the settings of the preset; a history that was cut short says so."""
    monkeypatch.setenv("TVAE_MAX_STEPS", "3")
    monkeypatch.setenv("TVAE_RUNS", str(tmp_path / "runs"))
    result = execute.execute(path, tmp_path / path.name, {"preset": preset})
    assert result.failure == ""
    assert result.preset == preset


def test_chapters_can_be_compared_from_another_folder(root: Path, tmp_path: Path) -> None:
    path = root / "book" / "02_notation.ipynb"
    command = [sys.executable, "-m", "pytest", "--nbval", "-q", "-p", "no:cacheprovider", str(path)]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=clean)
    assert done.returncode == 0, done.stdout
    assert re.search(rf"^{len(code_cells(path))} passed", done.stdout, re.M)
    assert list(tmp_path.iterdir()) == []


def test_a_changed_output_is_noticed(root: Path, tmp_path: Path) -> None:
    """The comparison itself works: a literal output that is changed makes it fail."""
    notebook = read(root / "book" / "02_notation.ipynb")
    changed = False
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.get("name") == "stdout" and "nbval-ignore-output" not in tags(cell):
                output.text = output.text + "something else\n"
                changed = True
    assert changed, "the notation page prints something"
    path = tmp_path / "changed.ipynb"
    nbformat.write(notebook, path)
    command = [sys.executable, "-m", "pytest", "--nbval", "-q", "-p", "no:cacheprovider"]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        [*command, "--nbval-current-env", str(path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=clean,
    )
    assert done.returncode == 1, done.stdout


def test_notation_page_links_what_it_checks(root: Path) -> None:
    """The names in its tables are those that its cell imports, all of them, no others."""
    path = root / "book" / "02_notation.ipynb"
    linked = set(re.findall(r"\{py:obj\}`([\w.]+)`", markdown(path)))
    (source,) = [c.source for c in code_cells(path) if c.source.startswith("NAMES = [")]
    statement = ast.parse(source).body[0]
    assert isinstance(statement, ast.Assign)
    assert linked == set(ast.literal_eval(statement.value))
