"""CelebA, on a little folder in its layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from tvae.data import DataNotFound, load


@pytest.fixture
def celeba(tmp_path: Path) -> Path:
    """A data root with twelve pictures: six train, two valid, four test."""
    folder = tmp_path / "celeba" / "img_align_celeba"
    folder.mkdir(parents=True)
    partition, identity = [], []
    for number in range(1, 13):
        rng = np.random.default_rng(number)
        coarse = Image.fromarray(rng.integers(0, 256, (11, 9, 3), dtype=np.uint8))
        coarse.resize((178, 218), Image.Resampling.BICUBIC).save(folder / f"{number:06}.jpg")
        partition.append(f"{number:06}.jpg {0 if number <= 6 else 1 if number <= 8 else 2}\n")
        identity.append(f"{number:06}.jpg {100 + number // 2}\n")
    (tmp_path / "celeba" / "list_eval_partition.txt").write_text("".join(partition))
    (tmp_path / "celeba" / "identity_CelebA.txt").write_text("".join(identity))
    return tmp_path


def test_pictures_are_cropped_reduced_and_labelled(celeba: Path) -> None:
    for split, first, count in (("train", 1, 6), ("valid", 7, 2), ("test", 9, 4)):
        data = load("celeba", split, root=celeba)
        assert data.images.shape == (count, 3, 64, 64) and data.images.dtype == torch.uint8
        assert data.labels.tolist() == [100 + n // 2 for n in range(first, first + count)]
        for offset, image in enumerate(data.images):
            path = celeba / "celeba" / "img_align_celeba" / f"{first + offset:06}.jpg"
            with Image.open(path) as picture:
                whole = torch.from_numpy(np.asarray(picture).copy()).permute(2, 0, 1)
            square = whole[None, :, 35 : 35 + 148, 15 : 15 + 148].float()
            expected = F.interpolate(square, 64, mode="bilinear", antialias=True)[0]
            assert float((image.float() - expected).abs().max()) <= 0.5 + 1e-2
    assert "centre crop 148x148" in str(load("celeba", root=celeba).provenance)


def test_many_pictures_pass_through_blocks(celeba: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tvae.data import pictures

    whole = load("celeba", root=celeba)
    monkeypatch.setattr(pictures, "_BLOCK", 4)
    assert torch.equal(load("celeba", root=celeba).images, whole.images)


def test_options(celeba: Path) -> None:
    data = load("celeba", "train", root=celeba, count=2, crop=140, size=32)
    assert data.images.shape == (2, 3, 32, 32)
    assert len(load("celeba", "train", root=celeba, count=6)) == 6
    for count in (0, 7):
        with pytest.raises(ValueError, match="has 6 images"):
            load("celeba", "train", root=celeba, count=count)
    with pytest.raises(ValueError, match="too small for a 200x200 crop"):
        load("celeba", "train", root=celeba, crop=200)


def test_without_identities_labels_are_unknown_and_the_provenance_says_so(celeba: Path) -> None:
    (celeba / "celeba" / "identity_CelebA.txt").unlink()
    data = load("celeba", "test", root=celeba)
    assert data.labels.tolist() == [-1] * 4
    assert "no identities" in str(data.provenance)


def test_what_is_missing_is_named(celeba: Path) -> None:
    picture = celeba / "celeba" / "img_align_celeba" / "000003.jpg"
    picture.unlink()
    with pytest.raises(DataNotFound, match="1 of 6 pictures, first 000003"):
        load("celeba", "train", root=celeba)
    assert len(load("celeba", "train", root=celeba, count=2)) == 2
    lists = celeba / "celeba" / "list_eval_partition.txt"
    lists.write_text("000001.jpg zero\n")
    with pytest.raises(ValueError, match="expected a file name and a number"):
        load("celeba", "train", root=celeba)
    lists.unlink()
    with pytest.raises(DataNotFound, match=r"list_eval_partition\.txt.*tvae data fetch celeba"):
        load("celeba", "train", root=celeba)


def test_without_celeba_there_are_portraits_which_say_what_they_are() -> None:
    data = load("celeba", "test", source="embedded")
    assert data.images.shape == (80, 3, 64, 64) and data.images.dtype == torch.uint8
    assert data.provenance.name == "portraits" and "public-domain" in str(data.provenance)
    images = data.floats()
    assert float((images[:, 0] - images[:, 2]).abs().mean()) > 0.05  # not grey
    assert float(images.std(0).mean()) > 0.1  # not one face again and again
