"""Neighbours against scikit-learn's brute force and a search in plain Python."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from tvae.evaluation import knn
from tvae.evaluation.knn import Neighbours, knn_accuracy, knn_predict, vote

pytestmark = pytest.mark.usefixtures("one_thread")


def plain_search(anchors, queries, k):
    """Indices by exact rational arithmetic; of equal distances the first anchor wins."""
    found = []
    for q in queries.tolist():
        square = [
            sum((Fraction(x) - Fraction(y)) ** 2 for x, y in zip(q, a, strict=True))
            for a in anchors.tolist()
        ]
        found.append(sorted(range(len(square)), key=lambda i: (square[i], i))[:k])
    return np.array(found)


def plain_vote(labels):
    """The majority; a tie goes to the class met first, walking from the nearest outwards."""
    counts = Counter(labels)
    best = max(counts.values())
    return next(label for label in labels if counts[label] == best)


def sklearn_search(anchors, queries, k):
    """scikit-learn's brute force, in float64 and free of its own expanded form."""
    model = NearestNeighbors(n_neighbors=k, algorithm="brute", metric="euclidean")
    mean = anchors.astype(np.float64).mean(0)
    model.fit(anchors.astype(np.float64) - mean)
    return model.kneighbors(queries.astype(np.float64) - mean)


@pytest.mark.parametrize("d", [1, 2, 25, 784])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_neighbours_are_those_of_sklearn(d, offset):
    rng = np.random.default_rng(d)
    # more anchors than the blocked search needs to be used: 4 · 13 · 64
    anchors = (rng.standard_normal((5000, d)) + offset).astype(np.float32)
    queries = (rng.standard_normal((300, d)) + offset).astype(np.float32)
    if d == 1 or (d == 2 and offset):  # float32 then has so few values that distances coincide
        anchors, queries = anchors.astype(np.float64), queries.astype(np.float64)
        anchors += rng.standard_normal(anchors.shape) * 1e-6
    distance, index = sklearn_search(anchors, queries, 5)
    found = Neighbours(anchors, 5)(queries)
    np.testing.assert_array_equal(found.indices.numpy(), index)
    np.testing.assert_allclose(found.distances.numpy(), distance, rtol=1e-6, atol=1e-9)


def test_offset_that_float32_products_do_not_survive():
    """The data the expanded form gets wrong are got right: the test has teeth."""
    rng = np.random.default_rng(1)
    anchors = (rng.standard_normal((4000, 10)) + 3000).astype(np.float32)
    queries = (rng.standard_normal((200, 10)) + 3000).astype(np.float32)
    _, index = sklearn_search(anchors, queries, 5)
    a, q = torch.from_numpy(anchors), torch.from_numpy(queries)
    expanded = (a.square().sum(1) - 2 * q @ a.T).topk(5, largest=False).indices.numpy()
    assert (expanded != index).mean() > 0.5
    np.testing.assert_array_equal(Neighbours(anchors)(queries).indices, index)


def test_far_outliers_and_far_clusters():
    """Centring does not help if the data lie in two far clusters: the bound on errors must."""
    rng = np.random.default_rng(2)
    anchors = rng.standard_normal((4000, 8))
    anchors[2000:] += 1e5
    anchors[17] = 1e9
    queries = np.concatenate([rng.standard_normal((20, 8)), rng.standard_normal((20, 8)) + 1e5])
    index = np.stack([((anchors - q) ** 2).sum(1).argsort()[:5] for q in queries])
    np.testing.assert_array_equal(Neighbours(anchors)(queries).indices, index)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_scale_does_not_matter(scale):
    rng = np.random.default_rng(3)
    anchors, queries = rng.standard_normal((4000, 4)), rng.standard_normal((50, 4))
    expected = Neighbours(anchors)(queries).indices
    scaled = Neighbours(anchors * scale)(queries * scale).indices
    assert torch.equal(scaled, expected)


@given(
    seed=st.integers(0, 2**32 - 1),
    m=st.integers(1, 60),
    n=st.integers(1, 8),
    d=st.integers(1, 4),
    k=st.integers(1, 7),
    values=st.integers(1, 4),
)
@settings(max_examples=60, deadline=None)
def test_ties_and_duplicates_follow_the_rule(seed, m, n, d, k, values):
    """Few distinct values make for many equal distances; plain Python is the oracle."""
    rng = np.random.default_rng(seed)
    k = min(k, m)
    anchors = rng.integers(0, values, (m, d)) / 7  # sevenths: not exact in binary
    queries = rng.integers(0, values, (n, d)) / 7
    labels = torch.from_numpy(rng.integers(0, 3, m))
    index = plain_search(anchors, queries, k)
    found = Neighbours(anchors, k)(queries).indices.numpy()
    # sevenths are rounded, so only equal points need have equal distances: compare those exactly
    same = [(anchors[a] == anchors[b]).all(-1) for a, b in zip(found, index, strict=True)]
    square = ((anchors[found] - queries[:, None]) ** 2).sum(-1)
    expected = ((anchors[index] - queries[:, None]) ** 2).sum(-1)
    np.testing.assert_allclose(square, expected, atol=1e-12)
    for row, truth, equal in zip(found, index, same, strict=True):
        if equal.all():
            np.testing.assert_array_equal(row, truth)
    predicted = knn_predict(anchors, labels, queries, k)
    assert predicted.tolist() == [plain_vote(labels[row].tolist()) for row in found]


