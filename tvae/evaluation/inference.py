"""Many images through a model: in batches, without gradients, from and to wherever they lie.

codes = embed(model, images)                     # posterior means, (N, d)
probe = Probe(tvae.pretrained("mnist-A-25"))     # or any question, with answers on the CPU
mean, logvar = probe.encode(images)
probe.nll(mean, images)                          # nats per image
"""

from collections.abc import Callable, Iterator
from typing import Protocol

import torch
from torch import nn

from tvae.checks import check_whole, to_floats
from tvae.data import Dataset, pixels_of
from tvae.models import TVAE, VAE, evaluating

BATCH = 500  # images through the networks at once


class Embedding(Protocol):
    """Whatever turns images into vectors: a trained encoder, pixels, PCA (see `baselines`)."""

    def embed(self, images: torch.Tensor) -> torch.Tensor:
        """Images (N, C, H, W), uint8 or in [0, 1], to vectors (N, d)."""
        ...


def batches(images: torch.Tensor, model: nn.Module, batch: int) -> Iterator[torch.Tensor]:
    """Consecutive batches as floats in [0, 1], of the model's dtype and on its device."""
    check_whole(batch, "The batch size")
    reference = next(model.parameters(), torch.zeros(()))
    for part in images.split(batch):
        # bytes travel to a GPU four times as fast as floats
        yield to_floats(part.to(reference.device), reference.dtype)


def embed(
    model: VAE | Embedding, images: torch.Tensor | Dataset, *, batch: int = BATCH
) -> torch.Tensor:
    """Posterior means (N, d) of images (N, C, H, W), uint8 or in [0, 1], on the CPU.

    Of a code that keeps the pose apart (`tvae.pose`) it is the content alone, (N, d − 6). In place of
    a model there may be any object with a method `embed`, such as those of `baselines`.
    """
    if not isinstance(model, VAE):
        return torch.cat([model.embed(part).cpu() for part in pixels_of(images).split(batch)])
    tensor = pixels_of(images, model.shape)
    out = torch.empty((len(tensor), model.content_size), dtype=next(model.parameters()).dtype)
    done = 0
    with evaluating(model):
        for x in batches(tensor, model, batch):
            out[done : done + len(x)] = model.moments(x)[0][:, : model.content_size]
            done += len(x)
    return out


class Probe:
    """A model that is asked about many images or codes: float tensors on the CPU in, and out.

    It makes a chapter's cells read like its formulas.

    Args:
        model: a `VAE` or `TVAE`; its mode stays as it is.
        batch: images or codes that go through the networks at once.
    """

    def __init__(self, model: VAE, batch: int = 1000) -> None:
        self.model, self.batch = model, check_whole(batch, "The batch size")

    def _map(
        self, function: Callable[..., tuple[torch.Tensor, ...]], *inputs: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        if len({len(given) for given in inputs}) != 1:
            raise ValueError(
                f"All inputs need the same number of rows, not {[len(given) for given in inputs]}."
            )
        with evaluating(self.model):
            columns = zip(
                *(batches(given, self.model, self.batch) for given in inputs), strict=True
            )
            parts = [tuple(out.cpu() for out in function(*pieces)) for pieces in columns]
        return tuple(torch.cat(column) for column in zip(*parts, strict=True))

    def encode(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and log-variance of q(z|x), (N, d) each, for images (N, C, H, W)."""
        mean, logvar = self._map(self.model.encode, x)
        return mean, logvar

    def decode(self, z: torch.Tensor) -> torch.Tensor:
        """The pixel means (N, C, H, W) that the decoder gives for codes (N, d)."""
        return self._map(lambda code: (self.model.decode(code),), z)[0]

    def nll(self, z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """−log p(x|z) in nats, (N,), for codes (N, d) and images (N, C, H, W)."""
        return self._map(
            lambda code, image: (self.model.nll(self.model.decode_logits(code), image),), z, x
        )[0]

    def _tvae(self) -> TVAE:
        if not isinstance(self.model, TVAE):
            raise TypeError(f"A {type(self.model).__name__} has no latent transformation τ.")
        return self.model

    def posterior(
        self, z1: torch.Tensor, z2: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Mean and log-variance of q(z|z1, z2), and τ, from the codes of the two views."""
        mean, logvar, tau = self._map(self._tvae().posterior, z1, z2)
        return mean, logvar, tau

    def act(self, z: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        """r(z, τ), (N, d)."""
        return self._map(lambda *given: (self._tvae().act(*given),), z, tau)[0]

    def act_inverse(self, z: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        """r(z, τ⁻¹), (N, d)."""
        return self._map(lambda *given: (self._tvae().act_inverse(*given),), z, tau)[0]
