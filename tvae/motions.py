"""Latent actions beyond the paper: τ has a few numbers that mean the same for every image.

| letter | r(z, τ)                                  | what is learned | moves                         |
|--------|------------------------------------------|-----------------|-------------------------------|
| E      | Q R(Ωτ/2) (R(Ωτ/2) Qᵀ z + W τ)           | Q, Ω, W         | turns and shifts: motions     |
| L      | Q R(Ωτ) Qᵀ z                             | Q, Ω            | turns alone                   |
| W      | z + W τ                                  | W               | shifts alone                  |
| G      | exp(Σ τᵢ Gᵢ) z                           | G               | any linear flow               |

τ has k numbers, k small. Q is orthogonal, R(θ) the block rotation of the action M, Ω (d/2, k) says how
fast each block turns with each number of τ, W (d, k) how far it shifts. What is learned is shared by
all images, so τ cannot hold what belongs to one image only: that is what makes it possible to lend it.

Each is undone exactly by −τ, and τ = 0 is the identity. For E: with H = R(Ωτ/2), r(z, τ) has
Qᵀ r = H (H Qᵀ z + W τ); applying −τ gives Q H⁻¹ (H⁻¹ H (H Qᵀ z + W τ) − W τ) = Q H⁻¹ H Qᵀ z = z.
"""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from tvae.actions import Action, check_even, register, rotate_blocks
from tvae.checks import check_whole

K = 8  # numbers in τ


class SharedAction(Action):
    """What these actions share: τ of k numbers, −τ for the inverse, 0 for the identity."""

    has_residual = False
    exact_inverse = True

    def __init__(self, d: int, k: int = K) -> None:
        super().__init__(d)
        self.tau_size = check_whole(k, "The number k of entries of τ")

    @classmethod
    def size_of_tau(cls, d: int) -> int:
        return K  # unless the constructor is told another k

    def act_inverse(self, z: Tensor, tau: Tensor) -> Tensor:
        return self.act(z, -tau)

    def identity(self) -> Tensor:
        return torch.zeros(self.tau_size)

    def draw(self, generator: torch.Generator) -> None:
        """Draw what is learned from `generator`: normal, of the size that its `scales` say."""
        for name, parameter in self.named_parameters():
            drawn = torch.randn(parameter.shape, generator=generator, device=generator.device)
            with torch.no_grad():
                parameter.copy_(drawn * self.scales[name])

    scales: ClassVar[Mapping[str, float]]


class _Blocks(SharedAction):
    """Q and Ω: k speeds for each of d/2 blocks, in a basis that is learned."""

    scales: ClassVar[Mapping[str, float]] = {"skew": 0.0, "omega": 0.3, "shift": 0.3}

    def __init__(self, d: int, k: int = K) -> None:
        super().__init__(d, k)
        self.skew = nn.Parameter(torch.zeros(d, d))
        self.omega = nn.Parameter(torch.empty(d // 2, k).normal_(0, self.scales["omega"]))

    @classmethod
    def size_of_tau(cls, d: int) -> int:
        check_even(cls.letter, d)
        return K

    @property
    def basis(self) -> Tensor:
        """Q (d, d), orthogonal: the exponential of a skew-symmetric matrix; at first the identity."""
        return torch.linalg.matrix_exp(self.skew - self.skew.mT)


@register("L")
class Turn(_Blocks):
    """L: block rotations whose angles are linear in τ. Keeps N(0, I), as every rotation does."""

    def act(self, z: Tensor, tau: Tensor) -> Tensor:
        basis = self.basis
        return rotate_blocks(z @ basis, tau @ self.omega.mT) @ basis.mT


@register("E")
class Motion(_Blocks):
    """E: half the turn, the shift, the other half: motions of the code, as of a rigid body."""

    def __init__(self, d: int, k: int = K) -> None:
        super().__init__(d, k)
        self.shift = nn.Parameter(torch.empty(d, k).normal_(0, self.scales["shift"]))

    def act(self, z: Tensor, tau: Tensor) -> Tensor:
        basis, half = self.basis, tau @ self.omega.mT / 2
        moved = rotate_blocks(z @ basis, half) + tau @ self.shift.mT
        return rotate_blocks(moved, half) @ basis.mT


@register("W")
class SharedShift(SharedAction):
    """W: the additive action with a τ of k numbers and directions that all images share."""

    scales: ClassVar[Mapping[str, float]] = {"shift": 0.3}

    def __init__(self, d: int, k: int = K) -> None:
        super().__init__(d, k)
        self.shift = nn.Parameter(torch.empty(d, k).normal_(0, self.scales["shift"]))

    def act(self, z: Tensor, tau: Tensor) -> Tensor:
        return z + tau @ self.shift.mT


@register("G")
class Flow(SharedAction):
    """G: the exponential of a combination of k matrices, which need not commute.

    With `skew` (the default) the matrices are skew-symmetric and the flow is made of rotations.
    """

    scales: ClassVar[Mapping[str, float]] = {"generators": 0.1}

    def __init__(self, d: int, k: int = K, skew: bool = True) -> None:
        super().__init__(d, k)
        self.skew = skew
        self.generators = nn.Parameter(torch.empty(k, d, d).normal_(0, self.scales["generators"]))

    def act(self, z: Tensor, tau: Tensor) -> Tensor:
        generators = self.generators - self.generators.mT if self.skew else self.generators
        flow = torch.linalg.matrix_exp(torch.einsum("nk,kij->nij", tau, generators))
        return (flow @ z[..., None]).squeeze(-1)
