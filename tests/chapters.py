"""Functions that a chapter defines for itself, for tests that hold them against an oracle."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

BOOK = Path(__file__).parents[1] / "book"


def functions(chapter: str) -> SimpleNamespace:
    """The functions of the notebook `book/<chapter>.ipynb`, with its imports and nothing else of it."""
    cells = json.loads((BOOK / f"{chapter}.ipynb").read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    found: list[ast.stmt] = []
    for source in sources:
        if "%pip" not in source:  # the set-up cell is no plain Python
            kinds = (ast.FunctionDef, ast.Import, ast.ImportFrom)
            found += [node for node in ast.parse(source).body if isinstance(node, kinds)]
    names: dict[str, Any] = {}
    exec(compile(ast.Module(found, []), chapter, "exec"), names)
    return SimpleNamespace(**names)
