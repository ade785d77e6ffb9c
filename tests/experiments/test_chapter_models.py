"""A model by name: released at the quick preset, a run of one's own at the others."""

from __future__ import annotations

import pytest
import release_weights
import torch
from ledgers import entry

from tvae import data
from tvae.experiments import chapter_models
from tvae.models import TVAE, VAE
from tvae.runs import execution, released
from tvae.runs.name import RunName


@pytest.mark.parametrize(
    "name, model, action, residual, d",
    [
        ("mnist-A-25", "tvae", "A", False, 25),
        ("fashion-mnist-VAE+-10", "vae+", None, False, 10),
        ("mnist-VAE-100", "vae", None, False, 100),
        ("mnist-NR-25", "tvae", "N", True, 25),
        ("omniglot-MAR-26", "tvae", "MA", True, 26),
    ],
)
def test_names_stand_for_runs(name, model, action, residual, d):
    job = chapter_models.job(name, "paper", seed=3)
    assert (job.model, job.action, job.residual, job.d, job.seed) == (model, action, residual, d, 3)
    assert str(RunName.of(job)) == name
    assert (job.epoch_images is None) == ("omniglot" not in name)


@pytest.mark.parametrize(
    "name",
    ["mnist", "mnist-A", "mnist-A-x", "mnist-M-25", "cifar-A-25", "mnist-AR-25", "mnist-PCA-25"],
)
def test_names_of_no_run_are_refused(name):
    with pytest.raises(ValueError):
        chapter_models.job(name, "book")


def test_unknown_preset():
    with pytest.raises(ValueError, match="quick, book, paper"):
        chapter_models.trained("mnist-A-25", "fast")


def test_quick_takes_the_released_weights(tmp_path, monkeypatch):
    job = chapter_models.job("mnist-A-4", "book")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = TVAE(4, action="A")
    release_weights.release(model, entry(job), tmp_path)
    monkeypatch.setattr(released, "home", lambda folder: tmp_path)
    found = chapter_models.trained("mnist-A-4", "quick", device="cpu")
    assert torch.equal(found.psi[0].weight, model.psi[0].weight.half().float())
    assert "released weights" in chapter_models.origin("mnist-A-4", "quick")
    assert "trained here" in chapter_models.origin("mnist-A-4", "book")


def test_the_larger_presets_train_and_keep_what_they_trained(tmp_path, monkeypatch):
    few = data.load("mnist", source="embedded").take(200)
    monkeypatch.setattr(execution, "own_data", lambda dataset, source: (few, few))
    monkeypatch.setenv("TVAE_MAX_STEPS", "2")
    monkeypatch.setenv("TVAE_RUNS", str(tmp_path))
    first = chapter_models.trained("mnist-VAE-3", "paper", device="cpu")
    again = chapter_models.trained("mnist-VAE-3", "paper", device="cpu")
    assert isinstance(first, VAE) and not first.training
    for a, b in zip(first.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)
    assert (tmp_path / "mnist-VAE-3_paper_seed0").is_dir()
