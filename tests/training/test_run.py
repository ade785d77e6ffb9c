"""Training: the loop against a plain one written out here, and everything that can go wrong."""

import errno
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tvae import objective, training
from tvae.data.dataset import Dataset, describe
from tvae.models import TVAE, VAE
from tvae.runs.trained import load
from tvae.seeding import generator
from tvae.training import NotFinite, checkpoints, fit, loop, pick_device, train
from tvae.training.checkpoints import CheckpointError, CheckpointWarning, SaveError
from tvae.training.configuration import RunConfig
from tvae.training.history import History
from tvae.transforms import CallableTriplets, Triplets


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.delenv("TVAE_MAX_STEPS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def pictures(n: int = 40, shape: tuple[int, ...] = (1, 28, 28), seed: int = 0) -> torch.Tensor:
    """Smooth random blobs, uint8."""
    draws = generator(seed, "pictures")
    small = torch.rand(n, shape[0], 7, 7, generator=draws)
    large = torch.nn.functional.interpolate(small, shape[1:], mode="bilinear")
    return large.square().mul(255).round().to(torch.uint8)


def dataset(n: int = 40, shape: tuple[int, ...] = (1, 28, 28), seed: int = 0) -> Dataset:
    images = pictures(n, shape, seed)
    return describe("mnist", "test", "train", images, torch.arange(n) % 10)


def config(**changes) -> RunConfig:
    options = {"model": "vae", "d": 2, "epochs": 3, "halve_every": 2, "batch_size": 10}
    return RunConfig.from_preset(**{"dataset": "mnist", **options, **changes})


def vae(d: int = 2, **options) -> VAE:
    return VAE(d, generator=generator(0, "init"), **options)


def tvae(d: int = 2, **options) -> TVAE:
    return TVAE(d, generator=generator(0, "init"), **options)


def without_times(row: dict) -> dict:
    return {name: value for name, value in row.items() if not name.endswith("seconds")}


def same_weights(left: torch.nn.Module, right: torch.nn.Module) -> bool:
    mine, other = left.state_dict(), right.state_dict()
    return mine.keys() == other.keys() and all(torch.equal(mine[k], other[k]) for k in mine)


# --- the loop --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["vae", "vae+", "tvae"])
def test_the_loop_is_the_plain_loop_written_out(kind):
    """Shuffling, views, noise, Adam and the halving schedule, spelt out with torch alone."""
    images, epochs, size, rate, halve = pictures(47), 3, 10, 1e-3, 2
    # A seed with which no unit lies so near its threshold that rounding switches it (as one of the
    # T-VAE's does with seed 5, in the second step): Adam would make that a step of its own.
    seed = 7
    model = tvae() if kind == "tvae" else vae()
    triplets = None if kind == "vae" else Triplets()
    history = fit(
        model,
        images,
        triplets=triplets,
        epochs=epochs,
        learning_rate=rate,
        halve_every=halve,
        batch_size=size,
        seed=seed,
        device="cpu",
    )

    other = tvae() if kind == "tvae" else vae()
    adam = torch.optim.Adam(other.parameters(), lr=rate)
    shuffle, draws, noise = (generator(seed, name) for name in ("shuffle", "triplets", "noise"))
    means = []
    for epoch in range(epochs):
        adam.param_groups[0]["lr"] = rate / 2 ** (epoch // halve)
        order = torch.randperm(47, generator=shuffle)
        losses = []
        for i in range(4):  # 47 // 10: seven images are left over
            x = images[order[10 * i : 10 * i + 10]].float() / 255
            if kind == "tvae":
                x0, x1, x2, _ = triplets(x, draws)
                terms = objective.tvae_terms(other, x0, x1, x2, noise)
            else:
                if kind == "vae+":
                    choice = torch.randint(3, (10,), generator=draws)
                    views = triplets(x, draws)
                    x = torch.stack([views[int(c)][n] for n, c in enumerate(choice)])
                terms = objective.vae_terms(other, x, noise)
            loss = terms.total().mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
            losses.append(loss.item())
        means.append(sum(losses) / len(losses))

    assert history.curve("total") == pytest.approx(means, rel=1e-5)
    assert history.curve("learning_rate") == pytest.approx([1e-3, 1e-3, 5e-4])
    assert [row["step"] for row in history] == [4, 8, 12]
    for (name, mine), theirs in zip(model.named_parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=2e-5, msg=name)


@pytest.mark.slow
def test_training_learns():
    model = vae(d=4)
    history = fit(model, pictures(200), epochs=15, learning_rate=3e-3, batch_size=20, device="cpu")
    assert history[-1]["total"] < history[0]["total"] - 20
    assert not model.training


def test_the_history_has_every_term():
    history = fit(tvae(), pictures(), triplets=Triplets(), epochs=1, batch_size=20, device="cpu")
    assert [name for name in history[0] if name in objective.TERMS] == list(objective.TERMS)
    assert history[0]["total"] == pytest.approx(sum(history[0][t] for t in objective.TERMS))
    table = history.table().splitlines()
    assert table[0].split()[:3] == ["epoch", "total", "nllx0"] and len(table) == 2
    with pytest.raises(KeyError, match="no column 'elbo'"):
        history.curve("elbo")


def test_one_seed_one_result_to_the_last_bit():
    runs = []
    for seed in (1, 1, 2):
        model = tvae()
        history = fit(
            model, pictures(), triplets=Triplets(), epochs=2, batch_size=10, seed=seed, device="cpu"
        )
        runs.append((model, [row["total"] for row in history]))
    assert same_weights(runs[0][0], runs[1][0]) and runs[0][1] == runs[1][1]
    assert not same_weights(runs[0][0], runs[2][0])


def test_nothing_depends_on_the_global_generator():
    data, models = dataset(), []
    for seed in (7, 8):
        torch.manual_seed(seed)
        models.append(train(config(model="tvae", epochs=1), data, data, device="cpu").model)
    assert same_weights(*models)


def test_bytes_floats_and_data_sets_are_one():
    data, models = dataset(), []
    for images in (data, data.images, data.images.float() / 255, data.images.double() / 255):
        model = vae()
        fit(model, images, steps=3, batch_size=10, device="cpu")
        models.append(model)
    assert all(same_weights(models[0], model) for model in models[1:])


def test_steps_end_in_the_middle_of_an_epoch():
    history = fit(vae(), pictures(), steps=6, batch_size=10, device="cpu")
    assert [row["step"] for row in history] == [4, 6]
    assert not history.capped


def test_fused_adam_does_what_adam_does():
    """Also for weights with channels last, whose memory the fused kernel runs through as it is."""
    models, draws = [vae(), vae()], generator(0, "gradients")
    fused = loop.adam(models[0], 1e-2)
    plain = torch.optim.Adam(models[1].parameters(), lr=1e-2, foreach=False)
    assert any(not p.is_contiguous() for p in models[0].parameters())
    for _ in range(3):
        for left, right in zip(models[0].parameters(), models[1].parameters(), strict=True):
            left.grad = torch.empty_like(left).copy_(torch.randn(left.shape, generator=draws))
            right.grad = left.grad.clone()
        fused.step()
        plain.step()
    for left, right in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-6)


def test_vae_plus_sees_each_of_the_three_views_equally_often():
    x0, triplets = pictures(3000).float() / 255, Triplets()
    (views,) = loop.one_view(triplets, x0, generator(3, "t"), slice(0, 3000))
    # the same draws again: first the choice, then the triplets
    draws = generator(3, "t")
    torch.randint(3, (3000,), generator=draws)
    matches = torch.stack([(views == v).all((1, 2, 3)) for v in triplets(x0, draws)[:3]])
    assert matches.any(0).all()
    frequencies = matches.float().mean(1)
    # four standard deviations of a fraction of 3000 draws are 0.034
    assert ((frequencies - 1 / 3).abs() < 0.035).all()


def test_vae_plus_with_functions_of_the_users_own():
    pair = CallableTriplets(lambda x: x.flip(-1), lambda x: x.flip(-2))
    x0 = pictures(60).float() / 255
    (views,) = loop.one_view(pair, x0, generator(0, "t"), slice(0, 60))
    candidates = (x0, x0.flip(-1), x0.flip(-2))
    found = torch.stack([(views == c).all((1, 2, 3)) for c in candidates])
    assert found.any(0).all() and found.any(1).all()
    history = fit(vae(), pictures(), triplets=pair, steps=2, batch_size=10, device="cpu")
    assert math.isfinite(history[-1]["total"])


@pytest.mark.parametrize("views", [loop.three_views, loop.one_view])
def test_shares_of_a_batch_are_the_batch(views):
    """What two processes draw for their halves is what one draws for the whole."""
    x0 = pictures(20).float() / 255
    whole = views(Triplets(), x0, generator(0, "t"), slice(0, 20))
    halves = [views(Triplets(), x0, generator(0, "t"), s) for s in (slice(0, 10), slice(10, 20))]
    for k, expected in enumerate(whole):
        # one warp of 20 pictures and two of 10 may round differently
        torch.testing.assert_close(torch.cat([half[k] for half in halves]), expected)
    noise = torch.randn(60, 3, generator=generator(0, "n"))
    for share in (slice(0, 10), slice(10, 20)):
        mine = loop.SharedNoise(generator(0, "n"), share, 20)(torch.empty(30, 3))
        assert torch.equal(mine, torch.cat([noise[20 * k :][share] for k in range(3)]))


def test_loss_terms_can_be_weighted():
    arguments = {"triplets": Triplets(), "steps": 2, "batch_size": 10, "device": "cpu"}
    plain, light = tvae(), tvae()
    fit(plain, pictures(), **arguments)
    history = fit(light, pictures(), weights={"nll": 0, "c1": 0.5}, **arguments)
    row = history[-1]
    expected = sum(row[t] for t in objective.TERMS) - row["nll"] - 0.5 * row["c1"]
    assert row["total"] == pytest.approx(expected)
    assert not same_weights(plain, light)
    with pytest.raises(ValueError, match="no loss term elbo; the terms of this model are nllx0"):
        fit(tvae(), pictures(), weights={"elbo": 2}, **arguments)


def test_the_analytic_form_is_passed_on():
    arguments = {"triplets": Triplets(), "steps": 1, "batch_size": 10, "device": "cpu"}
    sampled = fit(tvae(), pictures(), **arguments)[0]
    analytic = fit(tvae(), pictures(), analytic=True, **arguments)[0]
    assert analytic["c1"] != sampled["c1"] and analytic["nllx0"] == sampled["nllx0"]
    assert analytic["c1"] < sampled["c1"]  # without the variance of the sample


def test_the_test_curve_is_the_mean_over_the_test_images():
    test = pictures(1500, seed=9)
    model = vae()
    row = fit(model, pictures(), epochs=1, batch_size=10, seed=4, device="cpu", test=test)[0]
    with torch.no_grad():
        terms = objective.vae_terms(model, test[:1000].float() / 255, noise := generator(4, "test"))
        more = objective.vae_terms(model, test[1000:].float() / 255, noise)
    for name in ("nllx0", "kl0"):
        expected = torch.cat((terms[name], more[name])).double().mean().item()
        assert row[f"test_{name}"] == pytest.approx(expected, rel=1e-5)


PRECISIONS = """
import torch
from test_run import pictures, tvae
from tvae.training import fit
from tvae.transforms import Triplets

torch.set_num_threads(1)
for precision in ("32-true", "64-true", "bf16-mixed", "bf16-true"):
    options = {"triplets": Triplets(), "steps": 2, "batch_size": 10, "precision": precision}
    print(precision, fit(tvae(), pictures(), device="cpu", **options)[0]["nllx0"])
"""


@pytest.mark.slow
def test_other_precisions_train():
    # In a process of its own, without AMX: some virtual machines announce these instructions for
    # half precision and then stop the process that uses them.
    folders = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "PYTHONPATH": folders}
    done = subprocess.run(
        [sys.executable, "-c", PRECISIONS],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    results = {name: float(value) for name, value in lines}
    assert results["64-true"] == pytest.approx(results["32-true"], rel=1e-2)
    assert results["bf16-mixed"] == pytest.approx(results["32-true"], rel=2e-2)
    assert results["bf16-true"] == pytest.approx(results["32-true"], rel=5e-2)


def test_colour_images_train_with_a_gaussian_likelihood():
    data = dataset(8, (3, 64, 64))
    run = train(config(dataset="portraits", batch_size=4, epochs=1), data, data, device="cpu")
    assert run.model.settings["likelihood"] == "gaussian"
    assert math.isfinite(run.history[-1]["test_nllx0"])


# --- progress and limits ---------------------------------------------------------------------------


def test_a_bar_with_the_loss_terms_only_when_asked_for_or_on_a_terminal(capsys):
    fit(vae(), pictures(), epochs=1, batch_size=10, device="cpu")
    assert capsys.readouterr().err == ""
    fit(vae(), pictures(), epochs=1, batch_size=10, device="cpu", progress=True)
    shown = capsys.readouterr().err
    assert "4/4" in shown and "nllx0=" in shown and "total=" in shown


def test_the_environment_can_limit_the_steps(monkeypatch):
    monkeypatch.setenv("TVAE_MAX_STEPS", "5")
    history = fit(vae(), pictures(), epochs=200, batch_size=10, device="cpu")
    assert [row["step"] for row in history] == [4, 5]
    assert history.capped and "cut short after 5 steps" in history.table()
    for bad in ("0", "-3", "many", "1.5"):
        monkeypatch.setenv("TVAE_MAX_STEPS", bad)
        with pytest.raises(ValueError, match="TVAE_MAX_STEPS must be a positive whole number"):
            fit(vae(), pictures(), epochs=1, batch_size=10, device="cpu")


@pytest.mark.parametrize("preset", ["quick", "book", "paper"])
def test_every_preset_can_be_tried_in_a_few_steps(preset, monkeypatch):
    monkeypatch.setenv("TVAE_MAX_STEPS", "2")
    data = dataset(200)
    settings = RunConfig.from_preset("mnist", action="N", residual=True, d=3, preset=preset)
    history = train(settings, data, device="cpu").history
    assert history.capped and [row["step"] for row in history] == [2]
    assert history[0]["learning_rate"] == settings.learning_rate


def test_a_limit_does_not_change_the_steps_before_it():
    free = fit(vae(), pictures(), steps=4, batch_size=10, device="cpu")
    data = dataset()
    capped = train(config(), data, device="cpu", max_steps=4)
    assert capped.history.capped and len(capped.history) == 1
    assert capped.history[0]["total"] == free[0]["total"]


# --- whole runs ------------------------------------------------------------------------------------


def test_a_run_can_be_loaded_again(tmp_path):
    data, seen = dataset(), []
    run = train(
        config(model="tvae", action="M", residual=True),
        data,
        data,
        folder=tmp_path / "run",
        device="cpu",
        callbacks=[lambda model, history: seen.append((type(model), len(history)))],
    )
    assert seen == [(TVAE, 1), (TVAE, 2), (TVAE, 3)]
    model = load(tmp_path / "run")
    assert same_weights(model, run.model) and not model.training
    assert model.settings == run.model.settings
    assert same_weights(load(tmp_path / "run" / "epoch-00003"), run.model)
    previous = load(tmp_path / "run" / "epoch-00002")
    assert not same_weights(previous, run.model)
    x = data.floats(slice(0, 4))
    assert torch.equal(model.encode(x)[0], run.model.encode(x)[0])


def test_a_finished_run_is_returned_and_more_epochs_continue_it(tmp_path):
    data = dataset()
    longer = train(config(epochs=4), data, data, device="cpu")
    first = train(config(epochs=2), data, data, folder=tmp_path, device="cpu")
    again = train(config(epochs=2), data, data, folder=tmp_path, device="cpu")
    assert same_weights(first.model, again.model) and list(first.history) == list(again.history)
    continued = train(config(epochs=4), data, data, folder=tmp_path, device="cpu")
    assert same_weights(continued.model, longer.model)
    for mine, other in zip(continued.history, longer.history, strict=True):
        assert without_times(mine) == without_times(other)
    with pytest.raises(CheckpointError, match="past the 2 asked for"):
        train(config(epochs=2), data, folder=tmp_path, device="cpu")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d": 3}, "its d is 2, not 3"),
        ({"model": "vae+"}, "its model is 'vae', not 'vae\\+'"),
        ({"seed": 1}, "its seed is 0, not 1"),
        ({"learning_rate": 0.5}, "its learning_rate is 0.001, not 0.5"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, changes, message):
    data = dataset()
    train(config(epochs=1), data, folder=tmp_path, device="cpu")
    with pytest.raises(CheckpointError, match=message) as caught:
        train(config(**changes), data, folder=tmp_path, device="cpu")
    assert "epoch-00001 is a checkpoint of another run" in str(caught.value)


def test_other_data_a_second_start_and_foreign_weights_are_refused(tmp_path):
    data = dataset()
    train(config(epochs=1), data, folder=tmp_path, device="cpu")
    with pytest.raises(CheckpointError, match="its data is"):
        train(config(), dataset(seed=1), folder=tmp_path, device="cpu")
    with pytest.raises(CheckpointError, match="already holds a run; resume it, or"):
        train(config(), data, folder=tmp_path, resume=False, device="cpu")
    found = checkpoints.latest(tmp_path)
    assert found is not None
    weights = {**found.weights, "stranger": torch.zeros(3)}
    foreign = checkpoints.Checkpoint(1, 4, found.settings, weights, found.config)
    checkpoints.save(tmp_path / "other", foreign)
    with pytest.raises(CheckpointError, match="of another model: its weights do not fit VAE"):
        load(tmp_path / "other")


def test_loading_what_is_not_there(tmp_path):
    with pytest.raises(ValueError, match=r"no run folder .*nowhere, nor released weights"):
        load(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match="no trained run in"):
        load(tmp_path)


def test_a_damaged_checkpoint_costs_an_epoch_not_the_run(tmp_path):
    data = dataset()
    whole = train(config(), data, device="cpu")
    train(config(epochs=2), data, folder=tmp_path, device="cpu")
    file = tmp_path / "epoch-00002" / "training.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.warns(CheckpointWarning, match=r"epoch-00002.*epoch-00001 is used instead"):
        run = train(config(), data, folder=tmp_path, device="cpu")
    assert same_weights(run.model, whole.model)


def test_a_run_that_was_cut_short_loads_but_does_not_continue(tmp_path):
    data = dataset()
    short = train(config(), data, folder=tmp_path, device="cpu", max_steps=6)
    assert short.history.capped
    assert same_weights(load(tmp_path), short.model)
    again = train(config(), data, folder=tmp_path, device="cpu", max_steps=6)
    assert same_weights(again.model, short.model)
    with pytest.raises(CheckpointError, match="cut short after 6 steps, in the middle of an epoch"):
        train(config(), data, folder=tmp_path, device="cpu")


def test_a_full_disk_in_the_middle_of_a_run(tmp_path, monkeypatch):
    data = dataset()
    whole = train(config(), data, device="cpu")
    real, calls = os.fsync, 0

    def full(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls > 10:  # seven for a checkpoint: this is inside the second
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SaveError, match="No space left on device") as caught:
        train(config(), data, folder=tmp_path, device="cpu")
    assert str(caught.value).endswith(f"the last good one is {tmp_path / 'epoch-00001'}.")
    monkeypatch.undo()
    assert [p.name for p in checkpoints.checkpoint_folders(tmp_path)] == ["epoch-00001"]
    run = train(config(), data, folder=tmp_path, device="cpu")
    assert same_weights(run.model, whole.model)


def test_a_folder_that_cannot_be_written_is_noticed_before_training(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(loop.Loop, "run_epoch", lambda *_: pytest.fail("trained"))
    with pytest.raises(SaveError, match=r"cannot be written to \(Not a directory\)"):
        train(config(), dataset(), folder=tmp_path / "file" / "run", device="cpu")


# --- losses that stop being finite -----------------------------------------------------------------


def poison(monkeypatch, step: int, term: str) -> None:
    real, calls = objective.tvae_terms, 0

    def poisoned(*arguments, **options):
        nonlocal calls
        calls += 1
        terms = real(*arguments, **options)
        if calls == step:
            terms.__dict__[term] = terms[term] * float("nan")
        return terms

    monkeypatch.setattr(objective, "tvae_terms", poisoned)


@pytest.mark.parametrize(("step", "term"), [(1, "nllx0"), (6, "div"), (8, "c2")])
def test_a_loss_that_is_not_finite_names_step_term_and_checkpoint(
    tmp_path, monkeypatch, step, term
):
    poison(monkeypatch, step, term)
    with pytest.raises(NotFinite) as caught:
        train(config(model="tvae"), dataset(), folder=tmp_path, device="cpu")
    assert (caught.value.step, caught.value.term) == (step, term)
    text = str(caught.value)
    assert f"{term} became nan at step {step}" in text
    if step > 4:
        assert text.endswith(f"The last good checkpoint is {tmp_path / 'epoch-00001'}.")
        assert all(torch.isfinite(p).all() for p in load(tmp_path).parameters())
    else:
        assert text.endswith("There is no checkpoint.")


def test_a_loss_that_is_not_finite_is_noticed_within_an_epoch(monkeypatch):
    monkeypatch.setattr(loop, "CHECK_EVERY", 3)
    poison(monkeypatch, 2, "kl0")
    model = tvae()
    with pytest.raises(NotFinite, match="kl0 became nan at step 2"):
        fit(model, pictures(), triplets=Triplets(), steps=4, batch_size=10, device="cpu")


def test_weights_that_are_not_finite_are_never_saved(tmp_path, monkeypatch):
    """A finite loss with a gradient that is not: the square root at zero."""
    real, calls = objective.vae_terms, 0

    def edge(model, *arguments):
        nonlocal calls
        calls += 1
        terms = real(model, *arguments)
        if calls == 8:  # the last step of the second epoch
            terms.__dict__["kl0"] = terms["kl0"] + (model.encoder[0].bias * 0).sqrt().sum()
        return terms

    monkeypatch.setattr(objective, "vae_terms", edge)
    with pytest.raises(NotFinite, match=r"encoder.*no longer finite after step 8.*epoch-00001"):
        train(config(), dataset(), folder=tmp_path, device="cpu")
    assert [p.name for p in checkpoints.checkpoint_folders(tmp_path)] == ["epoch-00001"]


# --- bad input -------------------------------------------------------------------------------------

GOOD = pictures(20)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (GOOD[:0], "is empty"),
        (GOOD.float() / 255 * float("nan"), "not finite"),
        (GOOD.float(), r"must lie in \[0, 1\]"),
        (GOOD.float() / 255 - 0.5, r"must lie in \[0, 1\]"),
        (GOOD[0], r"must have shape \(N, C, H, W\)"),
        (GOOD.expand(-1, 3, -1, -1), "must have 1 channel"),
        (GOOD[:, :, :27], r"must have shape \(N, 1, 28, 28\)"),
    ],
)
@pytest.mark.parametrize("where", ["images", "test"])
def test_bad_images_are_refused_in_one_sentence(images, message, where):
    arguments = {"images": GOOD, "test": GOOD, where: images}
    with pytest.raises(ValueError, match=message) as caught:
        fit(vae(), **arguments, epochs=1, batch_size=10, device="cpu")
    assert "\n" not in str(caught.value) and str(caught.value).startswith(where)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 21}, "A batch of 21 is larger than the data, 20 images"),
        ({"batch_size": 0}, "batch size must be positive"),
        ({"epochs": 1, "steps": 1}, "either epochs or steps"),
        ({"epochs": None}, "either epochs or steps"),
        ({"epochs": 0}, "epochs must be positive"),
        ({"halve_every": 0}, "halve_every must be positive"),
        ({"device": "gpu"}, "no device 'gpu'; choose auto, cpu"),
    ],
)
def test_bad_arguments_of_fit(changes, message):
    with pytest.raises(ValueError, match=message):
        fit(vae(), **{"images": GOOD, "epochs": 1, "batch_size": 10, "device": "cpu", **changes})


