"""`portraits`: 3,625 portrait photographs in colour under open terms, eyes aligned.

Looked for under the data root in `faces-open/`: `faces_open_rgb96_jpg.zip` with the photographs at
96×96, eyes at (0.35, 0.43) and (0.65, 0.43) of the side, and `index.csv` with source, licence and
attribution of each. The people are identifiable: the set is for training and figures, and neither
names nor file names leave this module.

In the usual crop of CelebA the eyes are at (0.37, 0.51) and (0.63, 0.51), closer together still than
in the whole frame here. So the whole frame, reduced to 64×64, is the nearest thing to it; a smaller
`crop` cuts the margin off.

The split is by the SHA-256 of the file name, a fifth for testing. Of each member of a parliament there
is one photograph, so this is a split by person. Caltech's photographs show the same few people many
times; all of them train, so that these people are not on both sides.

Of the margin nothing is lost by rotations of the clean geometry: they enlarge what they turn until
the frame is full again, so that no corner is black.
"""

import csv
import hashlib
import io
import zipfile
from pathlib import Path

import numpy as np
import torch

from tvae.data import embedded
from tvae.data.dataset import Dataset, describe
from tvae.data.entries import Entry, Source
from tvae.data.pictures import decode_all, member
from tvae.data.roots import data_root, missing
from tvae.files import reading

FOLDER = "faces-open"
CLASSES = ("congress", "ukparl", "senedd", "caltech")
SIDE = 64
COLUMNS = 20  # of the sheet on which the sample is stored

FREE = "public domain"
_NOTE = "identifiable people: for training and figures only"


def find(split: str, source: str = "full", root: Path | None = None) -> tuple[Path, Path]:
    """The archive and its index; an error if they are not there."""
    folder = data_root(root) / FOLDER
    archive, index = folder / "faces_open_rgb96_jpg.zip", folder / "index.csv"
    if not archive.is_file() or not index.is_file():
        raise missing(f"portraits ({split})", [archive, index], "put these two files there")
    return archive, index


def split_of(source: str, file: str) -> str:
    """The split that a photograph belongs to."""
    fifth = hashlib.sha256(f"portraits/{file}".encode()).digest()[0] < 51
    return "test" if fifth and source != "caltech" else "train"


def read_index(index: Path) -> list[dict[str, str]]:
    with reading(f"{index} is damaged"), index.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    wanted = {"source", "file_in_zip", "licence", "attribution"}
    whole = all(None not in map(x.get, wanted) and x["source"] in CLASSES for x in lines)
    if not lines or not whole:
        raise ValueError(
            f"{index} is damaged: expected lines with {', '.join(sorted(wanted))}, and sources "
            f"among {', '.join(CLASSES)}."
        )
    return lines


def read_images(archive: Path, lines: list[dict[str, str]], crop: int, size: int) -> torch.Tensor:
    """The photographs that the lines of the index name."""
    with reading(f"{archive} is damaged or does not fit its index"):
        with zipfile.ZipFile(archive) as packed:
            files = [io.BytesIO(member(packed, x["file_in_zip"])) for x in lines]
        return decode_all(files, crop, size)


def load(
    split: str = "train",
    *,
    source: str = "full",
    root: Path | None = None,
    terms: str | None = None,
    crop: int = 96,
    size: int = SIDE,
) -> Dataset:
    """Portraits (N, 3, size, size) uint8; labels number their sources.

    Args:
        terms: only photographs whose licence begins so: "public domain", "CC BY 3.0", "CC BY 4.0".
        crop: side of the central square that is kept, 96 for the whole frame.
        size: side of the result; 96 (and `crop` 96) gives the photographs as they are.
    """
    archive, index = find(split, source, root)
    lines = read_index(index)
    lines = [x for x in lines if split_of(x["source"], x["file_in_zip"]) == split]
    kept = [x for x in lines if terms is None or x["licence"].startswith(terms)]
    if not kept:
        there = ", ".join(sorted({x["licence"] for x in lines})) or "none at all"
        raise ValueError(f"{index} has no {split} portrait of terms {terms!r}; there are: {there}.")
    images = read_images(archive, kept, crop, size)
    due = sorted({x["attribution"] for x in kept if not x["licence"].startswith(FREE)})
    note = f"{terms or 'all terms'}, {_NOTE}" + (f"; credit: {'; '.join(due)}" if due else "")
    return describe(
        "portraits",
        "zip",
        split,
        images,
        torch.tensor([CLASSES.index(x["source"]) for x in kept]),
        note=note,
        classes=CLASSES,
    )


def sample(split: str) -> Dataset:
    """The embedded sample: 320 (train) or 80 (test) of the public domain, (N, 3, 64, 64) uint8."""
    from PIL import Image

    sheet = io.BytesIO(embedded.sample_bytes(f"portraits-{split}-images.jpg"))
    with Image.open(sheet) as picture:
        pixels = torch.from_numpy(np.array(picture.convert("RGB")))
    images = pixels.reshape(-1, SIDE, COLUMNS, SIDE, 3).permute(0, 2, 4, 1, 3)
    images = images.reshape(-1, 3, SIDE, SIDE)
    return describe(
        "portraits",
        "embedded",
        split,
        images,
        torch.zeros(len(images), dtype=torch.int64),
        note=f"a sample of the public-domain part, not the full set; {_NOTE}",
        classes=CLASSES,
    )


ENTRY = Entry(
    name="portraits",
    title="portraits",
    embedded=sample,
    embedded_as="sample in the package",
    read=load,
    find=find,
    sources=(Source("zip", FOLDER, by_hand="put faces_open_rgb96_jpg.zip and index.csv there"),),
    known_shape=(3, SIDE, SIDE),
    known_counts=(3028, 597),
    shared_classes=False,  # the source of a photograph is no class of faces
    width=16,  # half of the usual: three thousand photographs are trained on one core
    terms=(
        "US Congress: public domain; UK Parliament: CC BY 3.0; Senedd: CC BY 4.0; Caltech: CC BY 4.0 "
        "by what is known"
    ),
)
