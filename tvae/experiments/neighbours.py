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

from tvae.data import Dataset
from tvae.evaluation.sample_efficiency import Curve
from tvae.evaluation.statistics import Estimate
from tvae.experiments import figures
from tvae.files import AnyPath
from tvae.paper import claims, comparison
from tvae.runs import ledger
from tvae.runs.name import RunName

# --- tables and sentences -----------------------------------------------------------------------


def knn_table(rows: pd.DataFrame, dataset: str, labels: Sequence[str]) -> pd.DataFrame:
    """The paper's Table 2 for one data set with our runs beside it, as text; empty where nothing is.

    Args:
        rows: from `comparison.rows`.
        labels: which rows of each dimension, in this order.

    Returns:
        A row for each dimension and label that has any number, raw pixels (784) last. The columns
        are in sample, paper and ours; out of sample, paper and ours; ours on AffNIST centred and
        normalised by moments; the epochs of our run.
    """
    part = rows[rows["dataset"] == dataset].set_index(["nominal", "label"])
    columns = {}
    for metric, what in (("knn_in", "in"), ("knn_out", "out")):
        columns[f"{what}, paper"] = part[f"{metric}_paper"].map("{:.2f}".format)
        columns[f"{what}, ours"] = part[metric].map("{:.3f}".format)
    for name in comparison.FURTHER:
        columns[name.removeprefix("knn_out_")] = part[name].map("{:.3f}".format)
    columns["epochs"] = part["epochs"].map("{:.0f}".format)
    table = pd.DataFrame(columns).replace("nan", "").fillna("").rename_axis(index=["d", "model"])
    table = table[(table != "").any(axis=1)]
    order = [(d, label) for d in (*comparison.DIMENSIONS, 0) for label in labels]
    return table.loc[[key for key in order if key in table.index]].rename(index={0: 784}, level=0)


def leads(rows: pd.DataFrame, dataset: str, first: str, second: str, d: int = 25) -> pd.Series:
    """By how much `first` is ahead of `second` out of sample: paper, ledger and `ledger s.e.`.

    `rows` are from `comparison.rows`; NaN where there is no number. The two accuracies count as
    independent, although measured on the same queries: the error is rather too large.
    """
    theirs = claims.printed(rows, dataset, first, second, "knn_out", nominal=d).difference
    ours = claims.compare(rows, dataset, first, second, "knn_out", nominal=d)
    return pd.Series({"paper": theirs, "ledger": ours.difference, "ledger s.e.": ours.error})


# --- curves -------------------------------------------------------------------------------------


def stored_curves(path: AnyPath | None = None) -> dict[tuple[str, str], Curve]:
    """Accuracy against anchors at the paper's scale, as `scripts/sample_efficiency.py` stored it.

    Keys are (data set, label), those of pixels ("", "pixels"). The file lies in the ledger.
    """
    place = ledger.folder() / "sample_efficiency.csv" if path is None else path
    rows, found = pd.read_csv(place, comment="#"), {}
    for name, part in rows.groupby("name", sort=False):
        grid = part.pivot(index="subsample", columns="anchors", values="accuracy")
        run = None if name == "pixels" else RunName.parse(str(name))
        key = ("", "pixels") if run is None else (run.dataset, run.label)
        found[key] = Curve(tuple(map(int, grid.columns)), torch.tensor(grid.to_numpy()))
    return found


def crossing(first: Curve, second: Curve) -> tuple[list[int], list[int]]:
    """With how many anchors the first curve is clearly below the second, and with how many above.

    Clearly: zero lies outside the 95 % band of the difference, or the band has no width because all
    subsamples are the whole.
    """
    low, high = first.minus(second).band()
    sizes = first.sizes
    return (
        [m for m, upper in zip(sizes, high.tolist(), strict=True) if upper < 0],
        [m for m, lower in zip(sizes, low.tolist(), strict=True) if lower > 0],
    )


def draw_curves(ax: Axes, curves: Mapping[str, Curve], *, single: int | None = None) -> None:
    """Accuracy against the number of anchors, a line for each label, with its 95 % band.

    With `single` it is this one subsample in place of the mean and the band.
    """
    for label, curve in curves.items():
        if single is not None:
            ax.plot(curve.sizes, curve.accuracy[single], **figures.look(label))
        else:
            student = float(stats.t.ppf(0.975, len(curve.accuracy) - 1))
            figures.curve(ax, curve.sizes, curve.accuracy, label, ("se", student))


def draw_normalised(ax: Axes, rows: pd.DataFrame, labels: Sequence[str]) -> list[str]:
    """Accuracy on AffNIST as it is, centred, and normalised by moments, a line for each label.

    `rows` are those of one data set and dimension, from `comparison.rows`. Returns the labels that have
    been measured so.
    """
    shown, columns = [], ("knn_out", *comparison.FURTHER)
    for label in labels:
        row = rows[rows["label"] == label]
        if len(row) == 1 and not row[list(columns)].isna().any(axis=None):
            found = [Estimate(*row.iloc[0][[name, f"{name}_se"]]) for name in columns]
            figures.intervals(ax, range(3), found, label)
            shown.append(label)
    ax.set_xticks(range(3), ("as it is", "centred", "moments"))
    ax.set(xlim=(-0.3, 2.3), xlabel="AffNIST", ylabel="accuracy on AffNIST")
    return shown


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
