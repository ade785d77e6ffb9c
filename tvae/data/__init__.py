"""Data sets: one call loads any of them, and each says where it came from.

>>> from tvae.data import load
>>> digits = load("mnist", "test", source="embedded")
>>> digits.images.shape, digits.images.dtype
(torch.Size([1000, 1, 28, 28]), torch.uint8)
"""

from tvae.data import affnist
from tvae.data.catalogue import entry, names, register
from tvae.data.dataset import Dataset, Provenance, describe, fingerprint, pixels_of
from tvae.data.entries import Entry, Source
from tvae.data.fetching import Available, Check, available, check, fetch
from tvae.data.loading import load
from tvae.data.roots import DataNotFound, data_root

__all__ = [
    "Available",
    "Check",
    "DataNotFound",
    "Dataset",
    "Entry",
    "Provenance",
    "Source",
    "affnist",
    "available",
    "check",
    "data_root",
    "describe",
    "entry",
    "fetch",
    "fingerprint",
    "load",
    "names",
    "pixels_of",
    "register",
]
