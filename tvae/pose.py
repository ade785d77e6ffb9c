"""A code of two parts, what is seen and how it lies: content and pose. Only the pose is moved.

| letter | r(z, τ)                          | what is inferred from two views, and how                   |
|--------|----------------------------------|------------------------------------------------------------|
| P      | pose ↦ log(exp(τ) exp(pose))     | τ = ½ log(g₁ g₂⁻¹), the pose exp(τ) g₂: in closed form      |
| AP     | pose ↦ pose + τ                  | all of it by the networks f_ξ and q_ψ, as for the action A  |

The last six numbers of z are the pose, the others the content, which no τ touches. For P the pose is an
affine map g = exp(Σ vᵢ Gᵢ) of the plane, its six numbers v are those of the family "affine" of
`tvae.transforms`, and encoder and decoder know what it means: the encoder finds g, undoes it and reads
the content off the image that is left (`PoseEncoder`); the decoder draws the content and moves it by g
(`PoseDecoder`). AP is the soft form of the same split, with networks that know nothing.

**Convention.** Points are (x, y), x to the right, y down, from −1 to 1 across the image. A pose maps points
of the upright image to points of the image as it lies; an image undone by g looks at g p for its point p.
All maps turn by less than half a turn, where exp and log are inverse to each other.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tvae.actions import Action, register
from tvae.networks import default_networks

POSE = 6  # numbers of an affine map of the plane
PARTS = ("saliency", "refinement")  # what is learned of the way to the pose
SIZE = 0.4  # to which the ink of an upright image is brought: its spread, in half widths
LARGEST = 3.0  # a speck of ink is not blown up without end
SHARP = -6.0  # log-variances of a pose at the start: a third of a pixel
BLUNT = -2.0  # and of the content between two views
BLACK = -10.0  # the logit of what lies outside the upright image

# One unit of each number of the pose, as velocities of the content: (x, y) rows of a 2×3 matrix.
GENERATORS = (
    ((0, 0, 0.4), (0, 0, 0)),  # to the right, a fifth of the image
    ((0, 0, 0), (0, 0, 0.4)),  # down
    ((0, math.radians(25), 0), (-math.radians(25), 0, 0)),  # a turn, counter-clockwise
    ((math.log(1.2), 0, 0), (0, math.log(1.2), 0)),  # larger
    ((math.log(1.2), 0, 0), (0, -math.log(1.2), 0)),  # wider and flatter
    ((0, 0.2, 0), (0.2, 0, 0)),  # a slant
)


# --- the affine maps of the plane, near the identity --------------------------------------------

# Of Gauss and Legendre on [0, 1]: the integral of exp(sX) over s, to rounding for the X met here.
_NODES = (
    (0.5, 0.1651196775006299),
    (0.5 - 0.1621267117019045, 0.1561735385200015),
    (0.5 + 0.1621267117019045, 0.1561735385200015),
    (0.5 - 0.3066857163502952, 0.1303053482014677),
    (0.5 + 0.3066857163502952, 0.1303053482014677),
    (0.5 - 0.4180155536633179, 0.0903240803474287),
    (0.5 + 0.4180155536633179, 0.0903240803474287),
    (0.5 - 0.4840801197538130, 0.0406371941807872),
    (0.5 + 0.4840801197538130, 0.0406371941807872),
)
_EVEN = tuple(1 / math.factorial(2 * n) for n in range(14))
_ODD = tuple(1 / math.factorial(2 * n + 1) for n in range(14))
_ARSINH = (1, -1 / 6, 3 / 40, -5 / 112, 35 / 1152, -63 / 2816, 231 / 13312)


def _series(q: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    out = torch.full_like(q, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        out = out * q + coefficient
    return out


def _split(square: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of 2×2 matrices (..., 2, 2): half the trace, what is left without it, and minus its determinant.

    The rest Y has Y² = q I, so that every function of the matrix is a number times I plus one times Y.
    """
    (a, b), (c, d) = (row.unbind(-1) for row in square.unbind(-2))
    lean = (a - d) / 2
    return (a + d) / 2, _square(lean, b, c, -lean), lean.square() + b * c


