"""Passing many images through a model, a batch at a time, from wherever they lie."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import nn

from tvae.checks import check_images
from tvae.data import Dataset
from tvae.models import VAE

__all__ = ["BATCH", "Embedding", "batches", "embed", "evaluating", "pixels_of"]

BATCH = 500  # images through the networks at once


class Embedding(Protocol):
    """Whatever turns images into vectors: a trained encoder, pixels, PCA (see `baselines`)."""

    def embed(self, images: torch.Tensor) -> torch.Tensor:
        """Images (N, C, H, W), uint8 or in [0, 1], to vectors (N, d)."""
        ...


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode and no gradients while the block runs; every module's mode is put back."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for module, training in modes:
            module.training = training


def pixels_of(images: torch.Tensor | Dataset, model: nn.Module, name: str) -> torch.Tensor:
    """The tensor (N, C, H, W) of images or of a data set, checked to be of the model's shape."""
    tensor = images.images if isinstance(images, Dataset) else images
    return check_images(tensor, getattr(model, "shape", None), name=name)


def batches(images: torch.Tensor, model: nn.Module, batch: int) -> Iterator[torch.Tensor]:
    """Consecutive batches as floats in [0, 1], of the model's dtype and on its device."""
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise ValueError(f"The batch size must be a positive whole number, not {batch!r}.")
    reference = next(model.parameters(), torch.zeros(()))
    for part in images.split(batch):
        moved = part.to(reference.device)  # bytes travel to a GPU four times as fast as floats
        scaled = moved.to(reference.dtype)
        yield scaled.div_(255) if part.dtype == torch.uint8 else scaled


def embed(
    model: VAE | Embedding, images: torch.Tensor | Dataset, *, batch: int = BATCH
) -> torch.Tensor:
    """Posterior means (N, d) of images (N, C, H, W), uint8 or in [0, 1], on the CPU.

    In place of a model there may be any object with a method `embed`, such as those of `baselines`.
    """
    if not isinstance(model, VAE):
        tensor = check_images(images.images if isinstance(images, Dataset) else images)
        return torch.cat([model.embed(part).cpu() for part in tensor.split(batch)])
    tensor = pixels_of(images, model, "images")
    out = torch.empty((len(tensor), model.d), dtype=next(model.parameters()).dtype)
    done = 0
    with evaluating(model):
        for x in batches(tensor, model, batch):
            out[done : done + len(x)] = model.moments(x)[0]
            done += len(x)
    return out
