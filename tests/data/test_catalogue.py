"""The one list of data sets: what an entry says is what the data are."""

from __future__ import annotations

import pytest
import torch

from tvae import data
from tvae.data import Dataset, catalogue, describe, entry, load, register
from tvae.models import LIKELIHOODS
from tvae.runs import costs, sweep


@pytest.mark.parametrize("name", data.names())
def test_an_entry_tells_what_its_embedded_images_are(name: str) -> None:
    known = entry(name)
    options = {"count": 8} if name in ("affnist", "solids") else {}
    images = load(name, "test", source="embedded", **options)
    assert tuple(images.images.shape[1:]) == known.shape
    assert known.likelihood in LIKELIHOODS
    assert known.terms != "not stated" and known.title
    if not known.sources:  # nothing but what the package makes
        splits = ("test",) if known.frames else ("train", "test")  # films take their time
        counts = tuple(len(load(name, split)) for split in splits)
        assert counts == known.counts[-len(splits) :]
    if known.shared_classes:
        train = load(name, "train", source="embedded", **options)
        assert train.classes == images.classes
    for source in known.sources:
        assert source.provide and source.name in known.source_names
        assert not source.fetch or entry(source.fetch).download


def colours(split: str) -> Dataset:
    count = {"train": 6, "test": 4}[split]
    images = torch.zeros((count, 3, 64, 64), dtype=torch.uint8)
    return describe("colours", "made", split, images, torch.arange(count))


@pytest.mark.slow
def test_an_entry_of_ones_own_is_found_from_the_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "_OWN", {})
    register("colours", shared_classes=False)(colours)
    own = entry("colours")
    assert own.shape == (3, 64, 64) and own.counts == (6, 4) and own.likelihood == "gaussian"
    assert not own.shared_classes
    (job,) = sweep.expand({"datasets": ["colours"], "models": ["pixels"]})
    assert job.d == 3 * 64 * 64
    assert costs.images_of(sweep.Job("colours", "vae", preset="book")) == (6, 4)
    assert costs._noise_images(2, "colours").images.shape == (2, 3, 64, 64)
    assert {row.name for row in data.available()} == set(data.names())
    with pytest.raises(ValueError, match="nothing to fetch for colours"):
        data.fetch("colours")


def test_an_unknown_name_is_told_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no data set 'mnits'.*mnist, fashion-mnist.*portraits"):
        entry("mnits")
