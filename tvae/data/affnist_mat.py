"""The published AffNIST files: MATLAB structs with one 40×40 image per column.

Looked for under the data root in `affNIST/`: for the training split `training_batches.zip` or the
folder `training_batches`, for validation `validation_batches...`, for test `test_batches...`,
`test.mat` or `test.mat.zip`. Folders and archives hold `1.mat` to `32.mat`, with equally many images
(which is checked).

Convention, as 60 published records of the just-centred version (untransformed originals) show it:
every field has one column per case; a column of `image` is the canvas row by row, upright, with the
original's pixels unchanged within a border of 6; the matrices take (x, y) to (m₀ x + m₁ y + m₂,
m₃ x + m₄ y + m₅), so that `matrix_old_to_new` is (1, 0, 6, 0, 1, 6) there; of the six values of
`human_readable_transform` the third and fourth are the expansions, 1, and the others 0.
`original_id` counts from 1 in an order of the publisher's own, not MNIST's: see `affnist`.
"""

import io
import re
import zipfile
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from tvae.data.affnist_maps import CANVAS, chosen, joined
from tvae.data.dataset import Dataset, describe
from tvae.data.download import download as fetched
from tvae.data.entries import published
from tvae.data.pictures import member
from tvae.data.resampling import resize
from tvae.data.roots import data_root, missing
from tvae.files import reading

_MOST_BYTES = 2**28  # of one file; those published unpack to a third of this
FOLDER = "affNIST"
PLACES = MappingProxyType(
    {
        "train": ("training_batches.zip", "training_batches"),
        "validation": ("validation_batches.zip", "validation_batches"),
        "test": ("test_batches.zip", "test_batches", "test.mat", "test.mat.zip"),
    }
)
_PARAMETERS = (
    "human_readable_transform",
    "matrix_old_to_new",
    "matrix_new_to_old",
    "original_id",
    "affNIST_id",
)

URL = "https://www.cs.toronto.edu/~tijmen/affNIST/32x/transformed/"


def download(root: Path) -> None:
    """Fetch the archives of the training and the test split from the publisher."""
    for file in (PLACES["train"][0], PLACES["test"][0]):
        sha256 = published("affnist")[file].removeprefix("sha256:")
        fetched(URL + file, root / FOLDER / file, sha256)


def find(split: str, root: Path | None = None, path: Path | None = None) -> Path:
    """The file or folder that holds `split`; `path` if given, else from the data root."""
    if path is not None:
        places = [Path(path)]
        remedy = "give the path of a .mat file, or of a folder or .zip of 1.mat, 2.mat, ..."
    else:
        places = [data_root(root) / FOLDER / name for name in PLACES[split]]
        remedy = (
            "run `tvae data fetch affnist`, or choose source='regenerated', which makes a set of "
            "the same kind from MNIST"
        )
    for place in places:
        if place.exists():
            return place
    raise missing(f"affnist ({split}, published files)", places, remedy)


def _members(place: Path) -> list[str]:
    """Names of the .mat files in a folder or archive (or the file's own), in numerical order."""
    if place.is_dir():
        names = [item.name for item in place.iterdir() if item.is_file()]
    elif place.suffix == ".zip":
        with reading(f"{place} is damaged"), zipfile.ZipFile(place) as archive:
            names = archive.namelist()
    else:
        return [place.name]
    files = [name for name in names if name.endswith(".mat") and "__MACOSX" not in name]
    if not files:
        raise ValueError(f"{place} holds no .mat file; expected 1.mat, 2.mat, ...")

    def number(name: str) -> tuple[int, str]:
        match = re.fullmatch(r"(\d+)\.mat", Path(name).name)
        return (int(match[1]) if match else 0, name)

    return sorted(files, key=number)


def read_file(file: Any, where: str) -> dict[str, torch.Tensor]:
    """One .mat file: images (n, 1, 40, 40) uint8, labels (n,) int64, and the `_PARAMETERS` it has.

    These are passed on unchanged, one row for each case.
    """
    from scipy.io import loadmat  # a second to import, so only when needed

    expected = "a MATLAB struct affNISTdata with the fields image and label_int"
    with reading(f"{where} is not an AffNIST file, which is {expected}"):
        struct = loadmat(file)["affNISTdata"]
        if struct.shape == (1, 1):
            struct = struct[0, 0]
        image, label = np.asarray(struct["image"]), np.asarray(struct["label_int"])
    if image.ndim != 2 or image.shape[0] != CANVAS * CANVAS or image.dtype != np.uint8:
        raise ValueError(
            f"{where}: image must be uint8 with one column of {CANVAS * CANVAS} values per case, "
            f"not {image.dtype} of shape {image.shape}."
        )
    n = image.shape[1]
    labels = np.asarray(label).reshape(-1)
    if len(labels) != n:
        raise ValueError(f"{where}: {n} images but {len(labels)} labels.")
    result = {
        "images": torch.from_numpy(np.ascontiguousarray(image.T)).reshape(n, 1, CANVAS, CANVAS),
        "labels": torch.from_numpy(labels.astype(np.int64)),
    }
    for name in _PARAMETERS:
        if name in (struct.dtype.names or ()):
            rows = np.asarray(struct[name], dtype=np.float64)
            if rows.ndim != 2 or rows.shape[1] != n:
                raise ValueError(f"{where}: {name} must have {n} columns, not shape {rows.shape}.")
            result[name] = torch.from_numpy(np.ascontiguousarray(rows.T))
    return result


def _open(place: Path, name: str) -> dict[str, torch.Tensor]:
    if place.is_dir():
        return read_file(str(place / name), str(place / name))
    if place.suffix == ".zip":
        with reading(f"{place} is damaged"), zipfile.ZipFile(place) as archive:
            content = member(archive, name, _MOST_BYTES)
        return read_file(io.BytesIO(content), f"{place}/{name}")
    return read_file(str(place), str(place))


def read(
    split: str,
    count: int | None = None,
    seed: int = 0,
    size: int = 28,
    *,
    root: Path | None = None,
    path: Path | None = None,
) -> Dataset:
    """The published images, all or `count` drawn by `seed`; one file at a time is in memory."""
    place = find(split, root, path)
    names = _members(place)
    data = _open(place, names[0])
    per_file = len(data["labels"])
    total = len(names) * per_file
    numbers = chosen(total, count, seed, split)
    images = torch.empty((len(numbers), 1, size, size), dtype=torch.uint8)
    parts, done = [], 0
    for index, name in enumerate(names):
        mine = numbers[(numbers >= index * per_file) & (numbers < (index + 1) * per_file)]
        if not len(mine):
            continue
        data = _open(place, name) if index else data
        if len(data["labels"]) != per_file:
            raise ValueError(
                f"{place}: {name} has {len(data['labels']):,} images, {names[0]} {per_file:,}; "
                f"files of one split must have as many."
            )
        rows = mine - index * per_file
        images[done : done + len(mine)] = resize(data.pop("images")[rows], size)
        parts.append({"number": mine, **{name: values[rows] for name, values in data.items()}})
        done += len(mine)
    extras = joined(parts)
    note = "the published files"
    if len(numbers) < total:
        note += f", {len(numbers):,} drawn of {total:,} with seed {seed}"
    return describe(
        "affnist",
        "mat",
        split,
        images,
        extras.pop("labels"),
        note=note,
        classes=tuple("0123456789"),
        extras=extras,
    )
