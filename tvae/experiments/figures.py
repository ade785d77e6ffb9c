"""The chapters' figures in one style: colours, curves with bands, grids of images, graphical models.

Every chapter calls `use_style()` once and takes its colours from here, so that a model has the
same colour wherever it appears. The palette is that of Okabe and Ito, which stays distinguishable
under the common forms of colour blindness; where two lines could still be confused,
each model has a mark of its own as well. The statistical figures are drawn by seaborn, in the same
style.

    import matplotlib.pyplot as plt
    from tvae.experiments import figures

    figures.use_style()
    figures.image_grid(images, columns=10, row_labels=["before", "after"])
    plt.show()
"""

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
import torch
import torch.nn.functional as F
from matplotlib import rc_params_from_file
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle
from torch import Tensor

from tvae.checks import to_floats
from tvae.evaluation.statistics import CLEAR, Estimate

PALETTE: dict[str, str] = {
    "black": "#000000",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "green": "#009E73",
    "yellow": "#F0E442",
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "purple": "#CC79A7",
}
"""The eight colours of Okabe and Ito, by name."""

#: The colour and the mark of each latent action and of the two baselines, the same in every chapter.
#: What is compared most, A and VAE+, is furthest apart.
LOOKS: dict[str, tuple[str, str]] = {
    "A": (PALETTE["blue"], "o"),
    "M": (PALETTE["vermillion"], "s"),
    "MA": (PALETTE["sky"], "D"),
    "T": (PALETTE["green"], "^"),
    "N": (PALETTE["purple"], "v"),
    "VAE": (PALETTE["black"], "x"),
    "VAE+": (PALETTE["orange"], "P"),
}
#: Representations that are no model of the book: colour and mark, drawn dashed.
_GREYS = {"pixels": ("#333333", "*"), "PCA": ("#777777", "h"), "untrained": ("#AAAAAA", "1")}

# Yellow is left out of the cycle: as a thin line on white it cannot be read.
_CYCLE = [PALETTE[n] for n in ("blue", "vermillion", "green", "purple", "orange", "sky", "black")]


def use_style() -> None:
    """Set the book's figure style for the rest of the process; calling it twice changes nothing."""
    style: Any = rc_params_from_file(
        str(resources.files("tvae.experiments") / "book.mplstyle"), use_default_template=False
    )
    # the font ships with matplotlib, so it is the same on every machine
    sns.set_theme("paper", "ticks", _CYCLE, font="DejaVu Sans", rc=style)


def colour(model: str) -> str:
    """Return the colour of a latent action or baseline.

    The names are the paper's: `A`, `M`, `MA`, `T`, `N`, `VAE`, `VAE+`. A residual form, written
    `M^R` or `MR`, has the colour of its plain form.
    """
    return LOOKS[_family(model)][0]


def marker(model: str) -> str:
    """Return the mark of a latent action or baseline; names as in `colour`."""
    return LOOKS[_family(model)][1]


def _family(model: str) -> str:
    name = model.removesuffix("R").removesuffix("^") if model.endswith("R") else model
    if name not in LOOKS:
        known = ", ".join(LOOKS)
        raise ValueError(f"{model!r} has no colour; the names are {known}, or such a name with ^R.")
    return name


def look(label: str) -> dict[str, Any]:
    """The colour, mark and legend of a line: a model's, or dashed grey for what is not trained."""
    if label in _GREYS:
        tone, mark = _GREYS[label]
        return {"color": tone, "marker": mark, "linestyle": "--", "label": label}
    return {"color": colour(label), "marker": marker(label), "label": label}


def curve(
    ax: Axes,
    x: Sequence[float] | Tensor | np.ndarray,
    values: Tensor | np.ndarray,
    label: str,
    errorbar: Any = ("se", CLEAR),
    **style: Any,
) -> None:
    """The mean over the rows of `values` (N, K), a line over `x` (K,), with a band around it.

    The rows are images, seeds or subsamples. `errorbar` is seaborn's: by default the 95 % interval
    of the mean of independent rows; it may be a function of the N values at one x that returns the
    two ends. `style` changes the `look` of the label, or is for seaborn (`estimator`).
    """
    style = {**look(label), **style}
    rows = np.asarray(values)
    sns.lineplot(
        x=np.tile(np.asarray(x, dtype=float), len(rows)),
        y=rows.ravel(),
        errorbar=errorbar,
        err_kws={"alpha": 0.2, "linewidth": 0},
        markeredgecolor=style["color"],  # seaborn's thin white edge would hide crosses
        markeredgewidth=1.0,
        legend=False,
        ax=ax,
        **style,
    )


