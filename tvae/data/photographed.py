"""Two films that were photographed, for measuring only: nothing of them comes with the package.

Looked for under the data root: `coil20/coil20_128.npz`, twenty objects on a turntable, a photograph
every 5°, and `freyfaces/freyfaces_28x20.npz`, 1,965 frames of one face. Both are for research or of
unclear terms, so no image and no trained weight of theirs is stored or shown anywhere, only numbers.
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tvae.data.roots import data_root, missing
from tvae.files import AnyPath, reading

SIDE, DEGREES = 28, 5.0  # of the images here, and between two photographs of COIL-20
_FILES = {"coil20": "coil20/coil20_128.npz", "freyfaces": "freyfaces/freyfaces_28x20.npz"}


def _read(name: str, root: AnyPath | None, shape: tuple[int, ...]) -> Tensor:
    path = data_root(root) / Path(_FILES[name])
    if not path.is_file():
        raise missing(name, [path], "put this file there; the package may not bring it along")
    with reading(f"{path} is damaged"), np.load(path, allow_pickle=False) as packed:
        images = torch.from_numpy(packed["images"])
    if images.dtype != torch.uint8 or tuple(images.shape[1:]) != shape:
        raise ValueError(
            f"{path} is damaged: expected bytes of shape (N, {', '.join(map(str, shape))}), not "
            f"{images.dtype} of {tuple(images.shape)}."
        )
    return images


def coil20(root: AnyPath | None = None) -> Tensor:
    """All views of all objects, (20, 72, 1, 28, 28) uint8, the table 5° further each time."""
    images = _read("coil20", root, (72, 128, 128))
    small = F.interpolate(
        images.float(), (SIDE, SIDE), mode="bilinear", antialias=True, align_corners=False
    )
    return small.round().clamp(0, 255).byte()[:, :, None]


def coil20_films(
    objects: Tensor, count: int, frames: int, draws: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Films (count, frames, 1, 28, 28) off objects (M, 72, 1, 28, 28), and their velocities (count,).

    A film turns by −6 to 6 photographs a frame, that is by at most 30°; it goes round and round.
    """
    u = torch.rand(count, 3, generator=draws)
    which, start = (u[:, 0] * len(objects)).long(), (u[:, 1] * 72).long()
    speed = (u[:, 2] * 13).long() - 6
    rows = (start[:, None] + speed[:, None] * torch.arange(frames)) % 72
    return objects[which[:, None], rows], speed * DEGREES


def freyfaces(root: AnyPath | None = None) -> Tensor:
    """All frames in their order, (1965, 1, 28, 28) uint8, with four dark columns on either side."""
    return F.pad(_read("freyfaces", root, (28, 20)), (4, 4))[:, None]
