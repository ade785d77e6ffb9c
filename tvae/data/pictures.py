"""Pictures in files: opened with care, and brought to the shape that a model wants."""

import io
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tvae.data.resampling import resize
from tvae.files import reading

#: More than a camera makes, and less than memory minds: a small file can promise terabytes.
MOST_PIXELS = 2**26
_MOST_BYTES = 2**26  # of a member of an archive
_BLOCK = 256  # photographs decoded at once: 17 MB of crops of CelebA
SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")


@contextmanager
def opened(file: Path | io.BytesIO, where: str) -> Iterator[Any]:
    """A picture, its size known and its pixels not yet decoded; an error names it as `where`."""
    from PIL import Image

    with reading(f"{where} is not a picture that can be read"), warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(file) as picture:
            width, height = picture.size
            if width * height > MOST_PIXELS:
                raise ValueError(f"it promises {width}x{height} pixels")
            yield picture


def member(archive: zipfile.ZipFile, name: str, most: int = _MOST_BYTES) -> bytes:
    """The content of a member of an archive, if it is not larger than what it should be can be."""
    if (size := archive.getinfo(name).file_size) > most:
        raise ValueError(f"{name} promises {size:,} bytes")
    return archive.read(name)


def _square(file: Path | io.BytesIO, crop: int) -> np.ndarray:
    """The central crop×crop square of a photograph, (crop, crop, 3) uint8."""
    where = str(file) if isinstance(file, Path) else "A photograph"
    with opened(file, where) as picture:
        width, height = picture.size
        if crop > min(width, height):
            raise ValueError(f"it is {width}x{height}, too small for a {crop}x{crop} crop")
        left, top = (width - crop) // 2, (height - crop) // 2
        return np.asarray(picture.convert("RGB").crop((left, top, left + crop, top + crop)))


def decode_all(files: Sequence[Path | io.BytesIO], crop: int, size: int) -> torch.Tensor:
    """The central squares of photographs, reduced with antialiasing, (N, 3, size, size) uint8."""
    result = torch.empty((len(files), 3, size, size), dtype=torch.uint8)
    # decoding a JPEG lets go of Python's lock, so plain threads use all cores
    with ThreadPoolExecutor(max(1, torch.get_num_threads())) as pool:
        for start in range(0, len(files), _BLOCK):
            block = files[start : start + _BLOCK]
            crops = np.stack(list(pool.map(lambda file: _square(file, crop), block)))
            batch = torch.from_numpy(crops).permute(0, 3, 1, 2)
            result[start : start + len(block)] = resize(batch, size)
    return result


def read_folder(folder: Path, shape: tuple[int, int, int], fit: bool = False) -> torch.Tensor:
    """The pictures of a folder in the order of their names, as (N, C, H, W) uint8.

    They must have the size that `shape` = (C, H, W) says; with `fit` they are brought to it, see
    `fitted`, and a line on standard error says what was done.
    """
    files = sorted(item for item in folder.iterdir() if item.suffix.lower() in SUFFIXES)
    if not files:
        raise ValueError(f"The folder {folder} holds no picture ({', '.join(SUFFIXES)}).")
    channels, height, width = shape
    pixels = []
    for item in files:
        with opened(item, str(item)) as picture:
            size = picture.size
            if fit or size == (width, height):
                pixels.append(_eight_bits(picture, channels))
        if not fit and size != (width, height):
            raise ValueError(
                f"{item} has {size[0]}x{size[1]} pixels, the model wants {width}x{height}: "
                "`--fit` pads and resizes pictures."
            )
    if fit:
        return fitted(pixels, shape)
    return torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).contiguous()


def _eight_bits(picture: Any, channels: int) -> np.ndarray:
    """The pixels (H, W, C) uint8 of a picture of whatever mode; what is transparent is white."""
    from PIL import Image

    if picture.mode.startswith(("I", "F")):  # 16 bits, 32 bits, floating point
        values = np.nan_to_num(np.asarray(picture, dtype=np.float64))
        most = next((top for top in (1, 255, 65535) if values.max() <= top), values.max())
        picture = Image.fromarray((255 * values.clip(0, most) / most).round().astype(np.uint8))
    if picture.mode in ("LA", "PA", "RGBA", "La", "RGBa") or "transparency" in picture.info:
        picture = picture.convert("RGBA")
        white = Image.new("RGBA", picture.size, "white")
        picture = Image.alpha_composite(white, picture)
    array = np.asarray(picture.convert("L" if channels == 1 else "RGB"))
    return array.reshape(*array.shape[:2], channels)


def fitted(pixels: Sequence[np.ndarray], shape: tuple[int, int, int]) -> torch.Tensor:
    """Pictures (h, w, C) uint8 of any sizes as (N, C, H, W) uint8; standard error says what was done.

    Each is padded to a square in the colour of its border and resized with antialiasing. A grey one
    whose border is rather white than black is inverted first: the data sets of the book have white
    ink on black.
    """
    import sys

    channels, height, width = shape
    if height != width:
        raise ValueError(f"Pictures are fitted to squares, and the model wants {width}x{height}.")
    inverted, padded = "inverted (white ground)", "padded to a square"
    resized = f"resized to {width}x{height}"
    counts, images = dict.fromkeys((inverted, padded, resized), 0), []
    for array in pixels:
        border = np.concatenate([array[0], array[-1], array[:, 0], array[:, -1]])
        ground = np.median(border, axis=0)
        if channels == 1 and ground.item() > 127:
            array, ground = 255 - array, 255 - ground
            counts[inverted] += 1
        rows, columns = array.shape[:2]
        side = max(rows, columns)
        if rows != columns:
            square = np.full((side, side, channels), ground.round(), dtype=np.uint8)
            top, left = (side - rows) // 2, (side - columns) // 2
            square[top : top + rows, left : left + columns] = array
            array = square
            counts[padded] += 1
        image = torch.from_numpy(np.array(array)).permute(2, 0, 1)[None]
        counts[resized] += side != height
        images.append(image.contiguous() if side == height else resize(image.contiguous(), height))
    done = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    print(f"of {len(images)} pictures: {done or 'all fit as they are'}", file=sys.stderr)
    return torch.cat(images)
