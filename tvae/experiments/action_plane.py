"""The chapters on actions: drawings of one on the plane, with arrows, orbits, there and back.

An action with d = 2 moves the points of a plane; everything it can and cannot do shows there.

    fig, ax = plt.subplots()
    draw(actions.build("M", 2), torch.tensor([0.5]), ax)
    plt.show()
"""

import torch
from matplotlib.axes import Axes

from tvae.actions import Action
from tvae.experiments.figures import PALETTE

EXTENT = 2.0
STARTS = ((1.2, 0.3), (-0.5, 1.0), (-0.6, -1.3))


@torch.no_grad()
def orbit(
    action: Action, z: torch.Tensor, tau: torch.Tensor, steps: int, inverse: bool = False
) -> torch.Tensor:
    """z, r(z, τ), r(r(z, τ), τ), …: codes (N, d) and one τ (tau_size,) to (steps + 1, N, d).

    With `inverse`, r(·, τ⁻¹) is repeated instead.
    """
    move = action.act_inverse if inverse else action.act
    points = [z]
    for _ in range(steps):
        points.append(move(points[-1], tau.expand(len(z), -1)))
    return torch.stack(points)


@torch.no_grad()
def draw(
    action: Action,
    tau: torch.Tensor,
    ax: Axes,
    *,
    colour: str = PALETTE["blue"],
    title: str | None = None,
) -> Axes:
    """Draw what `action` (d = 2) with `tau` (tau_size,) does to the plane, on `ax`.

    Grey arrows lead from the points of a grid to their images. From each of three starts (black
    dots) a solid line follows r(·, τ), a dashed one r(·, τ⁻¹), four times; a cross marks where
    r(r(z, τ), τ⁻¹) ends: on the dot if the inverse is one.
    """
    if action.d != 2:
        raise ValueError(f"The plane has two dimensions, the action has d = {action.d}.")
    side = torch.linspace(-EXTENT, EXTENT, 9).to(tau)
    grid = torch.cartesian_prod(side, side)
    change = action.act(grid, tau.expand(len(grid), -1)) - grid
    ax.quiver(
        *grid.T.tolist(),
        *change.T.tolist(),
        angles="xy",
        scale_units="xy",
        scale=1,
        color="#BBBBBB",
        width=0.004,
    )
    first = torch.tensor(STARTS).to(tau)
    there = orbit(action, first, tau, 4)
    away = orbit(action, first, tau, 4, inverse=True)
    returned = orbit(action, there[1], tau, 1, inverse=True)[1]
    for k in range(len(first)):
        ax.plot(*there[:, k].T.tolist(), "o-", color=colour, markersize=4)
        ax.plot(*away[:, k].T.tolist(), "o--", color=colour, markersize=4, markerfacecolor="white")
    ax.plot(*first.T.tolist(), "o", color="black", markersize=6)
    ax.plot(*returned.T.tolist(), "x", color=PALETTE["vermillion"], markersize=9, markeredgewidth=2)
    ax.set(xlim=(-1.2 * EXTENT, 1.2 * EXTENT), ylim=(-1.2 * EXTENT, 1.2 * EXTENT))
    ax.set_aspect("equal")
    ax.set_xlabel("first coordinate of z")
    ax.set_ylabel("second coordinate of z")
    if title is not None:
        ax.set_title(title)
    return ax