@given(
    seed=st.integers(0, 2**32 - 1),
    copies=st.integers(1, 40),
)
@settings(max_examples=20, deadline=None)
def test_more_duplicates_than_candidates(seed, copies):
    """With integers every distance is exact, so the order must be the rule's, whatever the number."""
    rng = np.random.default_rng(seed)
    anchors = np.repeat(rng.integers(-3, 4, (120, 3)), copies, axis=0)
    anchors = anchors[rng.permutation(len(anchors))].astype(np.float32)
    queries = rng.integers(-3, 4, (6, 3)).astype(np.float32)
    found = Neighbours(anchors, 5)(queries).indices.numpy()
    square = ((anchors[None] - queries[:, None]) ** 2).sum(-1)
    np.testing.assert_array_equal(found, square.argsort(1, kind="stable")[:, :5])


@given(labels=st.lists(st.integers(0, 3), min_size=1, max_size=9))
def test_vote_is_the_majority_and_ties_go_to_the_nearest(labels):
    assert vote(torch.tensor([labels])).item() == plain_vote(labels)


def test_accuracy_is_sklearns():
    rng = np.random.default_rng(4)
    labels, truth = rng.integers(0, 10, 3000), rng.integers(0, 10, 500)
    centres = rng.standard_normal((10, 25)) * 0.7
    anchors = (centres[labels] + rng.standard_normal((3000, 25))).astype(np.float32)
    queries = (centres[truth] + rng.standard_normal((500, 25))).astype(np.float32)
    # odd k and two of the ten classes only: no ties, where scikit-learn has another rule
    labels, truth = labels % 2, truth % 2
    theirs = KNeighborsClassifier(5, algorithm="brute").fit(anchors, labels).score(queries, truth)
    assert knn_accuracy(anchors, labels, queries, truth) == pytest.approx(theirs, abs=1e-12)


def test_result_does_not_depend_on_tiles(monkeypatch):
    rng = np.random.default_rng(5)
    anchors, queries = rng.standard_normal((6000, 7)), rng.standard_normal((700, 7))
    expected = Neighbours(anchors)(queries)
    monkeypatch.setattr(knn, "PART", 2**14)
    monkeypatch.setattr(knn, "RERANK_TILE", 1000)
    for rows, columns in ((1, 64), (33, 640), (1000, 10**6)):
        tiled = Neighbours(anchors)
        tiled._nominate.rows, tiled._nominate.columns = rows, columns
        found = tiled(queries)
        assert torch.equal(found.indices, expected.indices)
        assert torch.equal(found.distances, expected.distances)


def test_integer_images_are_flattened_and_kept_exact():
    rng = np.random.default_rng(6)
    images = torch.from_numpy(rng.integers(0, 256, (400, 1, 5, 5)).astype(np.uint8))
    found = Neighbours(images[:350])(images[350:])
    square = (images[350:].flatten(1).double()[:, None] - images[:350].flatten(1).double()).square()
    expected = square.sum(-1).sort(stable=True)
    assert torch.equal(found.indices, expected.indices[:, :5])
    assert torch.equal(found.distances, expected.values[:, :5].sqrt())


def test_matmul_precision_is_restored():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        Neighbours(np.eye(9))(np.eye(9))
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a, q: Neighbours(a, 0), "k must be a positive whole number, not 0"),
        (lambda a, q: Neighbours(a, 1.5), "k must be a positive whole number"),
        (lambda a, q: Neighbours(a, 99), "k = 99 neighbours cannot be found among 20 anchors"),
        (lambda a, q: Neighbours(a[:0]), "There are no anchors"),
        (lambda a, q: Neighbours(a[:, 0]), r"anchors must have shape \(N, d\), not \(20,\)"),
        (lambda a, q: Neighbours(a)(q[:, :2]), "queries have 2 dimensions, the anchors 3"),
        (lambda a, q: Neighbours(a)(q * np.nan), "queries contain values that are not finite"),
        (lambda a, q: Neighbours(a * np.inf), "anchors contain values that are not finite"),
        (lambda a, q: knn_predict(a, np.zeros(3), q), "one label for each of the 20 anchor"),
        (lambda a, q: knn_accuracy(a, np.zeros(20), q, np.zeros(9)), "each of the 4 query"),
    ],
)
def test_mistakes_are_told_in_one_sentence(call, message):
    rng = np.random.default_rng(7)
    with pytest.raises(ValueError, match=message):
        call(rng.random((20, 3)), rng.random((4, 3)))
