"""Means with their standard errors, the one rule for when a difference is clear, and the bootstrap.

    gain = Estimate.of(nll_b - nll_a)        # paired: both models saw the same images
    print(f"{gain:.1f}")                     # 3.2 ± 0.4, a 95 % interval
    print(compare("A", a, "VAE", b))         # A 81.2, VAE 84.4: below, by 3.20 ± 0.40
    Estimate.of(right, digit)                # several queries show one digit: digits are counted
    bootstrap(jitter, curves)                # of what has no formula for its error

The images, or their groups, are taken as independent draws, the models as given: an interval says how
sure a number is for *these* weights. What another training run would give is another question.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

Array = np.ndarray[Any, np.dtype[np.float64]]

#: How many standard errors a difference has to be away from zero to be clear. A normal variable is
#: less than so many away from its mean with a probability of 95 %.
CLEAR = 1.959963984540054
#: The last bits of differences such as 0.76 − 0.75 decide nothing.
BITS = 1e-9
#: With fewer rows (seeds, say) than this, resampling them says nothing.
LEAST_ROWS = 4


def direction(difference: float, error: float = 0.0) -> int:
    """The rule for all of the book: 1 if a difference is clearly positive, −1 if clearly negative.

    It is 0, not decided, if the 95 % interval around it holds zero, or if difference or error (its
    standard error) is not a number.
    """
    beyond = CLEAR * error + BITS
    return int(difference > beyond) - int(difference < -beyond)


class Estimate(NamedTuple):
    """A mean and its standard error; written as the 95 % interval mean ± `half`."""

    mean: float
    standard_error: float

    @classmethod
    def of(cls, values: torch.Tensor, groups: torch.Tensor | None = None) -> Estimate:
        """From one value per image, (N,), with the `groups` (N,) they come in, if they do.

        Values of one group, such as 32 views of one digit, share what makes them easy or hard, so
        the groups are taken as independent draws: the error is that of a ratio of sums over groups.
        A single value or group has an unknown error, NaN.
        """
        if values.ndim != 1 or len(values) == 0:
            raise ValueError(f"A mean needs a value per image, (N,), not {tuple(values.shape)}.")
        values = values.double()
        mean = values.mean()
        if groups is None:
            n = len(values)
            return cls(float(mean), float(values.std()) / math.sqrt(n) if n > 1 else math.nan)
        if values.shape != groups.shape:
            raise ValueError(
                f"Each value needs its group: shapes {tuple(values.shape)} and "
                f"{tuple(groups.shape)}."
            )
        _, index = groups.unique(return_inverse=True)
        count = int(index.max()) + 1
        if count < 2:
            return cls(float(mean), math.nan)
        sums = torch.zeros(count, dtype=torch.float64)
        sums.index_add_(0, index.cpu(), (values - mean).cpu())
        error = math.sqrt(count / (count - 1) * float(sums.square().sum())) / len(values)
        return cls(float(mean), error)

    @classmethod
    def ratio(cls, above: torch.Tensor, below: torch.Tensor) -> Estimate:
        """Of the ratio of two means over the same images, (N,) each; `below` has a positive mean.

        The mean of the ratios would be at the mercy of images whose `below` is almost zero.
        """
        if above.shape != below.shape or not float(below.double().mean()) > 0:
            raise ValueError(
                "A ratio needs two values for each image, the second positive on average."
            )
        above, below = above.double(), below.double()
        ratio = above.mean() / below.mean()
        # to first order the ratio errs by the mean of these residuals
        return cls(float(ratio), cls.of((above - ratio * below) / below.mean()).standard_error)

    @property
    def half(self) -> float:
        """Half the length of the 95 % interval."""
        return CLEAR * self.standard_error

    @property
    def sign(self) -> int:
        """1 if the mean is clearly positive, −1 if clearly negative, else 0: see `direction`."""
        return direction(self.mean, self.standard_error)

    def __format__(self, spec: str) -> str:
        spec = spec or ".2f"
        return f"{self.mean:{spec}} ± {self.half:{spec.removeprefix('+')}}"

    def __str__(self) -> str:
        return format(self)


def compare(
    name_a: str,
    a: torch.Tensor,
    name_b: str,
    b: torch.Tensor,
    spec: str = ".2f",
    unit: str = "",
    groups: torch.Tensor | None = None,
) -> str:
    """Say whether the mean of `a` lies above or below that of `b`, values (N,) of the same images.

    The difference is taken image by image, its error as in `Estimate.of`. Where it is not clear the
    sentence says so.
    """
    if a.shape != b.shape:
        raise ValueError(
            f"Both need a value for each image: {tuple(a.shape)} and {tuple(b.shape)} differ."
        )
    a, b = a.double(), b.double()
    gap = Estimate.of(a - b, groups)
    unit = f" {unit}" if unit else ""
    means = f"{name_a} {float(a.mean()):{spec}}, {name_b} {float(b.mean()):{spec}}{unit}"
    if gap.sign == 0:
        return f"{means}: not told apart, difference {gap:{'+' + spec}}"
    word = "above" if gap.sign > 0 else "below"
    return f"{means}: {word}, by {gap._replace(mean=abs(gap.mean)):{spec}}"


@dataclass(frozen=True)
class Bootstrapped:
    """A value with its confidence interval; the ends are NaN where there are too few rows."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isnan(self.value):
            return "not measured"
        if math.isnan(self.low):
            return f"{self.value:.2f} (no interval)"
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


def central(samples: Array, level: float = 0.95) -> Array:
    """The central interval of bootstrap samples (B, ...) at that level: its two ends, (2, ...)."""
    if not 0 < level < 1:
        raise ValueError(f"The level must lie between 0 and 1, not be {level}.")
    return np.asarray(np.nanquantile(samples, [(1 - level) / 2, (1 + level) / 2], axis=0))


def bootstrap(
    statistic: Callable[..., Array],
    *groups: Array,
    draws: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> Bootstrapped:
    """A percentile bootstrap interval of a statistic of rows, such as the curves of several seeds.

    Whole rows are drawn with replacement, within each of `groups` (S, ...) by itself; `statistic`
    takes the drawn groups (draws, S, ...) and returns (draws,). With fewer than four rows in a group
    the interval is NaN.
    """
    if any(len(group) == 0 for group in groups):
        return Bootstrapped(math.nan, math.nan, math.nan)
    value = float(statistic(*groups))
    if math.isnan(value) or min(len(group) for group in groups) < LEAST_ROWS:
        return Bootstrapped(value, math.nan, math.nan)
    draw = np.random.default_rng(seed)
    drawn = [group[draw.integers(len(group), size=(draws, len(group)))] for group in groups]
    low, high = central(statistic(*drawn), level)
    return Bootstrapped(value, float(low), float(high))
