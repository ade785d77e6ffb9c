"""Ask a trained model about many images: in chunks, without gradients, on whatever device it is.

    probe = Probe(tvae.pretrained("mnist-A-25"))
    mean, logvar = probe.encode(images)              # all answers lie on the CPU
    probe.nll(mean, images)                          # nats per image

A `Probe` holds no more than the model; it makes a chapter's cells read like its formulas.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from tvae.models import TVAE, VAE

__all__ = ["Probe"]


class Probe:
    """A model in evaluation mode that takes and gives tensors on the CPU.

    Args:
        model: a `VAE` or `TVAE`; it is set to evaluation mode.
        chunk: images or codes that go through the networks at once.
    """

    def __init__(self, model: VAE, chunk: int = 1000) -> None:
        if chunk < 1:
            raise ValueError(f"chunk must be at least 1, not {chunk}.")
        self.model = model.eval()
        self.chunk = chunk

    @torch.no_grad()
    def _map(
        self, function: Callable[..., tuple[torch.Tensor, ...]], *inputs: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        if len({len(given) for given in inputs}) != 1:
            raise ValueError(
                f"All inputs need the same number of rows, not {[len(given) for given in inputs]}."
            )
        reference = next(self.model.parameters())
        parts = [
            tuple(out.cpu() for out in function(*(piece.to(reference) for piece in pieces)))
            for pieces in zip(*(given.split(self.chunk) for given in inputs), strict=True)
        ]
        return tuple(torch.cat(column) for column in zip(*parts, strict=True))

    def encode(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and log-variance of q(z|x), (N, d) each, for float images (N, C, H, W)."""
        mean, logvar = self._map(self.model.encode, x)
        return mean, logvar

    def decode(self, z: torch.Tensor) -> torch.Tensor:
        """The pixel means (N, C, H, W) that the decoder gives for codes (N, d)."""
        return self._map(lambda code: (self.model.decode(code),), z)[0]

    def nll(self, z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """−log p(x|z) in nats, (N,), for codes (N, d) and float images (N, C, H, W)."""
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
