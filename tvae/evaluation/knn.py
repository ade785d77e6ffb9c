"""Exact k-nearest-neighbour classification, the paper's test of a representation (k = 5, L2).

    knn = Neighbours(anchors, k=5)                # (M, d): posterior means, pixels, anything
    distances, indices = knn(queries)              # (N, k) each, nearest first
    knn_accuracy(anchors, anchor_labels, queries, query_labels)

**What exact means.** The fast way to all distances is one matrix product, ‖q‖² + ‖a‖² − 2 q·a, and in
float32 it is inexact: two neighbours may change places, and with a large common offset everything
drowns. Here the product only nominates candidates, more than k of them, from data centred on the
anchors' mean. The candidates are then ordered by distances computed in float64 from differences, and
a bound on the rounding error of the product tells whether an anchor that was not nominated could
belong among the k. Queries for which it could are searched again with four times the candidates.

**Rules for ties.** Of two anchors at the same distance (exact duplicates, say) the one that comes first
counts as nearer. The class is that of the majority of the k neighbours; of classes with equally many
votes the one that holds the nearest neighbour wins.

**Where it runs.** On the device asked for; `benchmarks/knn.py` compares it with scikit-learn and faiss.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from tvae.checks import check_whole
from tvae.layers import product

Array = torch.Tensor | NDArray[Any]

BLOCK = 16  # anchors whose best score is taken before anything is sorted
SPARE = 8  # candidates beyond the k
UNIT = 2.0**-24  # largest relative rounding error of a float32 operation
PART = 2**24  # numbers handled at once: 64 MB in float32
RERANK_TILE = 2**17  # float64 differences held at once: 1 MB, which stays in a core's cache


class Search(NamedTuple):
    """Neighbours of N queries, nearest first: Euclidean distances float64, anchor indices int64."""

    distances: torch.Tensor  # (N, k)
    indices: torch.Tensor  # (N, k)


class Neighbours:
    """The k nearest of a fixed set of anchors.

    Args:
        anchors: (M, d), or (M, ...) which is flattened; any real dtype, numpy or torch.
        k: how many neighbours.
        device: where to search; None means where the anchors are.
    """

    def __init__(
        self, anchors: Array, k: int = 5, *, device: str | torch.device | None = None
    ) -> None:
        given = _matrix(anchors, "anchors")
        self.k = check_whole(k, "k")
        if k > len(given):
            raise ValueError(f"k = {k} neighbours cannot be found among {len(given)} anchors.")
        self.device = torch.device(device) if device is not None else given.device
        # The exact distances are taken on the CPU: not every GPU has float64.
        self.anchors = _real(given.cpu(), "anchors")
        self._mean, self._scale = self._frame()
        self._nominate = _Candidates(self._augment(self.anchors), self.device)

    def __call__(self, queries: Array) -> Search:
        """The neighbours of queries (N, d), in bounded memory for any N."""
        given = _matrix(queries, "queries")
        if given.shape[1] != self.anchors.shape[1]:
            raise ValueError(
                f"The queries have {given.shape[1]} dimensions, "
                f"the anchors {self.anchors.shape[1]}: they must agree."
            )
        square, index = self._search(given, self.k + SPARE)
        return Search(square.sqrt_(), index)

    def _frame(self) -> tuple[torch.Tensor, float]:
        """The anchors' mean, and a power of two that brings the longest centred anchor to about 1."""
        mean = torch.zeros(self.anchors.shape[1], dtype=torch.float64)
        for part in _parts(self.anchors):
            mean += part.double().sum(0)
        mean /= len(self.anchors)
        radius = max(float((p.double() - mean).norm(dim=1).max()) for p in _parts(self.anchors))
        return mean, 2.0 ** -np.ceil(np.log2(radius)) if radius > 0 else 1.0

    @property
    def _slack(self) -> float:
        """e such that |computed − true| ≤ e (‖q‖ + ‖a‖)² for a squared distance in float32.

        The product of vectors of length d + 2 errs by at most (d + 2) units, rounding the centred
        input by three more, adding up the parts by two; twice that covers terms of second order and
        the rounding of the bound itself.
        """
        return 2 * (self.anchors.shape[1] + 8) * UNIT

    def _augment(self, vectors: torch.Tensor, query: bool = False) -> torch.Tensor:
        """Vectors (n, d + 2) whose products are scores: the larger, the nearer.

        With e = `_slack`, [q, 1, ‖q‖] · [a, −½ (1 − e) ‖a‖², e ‖a‖] = ½ ((1 − e) ‖q‖² − L), where
        L = ‖q − a‖² − e (‖q‖ + ‖a‖)² is a lower bound on what rounding leaves of the squared distance.
        """
        out = torch.empty((len(vectors), vectors.shape[1] + 2))
        rows = max(1, RERANK_TILE // vectors.shape[1])
        for start in range(0, len(vectors), rows):
            part = (vectors[start : start + rows].double() - self._mean) * self._scale
            norm = part.norm(dim=1)
            target = out[start : start + rows]
            target[:, :-2] = part
            target[:, -2] = 1 if query else -0.5 * (1 - self._slack) * norm.square()
            target[:, -1] = norm if query else self._slack * norm
        return out

    def _search(self, given: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Squared distances and indices (n, k), from `count` candidates, or more where needed."""
        count = min(count, len(self.anchors))
        found = [self._search_part(part, count) for part in _parts(given, count)]
        return torch.cat([square for square, _ in found]), torch.cat([index for _, index in found])

    def _search_part(self, given: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        queries = _real(given.cpu(), "queries")
        augmented = self._augment(queries, query=True)
        score, index = self._nominate(augmented, count)
        square, index = self._rerank(queries, index)
        if count < len(self.anchors):
            longest = augmented[:, -1].double()
            others = (1 - self._slack) * longest.square() - 2 * score.double()  # no other is nearer
            # negated, so that a NaN from an overflow counts as unsure
            unsure = ~(square[:, -1] * self._scale**2 < others)
            if unsure.any():
                square[unsure], index[unsure] = self._search(queries[unsure], 4 * count)
        return square, index

    def _rerank(
        self, queries: torch.Tensor, index: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The k nearest of the candidates `index` (n, count) by squared distances in float64."""
        index = index.sort(dim=1).values  # so that a stable sort lets the first of equals win
        square = torch.empty(index.shape, dtype=torch.float64)
        rows = max(1, RERANK_TILE // (index.shape[1] * queries.shape[1]))
        for start in range(0, len(queries), rows):
            part = slice(start, start + rows)
            difference = self.anchors[index[part]].double() - queries[part, None].double()
            square[part] = difference.square_().sum(-1)
        order = square.sort(dim=1, stable=True).indices[:, : self.k]
        return square.gather(1, order), index.gather(1, order)


class _Candidates:
    """Candidates by matrix products in tiles, on any device.

    Sorting all scores would cost far more than computing them. But the `count` best anchors lie in
    the `count` blocks of anchors with the best maxima, so of a tile of scores, which fits into a
    core's cache, only the maximum of each block is kept, and only the scores of the best blocks are
    computed a second time to be sorted.
    """

    def __init__(self, augmented: torch.Tensor, device: torch.device) -> None:
        self.real, self.width = augmented.shape
        self.device = device
        padded = torch.zeros((-(-self.real // BLOCK) * BLOCK, self.width))
        padded[: self.real] = augmented
        padded[self.real :, -2] = -1e30  # padding: worse than any score there is
        self.blocks = padded.to(device).view(-1, BLOCK, self.width)
        if device.type == "cpu":
            self.rows, self.columns = 256, 1024 * min(16, max(2, torch.get_num_threads()))
        else:
            self.rows, self.columns = 4096, 2**16

    @torch.inference_mode()
    def __call__(self, queries: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """For queries (n, d + 2): a score (n,) that no other anchor exceeds, and the candidates."""
        found = []
        with _full_float32():
            for part in queries.split(self.rows):
                found.append(self._best(part.to(self.device), count))
        return torch.cat([f[0].cpu() for f in found]), torch.cat([f[1].cpu() for f in found])

    def _best(self, queries: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        anchors = self.blocks.view(-1, self.width)
        if 4 * count * BLOCK > len(anchors):
            rows = max(1, PART // self.real)
            tops = [(q @ anchors[: self.real].T).topk(count, dim=1) for q in queries.split(rows)]
            return torch.cat([t.values[:, -1] for t in tops]), torch.cat([t.indices for t in tops])
        n = len(queries)
        best = torch.empty((len(self.blocks), n), device=self.device)
        for start in range(0, len(anchors), self.columns):
            tile = anchors[start : start + self.columns]
            # Queries along the rows: maxima are then taken between whole rows, which takes half the
            # time of maxima within rows.
            score = product(tile, queries.T)
            at = start // BLOCK
            torch.amax(score.view(-1, BLOCK, n), 1, out=best[at : at + len(tile) // BLOCK])
        chosen = best.T.contiguous().topk(count, dim=1)
        inside = torch.empty((n, count * BLOCK), device=self.device)
        rows = max(1, self.rows * self.columns // (count * BLOCK * self.width))
        for start in range(0, n, rows):
            part = slice(start, start + rows)
            near = self.blocks[chosen.indices[part]].flatten(1, 2)  # (rows, count · BLOCK, d + 2)
            inside[part] = (near @ queries[part, :, None]).squeeze(2)
        top = inside.topk(count, dim=1)
        block = chosen.indices.gather(1, top.indices // BLOCK)
        limit = torch.maximum(top.values[:, -1], chosen.values[:, -1])
        return limit, block * BLOCK + top.indices % BLOCK


class _full_float32:
    """No TF32 while the block runs: the error bound assumes float32's 24 bits."""

    def __enter__(self) -> None:
        self.precision = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")

    def __exit__(self, *_: object) -> None:
        torch.set_float32_matmul_precision(self.precision)


def vote(labels: torch.Tensor) -> torch.Tensor:
    """The majority of each row of neighbours' labels (N, k), nearest first: (N,).

    Of classes with equally many votes the one that holds the nearest neighbour wins.
    """
    # votes[i, j]: how many of row i's neighbours share the class of neighbour j
    votes = (labels[:, :, None] == labels[:, None, :]).sum(-1)
    # a nearer neighbour is worth a little more, less than one vote; maxima are then unique
    k = labels.shape[1]
    winner = (votes * k - torch.arange(k, device=labels.device)).argmax(1)
    return labels.gather(1, winner[:, None]).squeeze(1)


def knn_predict(
    anchors: Array, anchor_labels: Array, queries: Array, k: int = 5, **options: Any
) -> torch.Tensor:
    """The class (N,) of each query (N, d) by a vote of its k nearest anchors (M, d).

    `options` are those of `Neighbours`.
    """
    labels = _labels(anchor_labels, len(anchors), "anchor")
    return vote(labels[Neighbours(anchors, k, **options)(queries).indices])


def knn_accuracy(
    anchors: Array, anchor_labels: Array, queries: Array, query_labels: Array, k: int = 5
) -> float:
    """The share of queries (N, d) that the k nearest anchors (M, d) classify rightly."""
    truth = _labels(query_labels, len(queries), "query")
    found = knn_predict(anchors, anchor_labels, queries, k)
    return float((found == truth).double().mean())


def _matrix(data: Array, name: str) -> torch.Tensor:
    """`data` as a matrix (N, d) with at least one row and one column."""
    tensor = torch.as_tensor(data)
    if tensor.ndim < 2:
        raise ValueError(f"The {name} must have shape (N, d), not {tuple(tensor.shape)}.")
    if tensor.numel() == 0:
        raise ValueError(f"There are no {name}: the shape is {tuple(tensor.shape)}.")
    if tensor.is_complex():
        raise TypeError(f"The {name} must be real numbers, not {tensor.dtype}.")
    return tensor.detach().flatten(1)


def _real(matrix: torch.Tensor, name: str) -> torch.Tensor:
    """In float64 where float32 would lose digits, else in float32; all values finite."""
    if matrix.dtype in (torch.float64, torch.int32, torch.int64):
        matrix = matrix.double()
    else:
        matrix = matrix.float()
    if not bool(torch.isfinite(matrix).all()):
        raise ValueError(f"The {name} contain values that are not finite (NaN or infinity).")
    return matrix


def _labels(labels: Array, count: int, name: str) -> torch.Tensor:
    tensor = torch.as_tensor(labels).detach().cpu()
    if tensor.ndim != 1 or len(tensor) != count:
        raise ValueError(
            f"There must be one label for each of the {count} {name} vectors, "
            f"not labels of shape {tuple(tensor.shape)}."
        )
    return tensor


def _parts(matrix: torch.Tensor, width: int = 1) -> Iterator[torch.Tensor]:
    """Consecutive rows, as many as keep both them and `width` numbers for each in bounds."""
    return iter(matrix.split(max(1, PART // max(width, matrix.shape[1]))))
