"""Tables, pictures and sentences of chapter 16, against counts and sums by hand."""

from __future__ import annotations

import math

import chapters
import ledgers
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.patches import Rectangle

from tvae import data, paper
from tvae.evaluation import Neighbours
from tvae.evaluation.sample_efficiency import Curve
from tvae.evaluation.statistics import Estimate
from tvae.paper import comparison
from tvae.runs import ledger
from tvae.runs.sweep import Job
from tvae.seeding import generator

nb = chapters.functions("16_embeddings")
LABELS = ("A", "M", "N^R", "VAE+", "VAE", "PCA", "untrained", "pixels")


@pytest.fixture(autouse=True)
def closed():
    """No figure outlives its test."""
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def digits():
    return (
        data.load("affnist", "test", source="embedded", count=40),
        data.load("affnist", "train", source="embedded", count=300),
    )


def ledger_rows(tmp_path, *jobs):
    for job in jobs:
        ledger.write(ledgers.entry(job), tmp_path)
    return comparison.rows(results=tmp_path)


def jobs():
    common = {"preset": "book"}
    return (
        Job("mnist", "tvae", "A", d=25, **common),
        Job("mnist", "vae+", None, d=25, **common),
        Job("mnist", "pixels", None, d=784, **common),
    )


# --- tables and sentences -----------------------------------------------------------------------


@pytest.mark.parametrize("dataset", ["mnist", "fashion-mnist"])
def test_table_holds_every_number_of_the_papers_table_2(dataset, tmp_path):
    table = nb.knn_table(ledger_rows(tmp_path), dataset, LABELS)
    printed = paper.tables().knn
    printed = printed[printed["dataset"] == dataset]
    for _, row in printed.iterrows():
        label = "N^R" if row["action"] == "N" else row["action"] or row["model"].upper()
        shown = table.loc[(25 if row["d"] == 26 else row["d"], label)]
        assert float(shown["in, paper"]) == row["knn_in"]
        assert float(shown["out, paper"]) == row["knn_out"]
        assert shown["out, ours"] == "" and shown["epochs"] == "" and shown["centred"] == ""
    # nothing was run, so the rows that the paper lacks are not there
    assert len(table) == len(printed) == 15
    assert list(table.index[:5]) == [(100, label) for label in LABELS[:5]]


def test_table_shows_what_the_ledger_holds(tmp_path):
    rows = ledger_rows(tmp_path, *jobs())
    table = nb.knn_table(rows, "mnist", LABELS)
    for label, index in (("A", (25, "A")), ("VAE+", (25, "VAE+")), ("pixels", (784, "pixels"))):
        entry = comparison.best("mnist", label, 25, tmp_path)
        assert entry is not None
        assert table.loc[index, "out, ours"] == f"{entry.metrics['knn_out']:.3f}"
        assert table.loc[index, "in, ours"] == f"{entry.metrics['knn_in']:.3f}"
    assert table.index[-1] == (784, "pixels")
    assert not table.isin(["nan"]).any().any()
    assert (nb.knn_table(rows, "fashion-mnist", LABELS)["out, ours"] == "").all()


def test_leads(tmp_path):
    rows = ledger_rows(tmp_path, *jobs())
    found = nb.lead_of(rows, "mnist", "A", "VAE+")
    ours = [comparison.best("mnist", label, 25, tmp_path) for label in ("A", "VAE+")]
    assert found["paper"] == pytest.approx(0.82 - 0.76)  # the paper's Table 2
    assert found["ledger"] == ours[0].metrics["knn_out"] - ours[1].metrics["knn_out"]
    against = nb.lead_of(rows, "mnist", "A", "pixels")
    assert math.isnan(against["paper"]) and not math.isnan(against["ledger"])
    assert nb.lead_of(rows, "mnist", "A", "VAE+", 10)["paper"] == pytest.approx(0.62 - 0.65)
    assert math.isnan(nb.lead_of(rows, "fashion-mnist", "A", "VAE+")["ledger"])


# --- curves -------------------------------------------------------------------------------------


