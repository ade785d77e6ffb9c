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
import re
import zipfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
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

_Key = tuple[str, str, str]  # alphabet, character, file name


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


def _drawings(place: Path) -> Iterator[tuple[_Key, bytes]]:
    """Every PNG in a folder or archive of the layout set/alphabet/character/file.png."""
    if place.is_dir():
        for path in place.glob("*/*/*.png"):
            yield (path.parts[-3], path.parts[-2], path.name), path.read_bytes()
        return
    with reading(f"{place} is damaged"), zipfile.ZipFile(place) as archive:
        for name in archive.namelist():
            parts = PurePosixPath(name).parts
            if len(parts) == 4 and name.endswith(".png") and parts[0] != "__MACOSX":
                yield (parts[1], parts[2], parts[3]), member(archive, name)


def _decode(data: bytes, where: str) -> np.ndarray:
    """A drawing as uint8, ink 255 on 0 (the files have black ink on white)."""
    with opened(io.BytesIO(data), where) as picture:
        if picture.size != (SIDE, SIDE):
            raise ValueError(f"it has not {SIDE}x{SIDE} pixels but {picture.size}")
        return 255 - np.asarray(picture.convert("L"))


def _arrays(places: Sequence[Path]) -> dict[tuple[str, str], tuple[Path, int]]:
    """Alphabet and character -> array file and row, by the index beside the files."""
    index = places[0].parent / "omniglot_index.csv"
    files = {place.stem: place for place in places}
    expected = "lines with alphabet, character_in_alphabet, array and row"
    with (
        reading(f"{index} is damaged, it should have {expected}"),
        index.open(newline="", encoding="utf-8") as file,
    ):
        return {
            (line["alphabet"], f"character{int(line['character_in_alphabet']):02}"): (
                files[line["array"]],
                int(line["row"]),
            )
            for line in csv.DictReader(file)
            if line["array"] in files
        }


def _rows(place: Path, count: int) -> Iterator[np.ndarray]:
    """The characters of an array file one by one, (20, 105, 105) uint8 with ink 255 on 0.

    The file is unpacked as it is read, so that no more than one character is in memory.
    """
    shape = (count, DRAWERS, SIDE, SIDE)
    with (
        reading(f"{place} is not an array of Omniglot drawings"),
        zipfile.ZipFile(place) as archive,
        archive.open("images.npy") as file,
    ):
        np.lib.format.read_magic(file)
        found, by_column, dtype = np.lib.format.read_array_header_1_0(file)
        if found != shape or by_column or dtype != np.bool_:
            raise ValueError(f"expected bool of shape {shape}, found {dtype} of {found}")
        for _ in range(count):
            data = file.read(DRAWERS * SIDE * SIDE)
            if len(data) < DRAWERS * SIDE * SIDE:
                raise ValueError("it is cut off")
            ink = np.frombuffer(data, dtype=np.uint8) == 0
            yield ink.reshape(shape[1:]).astype(np.uint8) * np.uint8(255)


