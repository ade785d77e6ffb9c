"""Omniglot: torchvision's layout, the two small sets, and what becomes of the drawings."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from tvae.data import DataNotFound, load, omniglot

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


@needs_small
def test_the_published_small_sets_have_eight_alphabets() -> None:
    data = load("omniglot", "all", source="small")
    assert set(data.groups) == {*SMALL1, *SMALL2} == {*omniglot.SMALL_TRAIN, *omniglot.SMALL_TEST}
    assert len(data) == 4840 and len(data.classes) == 242
    assert data.labels.bincount().tolist() == [20] * 242
    assert 0.02 < float(data.floats().mean()) < 0.2
