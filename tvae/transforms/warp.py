"""One batched warp: pictures and 3×3 matrices in, pictures out, on the pictures' device.

**Convention.** See `tvae.transforms.families`: matrices map output points to input points in edge
coordinates, where pixel centres are i + ½; outside the picture everything is black.
"""

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from tvae.transforms.families import constant

INTERPOLATIONS = ("bilinear", "bicubic", "nearest")


@lru_cache(maxsize=64)
def _pixel_centres(height: int, width: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Homogeneous pixel centres (x, y, 1) of all pixels in reading order, (3, h·w)."""
    # The tensor outlives this call: were it made in inference mode, autograd could not use it later.
    with torch.inference_mode(False):
        y, x = torch.meshgrid(
            torch.arange(height, device=device, dtype=dtype) + 0.5,
            torch.arange(width, device=device, dtype=dtype) + 0.5,
            indexing="ij",
        )
        return torch.stack((x.flatten(), y.flatten(), torch.ones_like(x).flatten()))


def warp(images: Tensor, matrices: Tensor, interpolation: str = "bicubic") -> Tensor:
    """Warp picture n by matrix n.

    Rows with the identity matrix come back bit for bit. Gradients flow to `images` and `matrices`.
    The matrices may be more precise than the pictures and live elsewhere (float64 on the CPU while
    the pictures are float32 on a GPU); what is moved is nine numbers per picture.

    Args:
        images: (N, C, H, W), floating point.
        matrices: (N, 3, 3), output to input.
        interpolation: "bicubic" (clamped to [0, 1], as it overshoots), "bilinear" or "nearest".

    Returns:
        (N, C, H, W), in the type and on the device of `images`.
    """
    if interpolation not in INTERPOLATIONS:
        raise ValueError(
            f"interpolation must be one of {', '.join(INTERPOLATIONS)}, not {interpolation!r}."
        )
    if images.ndim != 4 or not images.is_floating_point():
        raise ValueError(
            "images must be floating point of shape (N, C, H, W), "
            f"not {images.dtype} of shape {tuple(images.shape)}."
        )
    n, _, height, width = images.shape
    if tuple(matrices.shape) != (n, 3, 3):
        raise ValueError(f"matrices must have shape ({n}, 3, 3), not {tuple(matrices.shape)}.")

    # Half precision cannot tell neighbouring pixels apart in larger pictures: sample in float32.
    dtype = images.dtype if images.dtype in (torch.float32, torch.float64) else torch.float32
    device = images.device
    source = images.to(dtype)

    # Looking at the values is free on the CPU and a stop for the queue of a GPU.
    own = matrices.device, matrices.dtype
    equal = matrices == constant(((1, 0, 0), (0, 1, 0), (0, 0, 1)), *own)
    same: Tensor | None = equal.flatten(1).all(1)
    projective = True
    if matrices.device.type == "cpu":
        projective = not bool(equal[:, 2].all())
        same = same if bool(same.any()) else None  # type: ignore[union-attr]

    # edge coordinates -> `grid_sample` coordinates, (2u/w − 1, 2v/h − 1)
    scaled = constant(((2 / width, 0, -1), (0, 2 / height, -1), (0, 0, 1)), *own) @ matrices
    scaled = scaled.to(dtype).to(device, non_blocking=True)
    centres = _pixel_centres(height, width, device, dtype)
    if projective:
        points = (scaled.reshape(3 * n, 3) @ centres).view(n, 3, height * width)
        # At or behind the horizon (S ≤ 0) there is nothing to see: a tiny S leads far outside.
        if points.requires_grad:
            grid = points[:, :2] / points[:, 2:].clamp(min=1e-12)
        else:  # in place: fresh memory for the quotient would cost more time than the division
            grid = points[:, :2].div_(points[:, 2:].clamp_(min=1e-12))
    else:
        grid = scaled[:, :2].reshape(2 * n, 3) @ centres
    # grid_sample reads a view of two planes, x and y, as fast as interleaved pairs: no copy.
    grid = grid.view(n, 2, height, width).permute(0, 2, 3, 1)
    out = F.grid_sample(source, grid, mode=interpolation, padding_mode="zeros", align_corners=False)
    if interpolation == "bicubic":
        out = out.clamp(0, 1)
    if same is not None:
        out = torch.where(same.to(device).view(n, 1, 1, 1), source, out)
    return out.to(images.dtype)
