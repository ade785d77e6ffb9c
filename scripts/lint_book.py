"""A linter of the book: the form of every chapter, its stored outputs, and the numbers in its prose.

    python scripts/lint_book.py                           all chapters
    python scripts/lint_book.py book/07_additive.ipynb    one of them

One line for each finding, such as `book/07_additive.ipynb[12]: ...`, where 12 is the place of the cell
in the notebook (the first is 1); the exit code is 1 if there is one. Nothing is executed.

On numbers: no result is typed by hand. Decimals and percentages in the prose, outside of mathematics
and code, must stand in an output of the same chapter, to at least as many digits, or be a setting
that stands in its code. Numbers in solutions of exercises count as well.
"""

from __future__ import annotations

import ast
import base64
import re
import sys
from collections import Counter
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import execute
import nbformat
import project
import setup_cell

#: The place of a cell, or None for the whole chapter, and what is wrong there.
Finding = tuple[int | None, str]

CLOSING = ["Measured against reported", "What remains doubtful", "Exercises"]
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
}


def tags(cell: Any) -> set[str]:
    """The tags of a cell."""
    return set(cell.metadata.get("tags", []))


def code_cells(notebook: Any) -> list[tuple[int, Any]]:
    """The code cells with their places."""
    return [(n, cell) for n, cell in enumerate(notebook.cells, 1) if cell.cell_type == "code"]


def markdown(notebook: Any) -> str:
    """All prose of a chapter."""
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def texts(cell: Any) -> Iterator[str]:
    """What the outputs of a cell say in words, without the tags of HTML."""
    for output in cell.outputs:
        yield output.get("text", "")
        for kind, value in output.get("data", {}).items():
            if kind == "text/html":
                yield unescape(re.sub(r"<[^>]+>", " ", str(value)))
            elif kind.startswith("text/"):
                yield str(value)


# --- form ---------------------------------------------------------------------------------------


def check_opening(notebook: Any) -> Iterator[Finding]:
    """Title, question, run time; then the set-up cell; then the parameters."""
    code = code_cells(notebook)
    opening = "\n".join(cell.source for cell in notebook.cells[: code[0][0] - 1])
    if not re.match(r"(\(.*\)=\n)?# \S", notebook.cells[0].source):
        yield 1, "a chapter opens with its title"
    if "?" not in opening:
        yield 1, "the opening asks no question"
    if not re.search(r"run time|seconds|minute", opening, re.I):
        yield 1, "the opening does not say how long the chapter runs"
    if "GPU" not in opening:
        yield 1, "the opening does not say whether a GPU helps"
    first, second = code[0], code[1]
    if list(first[1].metadata.get("tags", [])) != setup_cell.TAGS:
        yield first[0], f"the first code cell is the set-up, tagged {', '.join(setup_cell.TAGS)}"
    elif first[1].source != setup_cell.text() or first[1].outputs:
        yield first[0], "the set-up cell is not the one that scripts/setup_cell.py writes"
    if tags(second[1]) != {"parameters"}:
        yield second[0], "the second code cell holds the parameters, tagged parameters"
    else:
        values = execute.parameters(notebook)
        fixed = {"preset": "quick", "device": "auto"}
        if list(values) != ["preset", "seed", "device"] or not fixed.items() <= values.items():
            yield second[0], "the parameters are preset = 'quick', seed and device = 'auto'"
    for n, cell in code[2:]:
        if tags(cell) & {"setup", "parameters", "injected-parameters"}:
            yield n, "there is one set-up cell and one cell of parameters, and they come first"


def check_closing(notebook: Any) -> Iterator[Finding]:
    """The last three sections, exercises, and a folded solution for each."""
    text, last = markdown(notebook), len(notebook.cells)
    if re.findall(r"^##\s+(.+?)\s*$", text, re.M)[-3:] != CLOSING:
        yield last, f"a chapter closes with the sections {', '.join(CLOSING)}"
    exercises = len(re.findall(r"\{exercise(?:-start)?\}", text))
    solutions = len(re.findall(r"\{solution(?:-start)?\}", text))
    if not exercises or exercises != solutions:
        yield last, f"{exercises} exercises have {solutions} solutions"
    if text.count(":class: dropdown") < solutions:
        yield last, "a solution is not folded (:class: dropdown)"


def check_code(notebook: Any) -> Iterator[Finding]:
    """Nothing escapes the comparison of outputs; draws take a generator; claims are asserted."""
    code = code_cells(notebook)
    for n, cell in code:
        if tags(cell) & {"nbval-skip", "skip-execution", "raises-exception"}:
            yield n, "a tag keeps the cell from being compared"
        if re.search(r"#\s*(NBVAL|PYTEST_VALIDATE)", cell.source):
            yield n, "a comment keeps the cell from being compared"
    for n, cell in code[1:]:  # the set-up cell has a line of IPython's own
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Call):
                name, given = ast.unparse(node.func), {k.arg for k in node.keywords}
                drawn = name in ("torch.rand", "torch.randn", "torch.randint", "torch.randperm")
                if name in ("torch.manual_seed", "np.random.seed") or (
                    drawn and "generator" not in given
                ):
                    yield n, f"{name} uses the global generator; pass generator=..."
    if sum(bool(re.search(r"^\s*(assert |check\()", cell.source, re.M)) for _, cell in code) < 3:
        yield (
            None,
            "fewer than three cells assert anything; claims that numbers support are checked",
        )


