"""What needs the chapters executed: their presets, and that a changed output is noticed.

Their form, their stored outputs and the numbers in their prose: `scripts/lint_book.py`.
"""

from __future__ import annotations

import ast
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

pytestmark = pytest.mark.slow

CHAPTERS = project.chapters()

chapters = pytest.mark.parametrize("path", CHAPTERS, ids=[p.stem for p in CHAPTERS])


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def code_cells(path: Path) -> list[Any]:
    return [c for c in read(path).cells if c.cell_type == "code"]


def tags(cell: Any) -> list[str]:
    return list(cell.metadata.get("tags", []))


def markdown(path: Path) -> str:
    return "\n\n".join(c.source for c in read(path).cells if c.cell_type == "markdown")


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
