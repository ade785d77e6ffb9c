"""Augmentor's own geometry in closed form: its draws, its integer crops, its slips.

Same Convention as `tvae.transforms.families`; the parameters are the same as well, but whole
numbers: degrees for rotation and shear, pixels for tilt. What differs is what surrounds the map:

- *rotation*: the canvas grows to whole pixels, the crop is rounded to whole pixels, and its size
  comes from a formula with a slip of precedence (`a / 1 - b` where `a / (1 - b)` was meant), so
  that the zoom differs in x and y;
- *shear*: only the sheared direction is cropped, by whole pixels, and zoomed;
- *tilt*: no crop; the clean geometry with whole pixels.

`tvae.transforms.augmentor` drives the library itself; the tests hold the two together.
"""

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from tvae.transforms.families import Family
from tvae.transforms.families import get_family as get_clean_family

Matrix = list[list[float]]

# The shears Augmentor draws go to its limit plus one (see `_draw_shear`).
LARGEST = {"rotation": 25, "shear": 26}


def rotation_crop(angle: int, height: int, width: int) -> tuple[int, int, int, int, int, int]:
    """The rotated canvas and the box cut from it: (canvas w, canvas h, left, top, right, bottom)."""
    radians = -math.radians(angle % 360.0)
    cos, sin = round(math.cos(radians), 15), round(math.sin(radians), 15)
    # Pillow's canvas: the corners, turned about the centre, out to whole pixels
    cx, cy = width / 2, height / 2
    dx, dy = cos * -cx + sin * -cy + cx, -sin * -cx + cos * -cy + cy
    corners = ((0, 0), (width, 0), (width, height), (0, height))
    xs = [cos * x + sin * y + dx for x, y in corners]
    ys = [-sin * x + cos * y + dy for x, y in corners]
    canvas_w = math.ceil(max(xs)) - math.floor(min(xs))
    canvas_h = math.ceil(max(ys)) - math.floor(min(ys))
    if angle == 0:  # Pillow returns a copy
        canvas_w, canvas_h = width, height
    # Augmentor's crop, slip included
    a, b = math.radians(abs(angle)), math.radians(90 - abs(angle))
    t = math.sin(a) / math.sin(b)
    e = t * (canvas_h - canvas_w * t)
    e = e / 1 - (math.sin(a) ** 2 / math.sin(b) ** 2)
    top = t * (canvas_w - e)
    box = (round(e), round(top), round(canvas_w - e), round(canvas_h - top))
    if box[0] >= box[2] or box[1] >= box[3]:
        raise ValueError(
            f"Augmentor's crop after a rotation by {angle}° is empty for pictures of "
            f"{height}×{width} pixels; use a smaller range or geometry='clean'."
        )
    return canvas_w, canvas_h, *box


def rotation_matrix(angle: int, height: int, width: int) -> Matrix:
    """Output to input for `RotateRange` by `angle` whole degrees, counter-clockwise."""
    canvas_w, canvas_h, left, top, right, bottom = rotation_crop(angle, height, width)
    kx, ky = (right - left) / width, (bottom - top) / height
    # a point of the output on the canvas, measured from the canvas's centre
    ox, oy = left - canvas_w / 2, top - canvas_h / 2
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    return [
        [cos * kx, -sin * ky, width / 2 + cos * ox - sin * oy],
        [sin * kx, cos * ky, height / 2 + sin * ox + cos * oy],
        [0.0, 0.0, 1.0],
    ]


