"""How fast nearest neighbours are: 100,000 anchors, 32,000 queries, d = 25 and 100, k = 5.

    python benchmarks/knn.py [--anchors 100000] [--queries 32000] [--repeats 3] [--threads N] [--busy]

Ours against scikit-learn's brute force in float32, and against faiss (whose neighbours, too, are not
checked for rounding). Everything is timed from the arrays to the neighbours, building the index
included. All have to find the same neighbours before anything is timed.

The contenders take turns. A figure is the median over the turns, a ratio the median of the ratios
within a turn.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import faiss
import numpy as np
from _peers import add_timing, set_timing
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from tvae.evaluation import Neighbours

K, TARGET = 5, 2.5


def compare(d: int, options: argparse.Namespace, clock: Callable[[], float]) -> None:
    """Time all contenders at one dimension and print their rows."""
    rng = np.random.default_rng(0)
    anchors = rng.standard_normal((options.anchors, d), dtype=np.float32)
    queries = rng.standard_normal((options.queries, d), dtype=np.float32)

    def ours(q: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return Neighbours(anchors, K)(q).indices.numpy()

    def sklearn(q: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        found = NearestNeighbors(n_neighbors=K, algorithm="brute").fit(anchors)
        return found.kneighbors(q, return_distance=False)

    def by_faiss(q: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        index = faiss.IndexFlatL2(d)
        index.add(anchors)
        return index.search(q, K)[1]

    contenders: dict[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]] = {
        "ours": ours,
        "scikit-learn": sklearn,
        "faiss": by_faiss,
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    few = queries[:500]
    expected = ours(few)
    for name, find in contenders.items():
        same = float((find(few) == expected).mean())
        assert same > 0.999, f"{name} finds other neighbours: {same:.2%} agree"
    for _ in range(options.repeats):
        for name, find in contenders.items():
            start = clock()
            find(queries)
            times[name].append(clock() - start)
    for name in list(contenders)[1:]:
        ratio = statistics.median(
            other / mine for other, mine in zip(times[name], times["ours"], strict=True)
        )
        mine, peer = (statistics.median(times[key]) for key in ("ours", name))
        target = "–"
        if name == "scikit-learn":
            target = f"≥ {TARGET:g}: {'met' if ratio >= TARGET else 'NOT MET'}"
        what = f"neighbours, d = {d}, s, against {name}"
        print(f"{what:<52}{mine:>8.2f}{peer:>8.2f}{ratio:>7.2f}  {target}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--anchors", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=32_000)
    add_timing(parser, repeats=3)
    options = parser.parse_args()
    clock = set_timing(options)
    faiss.omp_set_num_threads(options.threads)
    print(
        f"{options.anchors:,} anchors, {options.queries:,} queries, k = {K}; "
        f"{options.threads} thread(s), median of {options.repeats} turns"
    )
    print(f"{'what':<52}{'ours':>8}{'peer':>8}{'ratio':>7}  target")
    with threadpool_limits(options.threads):
        for d in (25, 100):
            compare(d, options, clock)


if __name__ == "__main__":
    main()
