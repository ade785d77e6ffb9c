"""Omniglot at 28×28, white ink on black.

The complete set has 964 characters of 30 alphabets (train, "background") and 659 of 20 others (test,
"evaluation"), twenty drawings of each. It is looked for under the data root, in this order:

- "npz": `omniglot/images_background.npz` and `images_evaluation.npz`, whose array `images`
  (characters, 20, 105, 105) of bool is False where there is ink, and `omniglot_index.csv`, which
  names the alphabet and the number of each character;
- "torchvision": the folders or archives `images_background` and `images_evaluation` in
  `omniglot-py/`, as torchvision downloads them;
- "small": the two small background sets `images_background_small1` and `images_background_small2`
  there. They overlap: Greek and Latin are in both and are counted once, which leaves eight
  alphabets. They have no evaluation half, so there the split is ours, by alphabet (`SMALL_TRAIN`,
  `SMALL_TEST`): as in the full set, no test alphabet is seen in training. Greek and Latin, and three
  scripts with much the same kind of strokes, train; three East Asian scripts test.

All give the same drawings the same pixels and the same order: alphabet, character, drawer.
"""

import csv
import io
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
import torch

from tvae.data import embedded
from tvae.data.dataset import Dataset, describe
from tvae.data.entries import Entry, Source, by_torchvision
from tvae.data.pictures import member, opened
from tvae.data.resampling import resize
from tvae.data.roots import data_root, missing
from tvae.files import reading

FOLDER = "omniglot-py"
ARRAYS = "omniglot"  # the folder of the arrays, of their index and of the one-shot runs
FULL = {"train": "images_background", "test": "images_evaluation"}
SMALL = ("images_background_small1", "images_background_small2")
SMALL_TRAIN = ("Balinese", "Early_Aramaic", "Greek", "Latin", "Sanskrit")
SMALL_TEST = ("Japanese_(katakana)", "Korean", "Tagalog")
#: The embedded sample: all drawings of so many characters, which are all, of these alphabets.
SAMPLE = {
    "train": {"Balinese": 24, "Early_Aramaic": 22, "Greek": 24, "Latin": 26, "Sanskrit": 42},
    "test": {"Avesta": 26, "Sylheti": 28, "Syriac_(Serto)": 23},
}
DRAWERS = 20
SIDE = 105  # of the drawings as they were made

_Key = tuple[str, str, str]  # alphabet, character, file name ("" for all drawings of a character)


def _present(folder: Path, name: str) -> Path | None:
    """The folder `name`, else the archive `name`.zip, else None."""
    for place in (folder / name, folder / f"{name}.zip"):
        if place.is_dir() or (place.suffix == ".zip" and place.is_file()):
            return place
    return None


def find(split: str, source: str = "full", root: Path | None = None) -> tuple[str, list[Path]]:
    """(source found, places) of a split: its arrays, its folders or archives, or the small ones.

    `source` is "npz", "torchvision", "small", or "full" (the first of these that is there).
    """
    folder, arrays = data_root(root) / FOLDER, data_root(root) / ARRAYS
    wanted = list(FULL.values()) if split == "all" else [FULL[split]]
    looked: list[str] = []
    if source in ("full", "npz"):
        files = [arrays / f"{name}.npz" for name in wanted]
        if all(file.is_file() for file in (*files, arrays / "omniglot_index.csv")):
            return "npz", files
        looked += map(str, (*files, arrays / "omniglot_index.csv"))
    for kind, names in (("torchvision", wanted), ("small", SMALL)):
        if source in ("full", kind):
            found = [_present(folder, name) for name in names]
            if all(found):
                return kind, [place for place in found if place]
            looked += [f"{folder / name}[.zip]" for name in names]
    raise missing(
        f"omniglot ({split})",
        looked,
        "run `tvae data fetch omniglot` or set TVAE_DATA to a torchvision data root",
    )


def decode(data: bytes, where: str) -> np.ndarray:
    """A drawing as uint8, ink 255 on 0 (the files have black ink on white)."""
    with opened(io.BytesIO(data), where) as picture:
        if picture.size != (SIDE, SIDE):
            raise ValueError(f"it has not {SIDE}x{SIDE} pixels but {picture.size}")
        return 255 - np.asarray(picture.convert("L"))


def _drawings(place: Path) -> Iterator[tuple[_Key, np.ndarray]]:
    """Every PNG, (1, 105, 105), in a folder or archive of the layout set/alphabet/character/file.png."""
    if place.is_dir():
        for path in place.glob("*/*/*.png"):
            key = (path.parts[-3], path.parts[-2], path.name)
            yield key, decode(path.read_bytes(), "/".join(key))[None]
        return
    with reading(f"{place} is damaged"), zipfile.ZipFile(place) as archive:
        for name in archive.namelist():
            parts = PurePosixPath(name).parts
            if len(parts) == 4 and name.endswith(".png") and parts[0] != "__MACOSX":
                key = (parts[1], parts[2], parts[3])
                yield key, decode(member(archive, name), "/".join(key))[None]


