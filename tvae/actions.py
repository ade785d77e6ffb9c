"""Latent actions r_χ: how a latent transformation τ acts on a latent code z.

| letter | size of τ | r(z, τ)    | r(z, τ⁻¹)            | identity     | inverse              |
|--------|-----------|------------|----------------------|--------------|----------------------|
| A      | d         | z + τ      | z − τ                | τ = 0        | exact                |
| M      | d/2       | R(θ) z     | R(−θ) z              | θ = 0        | exact                |
| MA     | d/2       | R(θ) z + b | R(−θ) z + R(−θ) b    | none (b ≠ 0) | not one, as printed  |
| T      | 3d − 2    | τ z + b    | τᵀ z + τᵀ b          | τ = I, b = 0 | approximate          |
| N      | d         | NN(z, τ)   | NN(z, −τ)            | none         | learned              |

θ stands for d/2 angles and R(θ) for the block-diagonal matrix of 2×2 rotations; b is one trained
vector per model. The residual form of M, MA, T and N is z + r(z, ·). No d×d matrix is ever built.

An action of your own needs three methods and a letter::

    @register("S")
    class Scaling(Action):
        def act(self, z, tau):
            return z * tau.exp()

        def act_inverse(self, z, tau):
            return z * (-tau).exp()

        def identity(self):
            return torch.zeros(self.tau_size)

One that does not take every d says so in `size_of_tau`; one without a residual form says
`has_residual = False`. Sweeps and tables ask the action itself.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar, Literal

import torch
from torch import nn

from tvae.checks import check_dimension
from tvae.networks import mlp


class Action(nn.Module):
    """A latent action for codes of dimension d.

    Subclasses define `act` and `act_inverse`, both (N, d), (N, tau_size) → (N, d), and may define
    `identity` and, as a class method, `size_of_tau`.
    """

    letter: ClassVar[str] = "?"
    has_residual: ClassVar[bool] = True
    exact_inverse: ClassVar[bool] = False
    infers: ClassVar[bool] = False  # whether `infer` stands in the place of f_ξ and q_ψ

    def __init__(self, d: int) -> None:
        super().__init__()
        self.d = check_dimension(d)
        self.tau_size = self.size_of_tau(d)

    @classmethod
    def size_of_tau(cls, d: int) -> int:
        """How many numbers τ has for codes of dimension `d`; a `ValueError` if `d` does not fit."""
        return d

    @classmethod
    def nearest_dimension(cls, d: int) -> int:
        """The smallest dimension from `d` on that fits this action: 26 for M at a nominal 25."""
        for candidate in range(d, 2 * d + 1):
            with suppress(ValueError):
                cls.size_of_tau(candidate)
                return candidate
        return d

    def act(self, z: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        """r(z, τ): codes (N, d) and transformations (N, tau_size) to codes (N, d)."""
        raise NotImplementedError

    def act_inverse(self, z: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        """r(z, τ⁻¹), in the form that the paper gives for this action; shapes as in `act`."""
        raise NotImplementedError

    def identity(self) -> torch.Tensor | None:
        """τ_id of shape (tau_size,), which acts as the identity (for T: while b = 0); else None."""
        return None

    @property
    def content_size(self) -> int:
        """How many numbers of a code, the first ones, tell what is seen: all, unless τ moves a part only."""
        return self.d

    def infer(
        self, z1: torch.Tensor, z2: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Mean and log-variance (N, d) of q(z|z₁, z₂) and τ (N, tau_size), where `infers` says so."""
        raise NotImplementedError

    def networks(
        self, shape: tuple[int, int, int], width: int | None = None
    ) -> tuple[nn.Module, nn.Module] | None:
        """An encoder and a decoder of this action's own; None: the usual ones."""
        return None

    def forward(self, z: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        return self.act(z, tau)

    def extra_repr(self) -> str:
        return f"letter={self.letter}, d={self.d}, tau_size={self.tau_size}"


_REGISTRY: dict[str, type[Action]] = {}
#: What the names of runs write for models without an action.
_RESERVED = ("VAE", "PCA", "untrained", "pixels")


def _spellings(letter: str, cls: type[Action]) -> set[str]:
    """How the names of runs write an action, plain and residual, in files that may not know case."""
    return {letter.lower(), *([f"{letter}r".lower()] if cls.has_residual else [])}


def register(letter: str) -> Callable[[type[Action]], type[Action]]:
    """Class decorator that makes an `Action` known under `letter`, for `TVAE(d, action=letter)`.

    Names of runs write an R after the letter for the residual form, and files may not tell small
    letters from capitals: a letter that could be mistaken for another there is refused.
    """
    if not re.fullmatch(r"_*[A-Za-z0-9][A-Za-z0-9_]*", letter):
        raise ValueError(f"An action's letter must be alphanumeric, not {letter!r}.")
    if letter.lower() in map(str.lower, _RESERVED):
        raise ValueError(f"The letter {letter!r} stands for a model without an action in names.")

    def decorate(cls: type[Action]) -> type[Action]:
        for other, theirs in _REGISTRY.items():
            if other == letter and theirs.__qualname__ == cls.__qualname__:
                continue  # a cell of a notebook that is run again
            if _spellings(letter, cls) & _spellings(other, theirs):
                raise ValueError(
                    f"The letter {other!r} already names {theirs.__qualname__}; "
                    f"choose another one than {letter!r}, which the names of runs would mix up "
                    "with it (they add an R for the residual form, and case does not count)."
                )
        cls.letter = letter
        _REGISTRY[letter] = cls
        return cls

    return decorate


def letters() -> tuple[str, ...]:
    """The letters of all registered actions."""
    return tuple(_REGISTRY)


def find(letter: str) -> type[Action]:
    """The class of the action `letter`."""
    if letter not in _REGISTRY:
        raise ValueError(f"Unknown latent action {letter!r}; known are {', '.join(_REGISTRY)}.")
    return _REGISTRY[letter]


def nearest_dimension(letter: str | None, d: int) -> int:
    """The dimension of a model at a nominal `d`: that of its action; `d` if it has none we know."""
    return _REGISTRY[letter].nearest_dimension(d) if letter in _REGISTRY else d


def tau_size(letter: str, d: int) -> int:
    """How many numbers τ has for the action `letter` on codes of dimension `d`."""
    return find(letter).size_of_tau(check_dimension(d))


def build(letter: str, d: int, residual: bool = False, **options: object) -> Action:
    """The action `letter` for codes of dimension `d`, plain or residual.

    `options` go to the action's constructor, such as `inverse="true"` for MA.
    """
    cls = find(letter)
    if residual and not cls.has_residual:
        others = ", ".join(known for known in _REGISTRY if _REGISTRY[known].has_residual)
        raise ValueError(f"The action {letter} has no residual form; {others} have.")
    action = cls(d, **options)
    return Residual(action) if residual else action


@register("A")
class Additive(Action):
    """A: τ is a vector that is added. The translations of ℝᵈ: a commutative group, exact inverse."""

    # z + (z + τ) would only rescale z: the residual form is the plain one in disguise
    has_residual = False
    exact_inverse = True

    def act(self, z: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        return z + tau

    def act_inverse(self, z: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        return z - tau

    def identity(self) -> torch.Tensor:
        return torch.zeros(self.tau_size)


def rotate_blocks(z: torch.Tensor, theta: torch.Tensor) -> torch.Tensor:
    """R(θ) z: turn each pair (z₁, z₂), (z₃, z₄), … by its own angle.

    `z` (..., d), `theta` (..., d/2) in radians; counter-clockwise for θ > 0.
    """
    pairs = z.unflatten(-1, (-1, 2))
    a, b = pairs.unbind(-1)
    cos, sin = theta.cos(), theta.sin()
    return torch.stack((cos * a - sin * b, sin * a + cos * b), -1).flatten(-2)


def check_even(letter: str, d: int) -> None:
    """Refuse an odd dimension for an action that turns pairs of coordinates."""
    if d % 2:
        raise ValueError(
            f"The action {letter} turns pairs of coordinates, so d must be even: "
            f"use d = {d + 1} instead of {d}."
        )


class _BlockAction(Action):
    """What M and MA share: an even dimension and one angle for each pair."""

    @classmethod
    def size_of_tau(cls, d: int) -> int:
        check_even(cls.letter, d)
        return d // 2


@register("M")
class BlockRotation(_BlockAction):
    """M: τ is d/2 angles, one for each pair of coordinates. A torus of rotations, exact inverse."""

    exact_inverse = True

    def act(self, z: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        return rotate_blocks(z, tau)

    def act_inverse(self, z: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        return rotate_blocks(z, -tau)

    def identity(self) -> torch.Tensor:
        return torch.zeros(self.tau_size)


@register("MA")
class MatrixAdditive(_BlockAction):
    """MA: block rotation and a learned offset b.

    The paper's r(z, τ⁻¹) = R(−θ) z + R(−θ) b undoes the rotation but not the offset. It is kept as
    the default; `inverse="true"` gives R(−θ)(z − b), which undoes both.
    """

    def __init__(self, d: int, inverse: Literal["printed", "true"] = "printed") -> None:
        super().__init__(d)
        if inverse not in ("printed", "true"):
            raise ValueError(f"inverse must be 'printed' or 'true', not {inverse!r}.")
        self.inverse = inverse
        self.b = nn.Parameter(torch.zeros(d))

    def act(self, z: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        return rotate_blocks(z, tau) + self.b

    def act_inverse(self, z: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        offset = self.b if self.inverse == "printed" else -self.b
        return rotate_blocks(z + offset, -tau)


def tridiagonal_product(
    diagonal: torch.Tensor, upper: torch.Tensor, lower: torch.Tensor, z: torch.Tensor
) -> torch.Tensor:
    """The product of a tridiagonal matrix with z, from its three bands.

    `diagonal` (..., d), `upper` (..., d − 1) holds the entries (i, i + 1), `lower` (..., d − 1) the
    entries (i + 1, i); `z` (..., d). Exchanging `upper` and `lower` gives the transposed product.
    """
    y = diagonal * z
    if z.shape[-1] == 1:
        return y
    zero = torch.zeros_like(y[..., :1])
    above = torch.cat((upper * z[..., 1:], zero), -1)
    below = torch.cat((zero, lower * z[..., :-1]), -1)
    return y + above + below


@register("T")
class Tridiagonal(Action):
    """T: τ is a full tridiagonal matrix, beside a learned offset b; its transpose stands for τ⁻¹.

    τ lists the diagonal (d numbers), then the upper band, then the lower one (d − 1 each).
    """

    def __init__(self, d: int) -> None:
        super().__init__(d)
        self.b = nn.Parameter(torch.zeros(d))

    @classmethod
    def size_of_tau(cls, d: int) -> int:
        return 3 * d - 2

    def bands(self, tau: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Split τ (..., 3d − 2) into diagonal (..., d), upper and lower band (..., d − 1)."""
        diagonal, upper, lower = tau.split((self.d, self.d - 1, self.d - 1), -1)
        return diagonal, upper, lower

    def act(self, z: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        diagonal, upper, lower = self.bands(tau)
        return tridiagonal_product(diagonal, upper, lower, z) + self.b

    def act_inverse(self, z: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        diagonal, upper, lower = self.bands(tau)
        return tridiagonal_product(diagonal, lower, upper, z + self.b)

    def identity(self) -> torch.Tensor:
        return torch.cat((torch.ones(self.d), torch.zeros(self.tau_size - self.d)))


@register("N")
class Neural(Action):
    """N: a neural network of z and τ; −τ in the place of τ stands for the inverse."""

    def __init__(self, d: int) -> None:
        super().__init__(d)
        self.chi = mlp(2 * d, d)

    def act(self, z: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        return self.chi(torch.cat((z, tau), -1))

    def act_inverse(self, z: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        return self.chi(torch.cat((z, -tau), -1))


class Residual(Action):
    """The residual form of an action: z + r(z, τ), and z + r(z, τ⁻¹) for the inverse."""

    def __init__(self, inner: Action) -> None:
        if isinstance(inner, MatrixAdditive) and inner.inverse == "true":
            raise ValueError(
                "The true inverse of MA is defined for its plain form; "
                "use inverse='printed' with residual=True."
            )
        nn.Module.__init__(self)
        self.d = inner.d
        self.tau_size = inner.tau_size
        self.inner = inner
        # an instance attribute on purpose: the class stands for several letters
        self.letter = f"{inner.letter}^R"  # type: ignore[misc]

    def act(self, z: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        return z + self.inner.act(z, tau)

    def act_inverse(self, z: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        return z + self.inner.act_inverse(z, tau)

    def identity(self) -> torch.Tensor | None:
        # r(z, τ) = 0 for every z: a zero matrix does that (T), a rotation never does
        return torch.zeros(self.tau_size) if isinstance(self.inner, Tridiagonal) else None
