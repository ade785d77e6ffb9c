"""What the package knows of a data set: an `Entry`, which stands in the file of that data set."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from tvae.data.dataset import Dataset

Loader = Callable[..., Dataset]


@dataclass(frozen=True)
class Source:
    """A place where a data set may lie, and what puts it there."""

    name: str
    place: str  # a folder under the data root, or of the system
    fetch: str = ""  # the data set whose download fills it, if one does
    by_hand: str = ""  # what else provides it

    @property
    def provide(self) -> str:
        return f"tvae data fetch {self.fetch}" if self.fetch else self.by_hand


@dataclass(frozen=True)
class Entry:
    """Everything the package knows of one data set; `tvae.data.entry(name)` gives it.

    - `embedded(split, **options)` loads what needs no file: a sample, a stand-in, or a set that is
      made by a program; `embedded_as` says which, `embedded_splits` of which splits.
    - `read(split, source=..., root=..., **options)` loads from files and `find(split, source, root)`
      raises `DataNotFound` where there are none; both are None for sets that have no files.
      `sources` are the ways to them, by name.
    - `download(root)` fetches the complete set, None where no address is known.
    - `known_shape`, `known_counts`: of the images as they are loaded, and how many train and test
      in the complete set; None for sets of one's own, where `shape` and `counts` load it to see.
    - `shared_classes`: whether the test images have the classes of the training images, so that
      there is a kNN accuracy in sample.
    - `epoch_images`: a run at another preset than quick makes as many steps as on so many images.
    - `width`: channels of the first layer of the networks; None for the usual ones.
    - `known_likelihood`: p(x | z) where it is not the usual one of grey or colour images.
    - `frames`: of a set of films, whose images are frames one after another: how many make a film.
    """

    name: str
    title: str
    embedded: Loader
    embedded_as: str = "made by the package"
    embedded_splits: tuple[str, ...] = ("train", "test")
    read: Loader | None = None
    find: Callable[[str, str, Path | None], Any] | None = None
    sources: tuple[Source, ...] = ()
    splits: tuple[str, ...] = ("train", "test")
    download: Callable[[Path], None] | None = None
    known_shape: tuple[int, int, int] | None = None
    known_counts: tuple[int, int] | None = None
    shared_classes: bool = True
    epoch_images: int | None = None
    width: int | None = None
    known_likelihood: str | None = None
    frames: int | None = None
    terms: str = "not stated"

    @property
    def source_names(self) -> tuple[str, ...]:
        """What `load` takes as `source`; "full" is the complete set, wherever it lies."""
        return ("full", *(source.name for source in self.sources), "embedded")

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W) of the images."""
        if self.known_shape is not None:
            return self.known_shape
        channels, height, width = self.embedded("test").images.shape[1:]
        return channels, height, width

    @cached_property
    def counts(self) -> tuple[int, int]:
        """How many images train and test in the complete set."""
        return self.known_counts or (len(self.embedded("train")), len(self.embedded("test")))

    @property
    def checksums(self) -> dict[str, str]:
        """File name -> "sha256:..." or "md5:..." of the published files, as unpacked."""
        return published(self.name)

    @property
    def likelihood(self) -> str:
        """p(x | z): Bernoulli for grey images, Gaussian with fixed variance for colour."""
        if self.known_likelihood is not None:
            return self.known_likelihood
        return "bernoulli" if self.shape[0] == 1 else "gaussian"


def published(name: str) -> dict[str, str]:
    """File name -> checksum of the published files of a data set."""
    text = (resources.files("tvae.data") / "checksums.txt").read_text(encoding="utf-8")
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {file: checksum for of, file, checksum in rows if of == name}


def by_torchvision(name: str, root: Path, **options: Any) -> None:
    """Download a set with torchvision's class of this name, which checks the MD5 sums."""
    # here, not above: torchvision takes seconds to import and most calls need no download
    from torchvision import datasets

    getattr(datasets, name)(str(root), download=True, **options)
