"""CelebA at 64×64: torchvision's layout, decoded straight into uint8 memory.

Under the data root: `celeba/img_align_celeba/*.jpg` (178×218), `celeba/list_eval_partition.txt`
(file name and 0, 1 or 2 for train, valid and test), and, for the labels, `celeba/identity_CelebA.txt`
(file name and number of the person).
"""

from functools import partial
from pathlib import Path

import torch

from tvae.data import portraits
from tvae.data.dataset import Dataset, describe
from tvae.data.entries import Entry, Source, by_torchvision
from tvae.data.pictures import decode_all
from tvae.data.roots import DataNotFound, data_root, missing
from tvae.files import reading

FOLDER = "celeba"
PARTITION = {"train": 0, "valid": 1, "test": 2}
CROP = 148  # the square about the centre that most work on CelebA cuts out before reducing it


def find(split: str, source: str = "full", root: Path | None = None) -> tuple[Path, Path]:
    """The folder of the images and the list of their splits; an error if they are not there."""
    folder = data_root(root) / FOLDER
    pictures, partition = folder / "img_align_celeba", folder / "list_eval_partition.txt"
    if not pictures.is_dir() or not partition.is_file():
        raise missing(
            f"celeba ({split})",
            [pictures, partition],
            "run `tvae data fetch celeba` or set TVAE_DATA to a torchvision data root",
        )
    return pictures, partition


def present(root: Path | None = None) -> bool:
    """Whether the images and the list of their splits are there."""
    try:
        find("train", root=root)
    except DataNotFound:
        return False
    return True


def _pairs(path: Path) -> list[tuple[str, int]]:
    """The lines "file name, number" of a list file."""
    rows = []
    with reading(f"{path} is not a list of files"):
        lines = path.read_text(encoding="utf-8").splitlines()
    for line in lines:
        parts = line.split()
        if not parts:
            continue
        if len(parts) != 2 or not parts[1].lstrip("-").isdigit():
            raise ValueError(f"{path}: expected a file name and a number in a line, not {line!r}.")
        rows.append((parts[0], int(parts[1])))
    return rows


def load(
    split: str = "train",
    *,
    source: str = "full",
    root: Path | None = None,
    count: int | None = None,
    crop: int = CROP,
    size: int = 64,
) -> Dataset:
    """CelebA (N, 3, size, size) uint8: the central square of side `crop`, reduced with antialiasing.

    `count` keeps the first so many of the split, in file order. Labels are the persons' numbers, or
    -1 for all where `identity_CelebA.txt` is not there (the provenance then says so).
    """
    pictures, partition = find(split, source, root)
    names = [name for name, part in _pairs(partition) if part == PARTITION[split]]
    if count is not None and not 0 < count <= len(names):
        raise ValueError(f"celeba ({split}) has {len(names):,} images: count cannot be {count}.")
    names = names[:count]
    if not names:
        raise ValueError(f"{partition} assigns no image to the split {split!r}.")
    absent = [name for name in names if not (pictures / name).is_file()]
    if absent:
        raise missing(
            f"celeba ({split}): {len(absent):,} of {len(names):,} pictures, first {absent[0]},",
            [pictures],
            "run `tvae data fetch celeba` again",
        )
    images = decode_all([pictures / name for name in names], crop, size)
    identities = partition.parent / "identity_CelebA.txt"
    note = f"centre crop {crop}x{crop}, reduced to {size}x{size}"
    if identities.is_file():
        person = dict(_pairs(identities))
        if any(name not in person for name in names):
            raise ValueError(f"{identities} does not name every picture of the split {split!r}.")
        labels = torch.tensor([person[name] for name in names])
    else:
        labels = torch.full((len(names),), -1)
        note += ", no identities, labels are -1"
    return describe("celeba", "torchvision", split, images, labels, note=note)


ENTRY = Entry(
    name="celeba",
    title="CelebA",
    embedded=portraits.sample,
    embedded_as="stand-in: portraits",
    read=load,
    find=find,
    sources=(Source("torchvision", FOLDER, fetch="celeba"),),
    splits=("train", "valid", "test"),
    download=partial(by_torchvision, "CelebA"),
    known_shape=(3, 64, 64),
    known_counts=(162_770, 19_962),
    shared_classes=False,  # other people test than train
    terms="for research only, not to be redistributed (Z. Liu, P. Luo, X. Wang, X. Tang)",
)