def shear_matrix(angle: int, axis: int, height: int, width: int) -> Matrix:
    """Output to input for `Shear` by `angle` whole degrees along axis 0 (x) or 1 (y)."""
    t = math.tan(math.radians(abs(angle)))
    if axis == 0:
        crop = math.ceil(t * height)
        k = (width - crop) / width
        row = [k, t, 0.0] if angle > 0 else [k, -t, float(crop)]
        matrix = [row, [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    else:
        crop = round(t * width)
        k = (height - crop) / height
        row = [t, k, crop - t * width] if angle > 0 else [-t, k, float(crop)]
        matrix = [[1.0, 0.0, 0.0], row, [0.0, 0.0, 1.0]]
    if k <= 0:
        raise ValueError(
            f"Augmentor's crop after a shear by {angle}° is empty for pictures of "
            f"{height}×{width} pixels; use a smaller range or geometry='clean'."
        )
    return matrix


@lru_cache(maxsize=64)
def _table(
    family: str, most: int, height: int, width: int, device: torch.device, dtype: torch.dtype
) -> Tensor:
    """The matrices of all whole angles from −most to most; of both axes for shear."""
    angles = range(-most, most + 1)
    if family == "rotation":
        table: list[Any] = [rotation_matrix(angle, height, width) for angle in angles]
    else:
        table = [[shear_matrix(angle, axis, height, width) for axis in (0, 1)] for angle in angles]
    with torch.inference_mode(False):
        return torch.tensor(table, dtype=dtype, device=device)


def _rotation(values: Tensor, height: int, width: int) -> Tensor:
    angle = values[:, 0].long()
    most = int(angle.abs().max()) if angle.numel() else 0
    return _table("rotation", most, height, width, values.device, values.dtype)[angle + most]


def _shear(values: Tensor, height: int, width: int) -> Tensor:
    angle, axis = values.long().unbind(1)
    most = int(angle.abs().max()) if angle.numel() else 0
    return _table("shear", most, height, width, values.device, values.dtype)[angle + most, axis]


def _draw_rotation(uniform: Tensor, most: float, height: int, width: int) -> Tensor:
    """A coin for the side, then 0, 1, ..., most with equal chances: 0° twice as often."""
    signed = 2 * uniform - 1
    return (signed.abs() * (math.floor(most) + 1)).floor() * signed.sign()


def _draw_shear(uniform: Tensor, most: float, height: int, width: int) -> Tensor:
    """`int(uniform(−L − 1, L + 1))`, plus one unless it is −1: ±1 twice as often, never 0."""
    angle = ((2 * uniform[:, 0] - 1) * (math.floor(most) + 1)).trunc()
    angle = angle + (angle != -1)
    return torch.stack((angle, (uniform[:, 1] >= 0.5).to(uniform)), 1)


def _draw_tilt(uniform: Tensor, most: float, height: int, width: int) -> Tensor:
    """1, 2, ..., ⌈most · max(h, w)⌉ pixels and one of four directions, all with equal chances."""
    largest = math.ceil(max(height, width) * most)
    amount = (uniform[:, 0] * largest).floor() + 1
    direction = (uniform[:, 1] * 4).floor()
    sign = 1 - 2 * (direction % 2)
    return torch.stack((amount * sign, (direction >= 2).to(uniform)), 1)


_FAMILIES: dict[str, dict[str, Any]] = {
    "rotation": {"draw": _draw_rotation, "matrices": _rotation, "most": 25.0},
    "shear": {"draw": _draw_shear, "matrices": _shear, "most": 25.0},
    "tilt": {"draw": _draw_tilt, "most": 1.0},
}


def get_family(name: str) -> Family:
    """The family of that name in Augmentor's geometry."""
    if name not in _FAMILIES:
        raise ValueError(
            f"Augmentor's geometry exists for rotation, tilt and shear, not for {name!r}; "
            "use geometry='clean'."
        )
    return replace(get_clean_family(name), **_FAMILIES[name])


def check_values(name: str, values: Tensor) -> None:
    """Raise unless `values` are whole and within what Augmentor can be asked to do."""
    if not torch.equal(values, values.round()):
        raise ValueError(f"Augmentor's {name} takes whole numbers only; use geometry='clean'.")
    most = LARGEST.get(name)
    if most is not None and values.numel() and float(values[:, 0].abs().max()) > most:
        raise ValueError(f"Augmentor's {name} goes up to {most}°; use geometry='clean'.")
