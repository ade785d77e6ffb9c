"""Antialiased resizing as two small matrix products.

Bilinear interpolation with antialiasing is linear and separable, so for a fixed pair of sizes it is
one matrix for the rows and one for the columns: `out = R_h @ image @ R_wᵀ`. For batches of small
images that is many times faster than the general routine, and equal to it
(`torch.nn.functional.interpolate(..., mode="bilinear", antialias=True)`) up to rounding.

Convention: pixel i covers [i, i + 1), its centre is i + ½. Output pixel o looks at the input around
(o + ½) · n_in / n_out through a triangle of half-width max(1, n_in / n_out); the weights that fall
within the image are scaled to sum to 1.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import torch

# Values per step: 2 MB of float64, which stays in the cache; never are all images there as floats.
_BLOCK_VALUES = 1 << 18


def in_blocks(work: Callable[[slice], None], count: int, block: int) -> None:
    """Call `work` on slices of `block` images that cover 0..count, side by side on torch's threads.

    The steps within a block are too small to be shared between threads with profit (on a busy
    machine, waiting for each other costs them far more than they gain). So each block keeps to one
    thread and the blocks run in parallel; torch's setting is put back afterwards.
    """
    blocks = [slice(start, min(start + block, count)) for start in range(0, count, block)]
    threads = torch.get_num_threads()
    if threads == 1 or len(blocks) == 1:
        for part in blocks:
            work(part)
        return
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(work, blocks):
                pass
    finally:
        torch.set_num_threads(threads)


@lru_cache(maxsize=32)
def resize_matrix(n_in: int, n_out: int) -> torch.Tensor:
    """The (n_out, n_in) float64 matrix that resizes a line of n_in pixels to n_out."""
    if n_in <= 0 or n_out <= 0:
        raise ValueError(f"Sizes must be positive, not {n_in} and {n_out}.")
    scale = n_in / n_out
    width = max(1.0, scale)
    centres = (torch.arange(n_out, dtype=torch.float64) + 0.5) * scale
    pixels = torch.arange(n_in, dtype=torch.float64) + 0.5
    weights = (1 - (pixels - centres[:, None]).abs() / width).clamp_(min=0)
    return weights / weights.sum(1, keepdim=True)


def resize(images: torch.Tensor, size: int | tuple[int, int]) -> torch.Tensor:
    """Images (N, C, H, W), uint8 or floating point, resized to `size`, of the same type.

    Floating point is computed in its own precision. uint8 is computed in float64 and rounded: then
    a pixel does not hang on the order in which a matrix product happens to add (which may change
    with the batch size and the number of threads), short of a tie to 1e-13.
    """
    height, width = (size, size) if isinstance(size, int) else size
    if tuple(images.shape[-2:]) == (height, width):
        return images
    exact = images.is_floating_point()
    dtype = images.dtype if exact else torch.float64
    rows = resize_matrix(images.shape[-2], height).to(images.device, dtype)
    columns = resize_matrix(images.shape[-1], width).to(images.device, dtype)
    if exact:
        return rows @ (images @ columns.T)
    result = images.new_empty((*images.shape[:-2], height, width))

    def work(part: slice) -> None:
        result[part] = to_bytes(rows @ (images[part].to(dtype) @ columns.T))

    in_blocks(work, len(images), max(1, _BLOCK_VALUES // max(1, images[:1].numel())))
    return result


def to_bytes(values: torch.Tensor) -> torch.Tensor:
    """Values in 0..255 (floating point) rounded to uint8; overwrites `values`."""
    return values.round_().clamp_(0, 255).to(torch.uint8)
