"""Omniglot at 28×28, white ink on black.

Looked for under the data root in `omniglot-py/`, as folders or as the .zip files they come in:
torchvision's `images_background` (train, 30 alphabets) and `images_evaluation` (test, 20), else the
two small background sets `images_background_small1` and `images_background_small2`. The small sets
overlap: Greek and Latin are in both and are counted once, which leaves eight alphabets. They have no
evaluation half, so there the split is ours, by alphabet (`SMALL_TRAIN`, `SMALL_TEST`): as in the
full set, no test alphabet is seen in training. Greek and Latin, and three scripts with much the same
kind of strokes, train; three East Asian scripts test.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
import torch

from tvae.data import glyphs
from tvae.data.dataset import Dataset, describe
from tvae.data.entries import Entry, Source, by_torchvision
from tvae.data.resampling import resize
from tvae.data.roots import data_root, missing

__all__ = ["ENTRY", "FOLDER", "FULL", "SMALL", "SMALL_TEST", "SMALL_TRAIN", "find", "load"]

FOLDER = "omniglot-py"
FULL = {"train": "images_background", "test": "images_evaluation"}
SMALL = ("images_background_small1", "images_background_small2")
SMALL_TRAIN = ("Balinese", "Early_Aramaic", "Greek", "Latin", "Sanskrit")
SMALL_TEST = ("Japanese_(katakana)", "Korean", "Tagalog")

_Key = tuple[str, str, str]  # alphabet, character, file name


def _present(folder: Path, name: str) -> Path | None:
    """The folder `name`, else the archive `name`.zip, else None."""
    for place in (folder / name, folder / f"{name}.zip"):
        if place.is_dir() or (place.suffix == ".zip" and place.is_file()):
            return place
    return None


def find(split: str, source: str = "full", root: Path | None = None) -> tuple[str, list[Path]]:
    """(source found, places) of a split: "torchvision" with one place, or "small" with two.

    `source` is "torchvision", "small", or "full" (the first, then the second).
    """
    folder = data_root(root) / FOLDER
    wanted = list(FULL.values()) if split == "all" else [FULL[split]]
    looked: list[Path] = []
    if source in ("full", "torchvision"):
        found = [_present(folder, name) for name in wanted]
        if all(found):
            return "torchvision", [place for place in found if place]
        looked += [folder / name for name in wanted]
    if source in ("full", "small"):
        found = [_present(folder, name) for name in SMALL]
        if all(found):
            return "small", [place for place in found if place]
        looked += [folder / name for name in SMALL]
    raise missing(
        f"omniglot ({split})",
        [f"{place}[.zip]" for place in looked],
        "run `tvae data fetch omniglot` or set TVAE_DATA to a torchvision data root",
    )


def _drawings(place: Path) -> Iterator[tuple[_Key, bytes]]:
    """Every PNG in a folder or archive of the layout set/alphabet/character/file.png."""
    if place.is_dir():
        for path in place.glob("*/*/*.png"):
            yield (path.parts[-3], path.parts[-2], path.name), path.read_bytes()
        return
    with zipfile.ZipFile(place) as archive:
        for name in archive.namelist():
            parts = PurePosixPath(name).parts
            if len(parts) == 4 and name.endswith(".png") and parts[0] != "__MACOSX":
                yield (parts[1], parts[2], parts[3]), archive.read(name)


def _decode(data: bytes) -> np.ndarray:
    """A drawing as uint8, ink 255 on 0 (the files have black ink on white)."""
    from PIL import Image

    with Image.open(io.BytesIO(data)) as picture:
        return 255 - np.asarray(picture.convert("L"))


def load(
    split: str = "train",
    *,
    source: str = "full",
    root: Path | None = None,
    alphabets: Sequence[str] | None = None,
    size: int = 28,
) -> Dataset:
    """Omniglot drawings (N, 1, size, size) uint8; labels number the characters of the selection.

    Args:
        split: "train", "test", or "all" for both.
        source: "torchvision" (the full set), "small" (the two small background sets), or "full":
            the first if it is there, else the second; the provenance says which.
        alphabets: only these, whatever the split would be for the small sets.
        size: side of the result; the drawings are 105×105 and are reduced with antialiasing.

    `classes` names each character ("Greek/character01"), `groups` its alphabet.
    """
    found, places = find(split, source, root)
    drawings: dict[_Key, bytes] = {}
    for place in places:
        for key, data in _drawings(place):
            drawings.setdefault(key, data)  # Greek and Latin are in both small sets: the first wins
    present = sorted({alphabet for alphabet, _, _ in drawings})
    if alphabets is not None:
        unknown = sorted(set(alphabets) - set(present))
        if unknown or not alphabets:
            raise ValueError(
                f"No such alphabet in omniglot ({found}, {split}): {', '.join(unknown) or 'none'}; "
                f"there are {', '.join(present)}."
            )
        kept = set(alphabets)
    elif found == "small":
        parts = {"train": SMALL_TRAIN, "test": SMALL_TEST, "all": SMALL_TRAIN + SMALL_TEST}
        kept = set(parts[split])
        if not kept <= set(present):
            raise ValueError(
                f"The small Omniglot archives lack {', '.join(sorted(kept - set(present)))}: "
                f"they are incomplete; fetch them again."
            )
    else:
        kept = set(present)
    keys = sorted(key for key in drawings if key[0] in kept)
    if not keys:
        raise ValueError(f"No drawing (*/*/*.png) in {', '.join(map(str, places))}.")
    characters = sorted({key[:2] for key in keys})
    number = {character: index for index, character in enumerate(characters)}
    images = torch.from_numpy(np.stack([_decode(drawings[key]) for key in keys]))[:, None]
    note = f"{len(characters)} characters of {len(kept)} alphabets"
    if found == "small":
        note += ", from the two small background sets, split by alphabet, not the full set"
    return describe(
        "omniglot",
        found,
        split,
        resize(images, size),
        torch.tensor([number[key[:2]] for key in keys]),
        note=note,
        classes=["/".join(character) for character in characters],
        groups=[alphabet for alphabet, _ in characters],
    )


def _download(root: Path) -> None:
    for background in (True, False):
        by_torchvision("Omniglot", root, background=background)


_SMALL_URL = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python/"

ENTRY = Entry(
    name="omniglot",
    title="Omniglot",
    embedded=glyphs.load,
    embedded_as="stand-in: glyphs",
    read=load,
    find=find,
    sources=(
        Source("torchvision", FOLDER, fetch="omniglot"),
        Source(
            "small",
            FOLDER,
            by_hand=f"put {SMALL[0]}.zip and {SMALL[1]}.zip there, from {_SMALL_URL}",
        ),
    ),
    splits=("train", "test", "all"),
    download=_download,
    known_shape=(1, 28, 28),
    known_counts=(19_280, 13_180),
    shared_classes=False,  # other alphabets test than train
    epoch_images=60_000,  # smaller than MNIST, but trained for as many steps
    terms="MIT (B. Lake)",
    checksums={
        "images_background.zip": "md5:68d2efa1b9178cc56df9314c21c6e718",
        "images_evaluation.zip": "md5:6b91aef0f799c5bb55b94e3f2daec811",
        "images_background_small1.zip": (
            "sha256:f38eb80f801274ac2b4dff5b24289016bfaba4a7d5bb50deebf27104ad6cb8a4"
        ),
        "images_background_small2.zip": (
            "sha256:3ccaa407515a8778e5d0861875af38b17e418f301ad5bb3b5a6b65d901a41c7f"
        ),
    },
)