def curve(seed=0):
    return Curve((10, 20, 40), torch.from_numpy(np.random.default_rng(seed).random((6, 3))))


def test_curves_are_drawn_with_means_and_bands():
    ax = plt.figure().add_subplot()
    mine = curve()
    nb.draw_curves(ax, {"A": mine, "pixels": curve(1)})
    assert [line.get_label() for line in ax.lines] == ["A", "pixels"]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), mine.mean)
    np.testing.assert_allclose(ax.lines[0].get_xdata(), (10, 20, 40))
    assert len(ax.collections) == 2
    corners = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert corners.min() == pytest.approx(float(mine.band()[0].min()))
    assert corners.max() == pytest.approx(float(mine.band()[1].max()))


def test_a_single_subsample_has_no_band():
    ax = plt.figure().add_subplot()
    nb.draw_curves(ax, {"M": curve()}, single=4)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), curve().accuracy[4])
    np.testing.assert_allclose(ax.lines[0].get_xdata(), (10, 20, 40))
    assert not ax.collections


def test_stored_curves_come_back_as_they_were_written(tmp_path):
    lines = ["# a note", "name,anchors,subsample,accuracy"]
    for name, start in (("pixels", 0.1), ("mnist-M-26", 0.2), ("fashion-mnist-VAE+-25", 0.3)):
        lines += [f"{name},{m},{k},{start + 0.01 * k + m / 1e4}" for k in (0, 1) for m in (100, 20)]
    path = tmp_path / "curves.csv"
    path.write_text("\n".join(lines) + "\n")
    found = nb.stored_curves(path)
    assert list(found) == [("", "pixels"), ("mnist", "M"), ("fashion-mnist", "VAE+")]
    assert found["mnist", "M"].sizes == (20, 100)
    np.testing.assert_allclose(found["mnist", "M"].accuracy, [[0.202, 0.21], [0.212, 0.22]])


def test_the_ledgers_curves_have_twenty_subsamples_of_every_size():
    found = nb.stored_curves()
    assert {c.accuracy.shape for c in found.values()} == {(20, 12)}
    assert {c.sizes[-1] for c in found.values()} == {320_000}
    for dataset in ("mnist", "fashion-mnist"):
        assert {"A", "VAE+", "VAE", "PCA"} <= {label for name, label in found if name == dataset}


def test_crossing_names_the_sizes_that_are_clear():
    noise = 0.001 * torch.tensor([[1.0, -1, 1], [-1, 1, -1], [1, 1, -1]]).double()
    zero = Curve((10, 20, 40), torch.zeros(3, 3).double())
    mine = Curve((10, 20, 40), noise + torch.tensor([-0.1, 0.0, 0.1]))
    assert nb.crossing(mine, zero) == ([10], [40])
    assert nb.crossing(zero, mine) == ([40], [10])


def test_normalised_rows_are_drawn_where_all_three_were_measured(tmp_path):
    further = {
        "knn_out_centred": {"value": 0.9, "standard_error": 0.01},
        "knn_out_moments": {"value": 0.95, "standard_error": 0.02},
    }
    for job in jobs():
        given = {"further": further} if job.model != "vae+" else {}
        ledger.write(ledgers.entry(job, **given), tmp_path)
    ax = plt.figure().add_subplot()
    rows = comparison.rows("mnist", 25, tmp_path)
    assert nb.draw_normalised(ax, rows, LABELS) == ["A", "pixels"]
    line = ax.lines[0].get_ydata()
    assert list(line[1:]) == [0.9, 0.95]
    assert line[0] == comparison.best("mnist", "A", 25, tmp_path).metrics["knn_out"]


def test_accuracy_by_distance_splits_into_equal_parts():
    rng = np.random.default_rng(3)
    distance = torch.from_numpy(rng.permutation(100).astype(float))
    right = distance < 35  # the nearest 35 of 100 are right
    groups = torch.from_numpy(rng.integers(0, 30, 100))
    ax = plt.figure().add_subplot()
    found = nb.draw_by_distance(ax, {"A": right, "VAE": ~right}, distance, groups, parts=4)
    assert [e.mean for e in found["A"]] == pytest.approx([1, 0.4, 0, 0])
    assert [e.mean for e in found["VAE"]] == pytest.approx([0, 0.6, 1, 1])
    second = (distance >= 25) & (distance < 50)
    assert found["A"][1] == pytest.approx(Estimate.of(right[second], groups[second]))


