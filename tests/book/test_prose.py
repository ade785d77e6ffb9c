"""No result is typed by hand: a number in the prose of a chapter is one that its cells print.

Looked for are decimals, percentages and factors, as results are written, outside of mathematics and
code. Each must stand in an output of the same chapter, to at least as many digits, or be a setting
that stands in its code. Numbers in solutions of exercises count as well.
"""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import nbformat
import project
import pytest

CHAPTERS = project.chapters()

# in this order: longer constructions first
_NOT_PROSE = [
    r"^(```|~~~|:::)\{math\}.*?^\1",  # display mathematics as a directive
    r"^```(?!\{).*?^```",  # code
    r"\$\$.*?\$\$",
    r"\$[^$]*\$",
    r"\{[a-z:]+\}`[^`]*`",  # roles
    r"`[^`]*`",
    r"\]\([^)]*\)",  # where links lead
    r"<https?:[^>]*>|https?:\S+",
    r"^:[a-z-]+:.*$",  # options of directives
    r"\bv?\d+\.\d+\.\d+\b",  # versions
    r"\b[Cc]hapters? \d+|\b(?:Fig|Figure|Table|[Ss]ection)\.? \d+",
]
_RESULT = re.compile(
    r"(?<![\w.,])[-−]?(\d+\.\d+)(?![\w.]*\d)|(?<![\w.,])(\d+(?:\.\d+)?)\s?(?:%|percent)"
)


def prose(text: str) -> str:
    """Markdown without mathematics, code and the insides of roles and links."""
    for pattern in _NOT_PROSE:
        text = re.sub(pattern, " ", text, flags=re.S | re.M)
    return text


def results(text: str) -> list[str]:
    """The result-like numbers in it, without signs."""
    return [a or b for a, b in _RESULT.findall(prose(text))]


def printed(notebook: Any) -> str:
    """Everything that the cells print, and the code, where settings stand."""
    parts = []
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        parts.append(cell.source)
        for output in cell.outputs:
            parts.append(output.get("text", ""))
            for kind, value in output.get("data", {}).items():
                if kind.startswith("text/"):
                    parts.append(unescape(re.sub(r"<[^>]+>", " ", str(value))))
    return " ".join(parts)


def stands_in(number: str, text: str) -> bool:
    """Whether the text holds this number, perhaps with more digits or as a fraction of one."""
    value, digits = float(number), len(number.partition(".")[2])
    for found in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", text.replace(",", "")):
        whole = found.isdecimal()
        for scale in (1,) if whole else (1, 100):  # 0.84 may be told as 84 %
            if abs(round(float(found) * scale, digits) - value) < 1e-9:
                return True
    return False


@pytest.mark.parametrize("path", CHAPTERS, ids=[p.stem for p in CHAPTERS])
def test_numbers_in_the_prose_are_printed_by_a_cell(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    known = printed(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            typed = [n for n in results(cell.source) if not stands_in(n, known)]
            assert not typed, f"{path.name}: no cell prints {typed}, near: {cell.source[:60]!r}"


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
    assert results(text) == found


def test_a_number_that_nobody_printed_is_noticed() -> None:
    known = "accuracy 0.7712 and 1,234.5 in 1e-3"
    assert stands_in("0.77", known) and stands_in("77.1", known) and stands_in("1234.5", known)
    assert stands_in("0.001", known)
    assert not stands_in("0.78", known) and not stands_in("0.7713", known)
