"""The chapter on failures: how close a latent action can come to the codes of two views.

Given the codes z1 and z2 of f(x0) and f⁻¹(x0), how small can C1 + C2 = ‖z1 − r(z, τ)‖² +
‖z2 − r(z, τ⁻¹)‖² be made by the choice of τ? `least_constraint` is the answer when z may be chosen as
well, as in training; `least_constraint_from` when the start is given, such as z0, as in the experiments
that apply τ to the code of an image. Both are closed forms, for the actions A, M and T.
"""

import torch

from tvae.actions import Action, Additive, BlockRotation, Tridiagonal


def lengths(z: torch.Tensor) -> torch.Tensor:
    """The length of every pair of coordinates: (N, d) → (N, d/2)."""
    return z.unflatten(-1, (-1, 2)).norm(dim=-1)


def radial(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The part of ‖a − b‖² that no rotation of pairs explains, Σ (ρ_a − ρ_b)²: (N, d) → (N,)."""
    return (lengths(a) - lengths(b)).square().sum(-1)


def arc_midpoint(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Half-way from a to b along the arc in every pair of coordinates, (N, d).

    Each pair points along the bisector and has the mean of the two lengths. Of the two bisectors it
    is the one on the side of the shorter arc.
    """
    pairs = [z.unflatten(-1, (-1, 2)) for z in (a, b)]
    tiny = torch.finfo(a.dtype).tiny
    own = [p.norm(dim=-1, keepdim=True) for p in pairs]
    bisector = pairs[0] / own[0].clamp(min=tiny) + pairs[1] / own[1].clamp(min=tiny)
    bisector = bisector / bisector.norm(dim=-1, keepdim=True).clamp(min=tiny)
    return (bisector * (own[0] + own[1]) / 2).flatten(-2)


def _refuse(action: Action) -> ValueError:
    return ValueError(f"The reach of the action {action.letter} is not known in closed form.")


def nearest_codes(
    action: Action, z1: torch.Tensor, z2: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The codes closest to z1 and z2 that the action can make of one z and one τ, (N, d) each.

    A and T come as close as one likes (T for a suitable z); M can turn pairs but not change their
    lengths, so both views get the mean of the two lengths.
    """
    if isinstance(action, (Additive, Tridiagonal)):
        return z1, z2
    if not isinstance(action, BlockRotation):
        raise _refuse(action)
    own = [lengths(z) for z in (z1, z2)]
    common = (own[0] + own[1]) / 2

    def stretched(z: torch.Tensor, length: torch.Tensor) -> torch.Tensor:
        factor = common / length.clamp(min=torch.finfo(z.dtype).tiny)
        return (z.unflatten(-1, (-1, 2)) * factor[..., None]).flatten(-2)

    return stretched(z1, own[0]), stretched(z2, own[1])


def least_constraint(action: Action, z1: torch.Tensor, z2: torch.Tensor) -> torch.Tensor:
    """The smallest C1 + C2 over all z and τ, (N,): 0 for A and T, half the radial part for M."""
    if isinstance(action, BlockRotation):
        return radial(z1, z2) / 2
    if isinstance(action, (Additive, Tridiagonal)):
        return torch.zeros_like(z1[..., 0])
    raise _refuse(action)


def least_constraint_from(
    action: Action, start: torch.Tensor, z1: torch.Tensor, z2: torch.Tensor
) -> torch.Tensor:
    """The smallest C1 + C2 over all τ when the action starts from `start`; all (N, d), → (N,).

    For T it is an infimum, attained where no entry of `start` and of `start` + b is zero.
    """
    if isinstance(action, Additive):
        return 2 * ((z1 + z2) / 2 - start).square().sum(-1)
    if isinstance(action, BlockRotation):
        first, second, third = (
            torch.view_as_complex(z.unflatten(-1, (-1, 2)).contiguous()) for z in (start, z1, z2)
        )
        # Re(e^{−iθ}(ζ1 ζ̄0 + ζ̄2 ζ0)) is largest at the modulus
        best = (second * first.conj() + third.conj() * first).abs()
        squares = second.abs() ** 2 + third.abs() ** 2 + 2 * first.abs() ** 2
        return (squares - 2 * best).clamp(min=0).sum(-1)
    if isinstance(action, Tridiagonal):
        moved = start + action.b
        gap = (moved * (z1 - action.b)).sum(-1) - (start * z2).sum(-1)
        return gap.square() / (moved.square().sum(-1) + start.square().sum(-1))
    raise _refuse(action)
