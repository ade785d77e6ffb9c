"""Getting data sets, seeing what is there, and checking that it is what it should be."""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tvae.data import affnist_mat, celeba, digits, embedded, omniglot
from tvae.data.roots import DEBIAN_FASHION, DataNotFound, data_root

__all__ = ["Available", "Check", "available", "check", "fetch"]

AFFNIST_URL = "https://www.cs.toronto.edu/~tijmen/affNIST/32x/transformed/"
AFFNIST_FILES = ("training_batches.zip", "test_batches.zip")

_SMALL_URL = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python/"

# relative to the data root; of the MNIST files as unpacked, see digits.SHA256
_OMNIGLOT_SHA256 = MappingProxyType(
    {
        "omniglot-py/images_background_small1.zip": (
            "f38eb80f801274ac2b4dff5b24289016bfaba4a7d5bb50deebf27104ad6cb8a4"
        ),
        "omniglot-py/images_background_small2.zip": (
            "3ccaa407515a8778e5d0861875af38b17e418f301ad5bb3b5a6b65d901a41c7f"
        ),
    }
)
# the publishers' MD5 sums, as torchvision knows them
_MD5 = MappingProxyType(
    {
        "omniglot-py/images_background.zip": "68d2efa1b9178cc56df9314c21c6e718",
        "omniglot-py/images_evaluation.zip": "6b91aef0f799c5bb55b94e3f2daec811",
        "celeba/list_eval_partition.txt": "d32c9cbf5e040fd4025c592c306e6668",
        "celeba/identity_CelebA.txt": "32bd1bd63d3c78cd57e08160ec5ed1e2",
    }
)


@dataclass(frozen=True)
class Available:
    """One way to a data set: is it there, where, and what provides it; `str()` is one line."""

    name: str
    source: str
    present: bool
    where: str
    provide: str = ""

    def __str__(self) -> str:
        state = "yes" if self.present else f"no: {self.provide}"
        return f"{self.name:14} {self.source:12} {self.where}: {state}"


@dataclass(frozen=True)
class Check:
    """One file compared with its published checksum; `str()` is one line."""

    name: str
    path: str
    expected: str
    found: str

    @property
    def ok(self) -> bool:
        return self.expected == self.found

    def __str__(self) -> str:
        state = "ok" if self.ok else f"WRONG: expected {self.expected}, found {self.found}"
        return f"{self.name:14} {self.path}: {state}"


def fetch(name: str, root: str | os.PathLike[str] | None = None) -> Path:
    """Download a data set into the data root, with progress; return the root.

    MNIST, Fashion-MNIST, Omniglot and CelebA come by torchvision's own download, which checks their
    MD5 sums; AffNIST's training and test archives come from its publisher. What is there already is
    not fetched again.
    """
    folder = data_root(root)
    if name in ("glyphs", "faces"):
        raise ValueError(f"{name} is made by the package itself: there is nothing to fetch.")
    if name not in ("mnist", "fashion-mnist", "omniglot", "celeba", "affnist"):
        raise ValueError(
            f"Unknown data set {name!r}: mnist, fashion-mnist, omniglot, celeba and affnist can be "
            f"fetched."
        )
    # here, not above: torchvision takes seconds to import and most calls need no download
    from torchvision import datasets
    from torchvision.datasets.utils import download_url

    try:
        folder.mkdir(parents=True, exist_ok=True)
        if name == "mnist":
            datasets.MNIST(str(folder), download=True)
        elif name == "fashion-mnist":
            datasets.FashionMNIST(str(folder), download=True)
        elif name == "omniglot":
            for background in (True, False):
                datasets.Omniglot(str(folder), background=background, download=True)
        elif name == "celeba":
            datasets.CelebA(str(folder), download=True)
        else:
            for file in AFFNIST_FILES:
                if not (folder / affnist_mat.FOLDER / file).is_file():
                    download_url(AFFNIST_URL + file, str(folder / affnist_mat.FOLDER), file)
    except (OSError, RuntimeError, ImportError) as error:
        reason = " ".join(str(error).split())
        raise DataNotFound(f"{name} could not be fetched into {folder}: {reason}") from error
    return folder


