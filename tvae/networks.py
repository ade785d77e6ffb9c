"""The networks of appendix E: q_φ and p_θ for 28×28 images, their larger kin for 64×64 colour images,
and the fully connected networks behind q_ψ, f_ξ and the neural r_χ.

Encoders map images (N, C, H, W) to (N, 2d): the mean and the log-variance of q_φ(z|x), side by side.
Decoders map codes (N, d) to (N, C, H, W): Bernoulli logits, or the mean of a Gaussian.

The layers that dominate the time on a CPU are those of `tvae.layers`: the same convolutions, computed
faster.
"""

import itertools
import math

import torch
from torch import nn

from tvae.checks import check_whole
from tvae.layers import FromPoint, Linear, ToPoint, Transpose, Upsample

HIDDEN = 1000  # width of both hidden layers of the fully connected networks (appendix E)


def mlp(inputs: int, outputs: int, hidden: int = HIDDEN) -> nn.Sequential:
    """The fully connected network of appendix E: inputs → 1000 → 1000 → outputs, ReLU between."""
    return nn.Sequential(
        Linear(inputs, hidden),
        nn.ReLU(inplace=True),
        Linear(hidden, hidden),
        nn.ReLU(inplace=True),
        Linear(hidden, outputs),
    )


class Encoder28(nn.Sequential):
    """q_φ(z|x) of appendix E: 28 → 14 → 7 → 3 → 1 by 4×4 convolutions, then 2d units.

    The paper's last `Conv_2z` sees a 1×1 map, where it is a 1×1 convolution.
    """

    def __init__(self, d: int, channels: int = 1) -> None:
        super().__init__(
            nn.Conv2d(channels, 32, 4, stride=2, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(32, 32, 4, stride=2, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(32, 64, 4, stride=2, padding=1),
            nn.ReLU(inplace=True),
            ToPoint(64, 128),
            nn.ReLU(inplace=True),
            nn.Conv2d(128, 2 * d, 1),
            nn.Flatten(),
        )
        # the inner layers run twice as fast on a CPU, and on tensor cores, with channels last
        self.to(memory_format=torch.channels_last)


class Decoder28(nn.Sequential):
    """p_θ(x|z) of appendix E: 1 → 4 → 7 → 14 → 28 by transposed 4×4 convolutions; raw outputs."""

    def __init__(self, d: int, channels: int = 1) -> None:
        super().__init__(
            nn.Unflatten(1, (d, 1, 1)),
            nn.Conv2d(d, 128, 1),
            nn.ReLU(inplace=True),
            FromPoint(128, 64, 4),
            nn.ReLU(inplace=True),
            Transpose(64, 32, 4),
            nn.ReLU(inplace=True),
            Transpose(32, 32, 4, stride=2, padding=1),
            nn.ReLU(inplace=True),
            Upsample(32, channels),
        )
        self.to(memory_format=torch.channels_last)


class Encoder64(nn.Sequential):
    """q_φ(z|x) for 64×64 images: 64 → 32 → 16 → 8 → 4, then 2d units.

    The convolutional encoder that Dai and Wipf use for CelebA, with a quarter of its channels.
    """

    def __init__(self, d: int, channels: int = 3, width: int = 32) -> None:
        layers: list[nn.Module] = []
        sizes = (channels, width, 2 * width, 4 * width, 8 * width)
        for c_in, c_out in itertools.pairwise(sizes):
            layers += [
                nn.Conv2d(c_in, c_out, 4, stride=2, padding=1),
                nn.BatchNorm2d(c_out),
                nn.ReLU(inplace=True),
            ]
        super().__init__(*layers, nn.Flatten(), nn.Linear(8 * width * 16, 2 * d))
        self.to(memory_format=torch.channels_last)


class Decoder64(nn.Sequential):
    """p_θ(x|z) for 64×64 images: 8 → 16 → 32 → 64; the mean of a Gaussian, squashed into (0, 1)."""

    def __init__(self, d: int, channels: int = 3, width: int = 32) -> None:
        layers: list[nn.Module] = [
            nn.Linear(d, 8 * width * 64),
            nn.Unflatten(1, (8 * width, 8, 8)),
            nn.BatchNorm2d(8 * width),
            nn.ReLU(inplace=True),
        ]
        for c_in, c_out in ((8 * width, 4 * width), (4 * width, 2 * width)):
            layers += [
                Transpose(c_in, c_out, 4, stride=2, padding=1),
                nn.BatchNorm2d(c_out),
                nn.ReLU(inplace=True),
            ]
        super().__init__(*layers, Upsample(2 * width, channels), nn.Sigmoid())
        self.to(memory_format=torch.channels_last)


def default_networks(
    d: int, shape: tuple[int, int, int], width: int | None = None
) -> tuple[nn.Module, nn.Module]:
    """Encoder and decoder for images of `shape` = (C, H, W): 28×28 and 64×64 are provided.

    `width` is the number of channels of the first layer for 64×64, 32 if not given.
    """
    channels, *size = shape
    if size == [28, 28]:
        if width is not None:
            raise ValueError("The networks for 28×28 images are those of appendix E: no width.")
        return Encoder28(d, channels), Decoder28(d, channels)
    if size == [64, 64]:
        width = 32 if width is None else check_whole(width, "The width")
        return Encoder64(d, channels, width), Decoder64(d, channels, width)
    raise ValueError(
        f"There are built-in networks for 28×28 and 64×64 images, not for {size[0]}×{size[1]}: "
        "resize the images, or pass an encoder and a decoder of your own."
    )


@torch.no_grad()
def initialise(module: nn.Module, generator: torch.Generator) -> None:
    """Draw all weights anew from `generator`, in PyTorch's own default distribution.

    Weights and biases of convolutional and linear layers are uniform in ±1/√fan_in. The draws are
    made on the generator's device, so a run starts from the same weights wherever it trains.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            # PyTorch counts the second dimension as inputs, for transposed layers too
            fan_in = layer.weight.shape[1] * math.prod(layer.weight.shape[2:])
            bound = 1 / math.sqrt(fan_in)
            for parameter in (layer.weight, layer.bias):
                if parameter is not None:
                    drawn = torch.rand(
                        parameter.shape, generator=generator, device=generator.device
                    )
                    parameter.copy_(drawn.mul_(2 * bound).sub_(bound))
        elif isinstance(layer, nn.BatchNorm2d):
            layer.reset_parameters()
