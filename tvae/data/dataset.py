"""What every loader returns: images and labels in memory, and where they came from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from tvae.checks import check_images, to_floats


def fingerprint(images: torch.Tensor, labels: torch.Tensor) -> str:
    """The SHA-256 (hex) of shape, type and every value of `images`, then of `labels`.

    It is the checksum of the tensors in hand, not of a file: two routes to the same pixels and
    labels give the same one.
    """
    digest = hashlib.sha256()
    for tensor in (images, labels):
        array = np.ascontiguousarray(tensor.detach().cpu().numpy())
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        digest.update(f"{array.dtype.name}{array.shape};".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


@dataclass(frozen=True)
class Provenance:
    """Where a data set came from; `str()` is one line.

    `checksum` is the full hexadecimal digest of `fingerprint`; the printed line shows its first
    twelve digits. `note` says what the reader must know besides, above all what a set is *not*.
    """

    name: str
    source: str
    split: str
    count: int
    checksum: str
    note: str = ""

    def __str__(self) -> str:
        line = (
            f"{self.name} ({self.source}), {self.split}: {self.count:,} images, "
            f"sha256 {self.checksum[:12]}"
        )
        return " ".join(f"{line}; {self.note}".split()) if self.note else line


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images with their labels, in memory.

    - `images`: (N, C, H, W), uint8 in 0..255 or float32 in [0, 1];
    - `labels`: (N,) int64;
    - `classes`: the name of each label, where labels have names;
    - `groups`: the group of each label (Omniglot: its alphabet), where there are groups;
    - `extras`: further tensors with one row per image, by name (AffNIST: the drawn parameters).
    """

    images: torch.Tensor
    labels: torch.Tensor
    provenance: Provenance
    classes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    extras: Mapping[str, torch.Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.images.ndim != 4:
            raise ValueError(
                f"The images of a data set must have shape (N, C, H, W), "
                f"not {tuple(self.images.shape)}."
            )
        if self.images.dtype not in (torch.uint8, torch.float32):
            raise ValueError(
                f"The images of a data set must be uint8 or float32, not {self.images.dtype}."
            )
        if self.labels.dtype != torch.int64 or self.labels.shape != self.images.shape[:1]:
            raise ValueError(
                f"A data set of {len(self.images)} images needs int64 labels of shape "
                f"({len(self.images)},), not {self.labels.dtype} of {tuple(self.labels.shape)}."
            )
        for name, rows in self.extras.items():
            if len(rows) != len(self.images):
                raise ValueError(
                    f"The extra {name!r} has {len(rows)} rows for {len(self.images)} images."
                )

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        return f"Dataset({tuple(self.images.shape)} {self.images.dtype}; {self.provenance})"

    def floats(self, index: torch.Tensor | Sequence[int] | slice | None = None) -> torch.Tensor:
        """The images (all, or those at `index`) as float32 in [0, 1], shape (n, C, H, W)."""
        if index is not None and not isinstance(index, (torch.Tensor, slice)):
            index = torch.as_tensor(index, dtype=torch.int64)
        images = self.images if index is None else self.images[index]
        return to_floats(images)

    def take(self, which: int | torch.Tensor | Sequence[int] | slice) -> Dataset:
        """The first `which` images, or those at the indices `which`, as a data set of its own."""
        index: torch.Tensor | slice
        if isinstance(which, bool):
            raise TypeError("take() wants a number of images or their indices, not a truth value.")
        if isinstance(which, int):
            if not 0 < which <= len(self):
                raise ValueError(f"Cannot take {which} images of {len(self)}: ask for 1 to all.")
            index, what = slice(which), f"the first {which:,} of {len(self):,}"
        elif isinstance(which, slice):
            index, what = which, f"a slice of {len(self):,}"
        else:
            index = torch.as_tensor(which, device=self.images.device)
            what = f"chosen from {len(self):,}"
        images, labels = self.images[index], self.labels[index]
        note = "; ".join(part for part in (what, self.provenance.note) if part)
        return replace(
            self,
            images=images,
            labels=labels,
            provenance=replace(
                self.provenance,
                count=len(images),
                checksum=fingerprint(images, labels),
                note=note,
            ),
            extras={name: rows[index] for name, rows in self.extras.items()},
        )


def pixels_of(
    images: torch.Tensor | Dataset, shape: tuple[int, int, int] | None = None, name: str = "images"
) -> torch.Tensor:
    """The tensor (N, C, H, W) of images or of a data set, checked, also for `shape` = (C, H, W)."""
    return check_images(images.images if isinstance(images, Dataset) else images, shape, name=name)


def describe(
    name: str,
    source: str,
    split: str,
    images: torch.Tensor,
    labels: torch.Tensor,
    *,
    note: str = "",
    classes: Sequence[str] = (),
    groups: Sequence[str] = (),
    extras: Mapping[str, torch.Tensor] | None = None,
) -> Dataset:
    """A `Dataset` whose provenance counts and checksums the given tensors."""
    provenance = Provenance(
        name, source, split, len(images), fingerprint(images, labels), note=note
    )
    return Dataset(images, labels, provenance, tuple(classes), tuple(groups), dict(extras or {}))
