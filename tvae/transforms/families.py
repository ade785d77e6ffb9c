"""Families of transformations: parameters on one side, 3×3 homographies on the other.

**Convention.** A picture of height h and width w covers the rectangle [0, w] × [0, h]; x points to
the right, y down, and the centre of the pixel in row i and column j is (j + ½, i + ½): these are
*edge* coordinates, the corners of the picture are (0, 0) and (w, h). A matrix `H` maps points of the
**output** to points of the **input**: the colour at (X, Y) of the warped picture is read at
(u, v) = (U/S, V/S), where (U, V, S)ᵀ = H (X, Y, 1)ᵀ. It is the matrix a resampler needs, and the
inverse of the matrix that moves the content. Doing `H` first and `G` afterwards reads at `H G`.
Angles are in degrees, lengths in pixels. Whatever would be read outside the picture is black.

**Clean geometry.** Rotation and shear act about the centre and are followed by the one zoom, equal
in both directions, that makes the result just fill the frame: rotate, crop the largest upright
rectangle of the same shape, enlarge. Tilt fills the frame by itself. A transformation followed by
the one with the inverse parameter is then exactly a zoom about the centre: by the same factor in
both directions for rotation and shear; for tilt only along the edge that was enlarged. The content
comes back in line, larger. Translation and scale need no crop; they have true inverses.

A family of your own takes a few lines:

    squeeze = Family(
        name="squeeze", parameters=("log_factor",), range=0.3,
        draw=lambda uniform, most, h, w: (2 * uniform - 1) * most,
        matrices=lambda values, h, w: affine_about_centre(values[:, 0].exp(), 0, 0, 1, h, w),
    )
    register(squeeze)
    Triplets(families=("rotation", "squeeze"))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = [
    "Family",
    "affine_about_centre",
    "families",
    "get_family",
    "homographies",
    "register",
]

Draw = Callable[[Tensor, float, int, int], Tensor]
Matrices = Callable[[Tensor, int, int], Tensor]


@dataclass(frozen=True)
class Family:
    """A family of homographies.

    Args:
        name: How settings refer to it.
        parameters: The names of its p parameters, the columns of `values`.
        range: The default strength, one number whose meaning is the family's own.
        draw: `(uniform (n, p) in [0, 1), range, height, width) -> values (n, p)`.
        matrices: `(values (n, p), height, width) -> (n, 3, 3)`, see the Convention.
        inverse: `values (n, p) -> values (n, p)` of the inverse transformation.
        identity: The values that change nothing; zeros if not given.
        most: The largest range that makes sense.
    """

    name: str
    parameters: tuple[str, ...]
    range: float
    draw: Draw
    matrices: Matrices
    inverse: Callable[[Tensor], Tensor] = torch.neg
    identity: tuple[float, ...] = ()
    most: float = math.inf

    def __post_init__(self) -> None:
        if not self.parameters:
            raise ValueError(f"The family {self.name!r} needs the name of at least one parameter.")
        if not self.identity:
            object.__setattr__(self, "identity", (0.0,) * len(self.parameters))
        if len(self.identity) != len(self.parameters):
            raise ValueError(
                f"The identity of {self.name!r} must have {len(self.parameters)} value(s), "
                f"not {len(self.identity)}."
            )

    def check_range(self, value: float) -> float:
        """Return `value` as a float if it can be a range of this family, else say why not."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"The range of {self.name!r} must be a number, not {value!r}.")
        if not (math.isfinite(value) and 0 < value <= self.most):
            most = "" if math.isinf(self.most) else f" and at most {self.most:g}"
            raise ValueError(
                f"The range of {self.name!r} must be finite, positive{most}, not {value:g}."
            )
        return float(value)


def _assemble(entries: list[Tensor | float], like: Tensor) -> Tensor:
    """Nine entries, tensors (n,) or numbers, row by row -> (n, 3, 3)."""
    blank = torch.zeros_like(like)
    full = [e if isinstance(e, Tensor) else (blank + e if e else blank) for e in entries]
    return torch.stack(full, dim=-1).unflatten(-1, (3, 3))


def affine_about_centre(
    a: Tensor | float,
    b: Tensor | float,
    c: Tensor | float,
    d: Tensor | float,
    height: int,
    width: int,
) -> Tensor:
    """The linear map [[a, b], [c, d]] about the centre of the picture, as matrices (n, 3, 3).

    At least one of the entries is a tensor (n,); numbers stand for all n.
    """
    like = next((e for e in (a, b, c, d) if isinstance(e, Tensor)), None)
    if like is None:
        raise TypeError("At least one of a, b, c, d must be a tensor of shape (n,).")
    x, y = width / 2, height / 2
    # written as (1 − a) x so that the identity gives an exact zero
    return _assemble([a, b, (1 - a) * x - b * y, c, d, (1 - d) * y - c * x, 0.0, 0.0, 1.0], like)


def _signed(uniform: Tensor, most: float, height: int, width: int) -> Tensor:
    """Every value uniform in (−most, most)."""
    return (2 * uniform - 1) * most


def _signed_and_axis(uniform: Tensor, most: float, height: int, width: int) -> Tensor:
    """The first value uniform in (−most, most), the second an axis, 0 or 1 with equal chances."""
    return torch.stack(((2 * uniform[:, 0] - 1) * most, (uniform[:, 1] >= 0.5).to(uniform)), 1)


