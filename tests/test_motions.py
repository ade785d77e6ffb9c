"""Actions beyond the paper: exact inverses, identities, what they keep, and that a run can use them."""

from __future__ import annotations

import pytest
import torch

from tvae import actions, models
from tvae.motions import Flow
from tvae.seeding import generator

LETTERS = ("E", "L", "W", "G")


def made(letter, d=6, k=3, **options):
    """A float64 action whose parameters are all far from zero."""
    action = actions.build(letter, d, k=k, **options).double()
    draws = generator(0, letter)
    with torch.no_grad():
        for parameter in action.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draws, dtype=torch.float64))
    return action.requires_grad_(False)


def draws(n=5, d=6, k=3):
    stream = generator(1, "codes")
    return (
        torch.randn(n, d, generator=stream, dtype=torch.float64),
        torch.randn(n, k, generator=stream, dtype=torch.float64),
    )


@pytest.mark.parametrize("letter", LETTERS)
def test_minus_tau_undoes_tau_and_zero_does_nothing(letter):
    action, (z, tau) = made(letter), draws()
    moved = action.act(z, tau)
    assert float((moved - z).norm(dim=1).min()) > 0.1
    assert torch.allclose(action.act_inverse(moved, tau), z, atol=1e-10)
    assert torch.allclose(action.act(action.act_inverse(z, tau), tau), z, atol=1e-10)
    identity = action.identity().double().expand(len(z), -1)
    assert torch.allclose(action.act(z, identity), z, atol=1e-12)
    assert action.exact_inverse and not action.has_residual


@pytest.mark.parametrize("letter", LETTERS)
def test_multiples_of_one_tau_add_up(letter):
    """t ↦ r(·, tτ) is a one-parameter group for L, W and G; for E it is one only to second order."""
    action, (z, tau) = made(letter), draws()
    twice = action.act(action.act(z, tau), tau)
    assert torch.allclose(twice, action.act(z, 2 * tau), atol=1e-9) == (letter != "E")
    small = tau * 1e-3
    twice = action.act(action.act(z, small), small)
    assert float((twice - action.act(z, 2 * small)).norm()) < 1e-4


@pytest.mark.parametrize("letter", ["L", "G"])
def test_turns_keep_lengths_and_so_the_prior(letter):
    action, (z, tau) = made(letter), draws()
    assert torch.allclose(action.act(z, tau).norm(dim=1), z.norm(dim=1), atol=1e-10)


def test_motions_keep_distances():
    action, (z, tau) = made("E"), draws()
    one = tau[:1].expand(len(z), -1)
    assert torch.allclose(torch.cdist(*[action.act(z, one)] * 2), torch.cdist(z, z), atol=1e-9)


def test_the_basis_is_orthogonal():
    basis = made("E").basis
    assert torch.allclose(basis @ basis.mT, torch.eye(6).double(), atol=1e-10)


def test_free_generators_need_not_keep_lengths():
    action, (z, tau) = made("G", skew=False), draws()
    assert isinstance(action, Flow)
    assert not torch.allclose(action.act(z, tau).norm(dim=1), z.norm(dim=1), atol=0.1)


@pytest.mark.parametrize("letter", LETTERS)
def test_gradients_agree_with_differences(letter):
    action, (z, tau) = made(letter, d=4, k=2), draws(2, 4, 2)
    assert torch.autograd.gradcheck(
        action.act, (z.requires_grad_(), tau.requires_grad_()), eps=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("letter", LETTERS)
def test_models_are_drawn_from_their_generator_and_built_again(letter):
    one, two = (
        models.TVAE(4, action=letter, action_options={"k": 5}, generator=generator(3, "init"))
        for _ in range(2)
    )
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(a, b)
    again = models.build(one.settings)
    again.load_state_dict(one.state_dict())
    z, tau = torch.randn(2, 4), torch.randn(2, 5)
    assert torch.equal(again.act(z, tau), one.act(z, tau))


def test_errors_speak():
    with pytest.raises(ValueError, match="use d = 6 instead of 5"):
        actions.build("E", 5)
    with pytest.raises(ValueError, match="positive whole number"):
        actions.build("W", 4, k=0)
    with pytest.raises(ValueError, match="no residual form"):
        actions.build("L", 4, residual=True)
