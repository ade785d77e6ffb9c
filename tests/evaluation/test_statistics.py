"""Intervals, against numpy and against their own promise."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from tvae.evaluation.statistics import CLEAR, Estimate, bootstrap, central, compare, direction
from tvae.seeding import generator


def test_mean_and_half_are_those_of_numpy():
    values = torch.randn(50, generator=generator(0, "values"))
    found = Estimate.of(values)
    array = values.double().numpy()
    assert found.mean == pytest.approx(np.mean(array))
    assert found.half == pytest.approx(1.96 * np.std(array, ddof=1) / math.sqrt(50), rel=1e-4)


def test_covers_the_truth_as_often_as_it_says():
    draws = 3 + torch.randn(2000, 200, generator=generator(0, "values"), dtype=torch.float64)
    found = [Estimate.of(row) for row in draws]
    covered = sum(abs(f.mean - 3) <= f.half for f in found) / len(found)
    assert 0.93 < covered < 0.97  # four standard errors of a share of 2,000 are 0.02
    assert math.erf(CLEAR / math.sqrt(2)) == pytest.approx(0.95, abs=1e-12)


def test_ratio_covers_the_truth_as_often_as_it_says():
    stream = generator(0, "ratio")
    below = 2 + torch.rand(2000, 200, generator=stream, dtype=torch.float64)
    above = 0.7 * below + 0.5 * torch.randn(2000, 200, generator=stream, dtype=torch.float64)
    found = [Estimate.ratio(a, b) for a, b in zip(above, below, strict=True)]
    assert found[0].mean == pytest.approx(float(above[0].mean() / below[0].mean()))
    covered = sum(abs(f.mean - 0.7) <= f.half for f in found) / len(found)
    assert 0.93 < covered < 0.97
    with pytest.raises(ValueError, match="positive on average"):
        Estimate.ratio(above[0], -below[0])


@pytest.mark.parametrize(
    ("difference", "error", "expected"),
    [
        (2, 1, 1),
        (-2, 1, -1),
        (1.95, 1, 0),
        (-1.95, 1, 0),
        (0.76 - 0.75, 0.01 / CLEAR, 0),  # at the border, whatever the last bits say
        (0.1, 0, 1),
        (0, 0, 0),
        (math.nan, 0, 0),
        (5, math.nan, 0),
    ],
)
def test_clear_is_what_lies_beyond_the_whole_interval(difference, error, expected):
    assert direction(difference, error) == expected
    assert Estimate(difference, error).sign == expected


def test_text():
    assert str(Estimate(1.234, 0.056 / CLEAR)) == "1.23 ± 0.06"
    assert f"{Estimate(1.234, 0.056 / CLEAR):+.1f}" == "+1.2 ± 0.1"


def test_compare_is_paired_and_says_which_way():
    noise = 100 * torch.randn(400, generator=generator(0, "noise"))
    small = 0.1 * torch.randn(400, generator=generator(0, "small"))
    text = compare("A", noise + 1 + small, "B", noise)
    assert "above, by 1.0" in text  # the common part, a hundred times as wide, drops out
    assert "below, by 1.0" in compare("B", noise, "A", noise + 1 + small)
    assert "not told apart" in compare("A", small, "B", small.flip(0))
    assert compare("A", small + 2, "B", small - small.mean(), unit="nats").count("nats") == 1


def test_compare_counts_groups():
    """Sixteen copies of a weak difference do not make it a strong one."""
    values = torch.randn(100, generator=generator(1, "weak"))
    values += 0.1 - values.mean()  # one standard error above zero, or four if copies counted
    copies, groups = values.repeat(16), torch.arange(100).repeat(16)
    zero = torch.zeros(1600)
    assert "above" in compare("A", copies, "B", zero)
    assert "not told apart" in compare("A", copies, "B", zero, groups=groups)


def test_what_has_no_mean_is_refused_and_what_has_no_error_is_not_clear():
    for values in (torch.zeros(0), torch.zeros(3, 2)):
        with pytest.raises(ValueError, match="A mean needs a value per image"):
            Estimate.of(values)
    with pytest.raises(ValueError, match="each image"):
        compare("A", torch.zeros(3), "B", torch.zeros(4))
    with pytest.raises(ValueError, match="its group"):
        Estimate.of(torch.zeros(3), torch.arange(10))
    for alone in (
        Estimate.of(torch.tensor([5.0])),
        Estimate.of(torch.tensor([5.0, 5.0]), torch.tensor([7, 7])),
    ):
        assert alone.mean == 5 and math.isnan(alone.standard_error) and alone.sign == 0


def test_groups_against_textbook_cases():
    values = torch.from_numpy(np.random.default_rng(8).random(60))
    alone = Estimate.of(values)
    assert alone == pytest.approx((float(values.mean()), stats.sem(values.numpy())))
    assert Estimate.of(values, torch.arange(60)) == pytest.approx(alone)
    # groups of the same size: the standard error of the groups' means
    groups = torch.arange(60) % 12
    means = np.array([values[groups == g].mean() for g in range(12)])
    assert Estimate.of(values, groups) == pytest.approx((means.mean(), stats.sem(means)))
    # five copies of everything say no more than one
    assert Estimate.of(values.repeat(5), torch.arange(60).repeat(5)) == pytest.approx(alone)
    assert Estimate.of(values.repeat(5)).standard_error < 0.6 * alone.standard_error


def test_groups_against_the_bootstrap():
    """Unequal groups of dependent answers: resampling whole groups gives the same error."""
    rng = np.random.default_rng(9)
    groups = np.repeat(np.arange(150), rng.integers(1, 6, 150))
    values = (rng.random(len(groups)) < rng.random(150)[groups]).astype(float)
    sums = np.bincount(groups, values)
    counts = np.bincount(groups)
    drawn = rng.integers(0, 150, (4000, 150))
    means = sums[drawn].sum(1) / counts[drawn].sum(1)
    found = Estimate.of(torch.from_numpy(values), torch.from_numpy(groups))
    assert found.standard_error == pytest.approx(means.std(), rel=0.1)


def test_the_bootstrap_of_a_mean_has_its_standard_error():
    rows = np.random.default_rng(3).normal(size=(60, 4)) * (1, 2, 3, 4)
    found = bootstrap(lambda drawn: drawn.mean((-2, -1)), rows, draws=4000)
    expected = Estimate.of(torch.from_numpy(rows.mean(1)))
    assert found.value == pytest.approx(expected.mean)
    assert (found.high - found.low) / 2 == pytest.approx(expected.half, rel=0.1)
    assert found == bootstrap(lambda drawn: drawn.mean((-2, -1)), rows, draws=4000)
    assert str(found) == f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"
    few = bootstrap(lambda drawn: drawn.mean((-2, -1)), rows[:3])
    assert few.value == pytest.approx(rows[:3].mean()) and math.isnan(few.low)
    assert "no interval" in str(few)
    assert str(bootstrap(np.mean, rows[:0])) == "not measured"


def test_the_central_interval():
    ends = central(np.arange(1001.0)[:, None].repeat(3, 1))
    np.testing.assert_allclose(ends, [[25.0] * 3, [975.0] * 3])
    with pytest.raises(ValueError, match="between 0 and 1"):
        central(np.arange(5.0), level=95)
