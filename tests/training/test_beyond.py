"""Runs that go beyond the paper: further terms, weights, pairs, a τ of another size."""

from __future__ import annotations

import json

import pytest
import torch

from tvae import TVAE, VAE, data, fit, generator
from tvae.evaluation import evaluate
from tvae.runs import sweep, trained
from tvae.training import RunConfig, train
from tvae.transforms import Sequences, Triplets


def test_what_is_not_used_is_not_written():
    plain = RunConfig.from_preset("mnist")
    beyond = {"further", "weights", "pairs", "k", "tau_width", "moved", "parts"}
    assert not beyond & set(plain.to_dict())
    one = RunConfig.from_preset("mnist", action="E", d=26, pairs=True, k=6, weights={"tie": 0.5})
    assert one.geometry == "exact" and "tilt" not in one.families
    assert one.further == ("tie", "borrowed_constraint", "borrowed_likelihood", "view_kl")
    assert one.tau_width == 0.05
    again = RunConfig.from_dict(json.loads(json.dumps(one.to_dict())))
    assert again == one and again.to_dict()["weights"] == {"tie": 0.5}
    assert one.own_triplets().pairs is False and one.drawn_triplets().pairs is True


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"further": ["tei"]}, "no further terms tei"),
        ({"weights": {"tie": 1}}, "weight 1.0 of 'tie'"),
        ({"weights": {"c1": -1}}, "numbers from 0 on"),
        ({"further": ["borrowed_constraint"]}, "set `pairs`"),
        ({"pairs": True, "batch_size": 99}, "even batch size, not 99"),
        ({"k": 4}, "leave `k` out"),
        ({"model": "vae", "pairs": True}, "no latent action"),
        ({"model": "vae", "moved": True}, "sees no views"),
        ({"moved": 1}, "true or false"),
        ({"parts": []}, "Only the action P"),
        ({"action": "P", "d": 31, "parts": ["wings"]}, "no part wings"),
        ({"model": "vae", "tau_width": 0.1}, "no latent action"),
        ({"tau_width": -1}, "from 0 on, not -1"),
        ({"tau_width": "wide"}, "from 0 on, not 'wide'"),
        ({"weights": {"kl_tau": 1}}, "weight 1.0 of 'kl_tau'"),
    ],
)
def test_errors_speak(settings, words):
    with pytest.raises(ValueError, match=words):
        RunConfig.from_preset("mnist", **settings)


def test_a_run_with_pairs_trains_is_kept_and_loaded_with_its_own_views(tmp_path):
    few = data.load("mnist", source="embedded").take(60)
    config = RunConfig.from_preset(
        "mnist", action="E", d=4, pairs=True, k=3, tau_width=0.1, epochs=2, batch_size=20
    )
    whole = train(config, few, folder=tmp_path / "whole", device="cpu")
    assert {"tie", "borrowed_c1", "borrowed_nllx2", "kl_tau"} <= set(whole.history[-1])
    train(config, few, folder=tmp_path / "cut", device="cpu", max_steps=3)
    again = train(config, few, folder=tmp_path / "cut", device="cpu")
    for a, b in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(a, b)
    model = trained.load(tmp_path / "whole")
    assert (
        model.tau_width == 0.1
        and model.action.tau_size == 3
        and model.triplets == config.own_triplets()
    )


def test_weights_of_zero_leave_a_part_as_it_was():
    few = data.load("mnist", source="embedded").take(40)
    weights = {"nll": 0, "c1": 0, "c2": 0, "div": 0}
    config = RunConfig.from_preset("mnist", d=3, weights=weights, epochs=1, batch_size=20)
    from tvae.training.run import build_model

    fresh, run = build_model(config, few), train(config, few, device="cpu")
    for name in ("psi", "xi"):  # nothing that is weighed reaches them
        for a, b in zip(
            getattr(fresh, name).parameters(), getattr(run.model, name).parameters(), strict=True
        ):
            assert torch.equal(a, b)
    assert not torch.equal(fresh.encoder[0].weight, run.model.encoder[0].weight)


def test_sweeps_pass_the_settings_on():
    jobs = sweep.expand(
        {
            "datasets": "mnist",
            "actions": "E",
            "d": 25,
            "pairs": True,
            "k": 6,
            "weights": {"tie": 2.0},
            "tag": "lending",
        }
    )
    (job,) = jobs
    assert job.d == 26 and job.config().k == 6 and job.config().weights == {"tie": 2.0}
    assert sweep.Job.from_dict(json.loads(json.dumps(job.to_dict()))) == job
    assert job.configuration()["pairs"] is True


def test_films_are_an_ordinary_data_set_of_runs(tmp_path):
    few = data.load("solids", count=8)
    config = RunConfig.from_preset("solids", action="E", d=4, k=3, epochs=2, batch_size=20)
    assert config.families == ("sequence",) and config.own_triplets() == Sequences(5)
    assert RunConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    whole = train(config, few, few, folder=tmp_path / "whole", device="cpu")
    assert {"tie", "predicted_c1", "predicted_nllx2"} <= set(whole.history[-1])
    train(config, few, few, folder=tmp_path / "cut", device="cpu", max_steps=2)
    again = train(config, few, few, folder=tmp_path / "cut", device="cpu")
    for a, b in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(a, b)
    model = trained.load(tmp_path / "whole")
    assert model.triplets == Sequences(5)
    found = evaluate(model, few, likelihood_images=0)
    assert found["c1"] > 0 and found["nllx1"] > 0
    pairs = RunConfig.from_preset("solids", action="E", d=4, pairs=True)
    assert "borrowed_constraint" in pairs.further and "predicted_constraint" in pairs.further
    assert pairs.drawn_triplets() == Sequences(5, pairs=True)
    assert RunConfig.from_preset("solids", model="vae").further == ()


def test_a_film_can_also_be_trained_on_by_hand_made_views():
    config = RunConfig.from_preset("solids", families=("rotation",), further=())
    assert config.own_triplets() == Triplets(("rotation",))
    with pytest.raises(ValueError, match="needs a data set of films; mnist has none"):
        RunConfig.from_preset("mnist", families=("sequence",))


def test_fit_takes_films_and_a_vae_plus_one_frame_of_each():
    frames = data.load("solids", count=8).images
    model = TVAE(4, action="E", generator=generator(0, "init"))
    history = fit(model, frames, triplets=Sequences(5), steps=2, batch_size=20, device="cpu")
    assert history[-1]["nllx1"] > 0
    vae = VAE(4, generator=generator(0, "init"))
    fit(vae, frames, triplets=Sequences(5), steps=1, batch_size=20, device="cpu")


def test_images_moved_first_and_parts_go_through_sweeps_and_back():
    (job,) = sweep.expand(
        {"datasets": "mnist", "actions": "P", "d": 31, "moved": True, "parts": [], "tag": "pose"}
    )
    config = job.config()
    assert config.parts == () and config.families == ("affine",) and config.geometry == "exact"
    assert sweep.Job.from_dict(json.loads(json.dumps(job.to_dict()))) == job
    assert RunConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert job.configuration()["moved"] is True and job.configuration()["parts"] == []
    assert config.own_triplets() == config.triplets() == config.drawn_triplets()
