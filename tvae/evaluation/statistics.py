"""Means over test images with their 95 % confidence intervals, and sentences that compare them.

    gain = Interval.of(nll_b - nll_a)        # paired: both models saw the same images
    print(f"{gain:.1f}")                     # 3.2 ± 0.4
    print(compare("A", a, "VAE", b))         # A 81.2, VAE 84.4: below, by 3.20 ± 0.40

The images are taken as independent draws, the models as given: an interval says how sure a number is
for *these* weights. What another training run would give is another question.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

__all__ = ["Z95", "Interval", "compare", "grouped_error"]

#: A standard normal variable lies between −Z95 and Z95 with a probability of 95 %.
Z95 = 1.959963984540054


@dataclass(frozen=True)
class Interval:
    """The interval mean ± half."""

    mean: float
    half: float

    @classmethod
    def of(cls, values: torch.Tensor) -> Interval:
        """From one value per image, (N,): their mean and 1.96 of its standard errors."""
        if values.ndim != 1 or len(values) < 2:
            raise ValueError(
                f"An interval needs the values of at least two images, (N,), not {tuple(values.shape)}."
            )
        values = values.double()
        if not bool(values.isfinite().all()):
            raise ValueError("An interval needs finite values.")
        return cls(float(values.mean()), Z95 * float(values.std()) / math.sqrt(len(values)))

    @classmethod
    def ratio(cls, above: torch.Tensor, below: torch.Tensor) -> Interval:
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
        residual = cls.of((above - ratio * below) / below.mean())
        return cls(float(ratio), residual.half)

    @property
    def sign(self) -> int:
        """1 if all of the interval is positive, −1 if all of it is negative, else 0."""
        return int(self.mean > self.half) - int(self.mean < -self.half)

    def __format__(self, spec: str) -> str:
        spec = spec or ".2f"
        return f"{self.mean:{spec}} ± {self.half:{spec.removeprefix('+')}}"

    def __str__(self) -> str:
        return format(self)


def grouped_error(values: torch.Tensor, groups: torch.Tensor) -> float:
    """The standard error of the mean of `values` (N,) that come in `groups` (N,), such as 32 views of
    one digit each.

    Values of one group share what makes them easy or hard, so the groups, not the values, are taken as
    independent draws: the error of a ratio of sums over groups. NaN for a single group.
    """
    if values.ndim != 1 or values.shape != groups.shape:
        raise ValueError(
            f"Each value needs its group: shapes {tuple(values.shape)} and {tuple(groups.shape)}."
        )
    _, index = groups.unique(return_inverse=True)
    count = int(index.max()) + 1
    if count < 2:
        return math.nan
    residual = values.double() - values.double().mean()
    sums = torch.zeros(count, dtype=torch.float64).index_add_(0, index.cpu(), residual.cpu())
    return math.sqrt(count / (count - 1) * float(sums.square().sum())) / len(values)


def compare(
    name_a: str, a: torch.Tensor, name_b: str, b: torch.Tensor, spec: str = ".2f", unit: str = ""
) -> str:
    """Say whether the mean of `a` lies above or below that of `b`, values (N,) of the same images.

    The difference is taken image by image. Where its interval holds zero the sentence says so.
    """
    if a.shape != b.shape:
        raise ValueError(
            f"Both need a value for each image: {tuple(a.shape)} and {tuple(b.shape)} differ."
        )
    gap = Interval.of(a.double() - b.double())
    unit = f" {unit}" if unit else ""
    means = (
        f"{name_a} {float(a.double().mean()):{spec}}, {name_b} {float(b.double().mean()):{spec}}"
    )
    if gap.sign == 0:
        return f"{means}{unit}: not told apart, difference {gap:{'+' + spec}}"
    word = "above" if gap.sign > 0 else "below"
    return f"{means}{unit}: {word}, by {Interval(abs(gap.mean), gap.half):{spec}}"
