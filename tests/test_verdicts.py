"""Verdicts: the rules, at and around their borders."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvae.verdicts import FAILS, HOLDS, OPEN, Comparison, judge, rounding

numbers = st.floats(-10, 10)
errors = st.floats(0, 3)


@given(numbers, errors)
def test_a_gain_counts_beyond_two_errors(difference, error):
    verdict = Comparison("gain", difference, error).verdict
    assert (verdict == HOLDS) == (difference > 2 * error)
    assert (verdict == FAILS) == (difference < -2 * error)


@given(numbers, errors)
def test_turning_a_comparison_around_turns_its_verdict_around(difference, error):
    turned = {HOLDS: FAILS, FAILS: HOLDS, OPEN: OPEN}
    one, other = (Comparison("", sign * difference, error).verdict for sign in (1, -1))
    assert other == turned[one]


@given(numbers, errors, st.floats(0, 5))
def test_agreement_is_judged_by_the_whole_interval(difference, error, within):
    verdict = Comparison("", difference, error, within).verdict
    low, high = abs(difference) - 2 * error, abs(difference) + 2 * error
    # exactly at the border the two ways of writing it may differ by rounding
    if not math.isclose(high, within, abs_tol=1e-9) and not math.isclose(low, within, abs_tol=1e-9):
        assert (verdict == HOLDS) == (high < within)
        assert (verdict == FAILS) == (low > within)


def test_the_unknown_is_not_decided():
    assert Comparison("", math.nan).verdict == OPEN
    assert Comparison("", 5.0, math.nan).verdict == OPEN
    assert Comparison("", 0.0).verdict == OPEN
    assert Comparison("", 0.0, 0.0, within=0.0).verdict == HOLDS


@given(st.lists(st.tuples(st.one_of(numbers, st.just(math.nan)), errors), min_size=1, max_size=6))
def test_a_claim_is_as_good_as_its_worst_comparison(pairs):
    comparisons = [Comparison(str(i), *pair) for i, pair in enumerate(pairs)]
    judged = judge(comparisons)
    run = [c.verdict for c in comparisons if c.run]
    assert judged.holding + judged.failing + judged.undecided == len(run)
    assert len(judged.missing) == len(comparisons) - len(run)
    if FAILS in run:
        assert judged.verdict == FAILS
    elif not run:
        assert (judged.verdict, judged.reason) == (OPEN, "run missing")
    elif OPEN in run:
        assert (judged.verdict, judged.reason) == (OPEN, "difference within error")
    else:
        assert judged.verdict == HOLDS and judged.reason == ""
    for name in judged.missing:
        assert not run or name in str(judged)


def test_a_claim_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one comparison"):
        judge([])


@pytest.mark.parametrize("digits", [1, 2])
def test_printed_numbers_differ_only_beyond_their_rounding(digits):
    unit = 10.0**-digits
    error = rounding(digits)
    assert Comparison("", 0.9 * unit, error).verdict == OPEN
    assert Comparison("", 1.1 * unit, error).verdict == HOLDS
    assert Comparison("", -1.1 * unit, error).verdict == FAILS


def test_text():
    assert Comparison("A − VAE+", 0.0583, 0.0041).text() == "A − VAE+: +0.058 ± 0.004"
    assert Comparison("A", -1.26).text(1) == "A: -1.3"
    assert Comparison("A", math.nan).text() == "A: not run"
