"""Triplets out of films: three frames (x_{t−1}, x_t, x_{t+1}) in the place of (f⁻¹x, x, f x).

Nobody has to write f down. It is whatever happens between two frames, and if a film goes on at a
constant velocity, the same f leads to the next frame and back to the one before.

    views = Sequences(frames=5)                       # images are films of 5 frames, one after another
    tvae.fit(model, films.flatten(0, 1), triplets=views, ...)     # films (N, 5, C, H, W)
    windows(films, 4)                                 # all quadruples, for predicting and measuring

A data set of films is an ordinary one, of N·T frames; film n is its rows n·T, ..., n·T + T − 1. A VAE
or a `Triplets` can use the same images and knows nothing of films.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tvae.checks import check_images, check_whole, to_floats
from tvae.transforms.batch import TripletBatch

#: What the configuration of a run writes in the place of families of transformations.
SEQUENCE = "sequence"


@dataclass(frozen=True)
class Sequences:
    """Draws a film's moment t and a stride s, and takes the frames t, t + s and t − s as a triplet.

    Args:
        frames: How many frames a film has.
        strides: Distances between the frames of a triplet, each drawn equally often.
        pairs: Whether rows 0 and 1, 2 and 3, ... of a batch are two moments of one film, of the first
            row's: at a constant velocity they share their transformation, as the pairs of `Triplets`.
    """

    frames: int
    strides: tuple[int, ...] = (1,)
    pairs: bool = False

    def __post_init__(self) -> None:
        strides = tuple(check_whole(s, "A stride") for s in self.strides)
        object.__setattr__(self, "strides", strides)
        least = 2 * max(strides, default=1) + 1
        if not strides or check_whole(self.frames, "The number of frames") < least:
            raise ValueError(
                f"A triplet with the strides {strides} needs films of {least} frames or more, "
                f"not {self.frames}."
            )

    def __call__(
        self, x0: Tensor, generator: torch.Generator, *, check: bool = True
    ) -> TripletBatch:
        """Triplets (N, C, H, W) each, one for every row of whole films `x0` (N, C, H, W).

        The x0 that comes back is the frame in the middle of each triplet, not the row itself.
        """
        if check:
            check_images(x0, name="x0")
        return self.among(x0, torch.arange(len(x0), device=x0.device))(x0, generator)

    def among(self, images: Tensor, index: Tensor) -> Callable[..., TripletBatch]:
        """The source of views for the rows `index` (B,) of `images`, all frames of all films.

        It is called as every source is, with the rows themselves as x0, whose type the views have.
        """
        if len(images) % self.frames:
            raise ValueError(
                f"{len(images)} images are no whole number of films of {self.frames} frames."
            )

        def views(x0: Tensor, generator: torch.Generator, *, check: bool = True) -> TripletBatch:
            film, moment, stride = self.draw(index, generator)
            rows = film * self.frames + moment
            now, after, before = (
                to_floats(images[at], x0.dtype) for at in (rows, rows + stride, rows - stride)
            )
            return TripletBatch(now, after, before, torch.stack((moment, stride), 1))

        return views

    def draw(self, index: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Film, moment and stride, (B,) each, for rows `index` (B,), on the device of `index`."""
        uniform = torch.rand(len(index), 2, generator=generator, device=generator.device)
        uniform = uniform.to(index.device)
        film = index // self.frames
        which = (uniform[:, 0] * len(self.strides)).long()
        if self.pairs:
            if len(index) % 2:
                raise ValueError(f"Pairs need an even number of images, not {len(index)}.")
            film, which = (rows[::2].repeat_interleave(2) for rows in (film, which))
        stride = torch.tensor(self.strides, device=index.device)[which]
        moment = stride + (uniform[:, 1] * (self.frames - 2 * stride)).long()
        return film, moment, stride


def windows(films: Tensor, length: int, stride: int = 1) -> Tensor:
    """All runs of `length` frames at a distance of `stride`: (N, T, ...) → (N, W, length, ...).

    Triplets are windows of three, quadruples of four; W is T − (length − 1)·stride.
    """
    length, stride = check_whole(length, "The length"), check_whole(stride, "The stride")
    count = films.shape[1] - (length - 1) * stride
    if count < 1:
        raise ValueError(
            f"Films of {films.shape[1]} frames have no window of {length} frames at a stride of "
            f"{stride}."
        )
    steps = torch.arange(count)[:, None] + stride * torch.arange(length)
    return films[:, steps.to(films.device)]
