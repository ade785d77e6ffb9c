"""The chapter on stability: how far the numbers of a run move from epoch to epoch.

    runs = stability.walks("mnist")                   # NLL(x0) and KL0 by epoch, every run of the ledger
    half = stability.later(runs[0].values)            # the second half of its epochs, (E, 2)
    stability.roughness(half[:, 0])                   # nats by which an epoch departs from a line
    stability.coupling(half[None])                    # do NLL and KL0 move against each other?
    stability.last_epoch(entry)                       # the last NLL(x0), with the error of that walk

There is one measure of how rough a curve is, `roughness`: the standard deviation of its epochs about a
straight line. It is meant for the second half of a run. Where a curve still bends, the bend counts as
well, so that it is an upper bound there.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tvae.evaluation.statistics import Array, Estimate
from tvae.files import AnyPath
from tvae.paper.comparison import roughness as roughness
from tvae.runs import ledger
from tvae.runs.name import RunName

Statistic = Callable[..., Array]

#: The two quantities whose sum is the negative ELBO of x0.
PLANE = ("test_nllx0", "test_kl0")


# --- what the ledger holds ----------------------------------------------------------------------


@dataclass(frozen=True)
class Walk:
    """Where one run was after each epoch, on its test images."""

    label: str  # as in the tables: "A", "M^R", "VAE"
    d: int
    seed: int
    values: Array  # (E, 2): NLL(x0) and KL0
    entry: ledger.Entry

    @property
    def has_action(self) -> bool:
        """Whether it is a T-VAE."""
        return self.label not in ("VAE", "VAE+")


def walks(
    dataset: str,
    *,
    preset: str = "book",
    tag: str = "",
    results: AnyPath | None = None,
) -> list[Walk]:
    """Every finished training run on `dataset` of that preset and tag, of whatever d and seed."""
    found = []
    for entry in ledger.entries(results):
        its = entry.configuration
        here = (its.dataset, its.preset, its.tag) == (dataset, preset, tag)
        if here and entry.status == "ok" and entry.curve:
            values = np.array([[row[name] for name in PLANE] for row in entry.curve], dtype=float)
            found.append(Walk(RunName.of(its).label, its.d, its.seed, values, entry))
    return found


# --- how far curves move ------------------------------------------------------------------------


def later(curve: Array) -> Array:
    """The second half of the epochs, which are the first axis: (E, ...) → (E − E // 2, ...)."""
    return curve[len(curve) // 2 :]


def pooled(curves: Array) -> Array:
    """The roughness of several runs as one number, its root mean square: (..., R, E) → (...)."""
    return np.asarray(np.sqrt(np.square(roughness(curves)).mean(axis=-1)))


def coupling(walks: Array) -> Array:
    """The correlation of the steps of NLL and of KL0 from epoch to epoch: (..., R, E, 2) → (...).

    Pooled over the runs, each about its own mean step, so that a steady descent does not count.
    """
    steps = np.diff(walks, axis=-2)
    steps = steps - steps.mean(axis=-2, keepdims=True)
    nll, kl = steps[..., 0], steps[..., 1]
    sums = [(a * b).sum(axis=(-2, -1)) for a, b in ((nll, kl), (nll, nll), (kl, kl))]
    return np.asarray(sums[0] / np.sqrt(sums[1] * sums[2]))


def ratio(measure: Statistic) -> Statistic:
    """The statistic `measure` of one set of curves divided by that of another."""

    def quotient(these: Array, those: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(measure(these) / measure(those))

    return quotient


def last_epoch(entry: ledger.Entry, *quantities: str) -> Estimate:
    """What a run ended with, as a draw from its walk: the last epoch's value and its error.

    The value is the sum of `quantities` of the curve after the last epoch, by default the NLL of the
    test x0; with `*PLANE` it is the negative ELBO. The error is the roughness of the second half of
    the curve: how far the run would have ended elsewhere, had it stopped at another epoch. The
    choice of test images and of the seed is not in it.
    """
    names = quantities or PLANE[:1]
    curve = np.array([[row[name] for name in names] for row in entry.curve], dtype=float).sum(1)
    return Estimate(float(curve[-1]), float(roughness(later(curve))))
