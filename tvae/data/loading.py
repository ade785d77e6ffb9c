"""`load`: the one call behind which all data sets stand."""

import inspect
from functools import partial
from typing import Any

from tvae.data import fetching
from tvae.data.catalogue import entry
from tvae.data.dataset import Dataset
from tvae.data.entries import Loader
from tvae.data.roots import DataNotFound, data_root
from tvae.files import AnyPath


def _one_of(what: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"Unknown {what} {value!r}: choose one of {', '.join(allowed)}.")


def _check_options(what: str, loader: Loader, options: dict[str, Any]) -> None:
    """Refuse options that the loader does not have, or that are given already."""
    given = set(loader.keywords) if isinstance(loader, partial) else set()
    known = [name for name in inspect.signature(loader).parameters if name not in given]
    for option in options:
        if option not in known:
            raise TypeError(
                f"{what} has no option {option!r}; it has {', '.join(known) if known else 'none'}."
            )


def load(
    name: str,
    split: str = "train",
    *,
    source: str = "full",
    root: AnyPath | None = None,
    download: bool = False,
    **options: Any,
) -> Dataset:
    """Load a data set into memory: images (N, C, H, W) uint8, labels (N,) int64, provenance.

    Args:
        name: one of `names()`: "mnist", "fashion-mnist", "omniglot", "celeba", "affnist",
            "portraits", "solids", or what was given to `register`.
        split: "train" or "test"; also "all" (omniglot), "valid" (celeba), "validation" (affnist),
            "unseen" (solids).
        source: where from; one is never taken for another without the provenance saying so.
            "full" is the complete set, from the first place that has it: the data root in
            torchvision's layout, for Fashion-MNIST then Debian's package, for Omniglot first our
            arrays and last the two small background sets, for AffNIST the published .mat files.
            "torchvision", "debian", "npz", "small", "mat" and "zip" are one place alone. "embedded"
            needs no file: samples of MNIST, Fashion-MNIST, Omniglot and portraits, AffNIST made from
            the sample of MNIST, and the sample of portraits for celeba. "regenerated" makes AffNIST from
            the full MNIST. For a set without files, "full" and "embedded" are the same.
        root: the data root; by default `TVAE_DATA`, else a per-user cache folder.
        download: fetch a set that is not there (with progress) instead of raising an error.
        options: of the single data set. omniglot: `alphabets`, `size`; celeba: `count`, `crop`,
            `size`; affnist: `count`, `seed`, `size`, `path`;
            portraits: `terms`, `crop`, `size`; solids: `count`, `seed`.

    Raises `DataNotFound`, which names the places looked at and the command that provides the set.
    """
    known = entry(name)
    _one_of(f"source for {name}", source, known.source_names)
    folder = data_root(root)
    if known.read is None or source == "embedded":
        what = f"{name}, embedded," if known.read else name
        _one_of(f"split of {what}", split, known.embedded_splits)
        loader: Loader = partial(known.embedded, split)
    else:
        _one_of(f"split of {name}", split, known.splits)
        loader = partial(known.read, split, source=source, root=folder)
    _check_options(f"load({name!r}, source={source!r})", loader, options)
    try:
        return loader(**options)
    except DataNotFound:
        named = {each.name: each.fetch for each in known.sources}.get(source, name)
        if not download or not named:
            raise
    fetching.fetch(named, folder)
    return loader(**options)
