"""AffNIST: MNIST digits under random affine maps on a 40×40 canvas.

Two routes with one interface: the published `.mat` files (`tvae.data.affnist_mat`), and the
regenerator of this module, which makes a set of the same kind from MNIST. The regenerated images
follow the published recipe, they are not the published images.

Recipe, for each of the 32 versions of an original:
rotation uniform in ±20°, shear uniform in ±0.2, horizontal and vertical expansion each uniform in
0.8–1.2, then a translation uniform over the placements that lose no ink on the canvas.
Originals: the first 50,000 MNIST training images (train), the last 10,000 (validation), the 10,000
test images (test), so 1,600,000 / 320,000 / 320,000 images. Image number k is version k // N of
original k % N, as in the published files, where file v holds one version of every original.

Convention. Coordinates are x to the right and y down, in pixels, about the centre of the image or
canvas; pixel centres lie at half-integers from the edge. A point p of the original goes to A p + t,

    A = [[cos θ, sin θ], [−sin θ, cos θ]] · [[1, s], [0, 1]] · [[ex, 0], [0, ey]]:

expand, shear along x, turn counter-clockwise by θ, shift. Each output pixel looks back through A⁻¹
and interpolates bilinearly; outside the original there is no ink.

Where no ink is lost. Under bilinear interpolation a pixel of ink at p reaches the open square
p ± 1, so on the canvas the parallelogram A(p ± 1) + t, which extends |A₀₀| + |A₀₁| to either side in
x. Ink is lost when that reaches the centre of a pixel beyond the border, which lies half a pixel
outside. Hence, over the ink pixels, shift x may be anything from
−(20 + ½) − min(A p)ₓ + (|A₀₀| + |A₀₁|) to (20 + ½) − max(A p)ₓ − (|A₀₀| + |A₀₁|), and y alike. The
extremes of a linear function are taken at the first or last ink pixel of some row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from tvae.data import digits, embedded
from tvae.data.counter import uniforms, words
from tvae.data.dataset import Dataset, describe
from tvae.data.resampling import in_blocks, resize, to_bytes

__all__ = [
    "ANCHORS",
    "CANVAS",
    "PUBLISHED",
    "SOURCES",
    "SPLITS",
    "VERSIONS",
    "Parameters",
    "Ranges",
    "chosen",
    "ink_extremes",
    "load",
    "originals",
    "parameters",
    "regenerate",
    "regenerate_chunks",
    "render",
    "stream",
]

CANVAS = 40
VERSIONS = 32
ANCHORS = 100_000  # training images that serve as kNN anchors: load("affnist", count=ANCHORS)
SPLITS = ("train", "validation", "test")
SOURCES = ("full", "mat", "regenerated", "embedded")

# Images per step: small enough that a step's grid (3 MB) stays in the cache.
_BLOCK = 256


@dataclass(frozen=True)
class Ranges:
    """The published ranges: ± `rotation` degrees, ± `shear`, expansions between the two."""

    rotation: float = 20.0
    shear: float = 0.2
    expansion: tuple[float, float] = (0.8, 1.2)


PUBLISHED = Ranges()


@dataclass(frozen=True)
class Parameters:
    """What was drawn for K images; each field has shape (K,), float64 but for `original`.

    `rotation` in degrees, counter-clockwise; `shift_x`, `shift_y` in pixels of the canvas.
    """

    original: torch.Tensor
    rotation: torch.Tensor
    shear: torch.Tensor
    expand_x: torch.Tensor
    expand_y: torch.Tensor
    shift_x: torch.Tensor
    shift_y: torch.Tensor

    def __len__(self) -> int:
        return len(self.original)

    def __getitem__(self, index: slice | torch.Tensor) -> Parameters:
        return Parameters(*(rows[index] for rows in self.as_dict().values()))

    def as_dict(self) -> dict[str, torch.Tensor]:
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def linear(self) -> torch.Tensor:
        """The linear parts A, (K, 2, 2) float64."""
        angle = torch.deg2rad(self.rotation)
        cos, sin = torch.cos(angle), torch.sin(angle)
        rows = (
            cos * self.expand_x,
            (cos * self.shear + sin) * self.expand_y,
            -sin * self.expand_x,
            (cos - sin * self.shear) * self.expand_y,
        )
        return torch.stack(rows, dim=1).reshape(-1, 2, 2)


def ink_extremes(images: torch.Tensor) -> torch.Tensor:
    """First and last ink pixel of every row of (N, 1, H, W), as (N, 2H, 2): x, y about the centre.

    Rows without ink repeat a point of another row; an image without any ink has the point 0.
    """
    ink = images[:, 0] > 0
    n, height, width = ink.shape
    column = torch.arange(width, dtype=torch.int16)
    first = torch.where(ink, column, width).amin(2)
    last = torch.where(ink, column, -1).amax(2)
    x = torch.cat([first, last], 1).float() + (0.5 - width / 2)
    y = torch.arange(height) + (0.5 - height / 2)
    points = torch.stack([x, y.repeat(2).expand(n, -1)], dim=2)
    inked = last >= 0
    stand_in = points[torch.arange(n), inked.to(torch.uint8).argmax(1)]  # of the first inked row
    stand_in[~inked.any(1)] = 0.0
    return torch.where(inked.repeat(1, 2)[:, :, None], points, stand_in[:, None])


def parameters(
    images: torch.Tensor,
    numbers: torch.Tensor,
    seed: int = 0,
    *,
    split: str = "test",
    ranges: Ranges = PUBLISHED,
    canvas: int = CANVAS,
    extremes: torch.Tensor | None = None,
) -> Parameters:
    """The parameters of the images `numbers` (K,) made from the originals `images` (N, 1, H, W).

    Row k depends on the seed, the split, the number and its original, on nothing else. `extremes`
    may pass in the `ink_extremes` of the originals where they are known.
    """
    draws = torch.from_numpy(uniforms(seed, f"affnist/{split}", numbers.numpy(), 6))
    low, high = ranges.expansion
    original = numbers % len(images)
    free = Parameters(
        original=original,
        rotation=(2 * draws[:, 0] - 1) * ranges.rotation,
        shear=(2 * draws[:, 1] - 1) * ranges.shear,
        expand_x=low + draws[:, 2] * (high - low),
        expand_y=low + draws[:, 3] * (high - low),
        shift_x=torch.zeros(len(numbers), dtype=torch.float64),
        shift_y=torch.zeros(len(numbers), dtype=torch.float64),
    )
    linear = free.linear()
    points = ink_extremes(images[original]) if extremes is None else extremes[original]
    border = canvas / 2 + 0.5
    shift = []
    for i in range(2):
        # sums written out: a matrix product may add in another order for another batch size
        spread = points[:, :, 0] * linear[:, i, :1] + points[:, :, 1] * linear[:, i, 1:]
        reach = linear[:, i].abs().sum(1)
        lowest = -border - spread.amin(1) + reach
        highest = border - spread.amax(1) - reach
        if bool((lowest > highest).any()):
            raise ValueError(
                f"Original {int(original[lowest > highest][0])} has ink too far apart for a "
                f"{canvas}x{canvas} canvas: no placement of one of its transformed versions keeps "
                f"all ink; use smaller ranges or originals with a margin."
            )
        shift.append(lowest + draws[:, 4 + i] * (highest - lowest))
    return replace(free, shift_x=shift[0], shift_y=shift[1])


def render(images: torch.Tensor, drawn: Parameters, *, canvas: int = CANVAS) -> torch.Tensor:
    """The transformed originals, (K, 1, canvas, canvas) uint8.

    `shift` counts from the centre of whatever canvas, so a larger canvas shows the same picture with
    more around it.
    """
    height, width = images.shape[-2:]
    (a, b), (c, d) = drawn.linear().permute(1, 2, 0)
    # grid_sample (align_corners=False) wants coordinates where the half-width of the original is 1
    scale = a * d - b * c
    inverse = (
        (d / (scale * width / 2), -b / (scale * width / 2)),
        (-c / (scale * height / 2), a / (scale * height / 2)),
    )
    axis = torch.arange(canvas) + (0.5 - canvas / 2)
    grid = torch.empty((len(drawn), canvas, canvas, 2))
    for i, (from_x, from_y) in enumerate(inverse):
        offset = -(from_x * drawn.shift_x + from_y * drawn.shift_y).float()
        along_x = from_x.float()[:, None] * axis
        along_y = from_y.float()[:, None] * axis + offset[:, None]
        torch.add(along_x[:, None, :], along_y[:, :, None], out=grid[..., i])
    sources = images[drawn.original].float()
    return to_bytes(F.grid_sample(sources, grid, "bilinear", "zeros", align_corners=False))


def chosen(total: int, count: int | None, seed: int, split: str) -> torch.Tensor:
    """Which of `total` images to use, ascending: all, or `count` of them drawn without repetition.

    Every image gets a random number of its own, and the `count` smallest win. So a smaller choice
    lies within a larger one of the same seed.
    """
    if count is None or count == total:
        return torch.arange(total)
    if isinstance(count, bool) or not 0 < count <= total:
        raise ValueError(
            f"AffNIST ({split}) has {total:,} images here: count must be 1 to that, not {count}."
        )
    keys = words(seed, f"affnist/{split}/choice", np.arange(total))
    return torch.from_numpy(np.sort(np.argpartition(keys, count - 1)[:count]))


def _check_chunk(chunk: int, size: int) -> None:
    if isinstance(chunk, bool) or not isinstance(chunk, int) or chunk <= 0:
        raise ValueError(f"chunk must be a positive whole number of images, not {chunk!r}.")
    if isinstance(size, bool) or not isinstance(size, int) or not 0 < size <= CANVAS:
        raise ValueError(f"size must be between 1 and {CANVAS} pixels, not {size!r}.")


def regenerate_chunks(
    mnist: Dataset,
    count: int | None = None,
    seed: int = 0,
    *,
    size: int = 28,
    chunk: int = 8192,
    versions: int = VERSIONS,
    ranges: Ranges = PUBLISHED,
    source: str = "regenerated",
) -> Iterator[Dataset]:
    """Make AffNIST from the originals `mnist`, as uint8 chunks of at most `chunk` images.

    The split of `mnist`'s provenance keys the random numbers, so train and test differ even for the
    same original. See `regenerate` for the rest.
    """
    _check_chunk(chunk, size)
    if mnist.images.dtype != torch.uint8 or mnist.images.shape[1] != 1:
        raise ValueError("AffNIST is made from grey uint8 originals of shape (N, 1, H, W).")
    if versions <= 0:
        raise ValueError(f"There must be at least one version of each original, not {versions}.")
    split = mnist.provenance.split
    numbers = chosen(len(mnist) * versions, count, seed, split)
    extremes = ink_extremes(mnist.images)
    for start in range(0, len(numbers), chunk):
        part = numbers[start : start + chunk]
        images = torch.empty((len(part), 1, size, size), dtype=torch.uint8)
        drawn: dict[int, Parameters] = {}

        def work(
            block: slice,
            part: torch.Tensor = part,
            images: torch.Tensor = images,
            drawn: dict[int, Parameters] = drawn,
        ) -> None:
            own = parameters(
                mnist.images, part[block], seed, split=split, ranges=ranges, extremes=extremes
            )
            images[block] = resize(render(mnist.images, own), size)
            drawn[block.start] = own

        in_blocks(work, len(part), _BLOCK)
        extras = _joined([drawn[key].as_dict() for key in sorted(drawn)])
        yield describe(
            "affnist",
            source,
            split,
            images,
            mnist.labels[extras["original"]],
            note=_note(mnist, len(numbers), seed, versions),
            classes=mnist.classes,
            extras={"number": part, **extras},
        )


def _joined(rows: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {name: torch.cat([part[name] for part in rows]) for name in rows[0]}


def _note(mnist: Dataset, count: int, seed: int, versions: int) -> str:
    what = f"made from {mnist.provenance.name} ({mnist.provenance.source}), seed {seed}"
    total = len(mnist) * versions
    return what + (f", {count:,} drawn of {total:,}" if count < total else "")


def regenerate(
    mnist: Dataset,
    count: int | None = None,
    seed: int = 0,
    *,
    size: int = 28,
    versions: int = VERSIONS,
    ranges: Ranges = PUBLISHED,
    source: str = "regenerated",
) -> Dataset:
    """Make AffNIST from the originals `mnist` in memory, (K, 1, size, size) uint8.

    Args:
        count: how many of the len(mnist) · versions images, drawn without repetition; None for all.
        seed: fixes parameters and choice; image number k of a seed is the same for any `count`.
        size: 40 for the canvas as it is, less for an antialiased reduction.

    `extras` of the result holds the number of each image and its drawn parameters.
    """
    chunks = regenerate_chunks(
        mnist, count, seed, size=size, versions=versions, ranges=ranges, source=source
    )
    return _collect(chunks, len(mnist) * versions if count is None else count)


def _collect(chunks: Iterator[Dataset], total: int) -> Dataset:
    """One data set of all chunks; its image memory is claimed once, not twice as by `cat`."""
    images: torch.Tensor | None = None
    labels, extras, at = [], [], 0
    for part in chunks:
        if images is None:
            images = torch.empty((total, *part.images.shape[1:]), dtype=torch.uint8)
        images[at : at + len(part)] = part.images
        at += len(part)
        labels.append(part.labels)
        extras.append(part.extras)
    if images is None or at != total:
        raise ValueError(f"{total:,} AffNIST images were announced, but {at:,} came.")
    return describe(
        part.provenance.name,
        part.provenance.source,
        part.provenance.split,
        images,
        torch.cat(labels),
        note=part.provenance.note,
        classes=part.classes,
        extras=_joined(extras),
    )


def originals(split: str, source: str = "regenerated", root: Path | None = None) -> Dataset:
    """The MNIST images that AffNIST's `split` is made from; the embedded sample in proportion.

    The published set keeps the last sixth of the 60,000 training images for validation.
    """
    part = "test" if split == "test" else "train"
    if source == "embedded":
        mnist = embedded.sample("mnist", part)
    else:
        mnist = digits.full("mnist", part, "full", root)
    if split == "test":
        return mnist
    boundary = len(mnist) * 5 // 6
    half = mnist.take(slice(boundary) if split == "train" else slice(boundary, None))
    return replace(half, provenance=replace(half.provenance, split=split))


def stream(
    split: str = "test",
    *,
    source: str = "regenerated",
    count: int | None = None,
    seed: int = 0,
    size: int = 28,
    chunk: int = 8192,
    root: Path | None = None,
    path: Path | None = None,
) -> Iterator[Dataset]:
    """AffNIST in uint8 chunks, by either route; the arguments are those of `load`."""
    if split not in SPLITS:
        raise ValueError(f"Unknown split {split!r} of affnist: choose one of {', '.join(SPLITS)}.")
    if source in ("full", "mat"):
        from tvae.data import affnist_mat

        _check_chunk(chunk, size)
        return affnist_mat.read_chunks(
            split, count=count, seed=seed, size=size, chunk=chunk, root=root, path=path
        )
    if source not in SOURCES:
        raise ValueError(f"Unknown source {source!r} for affnist: choose one of {SOURCES}.")
    if path is not None:
        raise ValueError(f"path names .mat files; it has no meaning for the source {source!r}.")
    mnist = originals(split, source, root)
    return regenerate_chunks(mnist, count, seed, size=size, chunk=chunk, source=source)


def load(
    split: str = "test",
    *,
    source: str = "regenerated",
    count: int | None = None,
    seed: int = 0,
    size: int = 28,
    root: Path | None = None,
    path: Path | None = None,
) -> Dataset:
    """AffNIST in memory, (count, 1, size, size) uint8.

    Args:
        split: "train", "validation" or "test".
        source: "mat" (the published files; "full" means the same), "regenerated" (from the full
            MNIST) or "embedded" (from the MNIST sample in the package).
        count: how many images, drawn from the split without repetition; None for all (beware: the
            training split has 1.6 million).
        seed: of the parameters and of the choice; the published files only know the choice.
        size: 40, or less for an antialiased reduction; 28 is what the models take.
        path: a .mat file, a folder or a .zip of 1.mat, 2.mat, ..., instead of the data root.
    """
    if split in SPLITS and source in ("full", "mat"):
        from tvae.data import affnist_mat

        total = affnist_mat.total(split, root=root, path=path)
    elif split in SPLITS and source in SOURCES:
        total = len(originals(split, source, root)) * VERSIONS
    else:
        total = 0  # stream() raises the error
    chunks = stream(split, source=source, count=count, seed=seed, size=size, root=root, path=path)
    return _collect(chunks, total if count is None else count)
