"""Make the picture of the README, and the one that social networks show of every page.

    python scripts/picture.py

The README's: six images, each between its two views: two digits, two garments, two characters. The
other: a digit between its views, and what its τ makes of other digits; `scripts/render.py` puts it
beside the pages. Both are made from the images and the weights that come with the package.
"""

from __future__ import annotations

import sys
from pathlib import Path

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


def card() -> plt.Figure:
    """1200 by 630 pixels: the title, and one τ read off a digit and given to five others."""
    figures.use_style()
    model = tvae.pretrained("mnist-A-25")
    data = tvae.data.load("mnist", "test", source="embedded")
    chosen = [int(torch.nonzero(data.labels == k)[0]) for k in (7, 1, 5, 3, 9, 4)]
    x = data.floats(chosen)
    own = tvae.Triplets().replay(x[:1], Parameters.of("shear", [[25.0, 0.0]]))
    with torch.no_grad():
        _, tau = model.infer(own.x1, own.x2)
        z, _ = model.encode(x[1:])
        there, back = model.decode(model.act(z, tau)), model.decode(model.act_inverse(z, tau))
    figure = plt.figure(figsize=(12, 6.3), dpi=100, facecolor="white", layout="none")
    figure.text(0.05, 0.83, "The T-VAE book", fontsize=50, fontweight="bold", va="center")
    words = "what was done to one image, read off it and done to others"
    figure.text(0.05, 0.71, words, fontsize=24, va="center", color="#333333")
    triplet = figure.add_axes((0.05, 0.06, 0.19, 0.55))
    figures.image_grid(torch.cat([own.x1, own.x0, own.x2]), 1, ax=triplet)
    triplet.set_anchor("W")
    others = figure.add_axes((0.35, 0.06, 0.6, 0.55))
    figures.image_grid(torch.cat([there, x[1:], back]), 5, ax=others)
    others.set_anchor("E")
    figure.text(0.27, 0.335, "→ τ →", fontsize=44, ha="center", va="center", color="#0072B2")
    return figure


def write(figure: plt.Figure, path: Path, dpi: int = 100) -> None:
    """Write a figure as PNG."""
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=dpi)
    plt.close(figure)


def main() -> int:
    write(draw(), PICTURE, dpi=120)
    print(f"wrote {PICTURE.relative_to(project.ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
