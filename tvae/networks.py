"""The networks of appendix E: q_φ and p_θ for 28×28 images, their larger kin for 64×64 colour images,
and the fully connected networks behind q_ψ, f_ξ and the neural r_χ.

Encoders map images (N, C, H, W) to (N, 2d): the mean and the log-variance of q_φ(z|x), side by side.
Decoders map codes (N, d) to (N, C, H, W): Bernoulli logits, or the mean of a Gaussian.

The layers that dominate the time on a CPU are computed in another, exactly equivalent form. Their
parameters keep the shapes of `torch.nn.Conv2d` and `torch.nn.ConvTranspose2d`, of which they are
subclasses, so weights move freely between the two.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.function import once_differentiable

__all__ = [
    "Decoder28",
    "Decoder64",
    "Encoder28",
    "Encoder64",
    "FromPoint",
    "ToPoint",
    "Transpose",
    "Upsample",
    "default_networks",
    "initialise",
    "mlp",
]

HIDDEN = 1000  # width of both hidden layers of the fully connected networks (appendix E)


def mlp(inputs: int, outputs: int, hidden: int = HIDDEN) -> nn.Sequential:
    """The fully connected network of appendix E: inputs → 1000 → 1000 → outputs, ReLU between."""
    return nn.Sequential(
        nn.Linear(inputs, hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, outputs),
    )


class ToPoint(nn.Conv2d):
    """A 4×4 convolution with stride 2 and padding 1 of a 3×3 map, as the matrix product that it is.

    There is one output pixel, and the first row and column of the kernel meet only padding. Maps
    (N, c_in, 3, 3) to (N, c_out, 1, 1).
    """

    def __init__(self, c_in: int, c_out: int) -> None:
        super().__init__(c_in, c_out, kernel_size=4, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # columns ordered (row, column, channel), as the pixels of a channels-last image lie
        matrix = self.weight[:, :, 1:, 1:].permute(0, 2, 3, 1).flatten(1)
        return F.linear(x.permute(0, 2, 3, 1).flatten(1), matrix, self.bias)[:, :, None, None]


class FromPoint(nn.ConvTranspose2d):
    """A transposed convolution of a 1×1 map, as the matrix product that it is.

    With a single input pixel, stride 1 and no padding there is no overlap to add up: output (k, l)
    is the input times `weight[:, :, k, l]`. Maps (N, c_in, 1, 1) to (N, c_out, K, K).
    """

    def __init__(self, c_in: int, c_out: int, kernel_size: int) -> None:
        super().__init__(c_in, c_out, kernel_size)

    def forward(self, x: torch.Tensor, output_size: list[int] | None = None) -> torch.Tensor:
        c_in, c_out, kernel, _ = self.weight.shape
        matrix = self.weight.permute(0, 2, 3, 1).reshape(c_in, -1)
        y = (x.flatten(1) @ matrix).view(-1, kernel, kernel, c_out)
        return (y if self.bias is None else y + self.bias).permute(0, 3, 1, 2)


class Transpose(nn.ConvTranspose2d):
    """PyTorch's transposed convolution with the bias added apart where gradients are wanted.

    The result is the same; the gradient of the bias is then a plain sum, where the fused backward
    pass takes longer for it than for the gradients of input and weight together.
    """

    def forward(self, x: torch.Tensor, output_size: list[int] | None = None) -> torch.Tensor:
        stride, padding = self.stride[0], int(self.padding[0])
        if not torch.is_grad_enabled():  # nothing to gain then, and a pass over memory to lose
            return F.conv_transpose2d(x, self.weight, self.bias, stride, padding)
        y = F.conv_transpose2d(x, self.weight, None, stride, padding)
        return y if self.bias is None else y.add_(self.bias[:, None, None])


class _Upsample(torch.autograd.Function):
    """x (N, C, H, W), weight (C, K, 4, 4) → (N, K, 2H, 2W): stride 2, padding 1, no bias.

    Write the kernel's row as 2a + i and its column as 2b + j with a, b, i, j ∈ {0, 1}. Input pixel
    (r, s) then adds to pixel (i, j) of the 2×2 output cell (r + a, s + b), where the cells are
    counted on the output with a rim of one pixel, which padding cuts off. So a matrix product gives
    all 16 K contributions of a pixel, four shifted additions gather them by cell, and an
    interleaving of the phases (i, j) makes the image. The backward pass reads the same steps
    backwards. With few output channels K this moves far less memory than the general routine.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        n, c, h, w = x.shape
        k = weight.shape[1]
        rows = x.permute(0, 2, 3, 1).reshape(-1, c)
        matrix = weight.view(c, k, 2, 2, 2, 2).permute(2, 4, 1, 3, 5, 0).reshape(16 * k, c)
        parts = (matrix @ rows.T).view(2, 2, k, 2, 2, n, h, w)  # a, b, channel, i, j, pixel
        cells = x.new_zeros(k, 2, 2, n, h + 1, w + 1)
        for a, b in itertools.product((0, 1), repeat=2):
            cells[..., a : a + h, b : b + w] += parts[a, b]
        ctx.save_for_backward(rows, matrix)
        ctx.sizes = n, c, h, w, k
        image = cells.permute(3, 0, 4, 1, 5, 2).reshape(n, k, 2 * h + 2, 2 * w + 2)
        return image[:, :, 1:-1, 1:-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows, matrix = ctx.saved_tensors
        n, c, h, w, k = ctx.sizes
        cells = F.pad(gradients[0], (1, 1, 1, 1)).view(n, k, h + 1, 2, w + 1, 2)
        cells = cells.permute(1, 3, 5, 0, 2, 4)
        parts = cells.new_empty(2, 2, k, 2, 2, n, h, w)
        for a, b in itertools.product((0, 1), repeat=2):
            parts[a, b] = cells[..., a : a + h, b : b + w]
        parts = parts.view(16 * k, -1)
        to_x = (parts.T @ matrix).view(n, h, w, c).permute(0, 3, 1, 2)
        to_weight = (parts @ rows).view(2, 2, k, 2, 2, c).permute(5, 2, 0, 3, 1, 4)
        return to_x, to_weight.reshape(c, k, 4, 4)


class Upsample(nn.ConvTranspose2d):
    """The transposed 4×4 convolution with stride 2 and padding 1 for few output channels.

    Maps (N, c_in, H, W) to (N, c_out, 2H, 2W).
    """

    def __init__(self, c_in: int, c_out: int) -> None:
        super().__init__(c_in, c_out, kernel_size=4, stride=2, padding=1)

    def forward(self, x: torch.Tensor, output_size: list[int] | None = None) -> torch.Tensor:
        # under mixed precision x comes in half precision, and the backward pass needs both alike
        y: torch.Tensor = _Upsample.apply(x, self.weight.to(x.dtype))
        return y if self.bias is None else y + self.bias[:, None, None]


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
        if width is not None and (isinstance(width, bool) or width < 1):
            raise ValueError(f"The width must be a positive whole number, not {width!r}.")
        width = 32 if width is None else width
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
