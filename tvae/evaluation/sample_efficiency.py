"""How the accuracy of k nearest neighbours grows with the number of labelled anchors.

    orders = subsamples(len(anchors), 20, generator(0, "subsamples"))
    ranked = Ranked(anchors, anchor_labels, queries, query_labels)      # all distances, once
    curve = ranked.curve((100, 300, 1000), orders)
    curve.mean, curve.band()                                           # (3,), and (3,) twice

**What is drawn.** A subsample of every size is a prefix of a random order of the anchors: within one
order the subsamples are nested, so that its curve shows what *more* anchors do; different orders are
independent. With the same orders two representations are compared on the same anchors.

**How it is fast.** The nearest anchors of a subsample are the first members of the subsample in the list
of all anchors by distance. So the lists, cut off at some depth, are searched for once, by the exact
`Neighbours`, and a subsample costs a walk along them. Where a list ends before k members are found,
the query is searched for in the subsample itself, which then is small. Either way the answer is that
of `knn_predict` on the subsample in ascending order, with its rules for ties.

**What a band means.** It covers the mean over subsamples of the anchors for *these* queries. What other
queries would change, `Estimate.of` says for `Ranked.right`, query by query.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from scipy import stats

from tvae.checks import check_whole
from tvae.evaluation.knn import Array, Neighbours, _labels, vote
from tvae.evaluation.statistics import Estimate


def subsamples(count: int, repetitions: int, generator: torch.Generator) -> torch.Tensor:
    """Independent random orders (repetitions, count) of `count` anchors, int64.

    The first m entries of a row are its subsample of size m, so the sizes of one row are nested.
    """
    check_whole(count, "count")
    check_whole(repetitions, "repetitions")
    return torch.stack([torch.randperm(count, generator=generator) for _ in range(repetitions)])


@dataclass(frozen=True)
class Curve:
    """Accuracies (repetitions, sizes) float64 of subsamples of the anchors of these sizes."""

    sizes: tuple[int, ...]
    accuracy: torch.Tensor

    @property
    def mean(self) -> torch.Tensor:
        """The mean over the subsamples, (sizes,)."""
        return self.accuracy.mean(0)

    def band(self, level: float = 0.95) -> tuple[torch.Tensor, torch.Tensor]:
        """Student's t interval for the mean over subsamples: lower and upper ends, (sizes,) each."""
        repetitions = len(self.accuracy)
        if repetitions < 2:
            raise ValueError("A confidence band needs at least two subsamples.")
        if not 0 < level < 1:
            raise ValueError(f"The level of a band lies between 0 and 1, but is {level!r}.")
        width = float(stats.t.ppf((1 + level) / 2, repetitions - 1)) / math.sqrt(repetitions)
        half = width * self.accuracy.std(0)
        return self.mean - half, self.mean + half

    def minus(self, other: Curve) -> Curve:
        """The differences, subsample by subsample; both curves must be of the same orders."""
        if self.sizes != other.sizes or self.accuracy.shape != other.accuracy.shape:
            raise ValueError("Only curves with the same sizes and subsamples can be subtracted.")
        return Curve(self.sizes, self.accuracy - other.accuracy)

    def gain(self, small: int, large: int) -> Estimate:
        """By how much accuracy grows from `small` to `large` anchors, per doubling.

        The standard error is that of the mean over the subsamples.
        """
        for size in (small, large):
            if size not in self.sizes:
                raise ValueError(f"The curve has no size {size}; it has {self.sizes}.")
        if large <= small:
            raise ValueError(f"The sizes of a gain must grow, not go from {small} to {large}.")
        first, last = self.sizes.index(small), self.sizes.index(large)
        gain = (self.accuracy[:, last] - self.accuracy[:, first]) / math.log2(large / small)
        return Estimate.of(gain)

    def anchors_for(self, accuracy: float) -> float | None:
        """With how many anchors the mean first reaches `accuracy`, None if with none of the sizes.

        Between two sizes the mean is taken as linear in the logarithm of the number of anchors. A
        target below the whole curve gives the smallest size.
        """
        order = sorted(range(len(self.sizes)), key=lambda i: self.sizes[i])
        means = [float(self.mean[i]) for i in order]
        logs = [math.log(self.sizes[i]) for i in order]
        if means[0] >= accuracy:
            return float(self.sizes[order[0]])
        for i in range(1, len(means)):
            if means[i] >= accuracy:
                share = (accuracy - means[i - 1]) / (means[i] - means[i - 1])
                return math.exp(logs[i - 1] + share * (logs[i] - logs[i - 1]))
        return None


