"""The chapter on embeddings: tables, figures and sentences about nearest neighbours.

The searching itself is done by `tvae.evaluation`; here is what it takes to show its results: Table 2
beside the paper's, accuracy against anchors, confusion matrices, galleries of neighbours, and how much
neighbours have in common besides their class.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from scipy import stats
from sklearn.metrics import ConfusionMatrixDisplay

from tvae import data
from tvae.data import Dataset
from tvae.evaluation.sample_efficiency import Curve
from tvae.evaluation.statistics import Estimate, direction
from tvae.experiments import figures
from tvae.paper import claims, comparison

#: Where a number may come from: the paper's tables, our ledger, or the measurement at hand.
SOURCES = ("paper", "ledger", "here")
_TITLES = {name: data.entry(name).title for name in ("mnist", "fashion-mnist")}


# --- tables and sentences -----------------------------------------------------------------------


def knn_table(rows: pd.DataFrame, labels: Sequence[str]) -> pd.DataFrame:
    """The paper's Table 2 with our runs beside it, as text; empty where there is no number.

    Args:
        rows: from `comparison.rows`, of MNIST and Fashion-MNIST.
        labels: which rows of each dimension, in this order.

    Returns:
        A row for each dimension and label that has any number, raw pixels (784) last; for each data
        set the columns in and out of sample, paper and ours, and the epochs of our run.
    """
    columns = {}
    for dataset, title in _TITLES.items():
        part = rows[rows["dataset"] == dataset].set_index(["nominal", "label"])
        for metric, what in (("knn_in", "in"), ("knn_out", "out")):
            columns[title, f"{what}, paper"] = part[f"{metric}_paper"].map("{:.2f}".format)
            columns[title, f"{what}, ours"] = part[metric].map("{:.3f}".format)
        columns[title, "epochs"] = part["epochs"].map("{:.0f}".format)
    table = pd.DataFrame(columns).replace("nan", "").fillna("").rename_axis(index=["d", "model"])
    table = table[(table != "").any(axis=1)]
    order = [(d, label) for d in (*comparison.DIMENSIONS, 0) for label in labels]
    return table.loc[[key for key in order if key in table.index]].rename(index={0: 784}, level=0)


def leads(rows: pd.DataFrame, dataset: str, first: str, second: str, d: int = 25) -> pd.Series:
    """By how much `first` is ahead of `second` out of sample: paper, ledger and `ledger s.e.`.

    `rows` are from `comparison.rows`; NaN where there is no number. The two accuracies count as
    independent, although measured on the same queries: the error is rather too large.
    """
    a, b = (claims.cell(rows, dataset, label, d) for label in (first, second))
    return pd.Series(
        {
            "paper": a["knn_out_paper"] - b["knn_out_paper"],
            "ledger": a["knn_out"] - b["knn_out"],
            "ledger s.e.": float(np.hypot(a["knn_out_se"], b["knn_out_se"])),
        }
    )


def minus(first: pd.Series, second: pd.Series) -> pd.Series:
    """The difference of two such leads, errors (`<source> s.e.`) added in squares."""
    found = first - second
    for name in found.index:
        if name.endswith("s.e."):
            found[name] = float(np.hypot(first[name], second[name]))
    return found


def verdict(claim: str, differences: Mapping[str, float]) -> str:
    """A claim and, for each source, whether its difference is positive.

    Args:
        differences: source (`SOURCES`) to value; `<source> s.e.` is its standard error, if any.
    """
    answers = []
    for name in SOURCES:
        if name in differences:
            value, error = differences[name], differences.get(f"{name} s.e.", 0.0)
            word = {1: "yes", 0: "undecided", -1: "no"}[direction(value, error)]
            answers.append(f"{name} {'no number' if np.isnan(value + error) else word}")
    return f"{claim}: {', '.join(answers)}"


# --- curves -------------------------------------------------------------------------------------


def draw_curves(
    ax: Axes,
    curves: Mapping[str, Curve],
    upto: int | None = None,
    *,
    single: int | None = None,
    scale: float = 1.0,
) -> None:
    """Accuracy against the number of anchors, a line for each label, with its 95 % band.

    Args:
        upto: how many of the sizes; None means all.
        single: show this one subsample in place of the mean and the band.
        scale: what the numbers of anchors are multiplied by on the axis (100 / M for per cent).
    """
    for label, curve in curves.items():
        sizes = [scale * m for m in curve.sizes[:upto]]
        if single is not None:
            ax.plot(sizes, curve.accuracy[single, :upto], **figures.look(label))
        else:
            student = float(stats.t.ppf(0.975, len(curve.accuracy) - 1))
            figures.curve(ax, sizes, curve.accuracy[:, :upto], label, ("se", student))


def draw_dimensions(
    ax: Axes,
    pca: Mapping[int, Curve],
    curves: Mapping[str, Curve],
    sizes: Sequence[int],
    title: str,
    *,
    dash: str = "-",
    filled: bool = True,
) -> None:
    """Accuracy against dimension: a line of PCA, ending in pixels, for each number of anchors.

    Args:
        pca: dimension to curve.
        curves: label to curve, pixels among them; all others are marks at d = 25.
        sizes: numbers of anchors, few first: a thin line for the first, a thick one for the last.
        title: the data set that PCA and encoders were trained on.
        filled: whether the marks are.
    """
    for number, m in enumerate(sizes):
        last = number == len(sizes) - 1
        line = [float(curve.mean[curve.sizes.index(m)]) for curve in pca.values()]
        line.append(float(curves["pixels"].mean[curves["pixels"].sizes.index(m)]))
        look = {**figures.look("PCA"), "linestyle": dash, "lw": 2.4 if last else 1.0, "marker": "."}
        ax.plot((*pca, 784), line, **{**look, "label": f"PCA of {title}, {m:,} anchors"})
        for label, curve in curves.items():
            if label == "pixels":
                continue
            mark = {**figures.look(label), "linestyle": "", "ms": 8}
            mark["markerfacecolor"] = mark["color"] if filled else "white"
            mark["label"] = f"{label} of {title}" if last else None
            ax.plot(25, float(curve.mean[curve.sizes.index(m)]), **mark)
    ax.set(xscale="log", xlabel="dimension d", ylabel="accuracy on AffNIST")
    ax.legend(fontsize=7.5)


def draw_storage(ax: Axes, curves: Mapping[tuple[str, int], Curve]) -> None:
    """Accuracy against the numbers to store, anchors times dimension; keys are (label, d)."""
    dashes = iter((":", "--", "-."))
    for (label, d), curve in curves.items():
        look = figures.look(label)
        if label == "PCA":
            look |= {"linestyle": next(dashes, "--"), "label": f"PCA, d = {d}"}
        ax.plot([d * m for m in curve.sizes], curve.mean.numpy(), **look)
    ax.set(xscale="log", xlabel="numbers stored (anchors × d)")
    ax.legend()


def draw_by_distance(
    ax: Axes,
    right: Mapping[str, torch.Tensor],
    distance: torch.Tensor,
    groups: torch.Tensor,
    parts: int = 5,
) -> dict[str, list[Estimate]]:
    """Accuracy by quantiles of `distance` (N,), with 95 % intervals; returns the values.

    `right` maps a label to which queries (N,) were classified rightly; `groups` as in `Estimate.of`.
    """
    levels = torch.linspace(0, 1, parts + 1, dtype=torch.float64)[1:-1]
    part = torch.bucketize(distance, distance.double().quantile(levels).to(distance.dtype))
    found = {}
    for number, (label, good) in enumerate(right.items()):
        chosen = [part == p for p in range(parts)]
        found[label] = [Estimate.of(good[c], groups[c]) for c in chosen]
        # side by side, so that the bars can be told apart
        offset = 0.1 * (number - (len(right) - 1) / 2)
        places = [float(distance[c].mean()) + offset for c in chosen]
        figures.intervals(ax, places, found[label], label)
    ax.set_ylabel("accuracy on AffNIST")
    ax.legend(ncols=2)
    return found


# --- confusion ----------------------------------------------------------------------------------


def draw_confusion(ax: Axes, counts: np.ndarray, title: str) -> np.ndarray:
    """Draw a confusion matrix, every row in per cent of its sum; return these shares."""
    share = 100 * counts / np.maximum(counts.sum(1, keepdims=True), 1)
    ConfusionMatrixDisplay(share).plot(
        ax=ax,
        cmap="Greys",
        colorbar=False,
        values_format=".0f",
        im_kw={"vmin": 0, "vmax": 100},
        text_kw={"fontsize": 8},
    )
    ax.set(title=title, xlabel="answer", ylabel="true class")
    ax.label_outer()
    ax.grid(False)
    return share


def frequent_errors(share: np.ndarray, count: int = 4) -> str:
    """The largest entries off the diagonal of a matrix in per cent, in words."""
    wrong = share - np.diag(share.diagonal())
    order = np.argsort(-wrong, axis=None, kind="stable")[:count]
    pairs = [divmod(int(i), len(share)) for i in order]
    return ", ".join(f"{t} taken for {a} ({share[t, a]:.0f} % of the {t}s)" for t, a in pairs)


# --- neighbours ---------------------------------------------------------------------------------


def margin(
    queries: torch.Tensor, truth: torch.Tensor, anchors: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """(other − same) / (other + same) for vectors (N, d) among anchors (M, d): (N,) in [−1, 1].

    `same` and `other` are the distances to the nearest anchor of the query's own class and of any
    other: positive if and only if the nearest neighbour is of the right class.
    """
    gap = torch.cdist(queries, anchors, compute_mode="donot_use_mm_for_euclid_dist")
    alike = truth[:, None] == labels
    same = gap.masked_fill(~alike, torch.inf).min(1).values
    other = gap.masked_fill(alike, torch.inf).min(1).values
    return (other - same) / (other + same)


def gallery(
    queries: Dataset,
    anchors: Dataset,
    chosen: Sequence[int],
    neighbours: Mapping[str, torch.Tensor],
    row_labels: Sequence[str],
) -> Axes:
    """Queries at the indices `chosen`, a row each, and their neighbours in groups by representation.

    `neighbours` maps a name to anchor indices (N, k), nearest first. A frame and a sign tell whether
    an anchor is of the query's class: green with a tick, or red with a cross.
    """
    k = next(iter(neighbours.values())).shape[1]
    side = queries.images.shape[-1]
    pad = side // 4  # room for the frames
    blank = torch.ones(1, *queries.images.shape[1:])
    heads, rows, marks = ["query"], [], []
    for name in neighbours:
        group = [""] * k
        group[k // 2] = name
        heads += ["", *group]
    for row, j in enumerate(chosen):
        line = [queries.floats([j])]
        for group_number, index in enumerate(neighbours.values()):
            line += [blank, anchors.floats(index[j])]
            right = (anchors.labels[index[j]] == queries.labels[j]).tolist()
            first = 2 + group_number * (k + 1)
            marks += [(row, first + n, good) for n, good in enumerate(right)]
        rows.append(torch.cat(line))
    ax = figures.image_grid(
        torch.stack(rows), row_labels=row_labels, column_labels=heads, cell=0.5, pad=pad
    )
    step, gap = side + pad, pad / 4
    for row, column, good in marks:
        tone = figures.PALETTE["green" if good else "vermillion"]
        x, y = column * step - gap, row * step - gap
        frame = Rectangle((x, y), side - 1 + 2 * gap, side - 1 + 2 * gap)
        frame.set(fill=False, edgecolor=tone, linewidth=1.8, clip_on=False)
        ax.add_patch(frame)
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.4}
        sign = "✓" if good else "✗"
        ax.text(x + 4, y + 4, sign, color=tone, fontsize=7, ha="center", va="center", bbox=box)
    return ax


def pose(data: Dataset) -> dict[str, torch.Tensor]:
    """How AffNIST's digits were made: (N, 1 or 2) for position, rotation, shear and log of the area."""
    drawn = data.extras
    return {
        "position": torch.stack((drawn["shift_x"], drawn["shift_y"]), 1),
        "rotation": drawn["rotation"][:, None],
        "shear": drawn["shear"][:, None],
        "size": (drawn["expand_x"] * drawn["expand_y"]).log()[:, None],
    }


