"""MNIST and Fashion-MNIST: the complete sets, from torchvision's root or Debian's package; samples."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import MappingProxyType

import torch

from tvae.data import embedded, idx
from tvae.data.dataset import Dataset, describe
from tvae.data.entries import Entry, Source, by_torchvision
from tvae.data.roots import DEBIAN_FASHION, data_root, missing

_FOLDERS = MappingProxyType({"mnist": "MNIST", "fashion-mnist": "FashionMNIST"})
CLASSES = MappingProxyType(
    {
        "mnist": tuple("0123456789"),
        "fashion-mnist": (
            "T-shirt/top",
            "Trouser",
            "Pullover",
            "Dress",
            "Coat",
            "Sandal",
            "Shirt",
            "Sneaker",
            "Bag",
            "Ankle boot",
        ),
    }
)
PER_CLASS = MappingProxyType({"train": 600, "test": 100})  # of the embedded samples


def _pair(folder: Path, split: str) -> tuple[Path, Path] | None:
    """The image and label files of `split` in `folder`, plain or gzipped, or None."""
    stem = {"train": "train", "test": "t10k"}[split]
    found = []
    for kind in ("images-idx3", "labels-idx1"):
        plain = folder / f"{stem}-{kind}-ubyte"
        packed = plain.with_name(plain.name + ".gz")
        if not plain.is_file() and not packed.is_file():
            return None
        found.append(plain if plain.is_file() else packed)
    return found[0], found[1]


def files(
    name: str, split: str, source: str = "full", root: Path | None = None
) -> tuple[str, Path, Path]:
    """(source found, image file, label file) of a complete set; an error if there is none.

    `source` is "torchvision" (the data root only), "debian" (Debian's package only, Fashion-MNIST)
    or "full" (the first, then the second).
    """
    raw = data_root(root) / _FOLDERS[name] / "raw"
    places: list[tuple[str, Path]] = []
    if source in ("full", "torchvision"):
        places.append(("torchvision", raw))
    if source in ("full", "debian") and name == "fashion-mnist":
        places.append(("debian", DEBIAN_FASHION))
    for found, folder in places:
        pair = _pair(folder, split)
        if pair is not None:
            return found, *pair
    remedy = f"run `tvae data fetch {name}` or set TVAE_DATA to a torchvision data root"
    if name == "fashion-mnist":
        install = "`apt install dataset-fashion-mnist`"
        remedy = f"run {install}" if source == "debian" else f"{remedy}, or run {install}"
    raise missing(f"{name} ({split})", [folder for _, folder in places], remedy)


def full(name: str, split: str, source: str = "full", root: Path | None = None) -> Dataset:
    """All images of `split` ("train": 60,000, "test": 10,000), (N, 1, 28, 28) uint8."""
    found, image_file, label_file = files(name, split, source, root)
    images, labels = idx.read(image_file), idx.read(label_file)
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise ValueError(
            f"{image_file} and {label_file} do not belong together: images of shape "
            f"{tuple(images.shape)}, labels of shape {tuple(labels.shape)}."
        )
    return describe(
        name, found, split, images[:, None], labels.to(torch.int64), classes=CLASSES[name]
    )


def choose(name: str, split: str, labels: torch.Tensor) -> torch.Tensor:
    """Indices (ascending) of the images of the full set that the embedded sample keeps."""
    kept: list[int] = []
    for label in range(10):
        members = torch.nonzero(labels == label).flatten().tolist()
        if len(members) < PER_CLASS[split]:
            raise ValueError(
                f"Class {label} of {name} ({split}) has {len(members)} images, "
                f"fewer than the {PER_CLASS[split]} that the sample needs."
            )
        kept += embedded.first_by_hash(f"{name}/{split}", members, PER_CLASS[split])
    return torch.tensor(sorted(kept))


def sample_names(name: str, split: str) -> tuple[str, str]:
    """File names of the images and of the labels of an embedded sample."""
    return f"{name}-{split}-images.idx3.xz", f"{name}-{split}-labels.idx1.xz"


def sample(name: str, split: str) -> Dataset:
    """The embedded sample: 6,000 (train) or 1,000 (test) images, (N, 1, 28, 28) uint8."""
    images, labels = (embedded.read(file) for file in sample_names(name, split))
    return describe(
        name,
        "embedded",
        split,
        images[:, None],
        labels.to(torch.int64),
        classes=CLASSES[name],
        note=f"a stratified sample, {PER_CLASS[split]} of each class, not the full set",
    )


MNIST = Entry(
    name="mnist",
    title="MNIST",
    embedded=partial(sample, "mnist"),
    embedded_as="sample in the package",
    read=partial(full, "mnist"),
    find=partial(files, "mnist"),
    sources=(Source("torchvision", "MNIST/raw", fetch="mnist"),),
    download=partial(by_torchvision, "MNIST"),
    known_shape=(1, 28, 28),
    known_counts=(60_000, 10_000),
    terms="CC BY-SA 3.0 (Y. LeCun, C. Cortes)",
    checksums={
        "train-images-idx3-ubyte": (
            "sha256:ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"
        ),
        "train-labels-idx1-ubyte": (
            "sha256:65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"
        ),
        "t10k-images-idx3-ubyte": (
            "sha256:0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"
        ),
        "t10k-labels-idx1-ubyte": (
            "sha256:ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"
        ),
    },
)
FASHION_MNIST = Entry(
    name="fashion-mnist",
    title="Fashion-MNIST",
    embedded=partial(sample, "fashion-mnist"),
    embedded_as="sample in the package",
    read=partial(full, "fashion-mnist"),
    find=partial(files, "fashion-mnist"),
    sources=(
        Source("torchvision", "FashionMNIST/raw", fetch="fashion-mnist"),
        Source("debian", str(DEBIAN_FASHION), by_hand="apt install dataset-fashion-mnist"),
    ),
    download=partial(by_torchvision, "FashionMNIST"),
    known_shape=(1, 28, 28),
    known_counts=(60_000, 10_000),
    terms="MIT (Zalando SE)",
    checksums={
        "train-images-idx3-ubyte": (
            "sha256:c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"
        ),
        "train-labels-idx1-ubyte": (
            "sha256:bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"
        ),
        "t10k-images-idx3-ubyte": (
            "sha256:5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"
        ),
        "t10k-labels-idx1-ubyte": (
            "sha256:0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"
        ),
    },
)
