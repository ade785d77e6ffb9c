"""Whether a claim holds, by rules that are fixed before the numbers are looked at.

A claim consists of comparisons: this number minus that one should be positive, or the two should
agree to within a margin. A comparison holds, or does not, if its difference is clear of the border
(`tvae.evaluation.statistics.direction`: the 95 % interval leaves it out); otherwise, and where a number
is missing, it is not decided. A claim of agreement can also fail to the credit of what it is about: two
numbers are too far apart, and the first is the better one.

    gains = [Comparison("A − VAE+", 0.06, 0.004), Comparison("M − VAE+", math.nan)]
    judge(gains).verdict           # 'holds': what was run holds
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from tvae.evaluation.statistics import BITS, CLEAR, direction

HOLDS = "holds"
FAILS = "does not hold"
BETTER = "fails because better"
OPEN = "not decided here"
_VERDICTS = {1: HOLDS, 0: OPEN, -1: FAILS}


@dataclass(frozen=True)
class Comparison:
    """A difference that a claim says is positive or, with `within`, at most so far from zero.

    `error` is the standard error of the difference. A difference that is not a number stands for a
    run that is missing; an error that is not a number for a difference whose error is not known.
    `better` says which sign of the difference is to the credit of the first, 0 if neither is.
    """

    what: str
    difference: float
    error: float = 0.0
    within: float | None = None
    better: int = 0

    @property
    def run(self) -> bool:
        """Whether there is a difference at all."""
        return not math.isnan(self.difference)

    @property
    def verdict(self) -> str:
        """`HOLDS`, `FAILS`, `BETTER` or `OPEN`."""
        if self.within is None:
            return _VERDICTS[direction(self.difference, self.error)]
        room = self.within - abs(self.difference)  # how far on the good side of the border
        # at the border itself a claim of agreement holds, where one of a difference is open
        at_border = math.isclose(room, CLEAR * self.error, abs_tol=BITS)
        found = HOLDS if at_border else _VERDICTS[direction(room, self.error)]
        return BETTER if found == FAILS and self.better * self.difference > 0 else found

    def interval(self, digits: int = 3) -> str:
        """`+0.058 ± 0.008`: the difference and half of its 95 % interval, by which it is judged."""
        half = "" if self.error == 0 else f" ± {CLEAR * self.error:.{digits}f}"
        return f"{self.difference:+.{digits}f}{half}"

    def text(self, digits: int = 3) -> str:
        """`A − VAE+: +0.058 ± 0.008`."""
        if not self.run:
            return f"{self.what}: no runs to compare"
        return f"{self.what}: {self.interval(digits)}"


@dataclass(frozen=True)
class Judgement:
    """The verdict on a claim, why it was not decided if it was not, and how many comparisons say so."""

    verdict: str
    reason: str
    holding: int
    failing: int
    undecided: int


def judge(comparisons: Iterable[Comparison]) -> Judgement:
    """A claim holds if all its comparisons that were run do, and fails if one of them fails.

    It is not decided if none was run, or if none fails but some lie within the error. If all that
    fail do so because the first number is better, so does the claim.
    """
    given = list(comparisons)
    if not given:
        raise ValueError("A claim needs at least one comparison.")
    run = [c for c in given if c.run]
    verdicts = [c.verdict for c in run]
    holding, undecided, better = (verdicts.count(v) for v in (HOLDS, OPEN, BETTER))
    failing = verdicts.count(FAILS) + better
    verdict, reason = HOLDS, ""
    if not run:
        verdict, reason = OPEN, "run missing"
    elif failing:
        verdict = BETTER if failing == better else FAILS
    elif undecided:
        verdict, reason = OPEN, "difference within error"
    return Judgement(verdict, reason, holding, failing, undecided)


def rounding(digits: int) -> float:
    """The `error` that makes a difference of two printed numbers clear only if rounding cannot undo it.

    Both may be off by half a unit of their last digit, so the difference by one unit.
    """
    return 10.0**-digits / CLEAR


def cell(table: pd.DataFrame, dataset: str, label: str, nominal: int = 25) -> pd.Series:
    """One row of the table of `comparison.rows`; raw pixels are the same for every `nominal` d."""
    part = table[(table["dataset"] == dataset) & (table["label"] == label)]
    part = part[part["nominal"].isin((nominal, 0))]
    if len(part) != 1:
        raise ValueError(f"The table has {len(part)} rows {label} of {dataset} with d = {nominal}.")
    return part.iloc[0]


def compare(
    tables: pd.DataFrame | Sequence[pd.DataFrame],
    dataset: str,
    one: str,
    two: str,
    metric: str,
    *,
    sign: int = 1,
    within: float | None = None,
    better: int = 0,
    nominal: int = 25,
) -> Comparison:
    """`sign` times (`one` minus `two`) in `metric`, with the error of the difference of two estimates.

    `tables` are those of `comparison.rows` (single runs) or `comparison.averages` (means over seeds, with
    the error between them) for one schedule each, the longest training first: runs are compared only
    with runs that were trained alike, for as long as both of them have been. With `metric`
    "knn_out_paper", say, it is the difference of what the paper prints, with the error that rounding
    makes.
    """
    what = f"{one} − {two}" if sign > 0 else f"{two} − {one}"
    for table in [tables] if isinstance(tables, pd.DataFrame) else tables:
        a, b = (cell(table, dataset, label, nominal) for label in (one, two))
        if pd.isna(a[metric]) or pd.isna(b[metric]):
            continue
        if metric.endswith("_paper"):
            error = rounding(2)
        else:
            error = math.hypot(a[f"{metric}_se"], b[f"{metric}_se"])
            if not pd.isna(a["epochs"]):
                what += f" after {a['epochs']:.0f} epochs"
        return Comparison(what, float(sign * (a[metric] - b[metric])), error, within, better)
    return Comparison(what, math.nan, math.nan, within, better)


def printed(
    table: pd.DataFrame, dataset: str, one: str, two: str, metric: str, **options: Any
) -> Comparison:
    """`compare` for the numbers that the paper prints."""
    return compare(table, dataset, one, two, f"{metric}_paper", **options)
