"""The first code cell of every chapter, the same in all of them.

    python scripts/setup_cell.py                      print it
    python scripts/setup_cell.py --write              put it into every chapter
    python scripts/setup_cell.py --write book/04_bound.ipynb

The address comes from `pyproject.toml`, the tag is that of the package's version, so that a
chapter opened on Colab installs the version it was written for.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import nbformat
import project

TAGS = ["hide-input", "setup"]

TEMPLATE = """\
# On Colab this installs the version of the package that this chapter was written for; elsewhere it does nothing.
import sys

if "google.colab" in sys.modules:
    %pip install -q "tvae-book @ git+{address}@v{version}"
"""


def text(address: str | None = None, version: str | None = None) -> str:
    """Return the source of the set-up cell, without a newline at its end."""
    return TEMPLATE.format(
        address=address or project.address(), version=version or project.version()
    ).rstrip("\n")


def place(notebook: nbformat.NotebookNode, source: str) -> bool:
    """Make `source` the set-up cell of `notebook`, in place; return whether anything changed.

    The cell is the one tagged `setup`; a chapter without one gets it before its first code cell.
    """
    tagged = [c for c in notebook.cells if "setup" in c.metadata.get("tags", [])]
    if len(tagged) > 1:
        raise ValueError(f"{len(tagged)} cells are tagged setup; a chapter has exactly one.")
    if not tagged:
        first = next(
            (k for k, c in enumerate(notebook.cells) if c.cell_type == "code"), len(notebook.cells)
        )
        # A fixed identity, so that writing the same cell twice gives the same file.
        cell = nbformat.v4.new_code_cell(source, metadata={"tags": list(TAGS)}, id="setup")
        notebook.cells.insert(first, cell)
        return True
    if tagged[0].source == source and tagged[0].metadata.tags == TAGS:
        return False
    tagged[0].source = source
    tagged[0].metadata.tags = list(TAGS)
    return True


def write(path: Path, source: str) -> bool:
    """Make `source` the set-up cell of the chapter at `path`; return whether the file changed."""
    notebook = nbformat.read(path, as_version=4)
    if not place(notebook, source):
        return False
    temporary = path.with_name(f".{path.name}.part")
    nbformat.write(notebook, temporary)
    os.replace(temporary, path)
    return True


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Print the set-up cell, or write it to chapters.")
    parser.add_argument("--write", action="store_true", help="write it instead of printing it")
    parser.add_argument("chapters", nargs="*", type=Path, help="default: all of them")
    options = parser.parse_args(arguments)
    if not options.write:
        print(text())
        return 0
    for path in options.chapters or project.chapters():
        print(f"{path}: {'changed' if write(path, text()) else 'unchanged'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
