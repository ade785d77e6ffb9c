"""Photographs decoded straight into uint8 memory: the central square of each, reduced."""

from __future__ import annotations

import io
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch

from tvae.data.resampling import resize

__all__ = ["decode_all"]

_BLOCK = 256  # decoded at once: 17 MB of crops of CelebA


def _decode(file: Path | io.BytesIO, crop: int) -> np.ndarray:
    """The central crop×crop square of a picture, (crop, crop, 3) uint8."""
    from PIL import Image

    with Image.open(file) as picture:
        width, height = picture.size
        if crop > min(width, height):
            which = file.name if isinstance(file, Path) else "A photograph"
            raise ValueError(f"{which} is {width}x{height}: too small for a {crop}x{crop} crop.")
        left, top = (width - crop) // 2, (height - crop) // 2
        return np.asarray(picture.convert("RGB").crop((left, top, left + crop, top + crop)))


def decode_all(files: Sequence[Path | io.BytesIO], crop: int, size: int) -> torch.Tensor:
    """The central squares of photographs, reduced with antialiasing, (N, 3, size, size) uint8."""
    result = torch.empty((len(files), 3, size, size), dtype=torch.uint8)
    # decoding a JPEG lets go of Python's lock, so plain threads use all cores
    with ThreadPoolExecutor(max(1, torch.get_num_threads())) as pool:
        for start in range(0, len(files), _BLOCK):
            block = files[start : start + _BLOCK]
            crops = np.stack(list(pool.map(lambda file: _decode(file, crop), block)))
            batch = torch.from_numpy(crops).permute(0, 3, 1, 2)
            result[start : start + len(block)] = resize(batch, size)
    return result
