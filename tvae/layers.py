"""Layers computed in another, exactly equivalent form, where that is faster on a CPU.

They are the layers that dominate the time of the networks of appendix E (`tvae.networks`). Their
parameters keep the shapes of `torch.nn.Linear`, `torch.nn.Conv2d` and `torch.nn.ConvTranspose2d`, of
which they are subclasses, so weights move freely between the two.
"""

import itertools
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.function import once_differentiable

#: oneDNN's matrix product. PyTorch takes MKL's, which leaves half of the width of AVX-512 unused on
#: processors that are not Intel's. None where PyTorch was built without it.
_onednn = getattr(torch.ops.mkldnn, "_linear_pointwise", None)


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a (M, K) times b (K, N), without gradients: `a @ b` up to rounding, on a CPU the faster way."""
    on_cpu = a.device.type == "cpu" and a.dtype == b.dtype == torch.float32
    if _onednn is None or not on_cpu or not 0 < a.shape[1] == b.shape[0]:
        return a @ b
    return _onednn(a, b.T, None, "none", [], "")


class _Product(torch.autograd.Function):
    """`product` with its gradients."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(a, b)
        return product(a, b)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        a, b = ctx.saved_tensors
        to_a = product(gradients[0], b.T) if ctx.needs_input_grad[0] else None
        to_b = product(a.T, gradients[0]) if ctx.needs_input_grad[1] else None
        return to_a, to_b


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """`torch.nn.functional.linear` of x (N, c_in) by weight (c_out, c_in)."""
    # under mixed precision PyTorch chooses the types itself
    if x.device.type != "cpu" or x.ndim != 2 or torch.is_autocast_enabled("cpu"):
        return F.linear(x, weight, bias)
    y: torch.Tensor = _Product.apply(x, weight.T)
    return y if bias is None else y + bias


class Linear(nn.Linear):
    """PyTorch's fully connected layer, for inputs (N, c_in), by oneDNN's matrix product."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return linear(x, self.weight, self.bias)


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
        return linear(x.permute(0, 2, 3, 1).flatten(1), matrix, self.bias)[:, :, None, None]


class FromPoint(nn.ConvTranspose2d):
    """A transposed convolution of a 1×1 map, as the matrix product that it is.

    With a single input pixel, stride 1 and no padding there is no overlap to add up: output (k, l)
    is the input times `weight[:, :, k, l]`. Maps (N, c_in, 1, 1) to (N, c_out, K, K).
    """

    def __init__(self, c_in: int, c_out: int, kernel_size: int) -> None:
        super().__init__(c_in, c_out, kernel_size)

    def forward(self, x: torch.Tensor, output_size: list[int] | None = None) -> torch.Tensor:
        c_in, c_out, kernel, _ = self.weight.shape
        matrix = self.weight.permute(2, 3, 1, 0).reshape(-1, c_in)
        y = linear(x.flatten(1), matrix, None).view(-1, kernel, kernel, c_out)
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
        parts = product(matrix, rows.T).view(2, 2, k, 2, 2, n, h, w)  # a, b, channel, i, j, pixel
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
        to_x = product(parts.T, matrix).view(n, h, w, c).permute(0, 3, 1, 2)
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
