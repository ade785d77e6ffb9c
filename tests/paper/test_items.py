"""The list of the paper's items in the book: complete, and every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import project

from tvae import paper

LINK = re.compile(r"\]\(#([\w-]+)\)")


def rows(root: Path) -> list[list[str]]:
    lines = (root / "book" / "paper_items.md").read_text(encoding="utf-8").splitlines()
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines if line[:1] == "|"]
    assert cells[0][0] == "Item of the paper" and set(cells[1][0]) == {"-"}
    return cells[2:]


def labels() -> set[str]:
    """The names of sections in all chapters."""
    found = set()
    for path in project.chapters():
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "markdown":
                found |= set(re.findall(r"^\(([\w-]+)\)=$", cell.source, re.M))
    return found


def test_every_item_is_in_the_list_once(root: Path) -> None:
    listed = [row[0].partition(":")[0] for row in rows(root)]
    assert listed == list(paper.items()["item"])


def test_every_item_leads_to_a_section_that_is_there(root: Path) -> None:
    known = labels()
    for row in rows(root):
        targets = LINK.findall(row[1])
        assert targets, f"{row[0]} has no place"
        missing = set(LINK.findall(" ".join(row))) - known
        assert not missing, f"{row[0]}: no section is called {missing}"


def test_every_item_says_how_it_was_checked(root: Path) -> None:
    for row in rows(root):
        assert len(row) == 3 and len(row[2].split()) >= 4, row


def test_the_tables_of_the_package_are_items() -> None:
    items = paper.items()
    assert items["key"].is_unique and items["item"].is_unique
    wanted = {"Table 1", "Table 2", "Appendix table 1", "Appendix table 2", "Appendix table 3"}
    assert wanted <= set(items["item"])
    assert {f"Figure {k}" for k in (1, 2, 4, *range(5, 12))} <= set(items["item"])
