"""Intervals, against numpy and against their own promise."""

import math

import numpy as np
import pytest
import torch

from tvae.evaluation.statistics import Z95, Interval, compare, grouped_error
from tvae.seeding import generator


def test_mean_and_half_are_those_of_numpy():
    values = torch.randn(50, generator=generator(0, "values"))
    found = Interval.of(values)
    array = values.double().numpy()
    assert found.mean == pytest.approx(np.mean(array))
    assert found.half == pytest.approx(1.96 * np.std(array, ddof=1) / math.sqrt(50), rel=1e-4)


def test_covers_the_truth_as_often_as_it_says():
    draws = 3 + torch.randn(2000, 200, generator=generator(0, "values"), dtype=torch.float64)
    found = [Interval.of(row) for row in draws]
    covered = sum(abs(f.mean - 3) <= f.half for f in found) / len(found)
    assert 0.93 < covered < 0.97  # four standard errors of a share of 2,000 are 0.02
    assert math.erf(Z95 / math.sqrt(2)) == pytest.approx(0.95, abs=1e-12)


def test_ratio_covers_the_truth_as_often_as_it_says():
    stream = generator(0, "ratio")
    below = 2 + torch.rand(2000, 200, generator=stream, dtype=torch.float64)
    above = 0.7 * below + 0.5 * torch.randn(2000, 200, generator=stream, dtype=torch.float64)
    found = [Interval.ratio(a, b) for a, b in zip(above, below, strict=True)]
    assert found[0].mean == pytest.approx(float(above[0].mean() / below[0].mean()))
    covered = sum(abs(f.mean - 0.7) <= f.half for f in found) / len(found)
    assert 0.93 < covered < 0.97
    with pytest.raises(ValueError, match="positive on average"):
        Interval.ratio(above[0], -below[0])


@pytest.mark.parametrize(("mean", "half", "sign"), [(2, 1, 1), (-2, 1, -1), (1, 2, 0), (-1, 2, 0)])
def test_sign_is_that_of_the_whole_interval(mean, half, sign):
    assert Interval(mean, half).sign == sign


def test_text():
    assert str(Interval(1.234, 0.056)) == "1.23 ± 0.06"
    assert f"{Interval(1.234, 0.056):+.1f}" == "+1.2 ± 0.1"


def test_compare_is_paired_and_says_which_way():
    noise = 100 * torch.randn(400, generator=generator(0, "noise"))
    small = 0.1 * torch.randn(400, generator=generator(0, "small"))
    text = compare("A", noise + 1 + small, "B", noise)
    assert "above, by 1.0" in text  # the common part, a hundred times as wide, drops out
    assert "below, by 1.0" in compare("B", noise, "A", noise + 1 + small)
    assert "not told apart" in compare("A", small, "B", small.flip(0))
    assert compare("A", small + 2, "B", small - small.mean(), unit="nats").count("nats") == 1


@pytest.mark.parametrize(
    "values", [torch.zeros(1), torch.zeros(3, 2), torch.tensor([1.0, math.nan])]
)
def test_what_has_no_interval_is_refused(values):
    with pytest.raises(ValueError, match="An interval needs"):
        Interval.of(values)
    with pytest.raises(ValueError, match="each image"):
        compare("A", torch.zeros(3), "B", torch.zeros(4))


def test_groups_of_one_give_the_plain_error_and_copies_do_not_help():
    values = torch.rand(200, generator=generator(3, "values"), dtype=torch.float64)
    plain = float(values.std()) / 200**0.5
    assert grouped_error(values, torch.arange(200)) == pytest.approx(plain, rel=1e-9)
    # the same values eight times over are no more certain than once
    copies, digits = values.repeat(8), torch.arange(200).repeat(8)
    assert grouped_error(copies, digits) == pytest.approx(plain, rel=1e-9)
    assert math.isnan(grouped_error(values, torch.zeros(200)))
    with pytest.raises(ValueError, match="its group"):
        grouped_error(values, torch.arange(10))
