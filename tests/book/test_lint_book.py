"""The linter of the book: a good chapter passes, and each fault of a bad one is named in its place."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import execute
import lint_book
import nbformat
import pytest
import setup_cell
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

CLOSING = """## Measured against reported

Found 0.77.

## What remains doubtful

## Exercises

:::{exercise}
:::

:::{solution}
:class: dropdown
:::"""


def good() -> Any:
    """A chapter of six cells without a fault."""
    png = base64.b64encode(b"\x89PNG and so on").decode()
    figure = {"caption": "What is to be seen here", "name": "fig-good"}
    cells = [
        new_markdown_cell("# Title\n\nWhat is it? Under a minute; a GPU does not help."),
        new_code_cell(setup_cell.text(), metadata={"tags": setup_cell.TAGS}),
        new_code_cell(
            'preset = "quick"\nseed = 0\ndevice = "auto"', metadata={"tags": ["parameters"]}
        ),
        new_code_cell(
            "assert True\nprint(0.7712)",
            outputs=[
                new_output("stream", name="stdout", text="0.7712\n"),
                new_output("display_data", {"image/png": png}),
            ],
            metadata={
                "mystnb": {"figure": figure, "image": {"alt": "A line that rises and falls"}}
            },
        ),
        new_code_cell("assert True"),
        new_code_cell("assert True\ntorch.rand(3, generator=draws)"),
        new_markdown_cell(CLOSING),
    ]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    for number, cell in enumerate((c for c in cells if c.cell_type == "code"), 1):
        cell.execution_count = number
    return execute.clean(new_notebook(cells=cells))


def lint(notebook: Any, folder: Path) -> list[lint_book.Finding]:
    path = folder / "chapter.ipynb"
    path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
    return lint_book.lint(path)


def test_a_good_chapter_passes(tmp_path: Path) -> None:
    assert lint(good(), tmp_path) == []


def source(number: int, old: str, new: str) -> Callable[[Any], None]:
    """A change of the source of a cell."""

    def change(notebook: Any) -> None:
        assert old in notebook.cells[number - 1].source
        notebook.cells[number - 1].source = notebook.cells[number - 1].source.replace(old, new)

    return change


def says(text: str, name: str = "stdout") -> Callable[[Any], None]:
    """Another stored output of the fourth cell."""
    return lambda notebook: notebook.cells[3].outputs[0].update(text=text, name=name)


FAULTS: list[tuple[Callable[[Any], Any], int | None, str]] = [
    (source(1, "# Title", "Title"), 1, "opens with its title"),
    (source(1, "?", "."), 1, "no question"),
    (source(1, "a minute", "an hour"), 1, "how long"),
    (source(1, "GPU", "fan"), 1, "GPU"),
    (source(2, "colab", "kaggle"), 2, "set-up cell is not"),
    (source(3, "quick", "book"), 3, "parameters are"),
    (source(4, "assert True\n", ""), None, "fewer than three"),
    (source(6, "generator=draws", ""), 6, "global generator"),
    (source(5, "assert True", "assert True  # NBVAL_SKIP"), 5, "from being compared"),
    (source(7, "0.77", "0.78"), 7, "no cell prints 0.78"),
    (source(7, "Exercises", "Questions"), 7, "closes with the sections"),
    (source(7, "{solution}", "{note}"), 7, "1 exercises have 0 solutions"),
    (source(7, ":class: dropdown", ""), 7, "not folded"),
    (says("0.7712 at 0x7f001122"), 4, "address in memory"),
    (says("0.7712\nUserWarning: oh"), 4, "a warning"),
    (says("0.7712 40%|####"), 4, "progress bar"),
    (says("0.7712", "stderr"), 4, "stderr"),
    (lambda n: n.cells[3].metadata.mystnb.pop("image"), 4, "alternative text"),
    (lambda n: n.cells[3].metadata.mystnb.figure.update(caption="Look"), 4, "caption"),
    (lambda n: n.cells[3].metadata.mystnb.figure.update(name="good"), 4, "begin with fig-"),
    (lambda n: n.cells[4].update(execution_count=9), 5, "executed as 9, not as 4"),
    (lambda n: n.cells[4].metadata.update(collapsed=True), 5, "removes: collapsed"),
    (lambda n: n.cells[4].metadata.update(tags=["nbval-skip"]), 5, "from being compared"),
    (lambda n: n.metadata.update(title="mine"), None, "its metadata"),
]


@pytest.mark.parametrize(("change", "cell", "message"), FAULTS, ids=[f[2] for f in FAULTS])
def test_a_fault_is_named_in_its_place(
    change: Callable[[Any], Any], cell: int | None, message: str, tmp_path: Path
) -> None:
    notebook = good()
    change(notebook)
    assert [found for found in lint(notebook, tmp_path) if found[0] == cell and message in found[1]]


def test_one_line_for_each_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notebook = good()
    notebook.cells[6].source = notebook.cells[6].source.replace("0.77", "0.78 or 12 %")
    lint(notebook, tmp_path)
    assert lint_book.main([str(tmp_path / "chapter.ipynb")]) == 1
    assert capsys.readouterr().out.splitlines()[:2] == [
        f"{tmp_path.name}/chapter.ipynb[7]: no cell prints 0.78",
        f"{tmp_path.name}/chapter.ipynb[7]: no cell prints 12",
    ]


@pytest.mark.parametrize(
    "text, found",
    [
        ("The accuracy is 0.77.", ["0.77"]),
        ("It rose by 12 % to 84.5%, from −3.25.", ["12", "84.5", "3.25"]),
        ("At $d = 2.5$ and `x = 0.1`, see [0.2](a-0.3.ipynb) and {eq}`a0.4`.", ["0.2"]),
        ("$$\n0.5\n$$ (half)\n```python\n0.25\n```", []),
        ("Version 1.2.3 of chapter 4; 25 dimensions, 1,000 samples.", []),
    ],
)
def test_what_looks_like_a_result(text: str, found: list[str]) -> None:
    assert lint_book.results(text) == found


def test_a_number_that_nobody_printed_is_noticed() -> None:
    known = "accuracy 0.7712 and 1,234.5 in 1e-3"
    for number in ("0.77", "77.1", "1234.5", "0.001"):
        assert lint_book.stands_in(number, known)
    for number in ("0.78", "0.7713"):
        assert not lint_book.stands_in(number, known)
