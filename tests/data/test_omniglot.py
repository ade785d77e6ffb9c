"""Omniglot: arrays, torchvision's layout, the two small sets, the one-shot task."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import one_shot
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from tvae.data import DataNotFound, entry, load, omniglot
from tvae.evaluation import Pixels

FULL = os.environ.get("TVAE_DATA")
needs_small = pytest.mark.skipif(
    not FULL or not (Path(FULL) / omniglot.FOLDER / f"{omniglot.SMALL[0]}.zip").is_file(),
    reason="TVAE_DATA names no root with Omniglot's small sets",
)

SMALL1 = ("Balinese", "Early_Aramaic", "Greek", "Korean", "Latin")
SMALL2 = ("Greek", "Japanese_(katakana)", "Latin", "Sanskrit", "Tagalog")


def drawing(seed: int) -> np.ndarray:
    """Black strokes (False) on white (True), 105×105, as in the published files."""
    picture = np.ones((105, 105), dtype=bool)
    top, left = np.random.default_rng(seed).integers(10, 60, 2)
    picture[top : top + 30, left : left + 4] = False
    picture[top : top + 4, left : left + 30] = False
    return picture


def png(array: np.ndarray) -> bytes:
    with io.BytesIO() as buffer:
        Image.fromarray(array).save(buffer, format="png")
        return buffer.getvalue()


def write(
    root: Path, name: str, alphabets: tuple[str, ...], packed: bool, drawings: int = 3
) -> None:
    """A set of two characters for each alphabet, as folder or archive."""
    files = {}
    for alphabet in alphabets:
        for character in (1, 2):
            for number in range(1, drawings + 1):
                seed = 1000 * omniglot_index(alphabet) + 10 * character + number
                path = f"{name}/{alphabet}/character{character:02}/{seed:05}_{number:02}.png"
                files[path] = png(drawing(seed))
    folder = root / omniglot.FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    if packed:
        with zipfile.ZipFile(folder / f"{name}.zip", "w") as archive:
            for path, data in files.items():
                archive.writestr(path, data)
    else:
        for path, data in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)


def omniglot_index(alphabet: str) -> int:
    return sorted({*SMALL1, *SMALL2, "Angelic", "Tengwar"}).index(alphabet)


@pytest.mark.parametrize("packed", [False, True])
def test_small_sets_count_shared_alphabets_once(tmp_path: Path, packed: bool) -> None:
    write(tmp_path, omniglot.SMALL[0], SMALL1, packed)
    write(tmp_path, omniglot.SMALL[1], SMALL2, packed)
    whole = load("omniglot", "all", root=tmp_path)
    assert set(whole.groups) == {*SMALL1, *SMALL2}
    assert len(whole) == 8 * 2 * 3 and len(whole.classes) == 16
    assert whole.labels.bincount().tolist() == [3] * 16
    train, test = (load("omniglot", split, root=tmp_path) for split in ("train", "test"))
    assert set(train.groups) == set(omniglot.SMALL_TRAIN)
    assert set(test.groups) == set(omniglot.SMALL_TEST)
    assert len(train) + len(test) == len(whole)
    assert train.provenance.source == "small"
    assert "not the full set" in str(train.provenance) and "\n" not in str(train.provenance)


def test_folders_and_archives_give_the_same(tmp_path: Path) -> None:
    for packed in (False, True):
        for name, alphabets in zip(omniglot.SMALL, (SMALL1, SMALL2), strict=True):
            write(tmp_path / str(packed), name, alphabets, packed)
    one, two = (load("omniglot", "all", root=tmp_path / str(packed)) for packed in (False, True))
    assert one.provenance == two.provenance and one.classes == two.classes


def test_drawings_become_white_ink_at_28_pixels(tmp_path: Path) -> None:
    write(tmp_path, "images_background", ("Angelic",), False)
    data = load("omniglot", "train", root=tmp_path)
    assert data.images.shape == (6, 1, 28, 28) and data.images.dtype == torch.uint8
    paths = sorted((tmp_path / omniglot.FOLDER).rglob("*.png"))
    for image, path in zip(data.images, paths, strict=True):
        with Image.open(path) as picture:
            ink = 1.0 - torch.from_numpy(np.asarray(picture).astype(np.float32))
        expected = F.interpolate(ink[None, None], 28, mode="bilinear", antialias=True)
        assert float((image.float() - 255 * expected[0]).abs().max()) <= 0.5 + 1e-2
        assert float(ink.mean()) < 0.1  # ink is rare, so white on black
    assert load("omniglot", "train", root=tmp_path, size=105).images.unique().tolist() == [0, 255]


def test_torchvisions_layout_comes_first_and_its_split_is_kept(tmp_path: Path) -> None:
    write(tmp_path, "images_background", ("Angelic", "Greek"), True)
    write(tmp_path, "images_evaluation", ("Tengwar",), False)
    write(tmp_path, omniglot.SMALL[0], SMALL1, True)
    write(tmp_path, omniglot.SMALL[1], SMALL2, True)
    train, test = (load("omniglot", split, root=tmp_path) for split in ("train", "test"))
    assert set(train.groups) == {"Angelic", "Greek"} and set(test.groups) == {"Tengwar"}
    assert train.provenance.source == test.provenance.source == "torchvision"
    assert len(set(load("omniglot", "all", root=tmp_path).groups)) == 3
    small = load("omniglot", "all", source="small", root=tmp_path)
    assert len(set(small.groups)) == 8 and small.provenance.source == "small"


def test_alphabets_can_be_chosen(tmp_path: Path) -> None:
    write(tmp_path, omniglot.SMALL[0], SMALL1, True)
    write(tmp_path, omniglot.SMALL[1], SMALL2, True)
    data = load("omniglot", "train", root=tmp_path, alphabets=["Korean", "Greek"])
    assert data.classes[0] == "Greek/character01" and set(data.groups) == {"Korean", "Greek"}
    assert data.labels.unique().tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match=r"Klingon; there are Balinese, .*Tagalog"):
        load("omniglot", "train", root=tmp_path, alphabets=["Klingon", "Greek"])


def test_missing_and_incomplete_sets_say_so(tmp_path: Path) -> None:
    write(tmp_path, omniglot.SMALL[0], SMALL1, True)
    for source in ("full", "small", "torchvision"):
        with pytest.raises(DataNotFound, match=r"omniglot-py.*tvae data fetch omniglot"):
            load("omniglot", "train", root=tmp_path, source=source)
    write(tmp_path, omniglot.SMALL[1], SMALL2[:-1], True)
    with pytest.raises(ValueError, match="lack Tagalog"):
        load("omniglot", "test", root=tmp_path)
    (tmp_path / omniglot.FOLDER / "images_evaluation").mkdir()
    with pytest.raises(ValueError, match="No drawing"):
        load("omniglot", "test", root=tmp_path, source="torchvision")


def write_arrays(root: Path, alphabets: dict[str, str], order: int = 1) -> None:
    """The drawings of `write`, twenty of each character, as arrays with their index."""
    folder = root / omniglot.ARRAYS
    folder.mkdir(parents=True)
    lines = ["character_id,split,alphabet,character_in_alphabet,array,row"]
    for part, name in omniglot.FULL.items():
        mine = [alphabet for alphabet, split in alphabets.items() if split == part][::order]
        characters = [(alphabet, character) for alphabet in mine for character in (1, 2)]
        images = np.empty((len(characters), 20, 105, 105), dtype=bool)
        for row, (alphabet, character) in enumerate(characters):
            for number in range(1, 21):
                seed = 1000 * omniglot_index(alphabet) + 10 * character + number
                images[row, number - 1] = drawing(seed)
            lines.append(f"{row},{part},{alphabet},{character},{name},{row}")
        np.savez_compressed(folder / f"{name}.npz", images=images)
    (folder / "omniglot_index.csv").write_text("\n".join(lines) + "\n")


def test_arrays_give_what_the_folders_give_in_the_same_order(tmp_path: Path) -> None:
    alphabets = {"Greek": "train", "Balinese": "train", "Tengwar": "test", "Angelic": "test"}
    write_arrays(tmp_path, alphabets, order=-1)  # rows are not sorted by alphabet, as published
    write(tmp_path, "images_background", ("Balinese", "Greek"), True, drawings=20)
    write(tmp_path, "images_evaluation", ("Angelic", "Tengwar"), False, drawings=20)
    for split in ("train", "test", "all"):
        arrays = load("omniglot", split, root=tmp_path)
        folders = load("omniglot", split, source="torchvision", root=tmp_path)
        assert arrays.provenance.source == "npz"  # preferred where both are there
        assert arrays.provenance.checksum == folders.provenance.checksum
        assert arrays.classes == folders.classes and arrays.groups == folders.groups
    some = load("omniglot", "all", source="npz", root=tmp_path, alphabets=["Tengwar"], size=40)
    assert some.images.shape == (40, 1, 40, 40) and set(some.groups) == {"Tengwar"}


def test_damaged_arrays_are_named(tmp_path: Path) -> None:
    write_arrays(tmp_path, {"Greek": "train", "Tengwar": "test"})
    folder = tmp_path / omniglot.ARRAYS
    good = (folder / "images_background.npz").read_bytes()
    index = (folder / "omniglot_index.csv").read_text()

    def refused(words: str) -> None:
        with pytest.raises(ValueError, match=words):
            load("omniglot", "train", source="npz", root=tmp_path)

    for bad in (good[: len(good) // 2], b"PK", b""):
        (folder / "images_background.npz").write_bytes(bad)
        refused(r"images_background\.npz is not an array of Omniglot drawings")
    broken = bytearray(good)
    broken[len(good) // 3] ^= 255
    (folder / "images_background.npz").write_bytes(broken)
    refused(r"images_background\.npz is not an array")
    # pickled objects are never unpacked
    np.savez(folder / "images_background.npz", images=np.array([{}, 1], dtype=object))
    refused(r"expected bool of shape \(2, 20, 105, 105\), found object")
    (folder / "images_background.npz").write_bytes(good)
    (folder / "omniglot_index.csv").write_text(index.replace("images_background,1", "x,1"))
    refused(r"expected bool of shape \(1, 20")
    (folder / "omniglot_index.csv").write_text(index.replace("alphabet,", "script,", 1))
    refused(r"omniglot_index\.csv is damaged")


def write_runs(path: Path, answer: Callable[[int, int], int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for run in range(1, 21):
            lines = []
            for item in range(20):
                right = answer(run, item)
                archive.writestr(f"run{run:02}/training/class{item + 1:02}.png", png(drawing(item)))
                archive.writestr(f"run{run:02}/test/item{item + 1:02}.png", png(drawing(right)))
                lines.append(
                    f"run{run:02}/test/item{item + 1:02}.png "
                    f"run{run:02}/training/class{right + 1:02}.png"
                )
            archive.writestr(f"run{run:02}/class_labels.txt", "\n".join(lines) + "\n")


def test_one_shot_runs_and_their_answers(tmp_path: Path) -> None:
    place = tmp_path / omniglot.ARRAYS / "one_shot_runs.zip"
    with pytest.raises(DataNotFound, match=r"one_shot_runs\.zip"):
        one_shot.one_shot(tmp_path)
    write_runs(place, lambda run, item: (7 * item + run) % 20)
    task = one_shot.one_shot(tmp_path, size=105)
    assert task.training.shape == task.test.shape == (20, 20, 1, 105, 105)
    assert task.answers[2].tolist() == [(7 * item + 3) % 20 for item in range(20)]
    chosen = torch.gather(
        task.training, 1, task.answers[:, :, None, None, None].expand_as(task.training)
    )
    assert torch.equal(chosen, task.test) and task.test.unique().tolist() == [0, 255]
    write_runs(place, lambda run, item: 0)
    with pytest.raises(ValueError, match="each training drawing once"):
        one_shot.one_shot(tmp_path)
    assert one_shot.accuracy(Pixels(), task) == 1  # each test drawing is a copy
    place.write_bytes(place.read_bytes()[:5000])
    with pytest.raises(ValueError, match="does not hold the one-shot runs"):
        one_shot.one_shot(tmp_path)


needs_arrays = pytest.mark.skipif(
    not FULL or not (Path(FULL) / omniglot.ARRAYS / "images_background.npz").is_file(),
    reason="TVAE_DATA names no root with Omniglot's arrays",
)


@pytest.mark.parametrize("split", ["train", "test"])
def test_the_embedded_sample_is_handwriting_of_whole_alphabets(split: str) -> None:
    data = load("omniglot", split, source="embedded")
    assert set(data.groups) == set(omniglot.SAMPLE[split])
    assert data.images.shape == (20 * len(data.classes), 1, 28, 28)
    assert data.labels.bincount().tolist() == [20] * len(data.classes)
    assert data.provenance.name == "omniglot" and "not the full set" in str(data.provenance)
    assert 0.02 < float(data.floats().mean()) < 0.2
    if FULL and (Path(FULL) / omniglot.ARRAYS).is_dir():
        full = load("omniglot", split, source="npz", alphabets=list(omniglot.SAMPLE[split]))
        assert full.classes == data.classes and full.groups == data.groups
        assert full.provenance.checksum == data.provenance.checksum


@needs_small
@needs_arrays
def test_the_complete_set_holds_the_small_one_pixel_by_pixel() -> None:
    small = load("omniglot", "all", source="small")
    same = load("omniglot", "train", source="npz", alphabets=sorted(set(small.groups)))
    assert same.provenance.checksum == small.provenance.checksum and same.classes == small.classes
    for split, characters, alphabets in (("train", 964, 30), ("test", 659, 20)):
        data = load("omniglot", split)
        assert data.provenance.source == "npz"
        assert len(data.classes) == characters and len(set(data.groups)) == alphabets
        assert data.labels.bincount().tolist() == [20] * characters
    counts = tuple(20 * characters for characters in (964, 659))
    assert entry("omniglot").counts == counts


@needs_arrays
def test_the_official_one_shot_task_is_of_evaluation_characters() -> None:
    task = one_shot.one_shot(size=105)
    data = load("omniglot", "test", source="npz", size=105)
    where = {hash(image.numpy().tobytes()): k for k, image in enumerate(data.images)}
    shown, asked = (
        torch.tensor([[where[hash(x.numpy().tobytes())] for x in run] for run in part])
        for part in (task.training, task.test)
    )
    labels = data.labels[shown]
    assert torch.equal(data.labels[asked], labels.gather(1, task.answers))
    for run in range(20):
        assert len(labels[run].unique()) == 20
        # one alphabet, and two drawers: one for all training drawings, one for all test drawings
        assert len({data.groups[k] for k in labels[run].tolist()}) == 1
        assert len((shown[run] % 20).unique()) == len((asked[run] % 20).unique()) == 1


@needs_small
def test_the_published_small_sets_have_eight_alphabets() -> None:
    data = load("omniglot", "all", source="small")
    assert set(data.groups) == {*SMALL1, *SMALL2} == {*omniglot.SMALL_TRAIN, *omniglot.SMALL_TEST}
    assert len(data) == 4840 and len(data.classes) == 242
    assert data.labels.bincount().tolist() == [20] * 242
    assert 0.02 < float(data.floats().mean()) < 0.2
