"""What users pass in: checked, in one sentence that says what would be right, and made floats of."""

from __future__ import annotations

from numbers import Integral

import torch


def check_dimension(d: int) -> int:
    """Return `d` as an int if it is a positive whole number, of Python or NumPy, else say so."""
    if isinstance(d, bool) or not isinstance(d, Integral) or d <= 0:
        raise ValueError(f"The latent dimension d must be a positive whole number, not {d!r}.")
    return int(d)


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
    if shape is not None and images.shape[1] != shape[0]:
        raise ValueError(
            f"{name} must have {shape[0]} channel(s), not {images.shape[1]} "
            f"(expected (N, {shape[0]}, {shape[1]}, {shape[2]}), got {tuple(images.shape)})."
        )
    if shape is not None and tuple(images.shape[1:]) != tuple(shape):
        raise ValueError(
            f"{name} must have shape (N, {shape[0]}, {shape[1]}, {shape[2]}), "
            f"not {tuple(images.shape)}."
        )
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
