"""How fast nearest neighbours are: 100,000 anchors, 32,000 queries, d = 25, k = 5.

    python benchmarks/knn.py [--anchors 100000] [--queries 32000] [--repeats 3] [--threads N] [--busy]

Ours, with candidates from torch (the default) and from faiss, against scikit-learn's brute force in
float32, and faiss alone for comparison (whose neighbours are not checked for rounding). Everything is
timed from the arrays to the neighbours, building the index included. All have to find the same
neighbours before anything is timed.

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

D, K, TARGET = 25, 5, 1.8


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--anchors", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=32_000)
    add_timing(parser, repeats=3)
    options = parser.parse_args()
    clock = set_timing(options)
    faiss.omp_set_num_threads(options.threads)

    rng = np.random.default_rng(0)
    anchors = rng.standard_normal((options.anchors, D), dtype=np.float32)
    queries = rng.standard_normal((options.queries, D), dtype=np.float32)

    def ours(q: np.ndarray[Any, Any], backend: str = "torch") -> np.ndarray[Any, Any]:
        return Neighbours(anchors, K, backend=backend)(q).indices.numpy()

    def sklearn(q: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        found = NearestNeighbors(n_neighbors=K, algorithm="brute").fit(anchors)
        return found.kneighbors(q, return_distance=False)

    def faiss_alone(q: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        index = faiss.IndexFlatL2(D)
        index.add(anchors)
        return index.search(q, K)[1]

    contenders: dict[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]] = {
        "ours": ours,
        "scikit-learn": sklearn,
        "ours with candidates from faiss": lambda q: ours(q, "faiss"),
        "faiss alone": faiss_alone,
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    with threadpool_limits(options.threads):
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

    print(
        f"{options.anchors:,} anchors, {options.queries:,} queries, d = {D}, k = {K}; "
        f"{options.threads} thread(s), median of {options.repeats} turns"
    )
    print(f"{'what':<52}{'ours':>8}{'peer':>8}{'ratio':>7}  target")
    for name in list(contenders)[1:]:
        ratio = statistics.median(
            other / mine for other, mine in zip(times[name], times["ours"], strict=True)
        )
        mine, peer = (statistics.median(times[key]) for key in ("ours", name))
        target = "–"
        if name == "scikit-learn":
            target = f"≥ {TARGET:g}: {'met' if ratio >= TARGET else 'NOT MET'}"
        print(
            f"{'neighbours, s, against ' + name:<52}{mine:>8.2f}{peer:>8.2f}{ratio:>7.2f}  {target}"
        )


if __name__ == "__main__":
    main()
