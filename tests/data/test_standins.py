"""The set that the package makes itself: glyphs."""

from __future__ import annotations

import pytest
import torch
from fontTools.ttLib import TTFont

from tvae.data import glyphs, load


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


def test_stand_ins_are_fixed_by_their_seed() -> None:
    name, few = "glyphs", {"drawings": 2}
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


def test_stand_ins_refuse_nonsense() -> None:
    with pytest.raises(ValueError, match="positive whole number"):
        load("glyphs", drawings=0)