def test_a_tvae_wants_triplets():
    with pytest.raises(ValueError, match="trained on triplets"):
        fit(tvae(), GOOD, epochs=1, batch_size=10)


def test_bad_data_of_a_run():
    with pytest.raises(ValueError, match="A batch of 10 is larger than the data, 4 images"):
        train(config(), dataset(4))
    with pytest.raises(ValueError, match="test_data must have shape"):
        train(config(), dataset(), dataset(10, (1, 27, 27)))
    floats = dataset()
    broken = Dataset(floats.images.float() * float("nan"), floats.labels, floats.provenance)
    with pytest.raises(ValueError, match="train_data contains values that are not finite"):
        train(config(), broken)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there():
    with pytest.raises(ValueError, match="'cuda' is not available on this machine"):
        pick_device("cuda")
    assert pick_device("auto").type in ("cpu", "mps")


def test_a_batch_must_be_divisible_among_processes():
    class Three:
        world_size, global_rank = 3, 1

    assert loop._share(9, Three()) == slice(3, 6)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="batch of 10 cannot be shared equally by 3 processes"):
        loop._share(10, Three())  # type: ignore[arg-type]


def test_an_empty_history():
    assert History().table() == "no epoch completed" and not History().capped


def test_settings_of_training_are_exported():
    assert training.History is History
