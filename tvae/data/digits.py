"""MNIST and Fashion-MNIST: the complete sets, from torchvision's root or Debian's package; samples.

Kuzushiji-MNIST and notMNIST, which have the same files, are only measured on: `full("kmnist", "test")`
reads them, and the catalogue does not list them.
"""

from functools import partial
from pathlib import Path
from types import MappingProxyType

import torch

from tvae.data import embedded, idx
from tvae.data.dataset import Dataset, describe
from tvae.data.entries import Entry, Source, by_torchvision
from tvae.data.roots import DEBIAN_FASHION, data_root, missing

_FOLDERS = MappingProxyType(
    {
        "mnist": "MNIST",
        "fashion-mnist": "FashionMNIST",
        "kmnist": "KMNIST",
        "notmnist": "notMNIST",
    }
)
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
        "kmnist": ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"),
        "notmnist": tuple("ABCDEFGHIJ"),
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
    if name in ("kmnist", "notmnist"):
        remedy = "put its IDX files there, or set TVAE_DATA to a data root that has them"
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


def _entry(name: str, title: str, terms: str, *more: Source) -> Entry:
    folder = _FOLDERS[name]
    return Entry(
        name=name,
        title=title,
        embedded=partial(sample, name),
        embedded_as="sample in the package",
        read=partial(full, name),
        find=partial(files, name),
        sources=(Source("torchvision", f"{folder}/raw", fetch=name), *more),
        download=partial(by_torchvision, folder),
        known_shape=(1, 28, 28),
        known_counts=(60_000, 10_000),
        terms=terms,
    )


MNIST = _entry("mnist", "MNIST", "CC BY-SA 3.0 (Y. LeCun, C. Cortes)")
FASHION_MNIST = _entry(
    "fashion-mnist",
    "Fashion-MNIST",
    "MIT (Zalando SE)",
    Source("debian", str(DEBIAN_FASHION), by_hand="apt install dataset-fashion-mnist"),
)
