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

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

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
        most: The largest range that makes sense.
    """

    name: str
    parameters: tuple[str, ...]
    range: float
    draw: Draw
    matrices: Matrices
    inverse: Callable[[Tensor], Tensor] = torch.neg
    most: float = math.inf

    def __post_init__(self) -> None:
        if not self.parameters:
            raise ValueError(f"The family {self.name!r} needs the name of at least one parameter.")

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


@lru_cache(maxsize=256)
def constant(
    rows: tuple[tuple[float, ...], ...], device: torch.device, dtype: torch.dtype
) -> Tensor:
    """A tensor of these rows, made once for each device and type."""
    # The tensor outlives this call: were it made in inference mode, autograd could not use it later.
    with torch.inference_mode(False):
        return torch.tensor(rows, device=device, dtype=dtype)


def _combine(weights: Tensor, *terms: tuple[float, ...]) -> Tensor:
    """The first term plus the weighted others, as matrices.

    A batch of matrices takes one product this way instead of nine small sums.

    Args:
        weights: (n, m).
        terms: 1 + m matrices, each as its nine entries row by row.

    Returns:
        (n, 3, 3).
    """
    table = constant(terms, weights.device, weights.dtype)
    return torch.addmm(table[0], weights, table[1:]).view(-1, 3, 3)


def linear_about_centre(linear: Tensor, height: int, width: int) -> Tensor:
    """The linear maps [[a, b], [c, d]], given as rows (a, b, c, d), (n, 4), about the centre."""
    x, y = width / 2, height / 2
    return _combine(
        linear,
        (0, 0, x, 0, 0, y, 0, 0, 1),  # everything to the centre, and
        (1, 0, -x, 0, 0, 0, 0, 0, 0),  # a,
        (0, 1, -y, 0, 0, 0, 0, 0, 0),  # b,
        (0, 0, 0, 1, 0, -x, 0, 0, 0),  # c,
        (0, 0, 0, 0, 1, -y, 0, 0, 0),  # d times where it was, measured from the centre
    )


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
    entries = (a, b, c, d)
    like = next((e for e in entries if isinstance(e, Tensor)), None)
    if like is None:
        raise TypeError("At least one of a, b, c, d must be a tensor of shape (n,).")
    full = [e if isinstance(e, Tensor) else torch.full_like(like, e) for e in entries]
    return linear_about_centre(torch.stack(full, 1), height, width)


def _signed(uniform: Tensor, most: float, height: int, width: int) -> Tensor:
    """Every value uniform in (−most, most)."""
    return (2 * uniform - 1) * most


def _signed_and_axis(uniform: Tensor, most: float, height: int, width: int) -> Tensor:
    """The first value uniform in (−most, most), the second an axis, 0 or 1 with equal chances."""
    values = 2 * uniform
    values[:, 0].sub_(1).mul_(most)
    values[:, 1].floor_()
    return values


def _negate_first(values: Tensor) -> Tensor:
    """The inverse where the second value is an axis: the sign turns, the axis stays."""
    return values * constant(((-1.0, 1.0),), values.device, values.dtype)


def along(strength: Tensor, axis: Tensor) -> Tensor:
    """(n, 1) strengths and (n, 1) axes -> (n, 2): the strength in the axis's column, else 0."""
    return strength * (axis == constant(((0.0, 1.0),), axis.device, axis.dtype))


def _rotation(values: Tensor, height: int, width: int) -> Tensor:
    """Counter-clockwise by `angle`, then the zoom that fills the frame again.

    The zoom is k = 1 / (|cos| + |sin| · r), r ≥ 1 the aspect ratio; r = 1 for squares.
    """
    angle = torch.deg2rad(values)
    cos, sin = angle.cos(), angle.sin()
    zoom = cos.abs() + sin.abs() * (max(height, width) / min(height, width))
    return linear_about_centre(torch.cat((cos, -sin, sin, cos), 1) / zoom, height, width)


def _shear(values: Tensor, height: int, width: int) -> Tensor:
    """Slide rows (axis 0) or columns (axis 1) by tan(angle) per pixel, then fill the frame again.

    The zoom is k = 1 / (1 + |tan| · r), r = h/w for rows and w/h for columns.
    """
    slide = along(torch.deg2rad(values[:, :1]).tan(), values[:, 1:])
    ratio = constant(((height / width,), (width / height,)), values.device, values.dtype)
    zoom = 1 + slide.abs() @ ratio
    return linear_about_centre(F.pad(slide, (1, 1), value=1.0) / zoom, height, width)


