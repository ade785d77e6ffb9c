"""Accuracy by number of anchors, against scikit-learn and a search from scratch."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.neighbors import KNeighborsClassifier

from tvae.evaluation import knn_accuracy, knn_predict
from tvae.evaluation.sample_efficiency import Curve, Ranked, subsamples
from tvae.seeding import generator

pytestmark = pytest.mark.usefixtures("one_thread")


def clusters(seed, count, d=4, classes=3, spread=1.5):
    """Overlapping clouds, one for each class: vectors (count, d) and labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, count)
    centres = np.random.default_rng(99).standard_normal((classes, d))
    return torch.from_numpy(centres[labels] + spread * rng.standard_normal((count, d))), (
        torch.from_numpy(labels)
    )


@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize("depth", [10, 60, 400])
def test_accuracy_is_that_of_sklearn_on_the_same_subsample(k, depth):
    """Distances all differ, and k is odd with two classes: no rule for ties is asked for."""
    anchors, labels = clusters(0, 400, classes=2)
    queries, truth = clusters(1, 150, classes=2)
    orders = subsamples(400, 4, generator(0, "test"))
    sizes = (k, 9, 40, 200, 400)
    curve = Ranked(anchors, labels, queries, truth, k, depth=depth).curve(sizes, orders)
    assert curve.sizes == sizes and curve.accuracy.shape == (4, 5)
    for row, order in enumerate(orders):
        for column, m in enumerate(sizes):
            chosen = order[:m].numpy()
            model = KNeighborsClassifier(k, algorithm="brute")
            model.fit(anchors.numpy()[chosen], labels.numpy()[chosen])
            expected = model.score(queries.numpy(), truth.numpy())
            assert float(curve.accuracy[row, column]) == pytest.approx(expected, abs=1e-12)
    # with all anchors the order cannot matter
    assert curve.accuracy[:, -1].std() == 0
    assert curve.accuracy[:, 2].std() > 0, "a test of subsamples wants some that differ"


@given(
    seed=st.integers(0, 2**32 - 1),
    m=st.integers(3, 40),
    share=st.floats(0.1, 1.0),
    depth=st.integers(3, 60),
    values=st.integers(1, 4),
)
@settings(max_examples=80, deadline=None)
def test_ties_follow_the_rule_of_knn_predict(seed, m, share, depth, values):
    """Few distinct integers make for many equal distances: the same anchor must win at any depth."""
    rng = np.random.default_rng(seed)
    k = 3
    anchors = torch.from_numpy(rng.integers(0, values, (m, 2)).astype(np.float64))
    queries = torch.from_numpy(rng.integers(0, values, (6, 2)).astype(np.float64))
    labels = torch.from_numpy(rng.integers(0, 4, m))
    truth = torch.from_numpy(rng.integers(0, 4, 6))
    subset = torch.from_numpy(rng.permutation(m)[: max(k, int(share * m))])
    ranked = Ranked(anchors, labels, queries, truth, k, depth=depth)
    ascending = subset.sort().values
    square = (queries[:, None] - anchors[ascending]).square().sum(-1)  # exact: small integers
    nearest = ascending[square.sort(dim=1, stable=True).indices[:, :k]]
    assert torch.equal(ranked.neighbours(subset), nearest)
    predicted = knn_predict(anchors[ascending], labels[ascending], queries, k)
    assert torch.equal(ranked.predict(subset), predicted)
    assert torch.equal(ranked.right(subset), predicted == truth)


def test_all_anchors_are_the_default():
    anchors, labels = clusters(2, 300)
    queries, truth = clusters(3, 100)
    ranked = Ranked(anchors, labels, queries, truth)
    accuracy = knn_accuracy(anchors, labels, queries, truth)
    assert float(ranked.right().double().mean()) == pytest.approx(accuracy, abs=1e-12)
    assert len(ranked) == 300


def test_subsamples_are_nested_independent_and_reproducible():
    orders = subsamples(50, 6, generator(3, "orders"))
    assert torch.equal(orders, subsamples(50, 6, generator(3, "orders")))
    assert not torch.equal(orders, subsamples(50, 6, generator(4, "orders")))
    assert torch.equal(orders.sort(1).values, torch.arange(50).expand(6, 50))
    assert len({tuple(row.tolist()) for row in orders}) == 6