def _characters(place: Path) -> Iterator[tuple[_Key, np.ndarray]]:
    """The characters of an array file one by one, (20, 105, 105) uint8 with ink 255 on 0.

    Their names are in the index beside it. The file is unpacked as it is read, so that no more than
    one character is in memory.
    """
    index = place.parent / "omniglot_index.csv"
    expected = "lines with alphabet, character_in_alphabet, array and row"
    with (
        reading(f"{index} is damaged, it should have {expected}"),
        index.open(newline="", encoding="utf-8") as file,
    ):
        names = {
            int(line["row"]): (
                line["alphabet"],
                f"character{int(line['character_in_alphabet']):02}",
            )
            for line in csv.DictReader(file)
            if line["array"] == place.stem
        }
    shape = (len(names), DRAWERS, SIDE, SIDE)
    with (
        reading(f"{place} is not an array of Omniglot drawings"),
        zipfile.ZipFile(place) as archive,
        archive.open("images.npy") as array,
    ):
        np.lib.format.read_magic(array)
        found, by_column, dtype = np.lib.format.read_array_header_1_0(array)
        if found != shape or by_column or dtype != np.bool_:
            raise ValueError(f"expected bool of shape {shape}, found {dtype} of {found}")
        for row in range(len(names)):
            data = array.read(DRAWERS * SIDE * SIDE)
            if len(data) < DRAWERS * SIDE * SIDE:
                raise ValueError("it is cut off")
            ink = np.frombuffer(data, dtype=np.uint8) == 0
            yield (*names[row], ""), ink.reshape(shape[1:]).astype(np.uint8) * np.uint8(255)


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
        source: "npz" or "torchvision" (the full set), "small" (the two small background sets), or
            "full": the first of these that is there; the provenance says which.
        alphabets: only these, whatever the split would be for the small sets.
        size: side of the result; the drawings are 105×105 and are reduced with antialiasing.

    `classes` names each character ("Greek/character01"), `groups` its alphabet.
    """
    found, places = find(split, source, root)
    chosen = alphabets
    if alphabets is None and found == "small":
        parts = {"train": SMALL_TRAIN, "test": SMALL_TEST, "all": SMALL_TRAIN + SMALL_TEST}
        chosen = parts[split]
    present: set[str] = set()
    drawn: dict[_Key, torch.Tensor] = {}
    for place in places:
        for key, drawings in (_characters if found == "npz" else _drawings)(place):
            present.add(key[0])
            # in both small sets: the first wins
            if (chosen is None or key[0] in chosen) and key not in drawn:
                drawn[key] = resize(torch.from_numpy(drawings)[:, None], size)
    kept = present if chosen is None else set(chosen)
    absent = ", ".join(sorted(kept - present))
    if alphabets is not None and (absent or not alphabets):
        raise ValueError(
            f"No such alphabet in omniglot ({found}, {split}): {absent or 'none'}; "
            f"there are {', '.join(sorted(present))}."
        )
    if absent:
        raise ValueError(
            f"The small Omniglot archives lack {absent}: they are incomplete; fetch them again."
        )
    if not drawn:
        raise ValueError(f"No drawing (*/*/*.png) in {', '.join(map(str, places))}.")
    keys = sorted(drawn)
    characters = sorted({key[:2] for key in keys})
    number = {character: index for index, character in enumerate(characters)}
    note = f"{len(characters)} characters of {len(kept)} alphabets"
    if found == "small":
        note += ", from the two small background sets, split by alphabet, not the full set"
    return describe(
        "omniglot",
        found,
        split,
        torch.cat([drawn[key] for key in keys]),
        torch.cat([torch.full((len(drawn[key]),), number[key[:2]]) for key in keys]),
        note=note,
        classes=["/".join(character) for character in characters],
        groups=[alphabet for alphabet, _ in characters],
    )


def sample(split: str) -> Dataset:
    """The embedded sample: 2,760 (train) or 1,540 (test) drawings, (N, 1, 28, 28) uint8."""
    alphabets = SAMPLE[split]
    groups = [alphabet for alphabet, count in alphabets.items() for _ in range(count)]
    numbers = [number + 1 for count in alphabets.values() for number in range(count)]
    return describe(
        "omniglot",
        "embedded",
        split,
        embedded.read(f"omniglot-{split}-images.idx3.xz")[:, None],
        torch.arange(len(groups)).repeat_interleave(DRAWERS),
        note=f"a sample, {len(groups)} characters of {len(alphabets)} alphabets, not the full set",
        classes=[f"{group}/character{k:02}" for group, k in zip(groups, numbers, strict=True)],
        groups=groups,
    )


def _download(root: Path) -> None:
    for background in (True, False):
        by_torchvision("Omniglot", root, background=background)


_SMALL_URL = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python/"

ENTRY = Entry(
    name="omniglot",
    title="Omniglot",
    embedded=sample,
    embedded_as="sample in the package",
    read=load,
    find=find,
    sources=(
        Source(
            "npz",
            ARRAYS,
            by_hand=f"put {FULL['train']}.npz, {FULL['test']}.npz and omniglot_index.csv there",
        ),
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
)
