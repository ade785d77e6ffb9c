"""Images moved and sized by their own moments: what a representation is worth without the pose.

    centred = normalised(images, "centred")     # the centre of mass in the middle
    upright = normalised(images, "moments")     # and the slant undone, the size made the same

AffNIST shifts, sizes, shears and turns its digits. Much of that can be undone before anything is
learned, from the first and second moments of the ink. Whoever normalises so knows the task; these rows
therefore stand beside the others as a bar, not as competitors.

**Convention.** An image is a mass distribution over pixel centres i + ½. With mean (cx, cy) and
covariance [[a, b], [b, c]], the slant is b / c: columns of ink lean by so many pixels a row. Undoing it
leaves the horizontal variance a − b²/c. The size is the root of the mean of both variances then.
"""

from dataclasses import replace

import torch

from tvae.data import Dataset, fingerprint, pixels_of
from tvae.transforms.warp import warp

KINDS = ("centred", "moments")
BATCH = 8192
LARGEST = 3.0  # a speck of ink is not blown up without end


def _moments(images: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """cx, cy, a, b, c of images (N, 1, H, W) in float64, (N,) each; a blank image is a centred dot."""
    mass = images[:, 0].double()
    height, width = mass.shape[1:]
    x = torch.arange(width, dtype=torch.float64, device=mass.device) + 0.5
    y = torch.arange(height, dtype=torch.float64, device=mass.device) + 0.5
    total = mass.sum((1, 2))
    blank = total == 0
    total = torch.where(blank, 1.0, total)
    columns, rows = mass.sum(1), mass.sum(2)  # (N, W), (N, H)
    cx, cy = columns @ x / total, rows @ y / total
    cx, cy = torch.where(blank, width / 2, cx), torch.where(blank, height / 2, cy)
    dx, dy = x - cx[:, None], y - cy[:, None]
    a = (columns * dx.square()).sum(1) / total
    c = (rows * dy.square()).sum(1) / total
    b = torch.einsum("nyx,ny,nx->n", mass, dy, dx) / total
    return cx, cy, a, b, c


def _slant_and_size(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    flat = c < 1e-6  # a single row of ink has no slant
    slant = torch.where(flat, 0.0, b / torch.where(flat, 1.0, c))
    return slant, ((a - slant * b + c) / 2).clamp_min(1e-6).sqrt()


def mean_size(images: torch.Tensor | Dataset) -> float:
    """The mean size, in pixels, of images (N, 1, H, W): what others can be brought to."""
    parts = [_slant_and_size(*_moments(part)[2:])[1] for part in pixels_of(images).split(BATCH)]
    return float(torch.cat(parts).mean())


def normalising_matrices(images: torch.Tensor, kind: str, size: float | None) -> torch.Tensor:
    """The matrices (N, 3, 3), output to input, that `warp` takes to normalise images (N, 1, H, W)."""
    if kind not in KINDS:
        raise ValueError(f"Images are normalised as one of {', '.join(KINDS)}, not {kind!r}.")
    height, width = images.shape[2:]
    cx, cy, a, b, c = _moments(images)
    matrices = torch.eye(3, dtype=torch.float64, device=images.device).repeat(len(images), 1, 1)
    if kind == "moments":
        if size is None or not size > 0:
            raise ValueError(f"The moments need a positive size to bring images to, not {size!r}.")
        slant, own = _slant_and_size(a, b, c)
        scale = (own / size).clamp(1 / LARGEST, LARGEST)
        matrices[:, 0, 0] = matrices[:, 1, 1] = scale
        matrices[:, 0, 1] = scale * slant
    matrices[:, 0, 2] = cx - matrices[:, 0, 0] * width / 2 - matrices[:, 0, 1] * height / 2
    matrices[:, 1, 2] = cy - matrices[:, 1, 1] * height / 2
    return matrices


def normalised(data: Dataset, kind: str, size: float | None = None) -> Dataset:
    """The grey images of `data` (N, 1, H, W), normalised, as a data set of its own.

    Args:
        kind: "centred" moves the centre of mass to the middle; "moments" undoes the slant and brings
            the size to `size` as well.
        size: the size in pixels for "moments": the `mean_size` of images that a model knows.
    """
    tensor = pixels_of(data)
    if tensor.shape[1] != 1:
        raise ValueError(f"Moments are taken of grey images, not of {tensor.shape[1]} channels.")
    out = torch.empty_like(tensor)
    for start in range(0, len(tensor), BATCH):
        part = data.floats(slice(start, start + BATCH))
        moved = warp(part, normalising_matrices(part, kind, size), "bicubic")
        out[start : start + BATCH] = moved.mul(255).round() if out.dtype == torch.uint8 else moved
    how = "centred by mass"
    if kind == "moments":
        how = f"slant undone, size {size:.2f}, {how}"
    note = "; ".join(part for part in (data.provenance.note, how) if part)
    provenance = replace(data.provenance, checksum=fingerprint(out, data.labels), note=note)
    return replace(data, images=out, provenance=provenance)