def test_subsamples_are_uniform():
    """Every anchor is in a subsample of 10 of 40 with chance 1/4: four standard errors of room."""
    orders = subsamples(40, 2000, generator(0, "uniform"))
    share = torch.zeros(40).index_add_(0, orders[:, :10].flatten(), torch.ones(20_000)) / 2000
    assert float((share - 0.25).abs().max()) < 4 * math.sqrt(0.25 * 0.75 / 2000)


def test_band_is_the_t_interval():
    accuracy = torch.from_numpy(np.random.default_rng(5).random((20, 3)))
    curve = Curve((10, 20, 30), accuracy)
    lower, upper = curve.band(0.9)
    for column in range(3):
        values = accuracy[:, column].numpy()
        low, high = stats.t.interval(0.9, 19, values.mean(), stats.sem(values))
        assert (float(lower[column]), float(upper[column])) == pytest.approx((low, high))


def test_band_covers_the_true_mean_as_often_as_it_says():
    """The mean over all subsamples of size 30 is estimated from 2,000; 100 bands of 20 each."""
    anchors, labels = clusters(6, 200)
    queries, truth = clusters(7, 120)
    orders = subsamples(200, 2000, generator(1, "coverage"))
    curve = Ranked(anchors, labels, queries, truth).curve((30,), orders)
    centre = float(curve.mean)
    covered = 0
    for part in curve.accuracy.split(20):
        lower, upper = Curve((30,), part).band()
        covered += bool(lower <= centre <= upper)
    assert 87 <= covered <= 100  # 95 ± 3.7 standard errors; above 100 there is nothing


def test_differences_gains_and_needed_anchors():
    # accuracy = 0.1 · log2(m) + repetition's own offset: a straight line in the logarithm
    sizes = (4, 8, 16, 32)
    offsets = torch.tensor([[-0.01], [0.0], [0.01]], dtype=torch.float64)
    line = 0.1 * torch.log2(torch.tensor(sizes, dtype=torch.float64)) + offsets
    curve = Curve(sizes, line)
    assert curve.gain(4, 32) == pytest.approx((0.1, 0.0), abs=1e-12)
    assert curve.anchors_for(0.1 * math.log2(11)) == pytest.approx(11)
    assert curve.anchors_for(0.3) == pytest.approx(8)
    assert curve.anchors_for(0.0) == 4
    assert curve.anchors_for(0.51) is None
    # the sizes may come in any order
    assert Curve(sizes[::-1], line.flip(1)).anchors_for(0.1 * math.log2(11)) == pytest.approx(11)
    other = Curve(sizes, line - 0.2 * offsets)
    lower, upper = curve.minus(other).band()
    assert torch.allclose(curve.minus(other).mean, torch.zeros(4, dtype=torch.float64))
    assert bool((upper - lower < curve.band()[1] - curve.band()[0]).all()), "paired is narrower"


def test_errors_say_what_is_wrong():
    anchors, labels = clusters(10, 30)
    queries, truth = clusters(11, 5)
    with pytest.raises(ValueError, match="cannot hold 5 neighbours"):
        Ranked(anchors, labels, queries, truth, depth=4)
    with pytest.raises(ValueError, match="one label for each"):
        Ranked(anchors, labels[:-1], queries, truth)
    ranked = Ranked(anchors, labels, queries, truth)
    orders = subsamples(30, 2, generator(0, "x"))
    with pytest.raises(ValueError, match="subsample of 31 anchors is impossible"):
        ranked.curve((31,), orders)
    with pytest.raises(ValueError, match=r"shape \(repetitions, 30\)"):
        ranked.curve((10,), orders[:, :20])
    with pytest.raises(ValueError, match="twice"):
        ranked.predict(torch.tensor([0, 1, 2, 3, 4, 4]))
    with pytest.raises(ValueError, match="between 0 and 29"):
        ranked.predict(torch.tensor([0, 1, 2, 3, 30]))
    with pytest.raises(ValueError, match="at least 5 indices"):
        ranked.predict(torch.arange(4))
    with pytest.raises(ValueError, match="positive whole number"):
        subsamples(10, 0, generator(0, "x"))
    curve = ranked.curve((10, 20), orders)
    with pytest.raises(ValueError, match="at least two subsamples"):
        Curve((10,), curve.accuracy[:1, :1]).band()
    with pytest.raises(ValueError, match="between 0 and 1"):
        curve.band(95)
    with pytest.raises(ValueError, match="no size 15"):
        curve.gain(10, 15)
    with pytest.raises(ValueError, match="must grow"):
        curve.gain(20, 10)
    with pytest.raises(ValueError, match="same sizes"):
        curve.minus(ranked.curve((10, 30), orders))
