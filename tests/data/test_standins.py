"""The sets that the package makes itself: glyphs and faces."""

from __future__ import annotations

import pytest
import torch
from fontTools.ttLib import TTFont

from tvae.data import faces, glyphs, load


def test_every_character_has_a_glyph_of_its_own() -> None:
    cmap = TTFont(glyphs.font_path()).getBestCmap()
    outlines = set()
    for alphabet, characters in glyphs.ALPHABETS.items():
        for character in characters:
            assert ord(character) in cmap, f"U+{ord(character):04X} of {alphabet}"
            assert cmap[ord(character)] != ".notdef"
            outlines.add(cmap[ord(character)])
    everything = "".join(glyphs.ALPHABETS.values())
    assert len(set(everything)) == len(everything) == len(outlines)


def test_no_two_characters_look_the_same() -> None:
    ink = torch.cat([glyphs._fields(name)[0] for name in glyphs.ALPHABETS]).flatten(1) > 0
    inked = ink.float()
    common = inked @ inked.T
    either = inked.sum(1)[:, None] + inked.sum(1) - common
    overlap = (common / either).fill_diagonal_(0)
    # letters that differ by a dot overlap by up to 0.975; the same outline twice gives 1
    assert float(overlap.max()) < 0.98


def test_glyphs_are_grouped_and_test_alphabets_are_new() -> None:
    train, test = load("glyphs", "train"), load("glyphs", "test")
    assert not set(train.groups) & set(test.groups)
    assert set(train.groups) == set(glyphs.TRAIN) and set(test.groups) == set(glyphs.TEST)
    assert len(glyphs.TRAIN) >= 8 and len(glyphs.TEST) >= 3
    for data in (train, test):
        assert data.images.shape[1:] == (1, 28, 28) and data.images.dtype == torch.uint8
        assert data.labels.bincount().tolist() == [20] * len(data.classes)
        assert len(data.groups) == len(data.classes)
        assert all(c.startswith(g + "/") for c, g in zip(data.classes, data.groups, strict=True))
        line = str(data.provenance)
        assert "stand-in for Omniglot" in line and "neither handwriting nor Omniglot" in line
        # white ink on black: every drawing has full ink somewhere and is mostly ground
        assert int(data.images.flatten(1).amax(1).min()) > 128
        assert 0.02 < float(data.floats().mean()) < 0.3


def test_glyph_drawings_differ_but_characters_stay_recognisable() -> None:
    data = load("glyphs", "test", drawings=6)
    pixels = data.floats().flatten(1)
    assert len(torch.unique(data.images.flatten(1), dim=0)) == len(data)
    distance = torch.cdist(pixels, pixels).fill_diagonal_(torch.inf)
    nearest = data.labels[distance.argmin(1)]
    accuracy = float((nearest == data.labels).float().mean())
    # chance is 5 in 700; distorted, yet the nearest other drawing is often of the same character
    assert 0.2 < accuracy < 0.98


@pytest.mark.parametrize("name", ["glyphs", "faces"])
def test_stand_ins_are_fixed_by_their_seed(name: str) -> None:
    few = {"drawings": 2} if name == "glyphs" else {"count": 40}
    one, two = load(name, "test", **few), load(name, "test", **few)
    assert torch.equal(one.images, two.images) and one.provenance == two.provenance
    other = load(name, "test", seed=1, **few)
    assert one.provenance.checksum != other.provenance.checksum
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert torch.equal(load(name, "test", **few).images, one.images)
    finally:
        torch.set_num_threads(threads)


def test_faces_are_colourful_and_varied() -> None:
    data = load("celeba", "test", source="embedded")
    assert data.images.shape == (400, 3, 64, 64) and data.images.dtype == torch.uint8
    assert "neither photographs nor CelebA" in str(data.provenance)
    assert data.provenance.name == "faces"
    assert data.labels.bincount(minlength=3).min() > 60 and int(data.labels.max()) == 2
    images = data.floats()
    assert float((images[:, 0] - images[:, 2]).abs().mean()) > 0.05  # not grey
    assert float(images.std(0).mean()) > 0.1  # not one face over and over
    assert len(torch.unique(data.images.flatten(1), dim=0)) == 400


def test_faces_of_a_class_share_their_mouth() -> None:
    data = faces.load("train", count=300)
    assert data.classes == ("neutral", "smiling", "open mouth")
    # a line fitted on half of the mouths' pixels tells open from closed in the other half
    mouth = data.floats()[:, :, 36:52, 18:46].mean(1).flatten(1).double()
    target = (data.labels == 2).double()
    a = torch.cat([mouth[:200], 3 * torch.eye(mouth.shape[1], dtype=torch.float64)])
    b = torch.cat([target[:200] - 0.5, torch.zeros(mouth.shape[1], dtype=torch.float64)])
    guess = mouth[200:] @ torch.linalg.lstsq(a, b[:, None]).solution[:, 0] > 0
    is_open = target[200:].bool()
    hits = (float(guess[is_open].double().mean()), float((~guess[~is_open]).double().mean()))
    # the mean of both rates: 0.5 for any guess that ignores the picture, however unequal the classes
    assert sum(hits) / 2 > 0.7, hits


def test_stand_ins_refuse_nonsense() -> None:
    with pytest.raises(ValueError, match="positive whole number"):
        load("glyphs", drawings=0)
    with pytest.raises(ValueError, match="positive whole number"):
        load("faces", count=-1)