def intervals(
    ax: Axes, x: Sequence[float] | np.ndarray, found: Sequence[Estimate], label: str, **style: Any
) -> None:
    """Means with their 95 % intervals at the places `x`, in the `look` of the label."""
    means, halves = [f.mean for f in found], [f.half for f in found]
    ax.errorbar(x, means, halves, capsize=3, **{**look(label), **style})


def mosaic(images: Tensor | np.ndarray, columns: int, pad: int = 1) -> np.ndarray:
    """Lay images out in rows on one canvas, with white between them.

    Args:
        images: (N, C, H, W) with C of 1 or 3, values in [0, 1] (clipped), or uint8 in 0...255.
        columns: images in a row; the last row is filled up with white where N does not suffice.
        pad: pixels between neighbours.

    Returns:
        (R*H + (R-1)*pad, columns*W + (columns-1)*pad, 3) float array in [0, 1].
    """
    pixels = to_floats(torch.as_tensor(images).detach().cpu(), torch.float64)
    if pixels.ndim != 4 or pixels.shape[1] not in (1, 3) or len(pixels) == 0:
        raise ValueError(
            f"Images have shape {tuple(pixels.shape)}; a grid needs (N, C, H, W) with N of at "
            "least 1 and C of 1 or 3."
        )
    if columns < 1:
        raise ValueError(f"The number of columns is {columns}; it must be at least 1.")
    if not bool(pixels.isfinite().all()):
        raise ValueError("Some pixels are not finite; a grid shows finite values in [0, 1] only.")
    blanks = pixels.new_ones(-len(pixels) % columns, *pixels.shape[1:])
    # every image with its gap below and to the right, (N, C, H + pad, W + pad)
    cells = F.pad(torch.cat((pixels.clamp(0, 1), blanks)), (0, pad, 0, pad), value=1.0)
    rows = cells.unflatten(0, (-1, columns)).permute(0, 3, 1, 4, 2)  # (R, H, columns, W, C)
    canvas = rows.flatten(2, 3).flatten(0, 1).expand(-1, -1, 3)
    return canvas[: len(canvas) - pad, : canvas.shape[1] - pad].numpy()