def _tilt(values: Tensor, height: int, width: int) -> Tensor:
    """Lean the picture towards the viewer on one side, by `amount` pixels, with perspective.

    Axis 0: amount > 0 enlarges the left edge from h to h + 2·amount, amount < 0 the right edge;
    axis 1: the top edge and the bottom edge. The frame stays full: no crop is needed.
    """
    amount = along(values[:, :1], values[:, 1:])
    h, w, x, y = height, width, 2 / height, 2 / width
    return _combine(
        torch.cat((amount, -amount), 1).relu(),
        (1, 0, 0, 0, 1, 0, 0, 0, 1),  # the identity, and for each pixel on the
        (0, 0, 0, -1 / w, 0, 1, -x / w, 0, x),  # left,
        (0, -1 / h, 1, 0, 0, 0, 0, -y / h, y),  # top,
        (x, 0, 0, 1 / w, 0, 0, x / w, 0, 0),  # right,
        (0, 1 / h, 0, 0, y, 0, 0, y / h, 0),  # bottom
    )


def _draw_tilt(uniform: Tensor, most: float, height: int, width: int) -> Tensor:
    return _signed_and_axis(uniform, most * max(height, width), height, width)


def _translation(values: Tensor, height: int, width: int) -> Tensor:
    """Move the content `right` and `down` by so many pixels."""
    return _combine(
        values,
        (1, 0, 0, 0, 1, 0, 0, 0, 1),
        (0, 0, -1, 0, 0, 0, 0, 0, 0),
        (0, 0, 0, 0, 0, -1, 0, 0, 0),
    )


def _draw_translation(uniform: Tensor, most: float, height: int, width: int) -> Tensor:
    return (2 * uniform - 1) * uniform.new_tensor((most * width, most * height))


def _scale(values: Tensor, height: int, width: int) -> Tensor:
    """Enlarge the content about the centre by exp(log_x) to the sides and exp(log_y) upwards."""
    x, y = (-values).exp().unbind(1)
    return affine_about_centre(x, 0.0, 0.0, y, height, width)


def _draw_scale(uniform: Tensor, most: float, height: int, width: int) -> Tensor:
    return (2 * uniform - 1) * math.log1p(most)


# Generators of the affine maps of the plane about the centre, as (x, y) velocities of the content: in
# units of a family's range of 1, about as strong as the other families at theirs.
_AFFINE = {
    "right": ((0, 0, 0.2), (0, 0, 0)),  # of the image's size
    "down": ((0, 0, 0), (0, 0, 0.2)),
    "turn": ((0, math.radians(25), 0), (-math.radians(25), 0, 0)),  # counter-clockwise
    "grow": ((math.log(1.2), 0, 0), (0, math.log(1.2), 0)),
    "stretch": ((math.log(1.2), 0, 0), (0, -math.log(1.2), 0)),  # wider and flatter
    "slant": ((0, 0.2, 0), (0.2, 0, 0)),
}


def _affine(values: Tensor, height: int, width: int) -> Tensor:
    """The content moves by exp(Σ vᵢ Gᵢ) about the centre, so points are read at exp(−Σ vᵢ Gᵢ)."""
    table = torch.tensor(list(_AFFINE.values()), dtype=values.dtype, device=values.device)
    table = F.pad(table, (0, 0, 0, 1))  # (6, 3, 3), the last row zero
    side = values.new_tensor((width, height, 1.0))
    table[:, :, 2] *= side
    to_centre = torch.eye(3, dtype=values.dtype, device=values.device)
    to_centre[:2, 2] = -side[:2] / 2
    moved = torch.linalg.matrix_exp(-torch.einsum("np,pij->nij", values, table))
    return torch.linalg.inv(to_centre) @ moved @ to_centre


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
# All affine maps at once, exp(Σ vᵢ Gᵢ): negating v gives the exact inverse.
register(Family("affine", tuple(_AFFINE), 1.0, _signed, _affine, most=5.0))