class Ranked:
    """Queries with their lists of anchors by distance, ready for any subsample of the anchors.

    Args:
        anchors, labels: (M, d) vectors and their M classes.
        queries, truth: (N, d) vectors and their N classes.
        k: how many neighbours vote.
        depth: how many of the nearest anchors each list holds; all of them if there are fewer. Any
            depth gives the same answers, but a longer list takes longer to make and helps smaller
            subsamples.
        device: where the search runs; None means where the anchors are.
    """

    def __init__(
        self,
        anchors: Array,
        labels: Array,
        queries: Array,
        truth: Array,
        k: int = 5,
        *,
        depth: int = 200,
        device: str | torch.device | None = None,
    ) -> None:
        self.anchors, self.queries = torch.as_tensor(anchors), torch.as_tensor(queries)
        self.labels = _labels(labels, len(self.anchors), "anchor")
        self.truth = _labels(truth, len(self.queries), "query")
        self.k, self.device = k, device
        if depth < k:
            raise ValueError(f"Lists of {depth} anchors cannot hold {k} neighbours.")
        search = Neighbours(self.anchors, min(depth, len(self.anchors)), device=device)
        self.lists = search(self.queries).indices  # (N, depth), nearest first

    def __len__(self) -> int:
        """The number of anchors."""
        return len(self.anchors)

    def neighbours(self, subset: torch.Tensor) -> torch.Tensor:
        """The k nearest anchors (N, k) among those at the indices `subset` (m,), nearest first."""
        rank = self._rank(torch.as_tensor(subset))
        return self._walk(rank.take(self.lists), rank, len(subset))

    def predict(self, subset: torch.Tensor) -> torch.Tensor:
        """The class (N,) of every query by a vote of its neighbours among `subset` (m,)."""
        return vote(self.labels[self.neighbours(subset)])

    def right(self, subset: torch.Tensor | None = None) -> torch.Tensor:
        """Which queries (N,) the anchors at `subset` (None: all of them) classify rightly."""
        chosen = torch.arange(len(self)) if subset is None else subset
        return self.predict(chosen) == self.truth

    def curve(self, sizes: Sequence[int], orders: torch.Tensor) -> Curve:
        """The accuracy with the first m entries of every order, for every m of `sizes`.

        Args:
            sizes: numbers of anchors, each at least k.
            orders: (repetitions, M) from `subsamples`.
        """
        if orders.ndim != 2 or orders.shape[1] != len(self):
            raise ValueError(
                f"The orders must have shape (repetitions, {len(self)}), one entry for each "
                f"anchor, not {tuple(orders.shape)}."
            )
        for m in sizes:
            if not self.k <= m <= len(self):
                raise ValueError(
                    f"A subsample of {m} anchors is impossible: {self.k} to {len(self)} are."
                )
        found = torch.empty((len(orders), len(sizes)), dtype=torch.float64)
        for row, order in enumerate(orders):
            rank = self._rank(order)
            ranks = rank.take(self.lists)
            for column, m in enumerate(sizes):
                predicted = vote(self.labels[self._walk(ranks, rank, m)])
                found[row, column] = (predicted == self.truth).double().mean()
        return Curve(tuple(int(m) for m in sizes), found)

    def _rank(self, order: torch.Tensor) -> torch.Tensor:
        """The place of every anchor in `order`, (M,) int32; M for those that are not in it."""
        if order.ndim != 1 or len(order) < self.k:
            raise ValueError(
                f"A subsample must be at least {self.k} indices in one row, "
                f"not of shape {tuple(order.shape)}."
            )
        if int(order.min()) < 0 or int(order.max()) >= len(self):
            raise ValueError(f"The indices of a subsample must lie between 0 and {len(self) - 1}.")
        rank = torch.full((len(self),), len(self), dtype=torch.int32)
        rank[order] = torch.arange(len(order), dtype=torch.int32)
        if int((rank < len(self)).sum()) != len(order):
            raise ValueError("A subsample must not name an anchor twice.")
        return rank

    def _walk(self, ranks: torch.Tensor, rank: torch.Tensor, m: int) -> torch.Tensor:
        """The k nearest anchors (N, k) among those of rank < m; `ranks` (N, depth) is rank[lists]."""
        out = torch.empty((len(ranks), self.k), dtype=torch.int64)
        left = torch.arange(len(ranks))  # queries that wait for an answer
        # so long a beginning of a list holds twice the k members on average, enough for most
        depth = ranks.shape[1]
        start = min(depth, 8 + 2 * self.k * len(self) // m)
        for width in (start, depth):
            every = len(left) == len(ranks)
            member = (ranks if every else ranks[left])[:, :width] < m
            seen = member.cumsum(1, dtype=torch.int32)  # members so far; the first k are wanted
            full = seen[:, -1] >= self.k
            chosen = member & (seen <= self.k) & full[:, None]
            lists = (self.lists if every else self.lists[left])[:, :width]
            out[left[full]] = lists[chosen].view(-1, self.k)
            left = left[~full]
            if len(left) == 0 or width == depth:
                break
        if len(left) > 0:
            subset = torch.nonzero(rank < m).flatten()  # ascending: ties go to the same anchor
            search = Neighbours(self.anchors[subset], self.k, device=self.device)
            out[left] = subset[search(self.queries[left]).indices]
        return out