def _square(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
    return torch.stack((a, b, c, d), -1).unflatten(-1, (2, 2))


def _plus(number: Tensor, factor: Tensor, rest: Tensor) -> Tensor:
    """number · I + factor · rest, for numbers and factors (...) and matrices (..., 2, 2)."""
    eye = torch.eye(2, dtype=rest.dtype, device=rest.device)
    return number[..., None, None] * eye + factor[..., None, None] * rest


def _exp2(square: Tensor) -> tuple[Tensor, Tensor]:
    """exp(X) of matrices X (..., 2, 2), and the mean V of exp(sX) over s from 0 to 1.

    exp(m + Y) = e^m (cosh √q I + sinh √q / √q Y), where both functions are entire in q. A drift u along
    the flow of X adds up to V u.
    """
    half, rest, q = _split(square)
    at, weight = square.new_tensor(_NODES).unbind(1)
    grown = weight * (half[..., None] * at).exp()
    within = q[..., None] * at.square()
    mean = _plus(
        (grown * _series(within, _EVEN)).sum(-1), (grown * at * _series(within, _ODD)).sum(-1), rest
    )
    scale = half.exp()
    return _plus(scale * _series(q, _EVEN), scale * _series(q, _ODD), rest), mean


def _log2(square: Tensor) -> Tensor:
    """log of 2×2 matrices (..., 2, 2) of positive determinant that turn by less than half a turn."""
    determinant = square[..., 0, 0] * square[..., 1, 1] - square[..., 0, 1] * square[..., 1, 0]
    half, rest, q = _split(square / determinant.sqrt()[..., None, None])
    small = q.abs() < 0.01  # there the quotients below are 0 / 0
    away = torch.where(small, 1.0, q)
    root = away.abs().sqrt()
    turned = torch.atan2(root, half) / root
    factor = torch.where(away > 0, torch.asinh(root) / root, turned)
    factor = torch.where(small, _series(torch.where(small, q, 0.0), _ARSINH), factor)
    return _plus(determinant.log() / 2, factor, rest)


def _inverse2(square: Tensor) -> Tensor:
    (a, b), (c, d) = (row.unbind(-1) for row in square.unbind(-2))
    return _square(d, -b, -c, a) / (a * d - b * c)[..., None, None]


def _table(like: Tensor) -> Tensor:
    return like.new_tensor(GENERATORS).reshape(POSE, 6)


def exponential(pose: Tensor) -> Tensor:
    """The affine maps exp(Σ vᵢ Gᵢ) of poses v (..., 6), as matrices (..., 2, 3) with the shift last."""
    velocity = (pose @ _table(pose)).unflatten(-1, (2, 3))
    linear, drift = velocity[..., :2], velocity[..., 2:]
    flow, mean = _exp2(linear)
    return torch.cat((flow, mean @ drift), -1)


def logarithm(maps: Tensor) -> Tensor:
    """The poses (..., 6) of affine maps (..., 2, 3): the inverse of `exponential`."""
    linear = _log2(maps[..., :2])
    drift = _inverse2(_exp2(linear)[1]) @ maps[..., 2:]
    table = _table(maps)
    # the generators are orthogonal, so projections are coordinates
    return torch.cat((linear, drift), -1).flatten(-2) @ (table / table.square().sum(1, True)).mT


def compose(first: Tensor, then: Tensor) -> Tensor:
    """`then` after `first`, both affine maps (..., 2, 3)."""
    linear = then[..., :2] @ first[..., :2]
    return torch.cat((linear, then[..., :2] @ first[..., 2:] + then[..., 2:]), -1)


def inverse(maps: Tensor) -> Tensor:
    """The inverse maps of affine maps (..., 2, 3)."""
    linear = _inverse2(maps[..., :2])
    return torch.cat((linear, -linear @ maps[..., 2:]), -1)


def look(images: Tensor, maps: Tensor, outside: float = 0.0) -> Tensor:
    """Images (N, C, H, W) looked at through affine maps (N, 2, 3): at g p for every point p.

    Bilinear; what lies beyond the image has the value `outside`.
    """
    grid = F.affine_grid(maps, list(images.shape), align_corners=False)
    shifted = images - outside if outside else images
    seen = F.grid_sample(shifted, grid, padding_mode="zeros", align_corners=False)
    return seen + outside if outside else seen


# --- the pose of an image -----------------------------------------------------------------------


def first_pose(mass: Tensor) -> Tensor:
    """Centre, size and slant of the ink `mass` (N, H, W), not negative, as affine maps (N, 2, 3).

    The map takes an upright image, ink about the middle with a spread of `SIZE` and no slant, to where the
    ink lies. A blank image lies upright. A turn cannot be told from moments, and the stretch is left alone.
    """
    height, width = mass.shape[1:]
    x = (2 * torch.arange(width, dtype=mass.dtype, device=mass.device) + 1) / width - 1
    y = (2 * torch.arange(height, dtype=mass.dtype, device=mass.device) + 1) / height - 1
    total = mass.sum((1, 2))
    blank = total < 1e-6
    share = mass / torch.where(blank, 1.0, total)[:, None, None]
    columns, rows = share.sum(1), share.sum(2)
    cx, cy = columns @ x, rows @ y
    dx, dy = x - cx[:, None], y - cy[:, None]
    a, c = (columns * dx.square()).sum(1), (rows * dy.square()).sum(1).clamp_min(1e-4)
    b = torch.einsum("nyx,ny,nx->n", share, dy, dx)
    slant = b / c
    spread = ((a - slant * b + c) / 2).clamp_min(1e-4).sqrt()
    size = torch.where(blank, 1.0, (spread / SIZE).clamp(1 / LARGEST, LARGEST))
    slant = torch.where(blank, 0.0, slant.clamp(-2, 2))
    zero = torch.zeros_like(size)
    return torch.stack((size, size * slant, cx, zero, size, cy), -1).unflatten(-1, (2, 3))


class PoseEncoder(nn.Module):
    """q_φ(z|x) for a code of content and pose: find the pose, undo it, read the content.

    Moments of the ink, weighed by a learned saliency, give a first pose; a small network looks at the
    image undone by it and refines it; the usual encoder reads the image undone by the refined pose. Images
    (N, 1, H, W) → (N, 2d): the means of content and pose, then their log-variances.

    Args:
        content: the usual encoder of the content, (N, 1, H, W) → (N, 2(d − 6)).
        parts: which of `PARTS` there are; without the refinement the pose's log-variance is learned, but
            the same for all images.
    """

    def __init__(self, content: nn.Module, parts: tuple[str, ...] = PARTS) -> None:
        super().__init__()
        self.content = content
        self.saliency = self.refinement = self.spread = None
        if "saliency" in parts:
            self.saliency = nn.Sequential(
                nn.Conv2d(1, 8, 4, stride=2, padding=1),
                nn.ReLU(inplace=True),
                nn.Conv2d(8, 4, 3, padding=1),
                nn.PixelShuffle(2),
                nn.Sigmoid(),
            )
        if "refinement" in parts:
            self.refinement = nn.Sequential(
                nn.Conv2d(1, 8, 4, stride=2, padding=1),
                nn.ReLU(inplace=True),
                nn.Conv2d(8, 16, 4, stride=2, padding=1),
                nn.ReLU(inplace=True),
                nn.Conv2d(16, 32, 4, stride=2, padding=1),
                nn.ReLU(inplace=True),
                nn.Flatten(),
                nn.Linear(32 * 9, 64),
                nn.ReLU(inplace=True),
                nn.Linear(64, 2 * POSE),
            )
        else:
            self.spread = nn.Parameter(torch.zeros(POSE))

    def pose(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The affine maps (N, 2, 3) that images (N, 1, H, W) lie by, and the log-variances (N, 6)."""
        mass = x[:, 0] if self.saliency is None else x[:, 0] * self.saliency(x)[:, 0]
        maps = first_pose(mass)
        if self.refinement is None:
            assert self.spread is not None
            return maps, self.spread.expand(len(x), -1) + SHARP
        correction, logvar = self.refinement(look(x, maps)).chunk(2, -1)
        return compose(exponential(correction), maps), logvar + SHARP

    def forward(self, x: Tensor) -> Tensor:
        maps, logvar_pose = self.pose(x)
        mean, logvar = self.content(look(x, maps)).chunk(2, -1)
        return torch.cat((mean, logarithm(maps), logvar, logvar_pose), -1)


class PoseDecoder(nn.Module):
    """p_θ(x|z) for a code of content and pose: the content drawn upright, then moved by the pose.

    Codes (N, d) → logits (N, 1, H, W). Logits are moved, not probabilities: it needs no logarithm of a
    number near zero, and what lies outside the upright image has the logit `BLACK`.
    """

    def __init__(self, content: nn.Module) -> None:
        super().__init__()
        self.content = content

    def forward(self, z: Tensor) -> Tensor:
        upright = self.content(z[:, :-POSE].contiguous())
        return look(upright, inverse(exponential(z[:, -POSE:])), BLACK)


# --- the actions --------------------------------------------------------------------------------


class _Split(Action):
    """What P and AP share: the last six numbers are moved, by a τ of six, the others stay."""

    has_residual = False
    exact_inverse = True

    @classmethod
    def size_of_tau(cls, d: int) -> int:
        if d <= POSE:
            raise ValueError(
                f"The action {cls.letter} keeps {POSE} numbers for the pose, so d must be at least "
                f"{POSE + 1}, not {d}."
            )
        return POSE

    @classmethod
    def nearest_dimension(cls, d: int) -> int:
        return max(d, POSE + 1)

    @property
    def content_size(self) -> int:
        return self.d - POSE

    def act_inverse(self, z: Tensor, tau: Tensor) -> Tensor:
        return self.act(z, -tau)

    def identity(self) -> Tensor:
        return torch.zeros(self.tau_size)

    def moved(self, pose: Tensor, tau: Tensor) -> Tensor:
        """The pose (N, 6) that τ (N, 6) makes of `pose` (N, 6)."""
        raise NotImplementedError

    def act(self, z: Tensor, tau: Tensor) -> Tensor:
        content, pose = z[:, : self.content_size], z[:, self.content_size :]
        return torch.cat((content, self.moved(pose, tau)), -1)


@register("AP")
class SoftPose(_Split):
    """AP: τ is added to the last six numbers. A soft split: networks decide what these mean."""

    def moved(self, pose: Tensor, tau: Tensor) -> Tensor:
        return pose + tau


@register("P")
class Pose(_Split):
    """P: the affine maps act on themselves from the left, g ↦ exp(τ) g.

    Two views lie at exp(τ) g and exp(−τ) g, so that τ and g follow from their poses: nothing has to be
    learned to infer them. The content of z is the mean of the two; its spread and that of the pose are
    learned numbers.

    Args:
        parts: which of `PARTS` the encoder learns on the way to the pose.
    """

    infers = True
    start: Tensor

    def __init__(self, d: int, parts: tuple[str, ...] | list[str] = PARTS) -> None:
        super().__init__(d)
        if unknown := sorted(set(parts) - set(PARTS)):
            raise ValueError(
                f"The way to the pose has no part {', '.join(unknown)}; there are {', '.join(PARTS)}."
            )
        self.parts = tuple(parts)
        self.spread = nn.Parameter(torch.zeros(d))
        start = torch.full((d,), BLUNT)
        start[self.content_size :] = SHARP
        self.register_buffer("start", start, persistent=False)

    def moved(self, pose: Tensor, tau: Tensor) -> Tensor:
        return logarithm(compose(exponential(pose), exponential(tau)))

    def infer(self, z1: Tensor, z2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        keep = self.content_size
        g1, g2 = exponential(z1[:, keep:]), exponential(z2[:, keep:])
        tau = logarithm(compose(inverse(g2), g1)) / 2
        pose = logarithm(compose(g2, exponential(tau)))
        mean = torch.cat(((z1[:, :keep] + z2[:, :keep]) / 2, pose), -1)
        return mean, (self.spread + self.start).expand_as(mean), tau

    def networks(
        self, shape: tuple[int, int, int], width: int | None = None
    ) -> tuple[nn.Module, nn.Module]:
        if tuple(shape) != (1, 28, 28):
            raise ValueError(
                f"The action P finds poses by the ink of grey 28×28 images, not of shape {shape}: pass "
                "an encoder and a decoder of your own."
            )
        encoder, decoder = default_networks(self.content_size, shape, width)
        return PoseEncoder(encoder, self.parts), PoseDecoder(decoder)