# --- confusion ----------------------------------------------------------------------------------


def test_confusion_is_drawn_in_per_cent_and_its_errors_named():
    counts = np.array([[6, 4, 0], [1, 19, 0], [0, 0, 0]])
    ax = plt.figure().add_subplot()
    share = nb.draw_confusion(ax, counts, "A")
    assert share.tolist() == [[60, 40, 0], [5, 95, 0], [0, 0, 0]]
    assert [t.get_text() for t in ax.texts[:2]] == ["60", "40"]
    assert (
        nb.frequent_errors(share, 2)
        == "0 taken for 1 (40 % of the 0s), 1 taken for 0 (5 % of the 1s)"
    )


# --- neighbours ---------------------------------------------------------------------------------


def test_margin_is_positive_where_the_nearest_is_right():
    rng = np.random.default_rng(5)
    anchors, queries = (torch.from_numpy(rng.standard_normal((n, 3))) for n in (80, 50))
    labels, truth = (torch.from_numpy(rng.integers(0, 3, n)) for n in (80, 50))
    found = nb.margin_of(queries, truth, anchors, labels)
    nearest = labels[Neighbours(anchors, 1)(queries).indices[:, 0]]
    assert torch.equal(found > 0, nearest == truth)
    gap = (queries[0] - anchors).norm(dim=1)
    same, other = gap[labels == truth[0]].min(), gap[labels != truth[0]].min()
    assert float(found[0]) == pytest.approx(float((other - same) / (other + same)))
    assert float(found.abs().max()) <= 1


def test_gallery_marks_by_colour_and_sign(digits):
    queries, anchors = digits
    pixels = [part.images.flatten(1).float() for part in (anchors, queries)]
    index = Neighbours(pixels[0], 5)(pixels[1]).indices
    other = index.flip(1)
    ax = nb.gallery(queries, anchors, [3, 7], {"A": index, "pixels": other}, ["low", "high"])
    expected = []
    for j in (3, 7):
        for group in (index, other):
            expected += (anchors.labels[group[j]] == queries.labels[j]).tolist()
    signs = [text.get_text() for text in ax.texts]
    frames = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert signs == ["✓" if good else "✗" for good in expected]
    assert len(frames) == 20
    tones = {(sign, frame.get_edgecolor()) for sign, frame in zip(signs, frames, strict=True)}
    assert len(tones) == len({sign for sign, _ in tones})
    heads = [label.get_text() for label in ax.get_xticklabels()]
    assert heads == ["query", "", "", "", "A", "", "", "", "", "", "pixels", "", ""]
    # each neighbour stands where its frame is
    shown = ax.images[0].get_array()
    x, y = frames[0].get_xy()
    top, left = round(y + 7 / 4), round(x + 7 / 4)
    np.testing.assert_allclose(
        shown[top : top + 28, left : left + 28, 0], anchors.floats([int(index[3, 0])])[0, 0]
    )


def test_pose_ratios(digits):
    queries, anchors = digits
    position = nb.pose(anchors)["position"]
    gap = (nb.pose(queries)["position"][:, None] - position).norm(dim=-1)
    near = gap.topk(3, dim=1, largest=False).indices
    found = nb.pose_ratios(queries, anchors, near, generator(0, "x"))
    chance = torch.randint(len(anchors), near.shape, generator=generator(0, "x"))
    expected = float(gap.gather(1, near).mean() / gap.gather(1, chance).mean())
    assert found["position"] == pytest.approx(expected)
    assert found["position"] < 0.4
    # in what they were not chosen by, they have nothing in common: 120 pairs, so wide margins
    assert all(0.6 < found[what] < 1.6 for what in ("rotation", "shear", "size"))