def _negate_first(values: Tensor) -> Tensor:
    """The inverse where the second value is an axis: the sign turns, the axis stays."""
    return torch.stack((-values[:, 0], values[:, 1]), 1)


def _rotation(values: Tensor, height: int, width: int) -> Tensor:
    """Counter-clockwise by `angle`, then the zoom that fills the frame again.

    The zoom is k = 1 / (|cos| + |sin| · r), r ≥ 1 the aspect ratio; r = 1 for squares.
    """
    angle = torch.deg2rad(values[:, 0])
    cos, sin = angle.cos(), angle.sin()
    k = 1 / (cos.abs() + sin.abs() * (max(height, width) / min(height, width)))
    cos, sin = k * cos, k * sin
    return affine_about_centre(cos, -sin, sin, cos, height, width)


def _shear(values: Tensor, height: int, width: int) -> Tensor:
    """Slide rows (axis 0) or columns (axis 1) by tan(angle) per pixel, then fill the frame again.

    The zoom is k = 1 / (1 + |tan| · r), r = h/w for rows and w/h for columns.
    """
    tangent, axis = torch.deg2rad(values[:, 0]).tan(), values[:, 1]
    ratio = height / width + (width / height - height / width) * axis
    k = 1 / (1 + tangent.abs() * ratio)
    slide = k * tangent
    columns = slide * axis
    return affine_about_centre(k, slide - columns, columns, k, height, width)


def _tilt(values: Tensor, height: int, width: int) -> Tensor:
    """Lean the picture towards the viewer on one side, by `amount` pixels, with perspective.

    Axis 0: amount > 0 enlarges the left edge from h to h + 2·amount, amount < 0 the right edge;
    axis 1: the top edge and the bottom edge. The frame stays full: no crop is needed.
    """
    s, axis = values[:, 0], values[:, 1]
    other = 1 - axis
    p, q = s.clamp(min=0), (-s).clamp(min=0)
    g = (2 / height) * other + (2 / width) * axis
    x, y = (s / -width) * other, (s / -height) * axis
    return _assemble(
        [1 + g * q * other, y, p * axis, x, 1 + g * q * axis, p * other, g * x, g * y, 1 + g * p], s
    )


def _draw_tilt(uniform: Tensor, most: float, height: int, width: int) -> Tensor:
    return _signed_and_axis(uniform, most * max(height, width), height, width)


def _translation(values: Tensor, height: int, width: int) -> Tensor:
    """Move the content `right` and `down` by so many pixels."""
    right, down = values[:, 0], values[:, 1]
    return _assemble([1.0, 0.0, -right, 0.0, 1.0, -down, 0.0, 0.0, 1.0], right)


def _draw_translation(uniform: Tensor, most: float, height: int, width: int) -> Tensor:
    return (2 * uniform - 1) * uniform.new_tensor((most * width, most * height))


def _scale(values: Tensor, height: int, width: int) -> Tensor:
    """Enlarge the content about the centre by exp(log_x) to the sides and exp(log_y) upwards."""
    x, y = (-values).exp().unbind(1)
    return affine_about_centre(x, 0.0, 0.0, y, height, width)


def _draw_scale(uniform: Tensor, most: float, height: int, width: int) -> Tensor:
    return (2 * uniform - 1) * math.log1p(most)


_REGISTRY: dict[str, Family] = {}


def register(family: Family, *, replace: bool = False) -> Family:
    """Make `family` available by its name; an existing name is only replaced on request."""
    if family.name in _REGISTRY and not replace:
        raise ValueError(
            f"A family named {family.name!r} exists already; pass replace=True to replace it."
        )
    _REGISTRY[family.name] = family
    return family


def families() -> tuple[str, ...]:
    """The names of all registered families."""
    return tuple(_REGISTRY)


def get_family(name: str) -> Family:
    """The family of that name; the error for an unknown one lists what there is."""
    if name not in _REGISTRY:
        raise ValueError(
            f"There is no family {name!r}; registered are {', '.join(_REGISTRY)} "
            "(tvae.transforms.register adds others)."
        )
    return _REGISTRY[name]


def homographies(name: str, values: Tensor, height: int, width: int) -> Tensor:
    """The matrices (n, 3, 3) of the family `name` at `values` (n, p), in the clean geometry."""
    family = get_family(name)
    if values.ndim != 2 or values.shape[1] != len(family.parameters):
        raise ValueError(
            f"The values of {name!r} must have shape (n, {len(family.parameters)}), the columns "
            f"being {', '.join(family.parameters)}, not {tuple(values.shape)}."
        )
    return family.matrices(values, height, width)


# The paper's three. Ranges are Augmentor's largest: 25° each; a tilt of at most 1 · max(h, w).
register(Family("rotation", ("angle",), 25.0, _signed, _rotation, most=180.0))
register(
    Family("tilt", ("amount", "axis"), 1.0, _draw_tilt, _tilt, inverse=_negate_first, most=10.0)
)
register(
    Family(
        "shear", ("angle", "axis"), 25.0, _signed_and_axis, _shear, inverse=_negate_first, most=80.0
    )
)
# Ours: up to a fraction of the picture's size; up to a factor of 1 + range either way.
register(Family("translation", ("right", "down"), 0.2, _draw_translation, _translation, most=1.0))
register(Family("scale", ("log_x", "log_y"), 0.2, _draw_scale, _scale, most=10.0))
