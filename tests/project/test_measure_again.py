"""The script that measures again: what it asks for, whose weights it takes, what it leaves alone."""

from __future__ import annotations

import dataclasses
import sys

import measure_again
import pytest
import release_weights
import torch
from ledgers import values

from tvae import data
from tvae.models import VAE
from tvae.runs import ledger, measurements, released
from tvae.runs.sweep import Job
from tvae.training import configuration

JOB = Job("mnist", "vae", preset="book", d=4)
FULL = {"knn_out_anchors": 100_000, "knn_out_queries": 320_000}


def entry(**evaluation) -> ledger.Entry:
    value = values(JOB)
    value["evaluation"] = {**FULL, **evaluation}
    return ledger.Entry.checked(value)


def test_only_what_is_lacking_is_asked_for():
    old = entry()
    everything = ["knn_out_again", "knn_out_centred", "knn_out_moments", "mll_again"]
    assert measure_again.lacking(old) == everything
    newer = entry(knn_out_groups=10_000, mll_sampling_error=0.2)
    assert measure_again.lacking(newer) == everything[1:3]
    further = {name: {"value": 1.0, "standard_error": 0.1} for name in everything[1:]}
    part = ledger.Entry.checked({**old.to_dict(), "further": further})
    assert measure_again.lacking(part) == everything[:1]
    assert measure_again.lacking(entry(knn_out_queries=20_000)) == []


def test_released_weights_are_those_of_this_very_run(tmp_path, monkeypatch):
    monkeypatch.setattr(released, "home", lambda folder: tmp_path / "released")
    (tmp_path / "released").mkdir()
    held = entry()
    with torch.random.fork_rng(devices=[]):
        release_weights.release(VAE(4), held)
    model, origin = measure_again.weights(held, tmp_path / "runs")
    assert isinstance(model, VAE) and "half precision" in origin
    other = {**held.to_dict(), "finished": "2026-01-02T00:00:00Z"}
    assert isinstance(measure_again.weights(ledger.Entry.checked(other), tmp_path / "runs"), str)


@pytest.mark.slow
def test_an_entry_keeps_all_that_it_held(tmp_path, monkeypatch, capsys):
    """With a handful of images in the place of AffNIST's."""
    small = {"anchors": 300, "queries": 64}
    preset = configuration.get_preset("book")
    measuring = dataclasses.replace(preset.measuring, **small)
    monkeypatch.setattr(
        measure_again,
        "get_preset",
        lambda name: dataclasses.replace(preset, measuring=measuring, source="embedded"),
    )
    monkeypatch.setattr(measure_again, "FULL", (300, 64))
    job = Job("mnist", "untrained", preset="book", d=4, training=(("source", "embedded"),))
    value = values(job)
    test = data.load("mnist", "test", source="embedded")
    parts = measurements.affnist("embedded", measuring, test)
    for name, part in zip(("anchors", "queries"), parts, strict=True):
        value["data"][name] = dataclasses.asdict(part.provenance)
    value["evaluation"] = {"knn_out_anchors": 300, "knn_out_queries": 64}
    value["configuration"]["source"] = "embedded"
    before = ledger.Entry.checked(value)
    ledger.write(before, tmp_path)
    monkeypatch.setenv("TVAE_RESULTS", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["measure_again", "--runs", str(tmp_path / "runs")])
    measure_again.main()
    (after,) = ledger.entries(tmp_path)
    assert set(after.further) == {"knn_out_again", "knn_out_centred", "knn_out_moments"}
    assert after.further["knn_out_again"].standard_error > 0
    kept = after.to_dict()
    del kept["further"]
    assert kept["evaluation"].pop("measured_again").endswith("made anew")
    assert kept == before.to_dict()
    measure_again.main()  # nothing is left to do
    assert capsys.readouterr().out.count("untrained") == 1


def test_an_entry_without_weights_is_marked_and_nothing_else(tmp_path, monkeypatch, capsys):
    before = entry()
    ledger.write(before, tmp_path)
    monkeypatch.setenv("TVAE_RESULTS", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["measure_again", "--runs", str(tmp_path / "runs")])
    monkeypatch.setattr(released, "names", list)
    for _ in range(2):  # the second time changes nothing
        measure_again.main()
        (after,) = ledger.entries(tmp_path)
        kept = after.to_dict()
        assert "no weights" in kept["evaluation"].pop("not_measured_again")
        assert kept == before.to_dict()
    assert capsys.readouterr().out.count("marked") == 2
