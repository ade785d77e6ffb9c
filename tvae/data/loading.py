"""`load`: the one call behind which all data sets stand."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tvae.data import digits, embedded
from tvae.data.dataset import Dataset
from tvae.data.roots import data_root

__all__ = ["NAMES", "SOURCES", "SPLITS", "load"]

SOURCES = MappingProxyType(
    {
        "mnist": ("full", "torchvision", "embedded"),
        "fashion-mnist": ("full", "torchvision", "debian", "embedded"),
    }
)
NAMES = tuple(SOURCES)
SPLITS = MappingProxyType(dict.fromkeys(NAMES, ("train", "test")))


def _digits(name: str, split: str, source: str, root: Path) -> Dataset:
    if source == "embedded":
        return embedded.sample(name, split)
    return digits.full(name, split, source, root)


_LOADERS: dict[str, Callable[..., Dataset]] = {"mnist": _digits, "fashion-mnist": _digits}


def _one_of(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"Unknown {what} {value!r}: choose one of {', '.join(allowed)}.")


def load(
    name: str,
    split: str = "train",
    *,
    source: str = "full",
    root: str | os.PathLike[str] | None = None,
    download: bool = False,
    **options: Any,
) -> Dataset:
    """Load a data set into memory."""
    _one_of("data set", name, NAMES)
    _one_of(f"source for {name}", source, SOURCES[name])
    _one_of(f"split of {name}", split, SPLITS[name])
    return _LOADERS[name](name, split, source, data_root(root), **options)
