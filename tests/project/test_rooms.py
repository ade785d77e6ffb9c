"""The rooms of the package: every import leads downwards, those inside functions included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from repository import FLOOR, FLOORS


def imports(source: str, module: str) -> Iterator[tuple[int, str]]:
    """Line and full name of everything of `tvae` that a module imports, wherever it does so."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            start = ".".join([*above, *([node.module] if node.module else [])])
            found = [f"{start}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from ((node.lineno, name) for name in found if name.split(".")[0] == "tvae")


def upwards(source: str, module: str) -> list[str]:
    """What the module imports from above or from beside, a line for each."""
    here = module.split(".")[1]
    found = []
    for line, name in imports(source, module):
        there = [*name.split("."), ""][1]
        if there in (here, "", "__version__"):
            continue
        if FLOOR.get(there, len(FLOORS)) >= FLOOR[here]:
            found.append(f"{module}, line {line}: {name} is not below {here}")
    return found


def test_every_module_has_a_room(root: Path) -> None:
    tops = {path.stem for path in (root / "tvae").iterdir() if path.suffix == ".py"}
    tops |= {path.parent.name for path in (root / "tvae").glob("*/__init__.py")}
    assert tops - {"__init__"} == set(FLOOR)


def test_dependencies_run_downwards_only(root: Path) -> None:
    found = []
    for path in sorted((root / "tvae").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if (
            len(parts) > 2 or parts[-1] != "__init__"
        ):  # tvae/__init__.py hands on names of all rooms
            found += upwards(path.read_text(encoding="utf-8"), ".".join(parts))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("from tvae.seeding import generator", False),
        ("import torch", False),
        ("from tvae.data.dataset import Dataset", False),
        ("from tvae import runs", True),
        ("import tvae.cli", True),
        ("def f():\n    from tvae.paper import tables", True),
        ("from . import idx", False),
        ("from ..training import fit", True),
    ],
)
def test_the_test_sees_what_it_should(line: str, wrong: bool) -> None:
    assert bool(upwards(line, "tvae.data.catalogue")) is wrong
