"""Getting data sets, seeing what is there, and checking that it is what it should be."""

import gzip
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tvae.data import embedded
from tvae.data.catalogue import entry, names
from tvae.data.roots import DataNotFound, data_root
from tvae.files import AnyPath, digest


@dataclass(frozen=True)
class Available:
    """One way to a data set: is it there, where, and what provides it."""

    name: str
    source: str
    present: bool
    where: str
    provide: str = ""


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


def fetch(name: str, root: AnyPath | None = None) -> Path:
    """Download a data set into the data root, with progress; return the root.

    MNIST, Fashion-MNIST, Omniglot and CelebA come by torchvision's own download, which checks their
    MD5 sums; AffNIST's training and test archives come from its publisher. What is there already is
    not fetched again.
    """
    folder, wanted = data_root(root), entry(name)
    if wanted.download is None:
        why = wanted.sources[0].provide if wanted.sources else f"it is {wanted.embedded_as}"
        raise ValueError(f"There is nothing to fetch for {name}: {why}.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        wanted.download(folder)
    except (OSError, RuntimeError, ImportError) as error:
        reason = " ".join(str(error).split())
        raise DataNotFound(f"{name} could not be fetched into {folder}: {reason}") from error
    return folder


def available(root: AnyPath | None = None) -> list[Available]:
    """What can be had where: one row for each data set and source."""
    folder, rows = data_root(root), []
    for known in map(entry, names()):
        for source in known.sources:
            try:
                for split in ("train", "test"):
                    if known.find is not None:
                        known.find(split, source.name, folder)
                present = True
            except DataNotFound:
                present = False
            where = str(folder / source.place)
            rows.append(Available(known.name, source.name, present, where, source.provide))
        rows.append(Available(known.name, "embedded", True, known.embedded_as))
    return rows


def _digest(path: Path, algorithm: str) -> str:
    """The checksum of a file in hexadecimal, a gzipped one unpacked on the way."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return digest(file, algorithm)


def check(name: str | Iterable[str] | None = None, root: AnyPath | None = None) -> list[Check]:
    """Compare every file that is there, of one data set, several or all, with its checksum.

    MNIST and Fashion-MNIST are compared unpacked; the embedded samples as they are stored. Files
    without a published checksum (CelebA's images) are not listed.
    """
    folder = data_root(root)
    wanted = names() if name is None else (name,) if isinstance(name, str) else tuple(name)
    rows: list[Check] = []
    for known in map(entry, wanted):
        for place in dict.fromkeys(folder / source.place for source in known.sources):
            for file, checksum in known.checksums.items():
                algorithm, expected = checksum.split(":")
                for path in (place / file, place / f"{file}.gz"):
                    if path.is_file():
                        rows.append(
                            Check(known.name, str(path), expected, _digest(path, algorithm))
                        )
        for file, expected in embedded.checksums().items():
            if file.startswith(f"{known.name}-t"):
                found = hashlib.sha256(embedded.sample_bytes(file)).hexdigest()
                rows.append(Check(known.name, f"embedded {file}", expected, found))
    return rows
