"""`load`: the one call behind which all data sets stand."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tvae.data import affnist, celeba, digits, embedded, faces, fetching, glyphs, omniglot
from tvae.data.dataset import Dataset
from tvae.data.roots import DataNotFound, data_root

__all__ = ["NAMES", "SOURCES", "SPLITS", "load", "names", "register"]

# The sources of each data set. "full" stands for the complete set, wherever it lies; glyphs and
# faces are made by the package, so that there it means the same as "embedded".
SOURCES = MappingProxyType(
    {
        "mnist": ("full", "torchvision", "embedded"),
        "fashion-mnist": ("full", "torchvision", "debian", "embedded"),
        "omniglot": ("full", "torchvision", "small", "embedded"),
        "celeba": ("full", "torchvision", "embedded"),
        "affnist": affnist.SOURCES,
        "glyphs": ("full", "embedded"),
        "faces": ("full", "embedded"),
    }
)
NAMES = tuple(SOURCES)
SPLITS = MappingProxyType(
    {
        **dict.fromkeys(NAMES, ("train", "test")),
        "omniglot": ("train", "test", "all"),
        "celeba": ("train", "valid", "test"),
        "affnist": affnist.SPLITS,
    }
)
_EMBEDDED_SPLITS = ("train", "test")  # of the stand-ins
_OWN: dict[str, Callable[..., Dataset]] = {}  # added by `register`


def register(name: str) -> Callable[[Callable[..., Dataset]], Callable[..., Dataset]]:
    """Decorator that makes a function a data set: `load(name, split)` calls it with the split.

    The function takes "train" or "test", and perhaps options by keyword, and returns a `Dataset`
    (`describe` makes one from images and labels). Runs and sweeps then know the name. It has one
    source, whatever the preset asks for: its provenance says which.
    """
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise ValueError(
            f"A data set's name consists of small letters, digits and single dashes; {name!r} "
            "does not."
        )
    if name in NAMES:
        raise ValueError(f"{name!r} is a data set of the package; choose another name.")

    def decorate(loader: Callable[..., Dataset]) -> Callable[..., Dataset]:
        _OWN[name] = loader
        return loader

    return decorate


def names() -> tuple[str, ...]:
    """The names that `load` knows: those of the package, then registered ones."""
    return (*NAMES, *_OWN)


def _one_of(what: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"Unknown {what} {value!r}: choose one of {', '.join(allowed)}.")


def _loader(name: str, split: str, source: str, root: Path) -> Callable[..., Dataset]:
    """The function that loads, with all but its options filled in."""
    if name == "affnist":
        return partial(affnist.load, split, source=source, root=root)
    if name in ("glyphs", "faces"):
        source = "embedded"
    if source == "embedded":
        if name in embedded.NAMES:
            return partial(embedded.sample, name, split)
        _one_of(f"split of {name}, embedded,", split, _EMBEDDED_SPLITS)
        stand_in = glyphs.load if name in ("omniglot", "glyphs") else faces.load
        return partial(stand_in, split)
    if name == "omniglot":
        return partial(omniglot.load, split, source=source, root=root)
    if name == "celeba":
        return partial(celeba.load, split, root=root)
    return partial(digits.full, name, split, source, root)


def _options(loader: Callable[..., Dataset]) -> list[str]:
    """Names of the options that remain to be given."""
    given = set(loader.keywords) if isinstance(loader, partial) else set()
    return [
        name
        for name, parameter in inspect.signature(loader).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name not in given
    ]


def load(
    name: str,
    split: str = "train",
    *,
    source: str = "full",
    root: str | os.PathLike[str] | None = None,
    download: bool = False,
    **options: Any,
) -> Dataset:
    """Load a data set into memory: images (N, C, H, W) uint8, labels (N,) int64, provenance.

    Args:
        name: "mnist", "fashion-mnist", "omniglot", "celeba", "affnist", "glyphs" or "faces", or a
            name that was given to `register`.
        split: "train" or "test"; also "all" (omniglot), "valid" (celeba), "validation" (affnist).
        source: where from; one is never taken for another without the provenance saying so.
            "full" is the complete set: the data root in torchvision's layout, then for
            Fashion-MNIST Debian's package, for Omniglot the two small background sets, for AffNIST
            the published .mat files. "torchvision", "debian", "small" and "mat" are one of these
            alone. "embedded" needs no file: samples of MNIST and Fashion-MNIST, AffNIST made from
            that sample, and the stand-ins glyphs (omniglot) and faces (celeba). "regenerated" makes
            AffNIST from the full MNIST.
        root: the data root; by default `TVAE_DATA`, else a per-user cache folder.
        download: fetch a set that is not there (with progress) instead of raising an error.
        options: of the single data set. omniglot: `alphabets`, `size`; celeba: `count`, `crop`,
            `size`; affnist: `count`, `seed`, `size`, `path`; glyphs: `seed`, `drawings`;
            faces: `count`, `seed`.

    Raises `DataNotFound`, which names the places looked at and the command that provides the set.
    """
    _one_of("data set", name, names())
    if name in _OWN:
        _one_of(f"split of {name}", split, _EMBEDDED_SPLITS)
        return _OWN[name](split, **options)
    _one_of(f"source for {name}", source, SOURCES[name])
    _one_of(f"split of {name}", split, SPLITS[name])
    folder = data_root(root)
    loader = _loader(name, split, source, folder)
    known = _options(loader)
    for option in options:
        if option not in known:
            raise TypeError(
                f"load({name!r}, source={source!r}) has no option {option!r}; "
                f"it has {', '.join(known) if known else 'none'}."
            )
    try:
        return loader(**options)
    except DataNotFound:
        if not download or source in ("embedded", "debian", "small"):
            raise
    fetching.fetch("mnist" if source == "regenerated" else name, folder)
    return loader(**options)
