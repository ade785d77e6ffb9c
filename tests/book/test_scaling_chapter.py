"""The chapter on scaling out: its sweep is that of the repository, its examples are short."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml

from tvae.runs import sweep

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cells(root: Path) -> list[Any]:
    chapter = nbformat.read(root / "book" / "21_scaling.ipynb", as_version=4)
    return [cell for cell in chapter.cells if cell.cell_type == "code"]


def test_its_ninety_nine_rows_are_those_of_the_sweep_file(cells: list[Any], root: Path) -> None:
    (source,) = [cell.source for cell in cells if cell.source.startswith("PAPER = ")]
    text = source.split('"""')[1]
    assert sweep.expand(yaml.safe_load(text)) == sweep.load(root / "sweeps" / "paper.yaml")


def test_each_worked_example_has_under_forty_lines(cells: list[Any]) -> None:
    """A data set (making it and using it), a family, a pair of functions, an action."""
    examples = [c.source for c in cells if "worked-example" in c.metadata.get("tags", [])]
    lengths = [
        sum(bool(line.strip()) and not line.strip().startswith("#") for line in text.splitlines())
        for text in examples
    ]
    words = ("tvae.data.register", "def make(", "transforms.register", "from_callables", "@actions")
    assert len(examples) == len(words)
    assert all(word in text for word, text in zip(words, examples, strict=True))
    assert lengths[0] + lengths[1] < 40
    assert all(length < 40 for length in lengths[2:])
