"""Verdicts: the rules, at and around their borders."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledgers import entry

from tvae import paper
from tvae.evaluation.statistics import CLEAR
from tvae.paper import comparison
from tvae.paper.claims import (
    BETTER,
    FAILS,
    HOLDS,
    OPEN,
    Comparison,
    cell,
    compare,
    judge,
    printed,
    rounding,
)
from tvae.runs import ledger
from tvae.runs.sweep import Job

numbers = st.floats(-10, 10)
errors = st.floats(0, 3)


@given(numbers, errors)
def test_a_gain_counts_where_its_interval_leaves_out_zero(difference, error):
    verdict = Comparison("gain", difference, error).verdict
    if not math.isclose(abs(difference), CLEAR * error, abs_tol=1e-8):
        assert (verdict == HOLDS) == (difference > CLEAR * error)
        assert (verdict == FAILS) == (difference < -CLEAR * error)


@given(numbers, errors)
def test_turning_a_comparison_around_turns_its_verdict_around(difference, error):
    turned = {HOLDS: FAILS, FAILS: HOLDS, OPEN: OPEN}
    one, other = (Comparison("", sign * difference, error).verdict for sign in (1, -1))
    assert other == turned[one]


@given(numbers, errors, st.floats(0, 5))
def test_agreement_is_judged_by_the_whole_interval(difference, error, within):
    verdict = Comparison("", difference, error, within).verdict
    low, high = abs(difference) - CLEAR * error, abs(difference) + CLEAR * error
    # at the border the last bits decide
    if not any(math.isclose(end, within, abs_tol=1e-8) for end in (low, high)):
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
    if FAILS in run:
        assert judged.verdict == FAILS
    elif not run:
        assert (judged.verdict, judged.reason) == (OPEN, "run missing")
    elif OPEN in run:
        assert (judged.verdict, judged.reason) == (OPEN, "difference within error")
    else:
        assert judged.verdict == HOLDS and judged.reason == ""


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
    # half of the 95 % interval, as in every table, so that a reader can check the verdict
    found = Comparison("A − VAE+", 0.0583, 0.0298)
    assert found.text() == "A − VAE+: +0.058 ± 0.058"
    assert found.interval(2) == "+0.06 ± 0.06"
    assert Comparison("A", -1.26).text(1) == "A: -1.3"
    assert Comparison("A", math.nan).text() == "A: no runs to compare"


def test_the_last_bits_do_not_decide():
    for one, two in ((0.76, 0.75), (0.46, 0.45), (0.98, 0.97), (0.31, 0.30)):
        assert Comparison("", one - two, rounding(2)).verdict == OPEN
        assert Comparison("", two - one, rounding(2)).verdict == OPEN
        assert Comparison("", one - two, rounding(2), within=0.02).verdict == HOLDS
        assert Comparison("", one - two, rounding(2), within=0.01).verdict == OPEN


@pytest.fixture
def filled(tmp_path):
    """M, VAE+ and pixels trained to the end, A and VAE+ for a while; every error is 0.03 or 0.04."""
    made = {}
    for model, action, d, tag in (
        ("tvae", "M", 26, ""),
        ("vae+", None, 25, ""),
        ("pixels", None, 784, ""),
        ("tvae", "A", 25, "while"),
        ("vae+", None, 25, "while"),
    ):
        error = {"knn_out": 0.04 if model == "vae+" else 0.03}
        job = Job("mnist", model, action, d=d, preset="book", tag=tag)
        value = entry(job, standard_errors=error)
        ledger.write(value, tmp_path)
        made[action or model, tag] = value.metrics["knn_out"]
    tables = [comparison.rows(results=tmp_path, schedule=s) for s in comparison.schedules(tmp_path)]
    assert len(tables) == 2
    return tables, made


def test_runs_are_compared_with_runs_trained_alike(filled):
    tables, made = filled
    for one, tag in (("M", ""), ("A", "while")):
        found = compare(tables, "mnist", one, "VAE+", "knn_out")
        assert found.what == f"{one} − VAE+ after 2 epochs"
        assert found.difference == pytest.approx(made[one, tag] - made["vae+", tag])
        assert found.error == pytest.approx(0.05)
        turned = compare(tables, "mnist", one, "VAE+", "knn_out", sign=-1, within=0.5)
        assert turned.difference == -found.difference and turned.within == 0.5
        assert turned.what == f"VAE+ − {one} after 2 epochs"
        pixels = compare(tables, "mnist", one, "pixels", "knn_out")
        assert pixels.difference == pytest.approx(made[one, tag] - made["pixels", ""])
    assert not compare(tables, "mnist", "A", "M", "knn_out").run  # both run, but not alike
    assert compare(tables, "mnist", "A", "M", "knn_out").what == "A − M"
    assert not compare(tables, "mnist", "A", "VAE", "knn_out").run
    assert not compare([], "mnist", "A", "VAE+", "knn_out").run


def test_printed_comparisons(filled):
    table = filled[0][0]
    found = printed(table, "mnist", "M", "VAE+", "mll", nominal=10, sign=-1)
    rows = [paper.row("mnist", *which, d=10) for which in (("tvae", "M"), ("vae+",))]
    assert found.difference == pytest.approx(rows[1]["mll"] - rows[0]["mll"])
    assert found.error == rounding(2)
    assert not printed(table, "omniglot", "A", "VAE", "knn_in").run
    with pytest.raises(ValueError, match="0 rows A of mnist with d = 7"):
        cell(table, "mnist", "A", 7)


def test_a_claim_of_agreement_can_fail_because_one_side_is_better():
    far = {"error": 0.01, "within": 0.1}
    assert Comparison("", 0.2, **far, better=1).verdict == BETTER
    assert Comparison("", -0.2, **far, better=1).verdict == FAILS
    assert Comparison("", -0.2, **far, better=-1).verdict == BETTER
    assert Comparison("", 0.2, **far).verdict == FAILS
    assert Comparison("", 0.05, **far, better=1).verdict == HOLDS
    assert Comparison("", 0.11, **far, better=1).verdict == OPEN
    both = judge([Comparison("", 0.2, **far, better=1), Comparison("", 0.0, **far, better=1)])
    assert (both.verdict, both.holding, both.failing) == (BETTER, 1, 1)
    mixed = judge([Comparison("", 0.2, **far, better=1), Comparison("", -0.2, **far, better=1)])
    assert (mixed.verdict, mixed.failing) == (FAILS, 2)
