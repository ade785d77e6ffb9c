"""Which rotation, shear or tilt does an image show? Read by registration against warped originals.

    read = PoseReader(originals, "rotation", torch.arange(-45.0, 46.0, 3.0))
    found = read(images)          # images (N, K, C, H, W): K images for each of the N originals
    found.value                   # (N, K): the angle of each, in degrees

For each original the family's transformation is made at every value of a grid (the *templates*); the
value whose template correlates best with an image is its estimate, refined between the points of the
grid by the parabola through the maximum and its two neighbours. The correlation is Pearson's, so a
image's contrast and brightness do not matter.

**Zoom.** In the clean geometry (`tvae.transforms.families`) rotation and shear come with a zoom that
fills the frame, and its factor depends on the size of the angle only, not on its sign. `zooms=None`
makes templates by exactly these transformations: right for images that were made that way. A decoder
is free to turn a digit without enlarging it, and would then be read wrongly, as the zoom alone tells
about the angle. With a tuple of `zooms` the family's own zoom is taken out, each of the given
magnifications at the centre of the frame is tried in its place, and the best one counts.

**What cannot be read.** Nothing in an image of a disc tells its angle. The correlation is then flat and
the estimate means little; `PoseReading.width` says so, as it is large: it is how far the value can change
before the correlation has fallen by a hundredth.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tvae.transforms import get_family, homographies, warp

#: Magnifications from a little below 1 to beyond that of the largest transformation, in equal ratios.
ZOOMS: tuple[float, ...] = tuple(0.87 * 1.1**k for k in range(8))
_DROP = 0.01  # the fall of the correlation that defines `width`
_CHUNK = 20  # originals that are warped at a time
_TINY = 1e-4  # an image with less contrast correlates with nothing: its correlations are 0


@dataclass(frozen=True)
class PoseReading:
    """What the reader found, each (N, K).

    Args:
        value: the parameter, in the family's unit (degrees; pixels for tilt).
        correlation: with the best template, between −1 and 1.
        width: the change of the value over which the correlation falls by a hundredth, by the
            curvature of its maximum; infinite where there is no maximum inside the grid.
        zoom: the magnification of the best template at the centre of the frame.
        inside: whether the maximum lies inside the grid; at its ends the value is a bound only.
    """

    value: Tensor
    correlation: Tensor
    width: Tensor
    zoom: Tensor
    inside: Tensor


def magnification(matrices: Tensor, height: int, width: int) -> Tensor:
    """How much matrices (n, 3, 3), output to input, enlarge what lies at the centre of the frame, (n,).

    It is the square root of the change of area there; for a homography with matrix H the Jacobian of
    the map has the determinant det H / S³, S being the third homogeneous coordinate.
    """
    centre = matrices.new_tensor((width / 2, height / 2, 1.0))
    scale = matrices[:, 2] @ centre
    return (scale**3 / torch.linalg.det(matrices)).sqrt()


def transformed(
    images: Tensor,
    family: str,
    value: float,
    *,
    others: Sequence[float] = (),
    zoom: float | None = None,
) -> Tensor:
    """All images (N, C, H, W) by one value of a family, clean geometry.

    Args:
        others: the family's further parameters; for shear and tilt the axis.
        zoom: a magnification at the centre of the frame in the place of the family's own.
    """
    height, width = images.shape[-2:]
    values = torch.tensor([[value, *others]], dtype=torch.float64)
    matrices = homographies(family, values, height, width)
    if zoom is not None:
        matrices = _enlarge(matrices, torch.tensor([zoom], dtype=torch.float64), height, width)
    return warp(images, matrices.expand(len(images), 3, 3))


def _enlarge(matrices: Tensor, zooms: Tensor, height: int, width: int) -> Tensor:
    """Matrices (n, 3, 3) that do the same with the magnifications (n,) at the centre."""
    logs = (zooms / magnification(matrices, height, width)).log()
    # the family first, the zoom about the centre afterwards: reads at H G
    return matrices @ homographies("scale", logs[:, None].expand(-1, 2), height, width)


def _normalise(images: Tensor) -> Tensor:
    """(..., P) with mean 0 and norm 1; all zeros where there is no contrast."""
    centred = images - images.mean(-1, keepdim=True)
    norm = centred.norm(dim=-1, keepdim=True)
    return torch.where(norm > _TINY, centred / norm.clamp(min=_TINY), torch.zeros_like(centred))


def _at(values: Tensor, index: Tensor) -> Tensor:
    """The entries of values (..., n) at one index for each row, (...)."""
    return torch.gather(values, -1, index[..., None])[..., 0]


def _peak(left: Tensor, middle: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """The parabola through three values at −1, 0, 1, the middle one the largest: where its maximum
    is, and its second derivative there (≤ 0)."""
    bend = left - 2 * middle + right
    shift = 0.5 * (left - right) / torch.where(bend < 0, bend, torch.ones_like(bend))
    return torch.where(bend < 0, shift, torch.zeros_like(shift)), bend


class PoseReader:
    """Registers images against warped copies of `originals`; the templates are made once.

    Args:
        originals: (N, C, H, W), in [0, 1].
        family: the name of a family whose first parameter is sought, such as "rotation".
        grid: (G,) values of it, increasing in equal steps, G ≥ 3.
        others: the family's further parameters, held fixed; for shear and tilt the axis.
        zooms: None for the family's own zoom, or magnifications to try, increasing, about equal in
            their ratios; see the module's text.
    """

    def __init__(
        self,
        originals: Tensor,
        family: str,
        grid: Tensor | Sequence[float],
        *,
        others: Sequence[float] = (),
        zooms: Sequence[float] | None = None,
    ) -> None:
        self.grid = torch.as_tensor(grid, dtype=torch.float64)
        if self.grid.ndim != 1 or len(self.grid) < 3:
            raise ValueError(
                f"The grid must be at least three values, not of shape {tuple(self.grid.shape)}."
            )
        steps = self.grid.diff()
        if not bool((steps > 0).all()) or float(steps.max() - steps.min()) > 1e-6 * float(steps[0]):
            raise ValueError("The grid must increase in equal steps.")
        needed = len(get_family(family).parameters) - 1
        if len(others) != needed:
            raise ValueError(
                f"The family {family!r} has {needed} further parameter(s), not {len(others)}: "
                "give them as `others`."
            )
        if zooms is not None and (not zooms or min(zooms) <= 0 or sorted(zooms) != list(zooms)):
            raise ValueError("zooms must be None or positive magnifications in increasing order.")
        if originals.ndim != 4 or not originals.is_floating_point():
            raise ValueError(
                "originals must be floating point of shape (N, C, H, W), "
                f"not {originals.dtype} of shape {tuple(originals.shape)}."
            )
        self.family, self.step = family, float(steps[0])
        height, width = originals.shape[-2:]
        fixed = torch.tensor([list(others)] * len(self.grid), dtype=torch.float64)
        values = torch.cat((self.grid[:, None], fixed.view(len(self.grid), needed)), 1)
        own = homographies(family, values, height, width)
        if zooms is None:
            self.zooms = magnification(own, height, width)[:, None]
            matrices = own
        else:
            self.zooms = torch.tensor(list(zooms), dtype=torch.float64).repeat(len(self.grid), 1)
            repeated = own.repeat_interleave(len(zooms), 0)
            matrices = _enlarge(repeated, self.zooms.flatten(), height, width)
        count = len(matrices)
        parts = [  # a few originals at a time: the warp needs several times the templates' memory
            warp(some.repeat_interleave(count, 0), matrices.repeat(len(some), 1, 1)).view(
                len(some), count, -1
            )
            for some in originals.split(_CHUNK)
        ]
        self.templates = torch.cat([_normalise(part) for part in parts])  # (N, G·Z, P)

    def correlations(self, images: Tensor) -> Tensor:
        """Of images (N, K, C, H, W) with every template of their original, (N, K, G, Z)."""
        n, _, pixels = self.templates.shape
        if images.ndim != 5 or images.shape[0] != n or images[0, 0].numel() != pixels:
            raise ValueError(
                f"images must have shape (N, K, C, H, W), K images for each of the {n} "
                f"originals with {pixels} values each, not {tuple(images.shape)}."
            )
        flat = _normalise(images.flatten(2).to(self.templates))
        return (flat @ self.templates.mT).view(n, -1, *self.zooms.shape)

    def __call__(self, images: Tensor) -> PoseReading:
        """Estimates for images (N, K, C, H, W), or (N, C, H, W) for one image of each original."""
        table = self.correlations(images.unsqueeze(1) if images.ndim == 4 else images)
        # The best zoom at every value of the grid, refined like the value itself: without that the
        # profile over the values would have steps where the best zoom changes.
        profile, z = table.max(-1)  # (N, K, G)
        zoom = _at(self.zooms.to(table).expand_as(table), z)
        count = table.shape[-1]
        if count >= 3:
            at = z.clamp(1, count - 2)
            shift, bend = _peak(*(_at(table, at + k) for k in (-1, 0, 1)))
            within = at == z
            profile = torch.where(within, _at(table, at) - 0.5 * bend * shift.square(), profile)
            logs = self.zooms.log().to(table).expand_as(table)
            ratio = (0.5 * shift * (_at(logs, at + 1) - _at(logs, at - 1))).exp()
            zoom = torch.where(within, zoom * ratio, zoom)
        best = profile.argmax(-1)
        at = best.clamp(1, len(self.grid) - 2)
        shift, bend = _peak(*(_at(profile, at + k) for k in (-1, 0, 1)))
        inside = (at == best) & (bend < 0)
        grid = self.grid.to(table)
        top = _at(profile, best)
        curvature = (-bend / self.step**2).clamp(min=0)
        width = torch.where(inside, (2 * _DROP / curvature).sqrt(), torch.inf)
        return PoseReading(
            value=torch.where(inside, grid[at] + self.step * shift, grid[best]),
            # the parabola can overshoot what a correlation can be
            correlation=torch.where(inside, top - 0.5 * bend * shift.square(), top).clamp(max=1),
            width=width,
            zoom=_at(zoom, best),
            inside=inside,
        )
