"""AffNIST: MNIST digits under random affine maps on a 40×40 canvas.

Two routes with one interface: the published `.mat` files (`tvae.data.affnist_mat`), and the
regenerator of this module, which makes a set of the same kind from MNIST. The regenerated images
follow the published recipe, they are not the published images.

Recipe, for each of the 32 versions of an original:
rotation uniform in ±20°, shear uniform in ±0.2, horizontal and vertical expansion each uniform in
0.8–1.2, then a translation uniform over the placements that lose no ink on the canvas.
Originals: 50,000 MNIST training images (train), the other 10,000 (validation), the 10,000 test
images (test), so 1,600,000 / 320,000 / 320,000 images. Image number k is version k // N of original
k % N.

Compared with 60 published records of the just-centred version (`tests/data/test_affnist.py`): an
identity map here gives their pixels exactly, the original upright within a border of 6. Their
`original_id` is 50,001 to 50,060, which should be validation originals, and they are MNIST training
images from all over the file, only 10 of them beyond its 50,000th: the publisher numbered the
training images in another order, which is not known.

Settled here, because no published record tells: that the *first* 50,000 training images are the
training originals (very likely not the published choice, but one of the same kind); the order of the
images; the order in which expansion, shear and rotation are composed; bilinear interpolation.

The maps themselves, and where ink may lie, are in `tvae.data.affnist_maps`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tvae.data import affnist_mat, digits
from tvae.data.affnist_maps import (
    Parameters,
    check_portions,
    chosen,
    ink_extremes,
    parameters,
    render,
)
from tvae.data.dataset import Dataset, describe
from tvae.data.entries import Entry, Source
from tvae.data.resampling import in_blocks, resize

VERSIONS = 32
ANCHORS = 100_000  # training images that serve as kNN anchors: load("affnist", count=ANCHORS)
SPLITS = ("train", "validation", "test")
SOURCES = ("full", "mat", "regenerated", "embedded")

# Images per step: small enough that a step's grid (3 MB) stays in the cache.
_BLOCK = 256


def regenerate_chunks(
    mnist: Dataset,
    count: int | None = None,
    seed: int = 0,
    *,
    size: int = 28,
    chunk: int = 8192,
    versions: int = VERSIONS,
    source: str = "regenerated",
) -> Iterator[Dataset]:
    """Make AffNIST from the originals `mnist`, as uint8 chunks of at most `chunk` images.

    The split of `mnist`'s provenance keys the random numbers, so train and test differ even for the
    same original. See `regenerate` for the rest.
    """
    check_portions(chunk, size)
    if mnist.images.dtype != torch.uint8 or mnist.images.shape[1] != 1:
        raise ValueError("AffNIST is made from grey uint8 originals of shape (N, 1, H, W).")
    if versions <= 0:
        raise ValueError(f"There must be at least one version of each original, not {versions}.")
    split, total = mnist.provenance.split, len(mnist) * versions
    numbers = chosen(total, count, seed, split)
    extremes = ink_extremes(mnist.images)
    note = f"made from {mnist.provenance.name} ({mnist.provenance.source}), seed {seed}"
    if len(numbers) < total:
        note += f", {len(numbers):,} drawn of {total:,}"
    for part in numbers.split(chunk):
        images, drawn = _warped(mnist, part, seed, size, extremes)
        yield describe(
            "affnist",
            source,
            split,
            images,
            mnist.labels[drawn["original"]],
            note=note,
            classes=mnist.classes,
            extras={"number": part, **drawn},
        )


def _warped(
    mnist: Dataset, numbers: torch.Tensor, seed: int, size: int, extremes: torch.Tensor
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The images of these numbers, (K, 1, size, size) uint8, and what was drawn for them."""
    images = torch.empty((len(numbers), 1, size, size), dtype=torch.uint8)
    drawn: dict[int, Parameters] = {}

    def work(block: slice) -> None:
        own = parameters(
            mnist.images, numbers[block], seed, split=mnist.provenance.split, extremes=extremes
        )
        images[block] = resize(render(mnist.images, own), size)
        drawn[block.start] = own

    in_blocks(work, len(numbers), _BLOCK)
    return images, _joined([drawn[key].as_dict() for key in sorted(drawn)])