def pose_ratios(
    queries: Dataset, anchors: Dataset, index: torch.Tensor, generator: torch.Generator
) -> dict[str, float]:
    """How far apart queries and neighbours `index` (N, k) are in pose, relative to random anchors.

    One means that neighbours have no more in common than any two digits, zero that they agree.
    """
    chance = torch.randint(len(anchors), index.shape, generator=generator)
    asked, given = pose(queries), pose(anchors)

    def apart(what: str, which: torch.Tensor) -> float:
        return float((given[what][which] - asked[what][:, None]).norm(dim=-1).mean())

    return {what: apart(what, index) / apart(what, chance) for what in asked}


def centred(images: torch.Tensor) -> torch.Tensor:
    """Images (N, C, H, W) moved by whole pixels until the centre of mass lies in the middle.

    What leaves the image on one side enters it on the other, so that ink is neither lost nor made.
    """
    ink = images.double().sum(1)  # (N, H, W)
    mass = ink.sum((1, 2)).clamp(min=1e-12)
    number, channels, height, width = images.shape
    index = []
    for length, axis in ((height, 2), (width, 1)):
        at = torch.arange(length, dtype=torch.float64)
        shift = ((length - 1) / 2 - (ink.sum(axis) * at).sum(1) / mass).round().long()
        index.append((torch.arange(length) - shift[:, None]) % length)
    down, across = index
    return images[
        torch.arange(number)[:, None, None, None],
        torch.arange(channels)[None, :, None, None],
        down[:, None, :, None],
        across[:, None, None, :],
    ]