def _kept(
    present: Collection[str], split: str, found: str, alphabets: Sequence[str] | None
) -> set[str]:
    """The alphabets to load."""
    if alphabets is not None:
        unknown = sorted(set(alphabets) - set(present))
        if unknown or not alphabets:
            raise ValueError(
                f"No such alphabet in omniglot ({found}, {split}): {', '.join(unknown) or 'none'}; "
                f"there are {', '.join(sorted(present))}."
            )
        return set(alphabets)
    if found != "small":
        return set(present)
    parts = {"train": SMALL_TRAIN, "test": SMALL_TEST, "all": SMALL_TRAIN + SMALL_TEST}
    kept = set(parts[split])
    if not kept <= set(present):
        raise ValueError(
            f"The small Omniglot archives lack {', '.join(sorted(kept - set(present)))}: "
            f"they are incomplete; fetch them again."
        )
    return kept


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
    if found == "npz":
        rows = _arrays(places)
        kept = _kept({alphabet for alphabet, _ in rows}, split, found, alphabets)
        characters = sorted(character for character in rows if character[0] in kept)
        images = torch.empty((len(characters) * DRAWERS, 1, size, size), dtype=torch.uint8)
        position = {rows[character]: at for at, character in enumerate(characters)}
        for place in places:
            count = sum(where == place for where, _ in rows.values())
            for row, drawn in enumerate(_rows(place, count)):
                at = position.get((place, row))
                if at is not None:
                    part = slice(at * DRAWERS, (at + 1) * DRAWERS)
                    images[part] = resize(torch.from_numpy(drawn)[:, None], size)
        labels = torch.arange(len(characters)).repeat_interleave(DRAWERS)
    else:
        drawings: dict[_Key, bytes] = {}
        for place in places:
            for key, data in _drawings(place):
                drawings.setdefault(key, data)  # in both small sets: the first wins
        kept = _kept({alphabet for alphabet, _, _ in drawings}, split, found, alphabets)
        keys = sorted(key for key in drawings if key[0] in kept)
        if not keys:
            raise ValueError(f"No drawing (*/*/*.png) in {', '.join(map(str, places))}.")
        characters = sorted({key[:2] for key in keys})
        number = {character: index for index, character in enumerate(characters)}
        drawn = np.stack([_decode(drawings[key], "/".join(key)) for key in keys])
        images = resize(torch.from_numpy(drawn)[:, None], size)
        labels = torch.tensor([number[key[:2]] for key in keys])
    note = f"{len(characters)} characters of {len(kept)} alphabets"
    if found == "small":
        note += ", from the two small background sets, split by alphabet, not the full set"
    return describe(
        "omniglot",
        found,
        split,
        images,
        labels,
        note=note,
        classes=["/".join(character) for character in characters],
        groups=[alphabet for alphabet, _ in characters],
    )


@dataclass(frozen=True)
class OneShot:
    """The official one-shot task: in each of 20 runs, which of 20 characters is each test drawing?

    - `training`, `test`: (20, 20, 1, size, size) uint8, white ink on black: run, drawing;
    - `answers`: (20, 20) int64, for each test drawing the training drawing of its character.
    """

    training: torch.Tensor
    test: torch.Tensor
    answers: torch.Tensor


def one_shot(root: Path | None = None, *, size: int = 28) -> OneShot:
    """Read the task from `omniglot/one_shot_runs.zip`; size 105 gives the drawings as they are.

    Every run has its own characters, all of one evaluation alphabet. Chance is 1 in 20.
    """
    place = data_root(root) / ARRAYS / "one_shot_runs.zip"
    if not place.is_file():
        remedy = "put the runs of Omniglot's one-shot classification (run01/ to run20/) there"
        raise missing("omniglot's one-shot runs", [place], remedy)
    answers = torch.empty((DRAWERS, DRAWERS), dtype=torch.int64)
    drawn = np.empty((2, DRAWERS, DRAWERS, SIDE, SIDE), dtype=np.uint8)
    with reading(f"{place} does not hold the one-shot runs"), zipfile.ZipFile(place) as archive:
        for run in range(DRAWERS):
            folder = f"run{run + 1:02}"
            lines = member(archive, f"{folder}/class_labels.txt").decode("ascii")
            pairs = re.findall(r"test/item(\d+)\.png \S+training/class(\d+)\.png", lines)
            key = {int(item) - 1: int(character) - 1 for item, character in pairs}
            for item in range(DRAWERS):
                answers[run, item] = key[item]
                names = (f"training/class{item + 1:02}.png", f"test/item{item + 1:02}.png")
                for part, name in enumerate(names):
                    data = member(archive, f"{folder}/{name}")
                    drawn[part, run, item] = _decode(data, name)
    if not torch.equal(answers.sort(1).values, torch.arange(DRAWERS).expand(DRAWERS, -1)):
        raise ValueError(f"{place}: the answers of a run must name each training drawing once.")
    images = resize(torch.from_numpy(drawn).reshape(-1, 1, SIDE, SIDE), size)
    training, test = images.reshape(2, DRAWERS, DRAWERS, 1, size, size)
    return OneShot(training, test, answers)


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
