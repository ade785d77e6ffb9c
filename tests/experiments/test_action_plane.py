"""Pictures of a latent action on the plane."""

import matplotlib.pyplot as plt
import pytest
import torch

from tvae import actions
from tvae.experiments import action_plane

Z = torch.tensor([[1.0, 0.0], [0.5, -2.0]], dtype=torch.float64)


def test_orbit_of_a_translation_is_a_line_of_equal_steps():
    tau = torch.tensor([0.25, -1.0], dtype=torch.float64)
    points = action_plane.orbit(actions.build("A", 2), Z, tau, 3)
    assert points.shape == (4, 2, 2)
    for k in range(4):
        assert torch.equal(points[k], Z + k * tau)
    back = action_plane.orbit(actions.build("A", 2), points[3], tau, 3, inverse=True)
    assert torch.equal(back[3], Z)


def test_orbit_of_a_quarter_turn_closes_after_four_steps():
    tau = torch.tensor([torch.pi / 2], dtype=torch.float64)
    points = action_plane.orbit(actions.build("M", 2), Z, tau, 4)
    assert torch.allclose(points[1, 0], torch.tensor([0.0, 1.0], dtype=torch.float64))
    assert torch.allclose(points[4], Z)
    assert not torch.allclose(points[2], Z)


def test_drawing_shows_every_orbit_both_ways_and_the_return():
    fig, ax = plt.subplots()
    action = actions.build("MA", 2)
    action.b.data = torch.tensor([0.5, 0.0])
    tau = torch.tensor([0.7])
    action_plane.draw(action, tau, ax, title="MA")
    starts = torch.tensor(action_plane.STARTS)
    assert len(ax.lines) == 2 * len(starts) + 2  # there, back; the starts; the returned points
    first = torch.tensor(ax.lines[0].get_xydata()).float()
    assert torch.allclose(first, action_plane.orbit(action, starts[:1], tau, 4)[:, 0])
    returned = torch.tensor(ax.lines[-1].get_xydata()).float()
    # the printed inverse of MA misses by twice the offset, turned back
    miss = actions.rotate_blocks(2 * action.b.detach(), -tau)
    assert torch.allclose(returned - starts, miss.expand(3, -1), atol=1e-6)
    assert ax.get_xlabel() and ax.get_ylabel() and ax.get_title() == "MA"
    plt.close(fig)


def test_errors_speak():
    fig, ax = plt.subplots()
    with pytest.raises(ValueError, match="two dimensions, the action has d = 4"):
        action_plane.draw(actions.build("A", 4), torch.zeros(4), ax)
    plt.close(fig)
