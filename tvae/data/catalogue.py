"""The one list of data sets: an entry for each of the package's, and for each of one's own."""

import re
from collections.abc import Callable
from typing import Any

from tvae.data import affnist, celeba, digits, omniglot, portraits, solids
from tvae.data.dataset import Dataset
from tvae.data.entries import Entry

_PACKAGE = {
    entry.name: entry
    for entry in (
        digits.MNIST,
        digits.FASHION_MNIST,
        omniglot.ENTRY,
        celeba.ENTRY,
        affnist.ENTRY,
        portraits.ENTRY,
        solids.ENTRY,
    )
}
_OWN: dict[str, Entry] = {}  # added by `register`


def names() -> tuple[str, ...]:
    """The names that `load` knows: those of the package, then registered ones."""
    return (*_PACKAGE, *_OWN)


def entry(name: str) -> Entry:
    """What is known of the data set `name`: shape, likelihood, counts, sources, terms, ..."""
    if name not in names():
        raise ValueError(f"There is no data set {name!r}; choose one of {', '.join(names())}.")
    return _PACKAGE.get(name) or _OWN[name]


def register(name: str, **known: Any) -> Callable[[Callable[..., Dataset]], Callable[..., Dataset]]:
    """Decorator that makes a function a data set: `load(name, split)` calls it with the split.

    The function takes "train" or "test", and perhaps options by keyword, and returns a `Dataset`
    (`describe` makes one from images and labels). Runs and sweeps then know the name. It has one
    source, whatever the preset asks for: its provenance says which. What is `known` of it besides
    are fields of `Entry`, such as `shared_classes`, `epoch_images` and `width`; shape and counts are
    found from the images when they are needed.
    """
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise ValueError(
            f"A data set's name consists of small letters, digits and single dashes; {name!r} "
            "does not."
        )
    if name in _PACKAGE:
        raise ValueError(f"{name!r} is a data set of the package; choose another name.")

    def decorate(loader: Callable[..., Dataset]) -> Callable[..., Dataset]:
        _OWN[name] = Entry(name, name, loader, "registered", **known)
        return loader

    return decorate
