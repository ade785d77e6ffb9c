"""The affine maps of AffNIST: which are drawn, the placements that lose no ink, the rendering.

Convention. Coordinates are x to the right and y down, in pixels, about the centre of the image or
canvas; pixel centres lie at half-integers from the edge. A point p of the original goes to A p + t,

    A = [[cos θ, sin θ], [−sin θ, cos θ]] · [[1, s], [0, 1]] · [[ex, 0], [0, ey]]:

expand, shear along x, turn counter-clockwise by θ, shift. Each output pixel looks back through A⁻¹
and interpolates bilinearly; outside the original there is no ink.

Where no ink is lost. Under bilinear interpolation a pixel of ink at p reaches the open square
p ± 1, so on the canvas the parallelogram A(p ± 1) + t, which extends |A₀₀| + |A₀₁| to either side in
x. Ink is lost when that reaches the centre of a pixel beyond the border, which lies half a pixel
outside. Hence, over the ink pixels, shift x may be anything from
−(20 + ½) − min(A p)ₓ + (|A₀₀| + |A₀₁|) to (20 + ½) − max(A p)ₓ − (|A₀₀| + |A₀₁|), and y alike. The
extremes of a linear function are taken at the first or last ink pixel of some row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
import torch.nn.functional as F

from tvae.data.counter_based import uniforms, words
from tvae.data.resampling import in_blocks, to_bytes

CANVAS = 40
# the published ranges: ± degrees, ±, from and to
ROTATION, SHEAR, EXPANSION = 20.0, 0.2, (0.8, 1.2)


@dataclass(frozen=True)
class Parameters:
    """What was drawn for K images; each field has shape (K,), float64 but for `original`.

    `rotation` in degrees, counter-clockwise; `shift_x`, `shift_y` in pixels of the canvas.
    """

    original: torch.Tensor
    rotation: torch.Tensor
    shear: torch.Tensor
    expand_x: torch.Tensor
    expand_y: torch.Tensor
    shift_x: torch.Tensor
    shift_y: torch.Tensor

    def __len__(self) -> int:
        return len(self.original)

    def as_dict(self) -> dict[str, torch.Tensor]:
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def linear(self) -> torch.Tensor:
        """The linear parts A, (K, 2, 2) float64."""
        angle = torch.deg2rad(self.rotation)
        cos, sin = torch.cos(angle), torch.sin(angle)
        rows = (
            cos * self.expand_x,
            (cos * self.shear + sin) * self.expand_y,
            -sin * self.expand_x,
            (cos - sin * self.shear) * self.expand_y,
        )
        return torch.stack(rows, dim=1).reshape(-1, 2, 2)


def chosen(total: int, count: int | None, seed: int, split: str) -> torch.Tensor:
    """Which of `total` images to use, ascending: all, or `count` of them drawn without repetition.

    Every image gets a random number of its own, and the `count` smallest win. So a smaller choice
    lies within a larger one of the same seed.
    """
    if count is None or count == total:
        return torch.arange(total)
    if isinstance(count, bool) or not 0 < count <= total:
        raise ValueError(
            f"AffNIST ({split}) has {total:,} images here: count must be 1 to that, not {count}."
        )
    keys = words(seed, f"affnist/{split}/choice", np.arange(total))
    return torch.from_numpy(np.sort(np.argpartition(keys, count - 1)[:count]))


def joined(parts: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """The columns of several parts of a set, one after the other."""
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def ink_extremes(images: torch.Tensor) -> torch.Tensor:
    """First and last ink pixel of every row of (N, 1, H, W), as (N, 2H, 2): x, y about the centre.

    Rows without ink repeat a point of another row; an image without any ink has the point 0.
    """
    result = torch.empty((len(images), 2 * images.shape[2], 2))

    def work(part: slice) -> None:
        result[part] = _ink_extremes(images[part, 0] > 0)

    in_blocks(work, len(images), 1024)
    return result


def _ink_extremes(ink: torch.Tensor) -> torch.Tensor:
    n, height, width = ink.shape
    column = torch.arange(width, dtype=torch.int16)
    first = torch.where(ink, column, width).amin(2)
    last = torch.where(ink, column, -1).amax(2)
    x = torch.cat([first, last], 1).float() + (0.5 - width / 2)
    y = torch.arange(height) + (0.5 - height / 2)
    points = torch.stack([x, y.repeat(2).expand(n, -1)], dim=2)
    inked = last >= 0
    stand_in = points[torch.arange(n), inked.to(torch.uint8).argmax(1)]  # of the first inked row
    stand_in[~inked.any(1)] = 0.0
    return torch.where(inked.repeat(1, 2)[:, :, None], points, stand_in[:, None])


def parameters(
    images: torch.Tensor,
    numbers: torch.Tensor,
    seed: int = 0,
    *,
    split: str = "test",
    extremes: torch.Tensor | None = None,
) -> Parameters:
    """The parameters of the images `numbers` (K,) made from the originals `images` (N, 1, H, W).

    Row k depends on the seed, the split, the number and its original, on nothing else. `extremes`
    may pass in the `ink_extremes` of the originals where they are known.
    """
    draws = torch.from_numpy(uniforms(seed, f"affnist/{split}", numbers.numpy(), 6))
    low, high = EXPANSION
    original = numbers % len(images)
    free = Parameters(
        original=original,
        rotation=(2 * draws[:, 0] - 1) * ROTATION,
        shear=(2 * draws[:, 1] - 1) * SHEAR,
        expand_x=low + draws[:, 2] * (high - low),
        expand_y=low + draws[:, 3] * (high - low),
        shift_x=torch.zeros(len(numbers), dtype=torch.float64),
        shift_y=torch.zeros(len(numbers), dtype=torch.float64),
    )
    linear = free.linear()
    points = ink_extremes(images[original]) if extremes is None else extremes[original]
    border = CANVAS / 2 + 0.5
    shift = []
    for i in range(2):
        # sums written out: a matrix product may add in another order for another batch size
        spread = points[:, :, 0] * linear[:, i, :1] + points[:, :, 1] * linear[:, i, 1:]
        reach = linear[:, i].abs().sum(1)
        lowest = -border - spread.amin(1) + reach
        highest = border - spread.amax(1) - reach
        if bool((lowest > highest).any()):
            raise ValueError(
                f"Original {int(original[lowest > highest][0])} has ink too far apart for a "
                f"{CANVAS}x{CANVAS} canvas: no placement of one of its transformed versions keeps "
                f"all ink; use originals with a margin."
            )
        shift.append(lowest + draws[:, 4 + i] * (highest - lowest))
    return replace(free, shift_x=shift[0], shift_y=shift[1])


def render(images: torch.Tensor, drawn: Parameters, *, canvas: int = CANVAS) -> torch.Tensor:
    """The transformed originals, (K, 1, canvas, canvas) uint8.

    `shift` counts from the centre of whatever canvas, so a larger canvas shows the same picture with
    more around it.
    """
    height, width = images.shape[-2:]
    (a, b), (c, d) = drawn.linear().permute(1, 2, 0)
    # grid_sample (align_corners=False) wants coordinates where the half-width of the original is 1
    scale = a * d - b * c
    inverse = (
        (d / (scale * width / 2), -b / (scale * width / 2)),
        (-c / (scale * height / 2), a / (scale * height / 2)),
    )
    axis = torch.arange(canvas) + (0.5 - canvas / 2)
    grid = torch.empty((len(drawn), canvas, canvas, 2))
    for i, (from_x, from_y) in enumerate(inverse):
        offset = -(from_x * drawn.shift_x + from_y * drawn.shift_y).float()
        along_x = from_x.float()[:, None] * axis
        along_y = from_y.float()[:, None] * axis + offset[:, None]
        torch.add(along_x[:, None, :], along_y[:, :, None], out=grid[..., i])
    sources = images[drawn.original].float()
    return to_bytes(F.grid_sample(sources, grid, "bilinear", "zeros", align_corners=False))
