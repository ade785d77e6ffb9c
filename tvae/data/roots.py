"""Where data may lie on this machine, and how to say that it does not."""

import os
from collections.abc import Sequence
from pathlib import Path

from platformdirs import user_cache_path

from tvae.files import AnyPath

# Debian's package dataset-fashion-mnist puts the four published .gz files here
DEBIAN_FASHION = Path("/usr/share/datasets/fashion-mnist")


class DataNotFound(FileNotFoundError):
    """A data set was asked for that is not on this machine; the message says how to get it."""


def data_root(root: AnyPath | None = None) -> Path:
    """The data root: `root` if given, else `TVAE_DATA`, else a per-user cache folder.

    It has torchvision's layout (`MNIST/raw/...`, `omniglot-py/...`, `celeba/...`), so a root that
    torchvision has filled is found and the other way round. The folder need not exist.
    """
    if root is not None:
        return Path(root).expanduser()
    named = os.environ.get("TVAE_DATA")
    if named:
        return Path(named).expanduser()
    return user_cache_path("tvae", appauthor=False, opinion=False)


def missing(name: str, places: Sequence[str | Path], remedy: str) -> DataNotFound:
    """The error for a data set that is not there: the places looked at, the way to get it."""
    looked = ", ".join(str(place) for place in places)
    return DataNotFound(f"{name} was not found; looked at: {looked}. To provide it, {remedy}.")
