"""Letters keep their meaning from chapter to chapter, as the notation page says."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import project
import pytest

CHAPTERS = project.chapters()

#: What would be a second meaning, by the reason why.
MISUSED = {
    "the midpoint of the views is \\bar z, half their difference \\Delta": (
        r"(?<![\w\\])[smhu] = (?:\\t?frac12\s*|\()\(?z_1 [+-] z_2"
    ),
    "h is the height of an image, not a latent": r"[pq]\((?:x, )?h(?: \\mid x)?\)|\bh = \(z_0",
    "an entropy is upright": r"(?<![\w\\{])H\\?\w*\(q",
}


def mathematics(path: Path) -> str:
    """All formulas of a chapter, without the solutions' own letters being told apart."""
    cells = nbformat.read(path, as_version=4).cells
    text = "\n\n".join(c.source for c in cells if c.cell_type == "markdown")
    return " ; ".join(re.findall(r"\$\$.*?\$\$|\$[^$]+\$", text, flags=re.S))


def misused(formulas: str) -> list[str]:
    return [reason for reason, pattern in MISUSED.items() if re.search(pattern, formulas)]


@pytest.mark.parametrize("path", CHAPTERS, ids=[p.stem for p in CHAPTERS])
def test_letters_keep_their_meaning(path: Path) -> None:
    assert misused(mathematics(path)) == []


def test_angles_of_images_are_not_latent_angles(root: Path) -> None:
    """In the chapter on triplets, theta is at most the index of the decoder."""
    formulas = mathematics(root / "book" / "06_triplets.ipynb")
    assert not re.search(r"(?<!_)\\theta", formulas)


@pytest.mark.parametrize(
    "formula, wrong",
    [
        (r"$s = \tfrac12 (z_1 + z_2)$", 1),
        (r"$h = (z_1 - z_2)/2$", 1),
        (r"$q(h \mid x)$", 1),
        (r"$\bar z = \tfrac12 (z_1 + z_2)$ and $\tau = \tfrac12 (z_1 - z_2)$", 0),
        (r"$s = 0.1$ and $\mathrm{H}[q]$, $z = \tfrac12(z_1 + z_2)$, an image of height $h$", 0),
    ],
)
def test_a_second_meaning_is_noticed(formula: str, wrong: int) -> None:
    assert len(misused(formula)) == wrong
