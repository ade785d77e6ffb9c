"""The chapter on stability: how noisy training is, by its curves over several seeds.

    vae = stability.from_ledger("VAE")           # curves (S, E): S seeds, E epochs
    a = stability.from_ledger("A")
    stability.jitter(a.values) / stability.jitter(vae.values)
    bootstrap(stability.ratio(stability.jitter), a.values, vae.values)   # of evaluation.statistics

A curve y_s(e) of seed s is thought of as f(e) + a_s + b_s·e + ε_s(e): a course that all seeds share,
a level and a slope of its own, and noise from epoch to epoch. `spread` sees a, b and ε together,
`jitter` sees ε alone, and `roughness` sees ε and the bends of f. So take `jitter` where there are
several seeds, `roughness` for a single curve, or for each of several by itself, that hardly bends;
`relative_spread` and `relative_jitter` where the levels of two models differ.

All measures act on the last two axes, so that they take many sets of curves (..., S, E) at once.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvae.files import AnyPath
from tvae.runs import ledger
from tvae.runs.name import RunName

Array = np.ndarray[Any, np.dtype[np.float64]]
Statistic = Callable[..., Array]

#: The seeds of the comparison, as many as in the paper's appendix C.
SEEDS = tuple(range(10))
# Independent noise of variance 1 has second differences of variance 1 + 4 + 1.
_SECOND_DIFFERENCE = 6.0


@dataclass(frozen=True)
class Curves:
    """One quantity epoch by epoch, for several seeds of the same run."""

    label: str  # as in the tables: "A", "VAE"
    values: Array  # (S, E), one row for each of `seeds`
    seeds: tuple[int, ...]
    missing: tuple[int, ...] = ()  # the seeds that were asked for and are not there


def from_ledger(
    label: str,
    *,
    dataset: str = "mnist",
    d: int = 25,
    tag: str = "stability",
    quantity: str = "test_nllx0",
    seeds: Iterable[int] = SEEDS,
    results: AnyPath | None = None,
) -> Curves:
    """The curves of the runs `label` (as in the tables: `A`, `M^R`, `VAE`) that the ledger holds.

    Seeds without a run, or whose run failed, are named in `missing`. Runs that differ in more than
    their seed, or were made from other images, cannot be compared: a `LedgerError` says so.
    """
    wanted = tuple(seeds)
    found: dict[int, list[float | None]] = {}
    settings: dict[str, Any] | None = None
    for entry in ledger.entries(results):
        its = entry.configuration
        same = (its.dataset, its.d, its.tag, RunName.of(its).label) == (dataset, d, tag, label)
        if not same or its.seed not in wanted or entry.status != "ok":
            continue
        images = {split: entry.data[split].checksum for split in ("train", "test")}
        here = {**its.to_dict(), "seed": None, **images}
        if settings is not None and here != settings:
            differing = sorted(key for key in here if here[key] != settings.get(key))
            raise ledger.LedgerError(
                f"The runs {entry.name} tagged {tag!r} differ in {', '.join(differing)}, not only "
                "in their seed, and cannot be compared."
            )
        settings = here
        found[its.seed] = [row[quantity] for row in entry.curve]
    there = tuple(seed for seed in wanted if seed in found)
    values = np.array([found[seed] for seed in there], dtype=np.float64)
    return Curves(
        label,
        values.reshape(len(there), -1) if there else np.empty((0, 0)),
        there,
        tuple(seed for seed in wanted if seed not in found),
    )


def spread(curves: Array) -> Array:
    """The standard deviation over seeds at each epoch: (..., S, E) → (..., E); NaN for one seed."""
    if curves.shape[-2] < 2:
        return np.full((*curves.shape[:-2], curves.shape[-1]), np.nan)
    return np.asarray(curves.std(axis=-2, ddof=1))


def relative_spread(curves: Array) -> Array:
    """The spread as a share of the level, root mean square over the epochs: (..., S, E) → (...)."""
    return np.asarray(np.sqrt(np.square(spread(curves) / curves.mean(axis=-2)).mean(axis=-1)))


def roughness(curves: Array) -> Array:
    """How rough each curve is by itself: (..., S, E) → (..., S).

    The root mean square of the second differences y(e−1) − 2y(e) + y(e+1), in units of the noise:
    independent noise of standard deviation σ about a straight line gives σ on average (of squares).
    A curve that bends without any noise is rough, too. NaN for fewer than three epochs.
    """
    if curves.shape[-1] < 3:
        return np.full(curves.shape[:-1], np.nan)
    second = np.diff(curves, n=2, axis=-1)
    return np.asarray(np.sqrt(np.square(second).mean(axis=-1) / _SECOND_DIFFERENCE))


def jitter(curves: Array) -> Array:
    """The noise from epoch to epoch, whatever course all seeds share: (..., S, E) → (...).

    The second differences of each curve's deviation from the mean curve, squared, summed and
    divided by 6(S − 1)(E − 2): an unbiased estimate of σ² if y_s(e) = f(e) + a_s + b_s·e + ε_s(e)
    with independent ε of variance σ²; this is its root. NaN for one seed or fewer than three epochs.
    """
    seeds, epochs = curves.shape[-2:]
    if seeds < 2 or epochs < 3:
        return np.full(curves.shape[:-2], np.nan)
    second = np.diff(curves - curves.mean(axis=-2, keepdims=True), n=2, axis=-1)
    total = np.square(second).sum(axis=(-2, -1))
    return np.asarray(np.sqrt(total / (_SECOND_DIFFERENCE * (seeds - 1) * (epochs - 2))))


def relative_jitter(curves: Array) -> Array:
    """The jitter of curves as shares of the level of each epoch: (..., S, E) → (...)."""
    return jitter(curves / curves.mean(axis=-2, keepdims=True))


def ratio(measure: Statistic) -> Statistic:
    """The statistic `measure` of one set of curves divided by that of another."""

    def quotient(these: Array, those: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(measure(these) / measure(those))

    return quotient
