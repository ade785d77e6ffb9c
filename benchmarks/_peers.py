"""What several benchmarks share: our VAE in pythae's form, and how time is taken."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tvae.models import VAE


def plain_networks(d: int) -> tuple[nn.Sequential, nn.Sequential]:
    """Encoder and decoder of the paper's appendix E from PyTorch's own layers."""
    encoder = nn.Sequential(
        nn.Conv2d(1, 32, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 32, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 128, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(128, 2 * d, 1),
        nn.Flatten(),
    )
    decoder = nn.Sequential(
        nn.Unflatten(1, (d, 1, 1)),
        nn.Conv2d(d, 128, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(128, 64, 4),
        nn.ReLU(),
        nn.ConvTranspose2d(64, 32, 4),
        nn.ReLU(),
        nn.ConvTranspose2d(32, 32, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(32, 1, 4, stride=2, padding=1),
    )
    return encoder, decoder


def pythae_vae(ours: VAE) -> Any:
    """pythae's VAE with PyTorch's own layers and a copy of the weights of `ours`."""
    from pythae.models import VAE as PythaeVAE
    from pythae.models import VAEConfig
    from pythae.models.base.base_utils import ModelOutput
    from pythae.models.nn import BaseDecoder, BaseEncoder

    networks = plain_networks(ours.d)
    for plain, own in zip(networks, (ours.encoder, ours.decoder), strict=True):
        plain.load_state_dict(own.state_dict())

    class Encoder(BaseEncoder):
        def __init__(self) -> None:
            super().__init__()
            self.layers = networks[0]

        def forward(self, x: torch.Tensor) -> Any:
            mean, logvar = self.layers(x).chunk(2, -1)
            return ModelOutput(embedding=mean, log_covariance=logvar)

    class Decoder(BaseDecoder):
        def __init__(self) -> None:
            super().__init__()
            self.layers = networks[1]

        def forward(self, z: torch.Tensor) -> Any:
            return ModelOutput(reconstruction=torch.sigmoid(self.layers(z)))

    settings = VAEConfig(input_dim=(1, 28, 28), latent_dim=ours.d, reconstruction_loss="bce")
    return PythaeVAE(settings, Encoder(), Decoder())


def add_timing(parser: argparse.ArgumentParser, repeats: int) -> None:
    """The options --repeats, --threads and --busy."""
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--busy", action="store_true", help="count CPU time, for a busy machine; one thread"
    )


def set_timing(options: argparse.Namespace) -> Callable[[], float]:
    """Use as many threads as the options say; returns the clock, in seconds, that they ask for."""
    clock: Callable[[], float] = time.perf_counter
    if options.busy:  # with one thread the same as the time on the wall of an idle machine
        clock, options.threads = time.process_time, 1
    torch.set_num_threads(options.threads)
    return clock
