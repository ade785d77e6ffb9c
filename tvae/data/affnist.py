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

from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from tvae.checks import check_whole
from tvae.data import affnist_mat, digits
from tvae.data.affnist_maps import (
    CANVAS,
    Parameters,
    chosen,
    ink_extremes,
    joined,
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


def regenerate(
    mnist: Dataset,
    count: int | None = None,
    seed: int = 0,
    *,
    size: int = 28,
    versions: int = VERSIONS,
    source: str = "regenerated",
) -> Dataset:
    """Make AffNIST from the originals `mnist`, (K, 1, size, size) uint8.

    Args:
        count: how many of the len(mnist) · versions images, drawn without repetition; None for all.
        seed: fixes parameters and choice; image number k of a seed is the same for any `count`.
        size: 40 for the canvas as it is, less for an antialiased reduction.
        versions: of each original.

    The split of `mnist`'s provenance keys the random numbers, so train and test differ even for the
    same original. `extras` of the result holds the number of each image and its drawn parameters.
    """
    if mnist.images.dtype != torch.uint8 or mnist.images.shape[1] != 1:
        raise ValueError("AffNIST is made from grey uint8 originals of shape (N, 1, H, W).")
    if versions <= 0:
        raise ValueError(f"There must be at least one version of each original, not {versions}.")
    split, total = mnist.provenance.split, len(mnist) * versions
    numbers = chosen(total, count, seed, split)
    extremes = ink_extremes(mnist.images)
    images = torch.empty((len(numbers), 1, size, size), dtype=torch.uint8)
    parts: dict[int, Parameters] = {}

    def work(block: slice) -> None:
        own = parameters(mnist.images, numbers[block], seed, split=split, extremes=extremes)
        images[block] = resize(render(mnist.images, own), size)
        parts[block.start] = own

    in_blocks(work, len(numbers), _BLOCK)
    drawn = joined([parts[start].as_dict() for start in sorted(parts)])
    note = f"made from {mnist.provenance.name} ({mnist.provenance.source}), seed {seed}"
    if len(numbers) < total:
        note += f", {len(numbers):,} drawn of {total:,}"
    return describe(
        "affnist",
        source,
        split,
        images,
        mnist.labels[drawn["original"]],
        note=note,
        classes=mnist.classes,
        extras={"number": numbers, **drawn},
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
    half = mnist.take({"train": slice(boundary), "validation": slice(boundary, None)}[split])
    return replace(half, provenance=replace(half.provenance, split=split))


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
    if check_whole(size, "size") > CANVAS:
        raise ValueError(f"size must be at most {CANVAS} pixels, not {size}.")
    for what, value, known in (("split", split, SPLITS), ("source", source, SOURCES)):
        if value not in known:
            raise ValueError(
                f"Unknown {what} {value!r} of affnist: choose one of {', '.join(known)}."
            )
    if source in ("full", "mat"):
        return affnist_mat.read(split, count, seed, size, root=root, path=path)
    if path is not None:
        raise ValueError(f"path names .mat files; it has no meaning for the source {source!r}.")
    return regenerate(originals(split, source, root), count, seed, size=size, source=source)


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
