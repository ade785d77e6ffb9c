"""Lending measured: against models whose answers are known, and transitions that are solved for."""

from __future__ import annotations

import pytest
import torch

import tvae
from tvae import actions
from tvae.experiments import lending
from tvae.experiments.lending import Line, Scorecard
from tvae.seeding import generator
from tvae.transforms import Triplets


def card(letter="E", n=6, **options):
    model = tvae.TVAE(4, action=letter, action_options=options, generator=generator(0, "weights"))
    model.triplets = Triplets(("rotation",), "exact")
    digits = tvae.data.load("mnist", "test", source="embedded").floats(range(2 * n))
    return Scorecard(model.eval().requires_grad_(False), digits[:n], digits[n:])


def test_a_line_of_exact_readings_and_of_half_of_them():
    true = torch.tensor([-20.0, -10.0, 10.0, 20.0])
    exact = Line.of(true.expand(30, 4), true)
    assert exact.slope == pytest.approx((1, 1, 1)) and exact.error == pytest.approx((0, 0, 0))
    noise = torch.randn(30, 4, generator=generator(0, "readings"))
    half = Line.of(0.5 * true + noise, true)
    assert half.slope[1] < half.slope[0] < half.slope[2]
    assert half.slope[0] == pytest.approx(0.5, abs=0.05) and half.correlation[0] > 0.95
    gap, low, high = lending.difference(true.expand(30, 4), 0.5 * true + noise, true)
    assert low < gap < high and gap == pytest.approx(1 - half.slope[0])
    assert half.text()["slope"].count("0.") == 3


def test_readings_of_true_images_are_true():
    """A model that decodes the true view, whatever τ: the reader finds the angle."""
    one = card()
    for family, values in {"rotation": (-20.0, 20.0), "translation": (-4.0, 4.0)}.items():
        images = [one.views(one.receivers, family, value)[0] for value in values]
        found = one.reader(family)(torch.stack(images, 1)).value
        assert float((found - torch.tensor(values)).abs().max()) < 1.0


def test_the_receivers_own_tau_is_borrowed_from_itself():
    one = card()
    same = Scorecard(one.model, one.receivers, one.receivers)
    own, borrowed = same.readings("rotation", (-20.0, 20.0))
    assert torch.equal(own, borrowed)
    own, swapped, none = same.swapped("rotation", (20.0,))
    assert torch.equal(own, swapped) and none.shape == own.shape
    nats = same.nats("rotation", (20.0,))
    assert torch.equal(nats["own"], nats["borrowed"])


def test_laws_that_hold_by_construction():
    laws = card().group("rotation", 8.0, 12.0)
    assert laws["inverse"] < 1e-5 and laws["composition"] > 0
    shift = card("W", k=3)
    assert shift.group("rotation", 8.0, 12.0)["order"] < 1e-5  # translations commute
    told = shift.orders(("rotation", 20.0), ("translation", 4.0))
    assert told["apart"] < 1e-4 and 0 <= told["told"] <= 1 and told["apart in truth"] > 0.1
    assert shift.linear("rotation", (-10.0, 10.0)) <= 1
    assert shift.repeated("rotation", 6.0, 3, torch.arange(-45.0, 46, 5)).shape == (6, 3)


def test_errors_speak():
    one = card()
    with pytest.raises(ValueError, match="one lender"):
        Scorecard(one.model, one.receivers, one.lenders[:2])
    with pytest.raises(TypeError, match="carries the triplets"):
        Scorecard(tvae.TVAE(4), one.receivers, one.lenders)


@pytest.mark.parametrize("letter", ["E", "L", "W"])
def test_tau_is_solved_for(letter):
    action = actions.build(letter, 6, k=3).double().requires_grad_(False)
    draws = generator(0, letter)
    for parameter in action.parameters():
        parameter.copy_(0.3 * torch.randn(parameter.shape, generator=draws, dtype=torch.float64))
    z = torch.randn(20, 6, generator=draws, dtype=torch.float64)
    tau = 0.5 * torch.randn(20, 3, generator=draws, dtype=torch.float64)
    found = lending.solve(action, action.act(z, tau), action.act_inverse(z, tau))
    assert torch.allclose(found, tau, atol=1e-8)


def test_a_free_matrix_is_solved_for():
    draws = generator(0, "matrix")
    true = torch.randn(5, 2, 2, generator=draws, dtype=torch.float64)
    z2 = torch.randn(5, 8, generator=draws, dtype=torch.float64)
    z0 = (true @ z2.unflatten(1, (2, 4))).flatten(1)
    z1 = (true @ z0.unflatten(1, (2, 4))).flatten(1)
    found = lending.solve_matrix(z0, z1, z2, 2, ridge=0)
    assert torch.allclose(found, true, atol=1e-8)
    with pytest.raises(ValueError, match="3 equal rows"):
        lending.solve_matrix(z0, z1, z2, 3)
