"""Make the picture of the README from the images that come with the package.

    python scripts/picture.py

Six images, each between its two views: two digits, two garments, two characters.
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import project
import torch

import tvae
from tvae.experiments import figures
from tvae.files import atomic_path
from tvae.transforms import Parameters

PICTURE = project.BOOK / "_static" / "triplets.png"
SETS = (("mnist", 7), ("fashion-mnist", 9), ("omniglot", 3))  # name, number of an image


def draw() -> plt.Figure:
    """The figure: a column for each image, above it the family of the transformation."""
    figures.use_style()
    columns, labels = [], []
    for name, number in SETS:
        data = tvae.data.load(name, "test", source="embedded")
        for family, values, position in (
            ("rotation", [[20.0]], number),
            ("shear", [[20.0, 0.0]], number + 40),
        ):
            batch = tvae.Triplets().replay(data.floats([position]), Parameters.of(family, values))
            columns.append(torch.cat([batch.x2, batch.x0, batch.x1]))
            labels.append(f"{family} by 20°")
    rows = torch.stack(columns)  # (6, 3, 1, 28, 28): a triplet in each row
    figure, axes = plt.subplots(2, 3, figsize=(8.6, 3.4))
    for ax, images, label in zip(axes.T.flat, rows, labels, strict=True):
        figures.image_grid(images, 3, column_labels=["$x_2$", "$x_0$", "$x_1$"], title=label, ax=ax)
    return figure


def main() -> int:
    figure = draw()
    with atomic_path(PICTURE) as temporary:
        figure.savefig(temporary, format="png", dpi=120)
    print(f"wrote {PICTURE.relative_to(project.ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
