"""What actions can reach, against least squares, grids of angles and the actions themselves."""

import math

import pytest
import torch

from tvae import actions
from tvae.experiments import action_limits
from tvae.seeding import generator

D, N = 6, 40


def codes(count, name="codes"):
    shape = (count, N, D)
    return torch.randn(shape, generator=generator(0, name), dtype=torch.float64).unbind(0)


def constraint(action, z, tau, z1, z2):
    ahead, back = action.act(z, tau), action.act_inverse(z, tau)
    return (z1 - ahead).square().sum(-1) + (z2 - back).square().sum(-1)


def tridiagonal(b):
    action = actions.build("T", D).double().requires_grad_(False)
    action.b.data = b
    return action


@pytest.mark.parametrize("offset", [0.0, 0.7])
def test_tridiagonal_from_a_start_is_a_least_squares_problem(offset):
    start, z1, z2, b = codes(4)
    action = tridiagonal(offset * b[0])
    found = action_limits.least_constraint_from(action, start, z1, z2)
    unit = torch.eye(action.tau_size, dtype=torch.float64)
    zero = torch.zeros(1, action.tau_size, dtype=torch.float64)
    for n in range(N):
        one = start[n : n + 1]
        # the action is affine in τ: its matrix, column by column
        fixed = torch.cat((action.act(one, zero), action.act_inverse(one, zero)), 1)[0]
        every = one.expand(action.tau_size, -1)
        columns = torch.cat((action.act(every, unit), action.act_inverse(every, unit)), 1) - fixed
        target = torch.cat((z1[n], z2[n])) - fixed
        # more unknowns than equations, and one equation too many among them: the default driver
        # wants full rank
        solution = torch.linalg.lstsq(columns.T, target[:, None], driver="gelsd").solution
        residual = (columns.T @ solution - target[:, None]).square().sum()
        assert float(found[n]) == pytest.approx(float(residual), rel=1e-6, abs=1e-10)


def test_rotations_from_a_start_against_a_grid_of_angles():
    action = actions.build("M", D)
    start, z1, z2 = codes(3)
    found = action_limits.least_constraint_from(action, start, z1, z2)
    grid = torch.linspace(0, 2 * math.pi, 2001, dtype=torch.float64)
    best = torch.zeros(N, dtype=torch.float64)
    for k in range(0, D, 2):  # the pairs do not interact
        pair = slice(k, k + 2)
        single = actions.build("M", 2)
        values = torch.stack(
            [
                constraint(single, start[:, pair], angle.expand(N, 1), z1[:, pair], z2[:, pair])
                for angle in grid
            ]
        )
        best += values.min(0).values
    assert (best >= found - 1e-12).all()
    torch.testing.assert_close(found, best, rtol=1e-4, atol=1e-4)


def test_additive_from_a_start():
    action = actions.build("A", D)
    start, z1, z2, noise = codes(4)
    found = action_limits.least_constraint_from(action, start, z1, z2)
    half = (z1 - z2) / 2
    torch.testing.assert_close(constraint(action, start, half, z1, z2), found)
    assert (constraint(action, start, half + 0.1 * noise, z1, z2) > found).all()


@pytest.mark.parametrize("letter", ["A", "M", "T"])
def test_a_free_start_is_never_worse(letter):
    action = actions.build(letter, D).double().requires_grad_(False)
    start, z1, z2 = codes(3)
    assert (
        action_limits.least_constraint(action, z1, z2)
        <= action_limits.least_constraint_from(action, start, z1, z2) + 1e-12
    ).all()


def test_the_nearest_codes_attain_the_floor_of_rotations():
    action = actions.build("M", D)
    z1, z2 = codes(2)
    near1, near2 = action_limits.nearest_codes(action, z1, z2)
    miss = (z1 - near1).square().sum(-1) + (z2 - near2).square().sum(-1)
    torch.testing.assert_close(miss, action_limits.least_constraint(action, z1, z2))
    torch.testing.assert_close(action_limits.lengths(near1), action_limits.lengths(near2))
    # half-way between the two on the arcs there is a z from which one θ reaches both
    zeta1, zeta2 = (torch.view_as_complex(z.unflatten(-1, (-1, 2))) for z in (near1, near2))
    theta = (zeta1 * zeta2.conj()).angle() / 2
    z = action.act_inverse(near1, theta)
    torch.testing.assert_close(action.act(z, theta), near1)
    torch.testing.assert_close(action.act_inverse(z, theta), near2)
    assert action_limits.nearest_codes(actions.build("A", D), z1, z2) == (z1, z2)


def test_the_radial_part_is_what_turning_leaves():
    a, b = codes(2)
    zeta_a, zeta_b = (torch.view_as_complex(z.unflatten(-1, (-1, 2))) for z in (a, b))
    turned = actions.rotate_blocks(b, (zeta_a * zeta_b.conj()).angle())
    torch.testing.assert_close((a - turned).square().sum(-1), action_limits.radial(a, b))
    for k in range(20):
        theta = torch.randn(N, D // 2, generator=generator(k, "theta"), dtype=torch.float64)
        other = (a - actions.rotate_blocks(b, 3 * theta)).square().sum(-1)
        assert (other >= action_limits.radial(a, b) - 1e-12).all()


def test_the_arc_leads_back_to_its_middle():
    action = actions.build("M", D)
    z, other = codes(2)
    theta = 1.5 * other[:, : D // 2].tanh()  # less than a quarter turn, so the arc is the shorter
    ahead, back = action.act(z, theta), action.act_inverse(z, theta)
    torch.testing.assert_close(action_limits.arc_midpoint(ahead, back), z)
    middle = action_limits.arc_midpoint(z, other)
    torch.testing.assert_close(
        action_limits.lengths(middle), (action_limits.lengths(z) + action_limits.lengths(other)) / 2
    )
    torch.testing.assert_close(action_limits.arc_midpoint(3 * ahead, back), 2 * z)


def test_an_empty_pair_makes_no_trouble():
    z1, z2 = codes(2)
    z1 = z1.clone()
    z1[:, :2] = 0
    near1, near2 = action_limits.nearest_codes(actions.build("M", D), z1, z2)
    assert near1.isfinite().all() and near2.isfinite().all()


@pytest.mark.parametrize(("letter", "residual"), [("N", False), ("MA", False), ("M", True)])
def test_other_actions_are_refused(letter, residual):
    action = actions.build(letter, D, residual)
    z1, z2 = codes(2)
    for call in (action_limits.nearest_codes, action_limits.least_constraint):
        with pytest.raises(ValueError, match="not known in closed form"):
            call(action, z1, z2)
    with pytest.raises(ValueError, match="not known in closed form"):
        action_limits.least_constraint_from(action, z1, z1, z2)
