"""Portraits under open terms: the archive, its split, its terms, and the embedded sample."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from embed_data import choose_portraits
from PIL import Image

from tvae.data import DataNotFound, entry, load, portraits

FULL = os.environ.get("TVAE_DATA")
TERMS = {
    "congress": ("public domain (US)", "Somebody"),
    "ukparl": ("CC BY 3.0", "© Parliament"),
    "caltech": ("CC BY 4.0 (unsure)", "Caltech"),
}


def write(root: Path, each: int = 30) -> dict[str, np.ndarray]:
    """A little archive of plain squares with a dark frame; file name -> pixels."""
    folder = root / portraits.FOLDER
    folder.mkdir(parents=True)
    lines, made = ["row,source,original_file,file_in_zip,licence,attribution,link"], {}
    with zipfile.ZipFile(folder / "faces_open_rgb96_jpg.zip", "w") as archive:
        for source, (licence, attribution) in TERMS.items():
            for k in range(each):
                name = f"{source}_secret{k}.jpg"
                pixels = np.zeros((96, 96, 3), dtype=np.uint8)
                pixels[16:80, 16:80] = (200, 8 * k % 256, 40)
                buffer = io.BytesIO()
                Image.fromarray(pixels).save(buffer, "jpeg", quality=95, subsampling=0)
                archive.writestr(name, buffer.getvalue())
                lines.append(f'{len(made)},{source},{k}.jpg,{name},"{licence}",{attribution},x')
                made[name] = pixels
    (folder / "index.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return made


def test_split_terms_and_crop(tmp_path: Path) -> None:
    made = write(tmp_path)
    train, test = (load("portraits", split, root=tmp_path) for split in ("train", "test"))
    assert len(train) + len(test) == len(made) and len(test) > 3
    assert train.images.shape[1:] == (3, 64, 64) and train.images.dtype == torch.uint8
    caltech = portraits.CLASSES.index("caltech")
    assert int((train.labels == caltech).sum()) == 30 and caltech not in test.labels.tolist()
    free = load("portraits", "train", root=tmp_path, terms="public domain")
    assert free.labels.unique().tolist() == [0]
    assert "credit" not in str(free.provenance)
    line = str(train.provenance)
    assert "credit: Caltech; © Parliament" in line and "secret" not in line
    # the margin is dark, and is there unless it is cut off
    whole = load("portraits", "test", root=tmp_path, size=96)
    assert whole.images.shape[2:] == (96, 96) and int(whole.images[:, :, :14].max()) < 10
    tight = load("portraits", "test", root=tmp_path, crop=60)
    assert int(tight.images[:, 0].min()) > 180
    with pytest.raises(ValueError, match=r"terms 'MIT'; there are: CC BY 3\.0"):
        load("portraits", root=tmp_path, terms="MIT")


def test_missing_and_damaged_archives_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataNotFound, match="faces-open"):
        load("portraits", root=tmp_path)
    write(tmp_path, each=5)
    archive = tmp_path / portraits.FOLDER / "faces_open_rgb96_jpg.zip"
    good = archive.read_bytes()
    archive.write_bytes(good[:-100])
    with pytest.raises(ValueError, match="is damaged or does not fit its index"):
        load("portraits", root=tmp_path)
    archive.write_bytes(good)
    index = tmp_path / portraits.FOLDER / "index.csv"
    text = index.read_text(encoding="utf-8")
    index.write_text(text.replace("_secret1.", "_other."), encoding="utf-8")
    with pytest.raises(ValueError, match="does not fit its index"):
        load("portraits", root=tmp_path)
    index.write_text(text.replace("licence", "x"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"index\.csv is damaged"):
        load("portraits", root=tmp_path)
    cut_off = text[: text.rindex(",", 0, text.rindex(","))]  # in the middle of the last line
    index.write_text(cut_off, encoding="utf-8")
    with pytest.raises(ValueError, match=r"index\.csv is damaged"):
        load("portraits", root=tmp_path)
    lines = text.splitlines()
    head, photographs = lines[0], [line for line in lines[1:] if "caltech" in line]
    index.write_text("\n".join([head, *photographs]), encoding="utf-8")
    with pytest.raises(ValueError, match=r"index\.csv has no test portrait"):
        load("portraits", "test", root=tmp_path)


def test_the_embedded_sample_is_small_and_distinct() -> None:
    train, test = (load("portraits", split, source="embedded") for split in ("train", "test"))
    assert train.images.shape == (320, 3, 64, 64) and test.images.shape == (80, 3, 64, 64)
    assert "public-domain" in str(train.provenance)
    rows = torch.cat([train.images, test.images]).flatten(1)
    assert len(torch.unique(rows, dim=0)) == 400


@pytest.mark.skipif(
    not FULL or not (Path(FULL) / portraits.FOLDER).is_dir(),
    reason="TVAE_DATA names no root with the portraits",
)
def test_the_archive_is_complete_and_holds_the_sample() -> None:
    counts = tuple(len(load("portraits", split)) for split in ("train", "test"))
    assert counts == entry("portraits").counts and sum(counts) == 3625
    for split in ("train", "test"):
        sample = load("portraits", split, source="embedded").floats()
        exact = choose_portraits(split).float() / 255
        assert float((sample - exact).abs().mean()) < 0.012  # what the JPEG loses