# --- what is stored -----------------------------------------------------------------------------


def check_stored(notebook: Any) -> Iterator[Finding]:
    """Clean metadata, no empty cell, every cell executed in order (nbval skips others silently)."""
    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError as error:
        yield None, f"not a valid notebook: {str(error).splitlines()[0]}"
        return
    if notebook.metadata != METADATA:
        yield None, "its metadata are not those that `make execute` leaves"
    for n, cell in enumerate(notebook.cells, 1):
        if not cell.source.strip():
            yield n, "an empty cell"
        odd = set(cell.metadata) - set(execute.KEPT_CELL_METADATA)
        if odd:
            yield n, f"metadata that `make execute` removes: {', '.join(sorted(odd))}"
    for count, (n, cell) in enumerate(code_cells(notebook), 1):
        if cell.execution_count != count:
            yield n, f"executed as {cell.execution_count}, not as {count}: run `make execute`"


_UNWANTED = {
    "an address in memory": r"0x[0-9a-fA-F]{5,}",
    "a warning": r"\w*Warning\b",
    "a traceback": "Traceback",
    "a progress bar": r"\d+%\|",
    "a local path": r"/(work|tmp|root|home)/",
}


def check_outputs(notebook: Any) -> Iterator[Finding]:
    """No error, nothing on stderr, nothing that belongs to one machine; figures with their words."""
    for n, cell in code_cells(notebook):
        if any(output.output_type == "error" for output in cell.outputs):
            yield n, "ended in an error"
        if any(output.get("name") == "stderr" for output in cell.outputs):
            yield n, "wrote to stderr"
        said = "".join(texts(cell))
        yield from ((n, f"shows {what}") for what, p in _UNWANTED.items() if re.search(p, said))
        data = [item for output in cell.outputs for item in output.get("data", {}).items()]
        images = [(kind, value) for kind, value in data if kind.startswith("image/")]
        if any(kind.startswith("application/") for kind, _ in data):
            yield n, "shows a widget, which a page cannot"
        if any(
            kind != "image/png" or not base64.b64decode(value).startswith(b"\x89PNG")
            for kind, value in images
        ):
            yield n, "a figure that is not PNG"
        shown = cell.metadata.get("mystnb", {})
        figure = shown.get("figure", {})
        if images and len(shown.get("image", {}).get("alt", "").split()) < 5:
            yield n, "the alternative text does not say what the figure shows"
        if images and len(figure.get("caption", "").split()) < 5:
            yield n, "the caption does not say how to read the figure"
        if images and not figure.get("name", "").startswith("fig-"):
            yield n, "the figure's name does not begin with fig-"


# --- numbers in the prose -----------------------------------------------------------------------

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


def results(text: str) -> list[str]:
    """The result-like numbers in Markdown, without signs."""
    for pattern in _NOT_PROSE:
        text = re.sub(pattern, " ", text, flags=re.S | re.M)
    return [a or b for a, b in _RESULT.findall(text)]


def stands_in(number: str, text: str) -> bool:
    """Whether the text holds this number, perhaps with more digits or as a fraction of one."""
    value, digits = float(number), len(number.partition(".")[2])
    for found in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", text.replace(",", "")):
        for scale in (1,) if found.isdecimal() else (1, 100):  # 0.84 may be told as 84 %
            if abs(round(float(found) * scale, digits) - value) < 1e-9:
                return True
    return False


def check_numbers(notebook: Any) -> Iterator[Finding]:
    """A number in the prose is one that a cell prints, or a setting."""
    cells = code_cells(notebook)
    known = " ".join(part for _, cell in cells for part in (cell.source, *texts(cell)))
    for n, cell in enumerate(notebook.cells, 1):
        if cell.cell_type == "markdown":
            for number in results(cell.source):
                if not stands_in(number, known):
                    yield n, f"no cell prints {number}"


# --- all of it ----------------------------------------------------------------------------------

CHECKS = (check_stored, check_opening, check_closing, check_code, check_outputs, check_numbers)


def lint(path: Path) -> list[Finding]:
    """What is wrong with one chapter."""
    notebook = nbformat.read(path, as_version=4)
    if len(code_cells(notebook)) < 2:
        return [(None, "a chapter has a set-up cell and a cell of parameters")]
    found = [finding for check in CHECKS for finding in check(notebook)]
    if path.read_text(encoding="utf-8") != nbformat.writes(execute.clean(notebook)) + "\n":
        found.append((None, "not written as `make execute` writes it"))
    return found


def figure_names(path: Path) -> list[str]:
    """The names of a chapter's figures."""
    cells = nbformat.read(path, as_version=4).cells
    named = (cell.metadata.get("mystnb", {}).get("figure", {}).get("name") for cell in cells)
    return [name for name in named if name]


def main(arguments: list[str]) -> int:
    """Lint the chapters named, or all; print what was found."""
    paths = [Path(name) for name in arguments] or project.chapters()
    count = 0
    for path in paths:
        shown = f"{path.parent.name}/{path.name}"
        for cell, message in lint(path):
            print(f"{shown}: {message}" if cell is None else f"{shown}[{cell}]: {message}")
            count += 1
    everywhere = Counter(name for path in project.chapters() for name in figure_names(path))
    for name in sorted(name for name, times in everywhere.items() if times > 1):
        print(f"book: the figure name {name} is used {everywhere[name]} times")
        count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