def image_grid(
    images: Tensor | np.ndarray,
    columns: int | None = None,
    *,
    row_labels: Sequence[str] = (),
    column_labels: Sequence[str] = (),
    title: str | None = None,
    cell: float = 0.62,
    pad: int = 1,
    ax: Axes | None = None,
) -> Axes:
    """Show images in a grid, with a label for each row and for each column.

    Args:
        images: (N, C, H, W), or (R, K, C, H, W) for R rows of K images; values in [0, 1] or uint8.
        columns: images in a row; not needed for five axes, else at most 10 by default.
        row_labels: one text for each row, or none.
        column_labels: one text for each column, or none.
        title: a line above the grid.
        cell: the side of one image in inches; used only when the figure is made here.
        pad: pixels between neighbours.
        ax: where to draw; a new figure of fitting size by default.

    Returns:
        The axes, whose figure is shown by `plt.show()`.
    """
    if images.ndim == 5:
        if columns is not None and columns != images.shape[1]:
            raise ValueError(
                f"columns is {columns}, but images of shape {tuple(images.shape)} have "
                f"{images.shape[1]} in a row; leave columns out."
            )
        columns = int(images.shape[1])
        images = images.reshape(-1, *images.shape[2:])
    columns = min(10, len(images)) if columns is None else columns
    canvas = mosaic(images, columns, pad)
    height, width = int(images.shape[-2]), int(images.shape[-1])
    rows = -(-len(images) // columns)
    for name, labels, count in (("row", row_labels, rows), ("column", column_labels, columns)):
        if len(labels) not in (0, count):
            raise ValueError(f"{len(labels)} {name} labels for {count} {name}s; give one for each.")
    if ax is None:
        extra = 0.11 * max((len(t) for t in row_labels), default=0)
        above = 0.3 * bool(column_labels) + 0.3 * (title is not None)
        size = (columns * cell + extra + 0.1, rows * cell * height / width + above + 0.1)
        ax = plt.figure(figsize=size).add_subplot()
    # Explicit limits, so that one colour never stretches to another grid's range.
    ax.imshow(canvas, vmin=0.0, vmax=1.0, interpolation="nearest")
    ax.grid(False)
    for spine in ax.spines.values():
        spine.set_visible(False)
    centre_x = [k * (width + pad) + (width - 1) / 2 for k in range(columns)]
    centre_y = [k * (height + pad) + (height - 1) / 2 for k in range(rows)]
    ax.set_xticks(centre_x if column_labels else [], list(column_labels))
    ax.set_yticks(centre_y if row_labels else [], list(row_labels))
    ax.xaxis.set_ticks_position("top")
    ax.tick_params(length=0, pad=3)
    if title is not None:
        ax.set_title(title)
    return ax


def graphical_model(
    nodes: Mapping[str, tuple[float, float]],
    edges: Sequence[tuple[str, str]],
    *,
    observed: Sequence[str] = (),
    deterministic: Sequence[str] = (),
    dashed: Sequence[tuple[str, str]] = (),
    labels: Mapping[str, str] | None = None,
    title: str | None = None,
    ax: Axes,
) -> None:
    """Draw a directed graphical model in the usual notation.

    Observed variables are grey, latent ones white; a deterministic one is a square. Edges in
    `edges` are drawn solid (the generative model), those in `dashed` dashed (the approximate
    posterior).

    Args:
        nodes: name to centre (x, y), in units in which a radius of 0.32 looks right.
        edges: pairs (parent, child) of the generative model.
        observed: the names of the observed nodes.
        deterministic: the names of nodes that are functions of their parents.
        dashed: pairs (parent, child) of the inference model.
        labels: name to text, mathematics between dollar signs; by default `$name$`.
        title: a line above the drawing.
        ax: where to draw.
    """
    radius = 0.32
    for group in ([n for pair in (*edges, *dashed) for n in pair], observed, deterministic):
        for name in group:
            if name not in nodes:
                raise ValueError(f"{name!r} is not a node; the nodes are {', '.join(nodes)}.")
    for style, pairs in (("-", edges), ((0, (4, 3)), dashed)):
        for parent, child in pairs:
            start, end = np.array(nodes[parent]), np.array(nodes[child])
            step = (end - start) / np.linalg.norm(end - start)
            # Dashed arrows leave and arrive on one side and bend outwards, so that they stay
            # visible beside a solid one between the same two nodes.
            side = 0.7 * np.array([-step[1], step[0]]) if pairs is dashed else np.zeros(2)
            away = (step + side) / np.linalg.norm(step + side)
            back = (-step + side) / np.linalg.norm(-step + side)
            bend = "arc3,rad=-0.35" if pairs is dashed else "arc3,rad=0"
            ax.add_patch(
                FancyArrowPatch(
                    tuple(start + 1.05 * radius * away),
                    tuple(end + 1.05 * radius * back),
                    arrowstyle="-|>",
                    mutation_scale=12,
                    linewidth=1.2,
                    linestyle=style,
                    color=PALETTE["black"] if pairs is edges else PALETTE["vermillion"],
                    connectionstyle=bend,
                    shrinkA=0,
                    shrinkB=0,
                )
            )
    texts = {name: f"${name}$" for name in nodes} | dict(labels or {})
    for name, (x, y) in nodes.items():
        face = "#D9D9D9" if name in observed else "white"
        shape: Circle | Rectangle
        if name in deterministic:
            shape = Rectangle((x - 0.88 * radius, y - 0.88 * radius), 1.76 * radius, 1.76 * radius)
        else:
            shape = Circle((x, y), radius)
        shape.set(facecolor=face, edgecolor="black", linewidth=1.2, zorder=3)
        ax.add_patch(shape)
        ax.text(x, y, texts[name], ha="center", va="center", fontsize=11, zorder=4)
    (left, right), (bottom, top) = ((min(v), max(v)) for v in zip(*nodes.values(), strict=True))
    margin = 1.6 * radius
    ax.set(xlim=(left - margin, right + margin), ylim=(bottom - margin, top + margin))
    ax.set_aspect("equal")
    ax.axis("off")
    if title is not None:
        ax.set_title(title)