def available(root: str | os.PathLike[str] | None = None) -> list[Available]:
    """What can be had where: one row for each data set and source."""
    folder = data_root(root)
    rows = []

    def row(name: str, source: str, present: bool, where: Path, provide: str) -> None:
        rows.append(Available(name, source, present, str(where), "" if present else provide))

    def there(function: object, *arguments: object) -> bool:
        try:
            function(*arguments)  # type: ignore[operator]
        except DataNotFound:
            return False
        return True

    for name, sub in digits.FOLDERS.items():
        fetching = f"tvae data fetch {name}"
        both = all(there(digits.files, name, s, "torchvision", folder) for s in ("train", "test"))
        row(name, "torchvision", both, folder / sub / "raw", fetching)
        if name == "fashion-mnist":
            both = all(there(digits.files, name, s, "debian") for s in ("train", "test"))
            row(name, "debian", both, DEBIAN_FASHION, "apt install dataset-fashion-mnist")
        rows.append(Available(name, "embedded", True, "sample in the package"))
    place, fetching = folder / omniglot.FOLDER, "tvae data fetch omniglot"
    row(
        "omniglot",
        "torchvision",
        there(omniglot.find, "all", "torchvision", folder),
        place,
        fetching,
    )
    small = f"put {omniglot.SMALL[0]}.zip and {omniglot.SMALL[1]}.zip there, from {_SMALL_URL}"
    row("omniglot", "small", there(omniglot.find, "all", "small", folder), place, small)
    rows.append(Available("omniglot", "embedded", True, "stand-in: glyphs"))
    place = folder / celeba.FOLDER
    row("celeba", "torchvision", celeba.present(folder), place, "tvae data fetch celeba")
    rows.append(Available("celeba", "embedded", True, "stand-in: faces"))
    published = all(there(affnist_mat.find, split, folder) for split in ("train", "test"))
    row("affnist", "mat", published, folder / affnist_mat.FOLDER, "tvae data fetch affnist")
    full = all(there(digits.files, "mnist", s, "torchvision", folder) for s in ("train", "test"))
    row("affnist", "regenerated", full, folder / "MNIST" / "raw", "tvae data fetch mnist")
    rows.append(Available("affnist", "embedded", True, "made from the MNIST sample"))
    rows.append(Available("glyphs", "embedded", True, "made by the package"))
    rows.append(Available("faces", "embedded", True, "made by the package"))
    return rows


def _digest(path: Path, algorithm: str) -> str:
    """The checksum of a file in hexadecimal, a gzipped one unpacked on the way."""
    digest = hashlib.new(algorithm)
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _digit_files(name: str, folder: Path) -> Iterator[tuple[Path, str]]:
    """The files of a complete digit set that are there, with the checksum each must have."""
    for relative, expected in digits.SHA256.items():
        if not relative.startswith(digits.FOLDERS[name] + "/"):
            continue
        places = [folder / relative, folder / f"{relative}.gz"]
        if name == "fashion-mnist":
            places.append(DEBIAN_FASHION / f"{Path(relative).name}.gz")
        yield from ((path, expected) for path in places if path.is_file())


def check(
    name: str | Iterable[str] | None = None, root: str | os.PathLike[str] | None = None
) -> list[Check]:
    """Compare every file that is there, of one data set, several or all, with its checksum.

    MNIST and Fashion-MNIST are compared unpacked; the embedded samples as they are stored. Files
    without a published checksum (CelebA's pictures, AffNIST) are not listed.
    """
    folder = data_root(root)
    known = ("mnist", "fashion-mnist", "omniglot", "celeba")
    names = known if name is None else (name,) if isinstance(name, str) else tuple(name)
    rows: list[Check] = []
    for each in names:
        if each not in (*known, "affnist", "glyphs", "faces"):
            raise ValueError(f"Unknown data set {each!r}: files of {', '.join(known)} are checked.")
        if each in digits.FOLDERS:
            for path, expected in _digit_files(each, folder):
                rows.append(Check(each, str(path), expected, _digest(path, "sha256")))
            for file, expected in embedded.checksums().items():
                if file.startswith(f"{each}-t"):
                    found = hashlib.sha256(embedded.sample_bytes(file)).hexdigest()
                    rows.append(Check(each, f"embedded {file}", expected, found))
        start = {"omniglot": f"{omniglot.FOLDER}/", "celeba": f"{celeba.FOLDER}/"}.get(each)
        for table, algorithm in ((_OMNIGLOT_SHA256, "sha256"), (_MD5, "md5")):
            for relative, expected in table.items():
                path = folder / relative
                if start and relative.startswith(start) and path.is_file():
                    rows.append(Check(each, str(path), expected, _digest(path, algorithm)))
    return rows
