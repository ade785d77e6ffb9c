"""What users pass in: checked, in one sentence that says what would be right, and made floats of."""

from numbers import Integral
from typing import Any

import torch


def check_whole(value: Any, what: str, least: int = 1) -> int:
    """Return `value` as an int if it is a whole number, of Python or NumPy, from `least` on."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        kind = "a positive whole number" if least == 1 else f"a whole number from {least} on"
        raise ValueError(f"{what} must be {kind}, not {value!r}.")
    return int(value)


def check_dimension(d: int) -> int:
    """Return `d` as an int if it can be a latent dimension."""
    return check_whole(d, "The latent dimension d")


def check_images(
    images: torch.Tensor,
    shape: tuple[int, int, int] | None = None,
    *,
    name: str = "images",
) -> torch.Tensor:
    """Return `images` if they are a batch of pictures, else raise a one-sentence error.

    Accepted are tensors of shape (N, C, H, W), N ≥ 1, either uint8 or floating point with finite
    values in [0, 1]. With `shape` = (C, H, W) the three must match as well.
    """
    if not isinstance(images, torch.Tensor):
        raise TypeError(
            f"{name} must be a torch.Tensor of shape (N, C, H, W), not {type(images).__name__}."
        )
    if images.ndim != 4:
        raise ValueError(
            f"{name} must have shape (N, C, H, W), four dimensions, not {tuple(images.shape)}."
        )
    if images.shape[0] == 0:
        raise ValueError(f"{name} is empty: at least one image is needed.")
    if 0 in images.shape:
        raise ValueError(f"{name} has a dimension of size zero: {tuple(images.shape)}.")
    if shape is not None and tuple(images.shape[1:]) != tuple(shape):
        wanted = f"shape (N, {shape[0]}, {shape[1]}, {shape[2]})"
        if images.shape[1] != shape[0]:
            wanted = f"{shape[0]} channel(s), not {images.shape[1]}: {wanted}"
        raise ValueError(f"{name} must have {wanted}, not {tuple(images.shape)}.")
    if images.dtype == torch.uint8:
        return images
    if not images.is_floating_point():
        raise TypeError(
            f"{name} must be uint8 or floating point with values in [0, 1], not {images.dtype}."
        )
    low, high = torch.aminmax(images.detach())
    if not bool(torch.isfinite(low) & torch.isfinite(high)):
        raise ValueError(f"{name} contains values that are not finite (NaN or infinity).")
    if float(low) < 0 or float(high) > 1:
        raise ValueError(
            f"{name} must lie in [0, 1], but the values go from {float(low):.4g} to "
            f"{float(high):.4g}; divide uint8-like values by 255."
        )
    return images


def to_floats(images: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Images as floats in [0, 1]: bytes divided by 255, float32 unless `dtype` says otherwise.

    Floats stay what they are, or become `dtype`.
    """
    if images.dtype == torch.uint8:
        return images.to(dtype or torch.float32).div_(255)
    return images if dtype is None else images.to(dtype)
