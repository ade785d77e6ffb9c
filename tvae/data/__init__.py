"""Data sets: one call loads any of them, and each says where it came from.

>>> from tvae.data import load
>>> digits = load("mnist", "test", source="embedded")
>>> digits.images.shape, digits.images.dtype
(torch.Size([1000, 1, 28, 28]), torch.uint8)
"""

from __future__ import annotations

from tvae.data.dataset import Dataset, Provenance, fingerprint
from tvae.data.loading import NAMES, load
from tvae.data.roots import DataNotFound, data_root

__all__ = [
    "NAMES",
    "DataNotFound",
    "Dataset",
    "Provenance",
    "data_root",
    "fingerprint",
    "load",
]
