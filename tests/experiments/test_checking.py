"""Claims in words: printed where they hold, errors where they do not."""

from __future__ import annotations

import math

import pytest

from tvae.experiments.checking import check


def test_a_claim_that_holds_is_printed_with_its_margin(capsys):
    check("A is above VAE+", 0.034, above=0, digits=3)
    check("the digit turns back", True)
    check("angles agree", 1.52, above=-2.5, below=2, unit="°")
    check("the view is decoded", 95.2, below=100, digits=1, unit="nats")
    assert capsys.readouterr().out.splitlines() == [
        "✓ A is above VAE+: 0.034, above 0",
        "✓ the digit turns back",
        "✓ angles agree: 1.52°, above -2.5 and below 2",
        "✓ the view is decoded: 95.2 nats, below 100",
    ]


@pytest.mark.parametrize("found", [0.0, -1.0, math.nan])
def test_a_claim_that_fails_stops_with_what_was_found(found):
    with pytest.raises(AssertionError, match="does not hold here: A is above VAE"):
        check("A is above VAE+", found, above=0)
    with pytest.raises(AssertionError, match="does not hold"):
        check("never", False)


def test_a_run_that_was_cut_short_decides_nothing(capsys):
    check("A is above VAE+", -1.0, above=0, done=False)
    assert capsys.readouterr().out.startswith("– not decided")


def test_a_number_needs_a_bound():
    with pytest.raises(ValueError, match="checked against"):
        check("something", 1.0)
