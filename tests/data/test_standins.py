"""The set that the package makes itself: faces."""

from __future__ import annotations

import pytest
import torch

from tvae.data import faces, load


def test_faces_are_fixed_by_their_seed() -> None:
    one, two = load("faces", "test", count=40), load("faces", "test", count=40)
    assert torch.equal(one.images, two.images) and one.provenance == two.provenance
    other = load("faces", "test", seed=1, count=40)
    assert one.provenance.checksum != other.provenance.checksum
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert torch.equal(load("faces", "test", count=40).images, one.images)
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


def test_faces_refuse_nonsense() -> None:
    with pytest.raises(ValueError, match="positive whole number"):
        load("faces", count=-1)