def _joined(rows: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    return {name: torch.cat([part[name] for part in rows]) for name in rows[0]}


def regenerate(mnist: Dataset, count: int | None = None, seed: int = 0, **options: Any) -> Dataset:
    """Make AffNIST from the originals `mnist` in memory, (K, 1, size, size) uint8.

    Args:
        count: how many of the len(mnist) · versions images, drawn without repetition; None for all.
        seed: fixes parameters and choice; image number k of a seed is the same for any `count`.
        options: of `regenerate_chunks`: `versions` of each original; `size`, 40 for the canvas as it
            is, less for an antialiased reduction.

    `extras` of the result holds the number of each image and its drawn parameters.
    """
    total = len(mnist) * options.get("versions", VERSIONS)
    return _collect(regenerate_chunks(mnist, count, seed, **options), count or total)


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
    made = part.provenance
    return describe(
        made.name,
        made.source,
        made.split,
        images,
        torch.cat(labels),
        note=made.note,
        classes=part.classes,
        extras=_joined(extras),
    )


def originals(split: str, source: str = "regenerated", root: Path | None = None) -> Dataset:
    """The MNIST images that AffNIST's `split` is made from; the embedded sample in proportion.

    The last sixth of the training images is for validation; which sixth is our choice.
    """
    part = "test" if split == "test" else "train"
    if source == "embedded":
        mnist = digits.sample("mnist", part)
    else:
        mnist = digits.full("mnist", part, "full", root)
    if split == "test":
        return mnist
    boundary = len(mnist) * 5 // 6
    half = mnist.take(slice(boundary) if split == "train" else slice(boundary, None))
    return replace(half, provenance=replace(half.provenance, split=split))


def _route(
    split: str, source: str, root: Path | None, path: Path | None
) -> tuple[int, Callable[..., Iterator[Dataset]]]:
    """How many images there are, and the function that gives chunks of them."""
    for what, value, known in (("split", split, SPLITS), ("source", source, SOURCES)):
        if value not in known:
            raise ValueError(
                f"Unknown {what} {value!r} of affnist: choose one of {', '.join(known)}."
            )
    if source in ("full", "mat"):
        chunks = partial(affnist_mat.read_chunks, split, root=root, path=path)
        return affnist_mat.total(split, root=root, path=path), chunks
    if path is not None:
        raise ValueError(f"path names .mat files; it has no meaning for the source {source!r}.")
    mnist = originals(split, source, root)
    return len(mnist) * VERSIONS, partial(regenerate_chunks, mnist, source=source)


def stream(
    split: str = "test",
    *,
    source: str = "regenerated",
    root: Path | None = None,
    path: Path | None = None,
    **options: Any,
) -> Iterator[Dataset]:
    """AffNIST in uint8 chunks, by either route.

    The arguments are those of `load`, and `chunk`, the number of images in one (8192).
    """
    return _route(split, source, root, path)[1](**options)


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
    total, chunks = _route(split, source, root, path)
    return _collect(chunks(count=count, seed=seed, size=size), total if count is None else count)


def _find(split: str, source: str, root: Path | None) -> object:
    """The files of a split, of AffNIST itself or of the MNIST that it is made from."""
    if source == "regenerated":
        return digits.files("mnist", "test" if split == "test" else "train", "full", root)
    return affnist_mat.find(split, root)


ENTRY = Entry(
    name="affnist",
    title="AffNIST",
    embedded=partial(load, source="embedded", root=None),
    embedded_as="made from the MNIST sample",
    embedded_splits=SPLITS,
    read=load,
    find=_find,
    sources=(
        Source("mat", affnist_mat.FOLDER, fetch="affnist"),
        Source("regenerated", "MNIST/raw", fetch="mnist"),
    ),
    splits=SPLITS,
    download=affnist_mat.download,
    known_shape=(1, 28, 28),
    known_counts=(1_600_000, 320_000),
    terms="freely available, without restrictions (T. Tieleman)",
)
