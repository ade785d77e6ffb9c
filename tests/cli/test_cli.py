"""The command line, command by command, on a model of a few steps; and its answers to mistakes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from ledgers import entry
from PIL import Image

import tvae.training
from tvae.cli import main
from tvae.data import load
from tvae.paper import METRICS
from tvae.runs import ledger, measurements, sweep
from tvae.runs.sweep import Job
from tvae.training import checkpoints
from tvae.training.configuration import PRESETS

COMMANDS = ["data", "train", "resume", "evaluate", "models", "embed", "transfer", "info"]
COMMANDS += ["sweep", "report"]
SMALL = ["--anchors", "100", "--queries", "20", "--likelihood-samples", "2"]
SMALL += ["--likelihood-images", "2"]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A T-VAE of two steps."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    words = "train --dataset mnist --preset quick --d 2 --epochs 3 --max-steps 2"
    assert main([*words.split(), "--folder", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Path:
    """A VAE of three epochs, each of a single step."""
    folder = tmp_path_factory.mktemp("runs") / "vae"
    words = "train --dataset mnist --model vae --d 2 --epochs 3 --batch-size 3001"
    assert main([*words.split(), "--folder", str(folder)]) == 0
    return folder


# --- help ---------------------------------------------------------------------------------------


def test_the_installed_command_and_the_module_are_the_same():
    said = subprocess.run(
        [sys.executable, "-m", "tvae.cli", "--help"], capture_output=True, text=True, check=True
    ).stdout
    for command in COMMANDS:
        assert f"\n    {command} " in said
    assert "examples:" in said


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(command, capsys):
    assert main([command, "--help"]) == 0
    said = capsys.readouterr().out
    assert f"\n  tvae {command}" in said.partition("examples:")[2]


def test_version_and_nothing_at_all(capsys):
    assert main(["--version"]) == 0
    assert tvae.__version__ in capsys.readouterr().out
    assert main([]) == 2
    assert "usage: tvae" in capsys.readouterr().err


# --- train and resume ---------------------------------------------------------------------------


def test_train_prints_a_table(tmp_path, capsys):
    folder = tmp_path / "run"
    words = "train --dataset mnist --action M --d 2 --max-steps 2 --threads 1"
    threads = torch.get_num_threads()
    assert main([*words.split(), "--folder", str(folder)]) == 0
    torch.set_num_threads(threads)
    said = capsys.readouterr().out
    lines = said.splitlines()
    assert lines[0] == "mnist-M-2, preset quick, 8 epochs, seed 0"
    head = next(line for line in lines if line.split()[:2] == ["epoch", "total"])
    assert {"nllx0", "c1", "kl0", "div"} <= set(head.split())
    assert lines[lines.index(head) + 1].split()[0] == "1"
    assert "cut short after 2 steps" in said
    assert f"tvae evaluate {folder}" in said
    assert isinstance(tvae.load(folder), tvae.models.TVAE)


def test_train_makes_as_many_steps_on_a_small_set_as_a_sweep_does(tmp_path, capsys):
    words = "train --dataset omniglot --model vae --d 2 --preset book --source embedded"
    assert main([*words.split(), "--max-steps", "1", "--folder", str(tmp_path / "run")]) == 0
    (job,) = sweep.expand({"datasets": "omniglot", "models": "vae", "d": 2, "preset": "book"})
    epochs = job.schedule(2760).epochs
    assert epochs == 444  # 20 passes through 60,000 images
    assert f"preset book, {epochs} epochs" in capsys.readouterr().out
    assert checkpoints.latest(tmp_path / "run").config["epochs"] == epochs


@pytest.mark.slow
def test_resume_goes_on_to_more_epochs_and_matches_an_uninterrupted_run(plain, tmp_path, capsys):
    folder = tmp_path / "two"
    words = "train --dataset mnist --model vae --d 2 --epochs 2 --batch-size 3001"
    assert main([*words.split(), "--folder", str(folder)]) == 0
    assert main(["resume", str(folder), "--epochs", "3"]) == 0
    assert "continuing" in capsys.readouterr().out
    assert len(checkpoints.latest(folder).history) == 3
    whole, parts = tvae.load(plain), tvae.load(folder)
    for (name, a), b in zip(whole.state_dict().items(), parts.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


@pytest.mark.slow
def test_two_processes_make_the_run_of_one_and_continue_it(tmp_path):
    """The commands as typed: Fabric starts each of them once more for the second process."""
    hidden = ("TVAE_MAX_STEPS", "MASTER_PORT", "MASTER_ADDR", "LOCAL_RANK", "WORLD_SIZE")
    clean = {key: value for key, value in os.environ.items() if key not in hidden}

    def command(words):
        done = subprocess.run(
            [sys.executable, "-m", "tvae.cli", *words.split(), "--device", "cpu"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env=clean,
        )
        assert done.returncode == 0, done.stderr
        return done

    train = "train --dataset mnist --model vae+ --d 2 --batch-size 3002"  # one step an epoch
    command(f"{train} --epochs 2 --folder one")
    first = command(f"{train} --epochs 1 --devices 2 --strategy ddp --folder two")
    second = command("resume two --epochs 2 --devices 2")  # Fabric chooses the strategy
    for done in (first, second):
        assert "Starting with 2 processes" in done.stderr
        assert done.stdout.count("mnist-VAE+-2, preset quick") == 1  # one of them speaks
    one, two = (checkpoints.latest(tmp_path / name) for name in ("one", "two"))
    for alone, shared in zip(one.history, two.history, strict=True):
        for name in ("nllx0", "kl0", "test_nllx0", "test_kl0"):
            assert shared[name] == pytest.approx(alone[name], rel=1e-4, abs=1e-4), name
    for name, weight in one.weights.items():
        assert (weight - two.weights[name]).abs().mean() < 2e-5, name


@pytest.mark.slow
def test_a_run_continues_in_the_precision_it_began_with(tmp_path, capsys):
    folder = tmp_path / "run"
    words = "train --dataset mnist --model vae --d 2 --epochs 1 --batch-size 3001"
    assert main([*words.split(), "--precision", "bf16-mixed", "--folder", str(folder)]) == 0
    assert main(["resume", str(folder), "--epochs", "2"]) == 0
    assert checkpoints.latest(folder).extra["precision"] == "bf16-mixed"
    assert main([*words.split(), "--folder", str(folder)]) == 2
    assert "its precision is 'bf16-mixed', not '32-true'" in capsys.readouterr().err


# --- evaluate -----------------------------------------------------------------------------------


def test_evaluate_fills_all_twelve_columns(run, tmp_path, capsys):
    path = tmp_path / "metrics.json"
    assert main(["evaluate", str(run), *SMALL, "--json", str(path)]) == 0
    said = capsys.readouterr().out
    written = json.loads(path.read_text())
    assert tuple(written["metrics"]) == METRICS
    for name, value in written["metrics"].items():
        assert isinstance(value, float)
        (line,) = [line for line in said.splitlines() if line.split()[:1] == [name]]
        assert line.split()[1] == f"{value:.{3 if name.startswith('knn') else 2}f}"
    assert set(written["data"]) == {"train", "test", "anchors", "queries"}
    metrics = written["metrics"]
    assert metrics["elbo"] == pytest.approx(metrics["nllx0"] + metrics["kl0"])


def test_evaluate_of_a_vae_leaves_the_views_open(plain, capsys):
    assert main(["evaluate", str(plain), *SMALL]) == 0
    lines = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines()}
    assert lines["c1"][1] == lines["nllx1"][1] == "–"
    assert float(lines["mll"][1]) > 0


@pytest.mark.parametrize("preset", PRESETS)
def test_evaluate_measures_as_a_sweep_of_the_same_preset_does(run, preset, monkeypatch, capsys):
    asked = []

    def measured(model, train, test, anchors, queries, measures, *rest):
        asked.append(measures)
        return {"metrics": dict.fromkeys(METRICS), "standard_errors": {}, "evaluation": {}}

    monkeypatch.setattr(measurements, "affnist", lambda *given: (None, None))
    monkeypatch.setattr(measurements, "model_metrics", measured)
    assert main(["evaluate", str(run), "--preset", preset]) == 0
    assert main(["evaluate", str(run), "--preset", preset, "--likelihood-images", "3"]) == 0
    whole = Job("mnist", "tvae", "A", preset=preset).measures()
    assert asked[0] == whole
    # a number of images asks for their plain mean
    assert asked[1] == replace(whole, likelihood_images=3, likelihood_error=None)


# --- embed --------------------------------------------------------------------------------------


def test_embed_gives_the_posterior_means(run, tmp_path):
    test = load("mnist", "test", source="embedded")
    mean, logvar = tvae.load(run).encode(test.floats())
    out, second = tmp_path / "z.npy", tmp_path / "logvar.npy"
    assert main(["embed", str(run), "mnist", "-o", str(out), "--log-variance", str(second)]) == 0
    z = np.load(out)
    assert z.dtype == np.float32 and z.shape == (len(test), 2)
    np.testing.assert_allclose(z, mean.detach().numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.load(second), logvar.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_embed_takes_arrays_and_pictures(run, tmp_path):
    images = load("mnist", "test", source="embedded").images[:4, 0].numpy()
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{number}.png")
    np.save(tmp_path / "bytes.npy", images)
    np.save(tmp_path / "floats.npy", images[:, None].astype(np.float64) / 255)
    found = []
    for what in ("pictures", "bytes.npy", "floats.npy"):
        out = tmp_path / f"z-{what}.npy"
        assert main(["embed", str(run), str(tmp_path / what), "-o", str(out)]) == 0
        found.append(np.load(out))
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    np.testing.assert_allclose(found[0], found[2], atol=1e-5)


# --- transfer -----------------------------------------------------------------------------------


def test_transfer_draws_triplet_and_images(run, tmp_path):
    out = tmp_path / "picture.png"
    assert main(["transfer", str(run), "--count", "3", "--zoom", "1", "-o", str(out)]) == 0
    test = load("mnist", "test", source="embedded").images[:, 0].numpy()
    with Image.open(out) as picture:
        pixels = np.asarray(picture)
    assert pixels.shape == (3 * 29 - 1, 4 * 29 - 1 + 3)
    assert np.array_equal(pixels[:28, :28], test[0])  # x0 of the triplet
    assert np.array_equal(pixels[:28, 32:60], test[1])  # the first image it is applied to


def test_transfer_of_a_given_triplet_applies_tau_and_its_inverse(run, tmp_path):
    images = load("mnist", "test", source="embedded").images[:6, 0].numpy()
    np.save(tmp_path / "three.npy", images[:3])
    np.save(tmp_path / "others.npy", images[3:])
    out = tmp_path / "picture.png"
    words = ["transfer", str(run), "--triplet", str(tmp_path / "three.npy"), "--zoom", "1"]
    assert main([*words, "--images", str(tmp_path / "others.npy"), "-o", str(out)]) == 0
    model = tvae.load(run)
    x = torch.from_numpy(images)[:, None].float() / 255
    with torch.no_grad():
        _, tau = model.infer(x[1:2], x[2:3])
        z, _ = model.encode(x[3:])
        there, back = model.act(z, tau.expand(3, -1)), model.act_inverse(z, tau.expand(3, -1))
        wanted = [(model.decode(part) * 255).round()[0, 0].numpy() for part in (there, back)]
    with Image.open(out) as picture:
        pixels = np.asarray(picture).astype(float)
    for row, expected in enumerate(wanted, start=1):
        assert np.abs(pixels[29 * row : 29 * row + 28, 32:60] - expected).max() <= 1
    assert np.abs(wanted[0] - wanted[1]).max() > 0


def test_pictures_of_any_size_mode_and_depth_are_fitted(run, tmp_path, capsys):
    folder = tmp_path / "meine Bilder, größer"
    folder.mkdir()
    ink = np.zeros((80, 60), np.uint8)
    ink[20:60, 25:35] = 255
    for mode in ("1", "L", "P", "RGB", "CMYK"):
        Image.fromarray(ink).convert(mode).save(folder / f"{mode}.tif")
    Image.fromarray(255 - ink).convert("RGB").save(folder / "white.jpg")
    Image.fromarray(ink.astype(np.uint16) * 257).save(folder / "deep.png")
    clear = Image.new("RGBA", (60, 80), (0, 0, 0, 0))  # black ink on nothing
    clear.paste((0, 0, 0, 255), (25, 20, 35, 60))
    clear.save(folder / "clear.png")
    assert main(["embed", str(run), str(folder), "--fit", "-o", str(tmp_path / "z.npy")]) == 0
    said = capsys.readouterr().err
    assert "of 8 pictures: 2 inverted (white ground), 8 padded to a square, 8 resized" in said
    z = np.load(tmp_path / "z.npy")
    assert np.abs(z - z[0]).max() < 0.02 * np.abs(z[0]).max()  # all show the same

    np.save(tmp_path / "wide.npy", ink[None].repeat(2, 0) / 255)
    words = ["embed", str(run), str(tmp_path / "wide.npy"), "--fit", "-o", str(tmp_path / "w.npy")]
    assert main(words) == 0
    assert np.abs(np.load(tmp_path / "w.npy") - z[0]).max() < 0.02 * np.abs(z[0]).max()


@pytest.mark.parametrize("options", [[], ["--fit"]])
def test_a_picture_of_the_right_size_has_one_code_whatever_its_depth(run, tmp_path, options):
    digit = load("mnist", "test", source="embedded").images[0, 0].numpy()
    folder = tmp_path / "pictures"
    folder.mkdir()
    Image.fromarray(digit).save(folder / "grey.png")
    Image.fromarray(digit.astype(np.uint16) * 257).save(folder / "sixteen bits.png")
    Image.fromarray(digit.astype(np.float32) / 255).save(folder / "floats.tif")
    assert main(["embed", str(run), str(folder), "-o", str(tmp_path / "z.npy"), *options]) == 0
    z = np.load(tmp_path / "z.npy")
    assert np.array_equal(z, z[:1].repeat(3, 0)) and np.abs(z).max() > 0


def interrupted_by(tmp_path, *lines):
    """The exit code and the errors of a command that a module interrupts, by a signal to itself."""
    head = ["import atexit, os, signal", "press = lambda: os.kill(os.getpid(), signal.SIGINT)"]
    (tmp_path / "late.py").write_text("\n".join([*head, *lines]))
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "tvae.cli", "data", "list"],
        env={**os.environ, "TVAE_PLUGINS": "late", "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stderr


def test_an_interruption_of_the_farewell_changes_nothing(tmp_path):
    assert interrupted_by(tmp_path, "atexit.register(press)") == (0, "")


def test_an_interruption_is_one_line_and_a_second_one_changes_nothing(tmp_path):
    found = interrupted_by(tmp_path, "atexit.register(press)", "press()")
    assert found == (130, "tvae: interrupted\n")


def test_an_import_that_fails_because_it_was_interrupted_is_an_interruption(tmp_path):
    swallowed = ["try:", "    press()", "except BaseException:", "    raise RecursionError"]
    assert interrupted_by(tmp_path, *swallowed) == (130, "tvae: interrupted\n")


def test_a_released_model_brings_the_sample_along(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TVAE_DATA", str(tmp_path / "nothing"))
    picture = tmp_path / "turned.png"
    assert main(["transfer", "mnist-A-25", "--family", "rotation", "-o", str(picture)]) == 0
    assert picture.is_file()
    assert "mnist is not on this machine; instead: mnist (embedded)" in capsys.readouterr().err
    words = ["transfer", "mnist-A-25", "--source", "full", "-o", str(tmp_path / "no.png")]
    assert main(words) == 2 and not (tmp_path / "no.png").exists()


def test_transfer_draws_the_triplet_as_the_model_was_trained(run, tmp_path):
    """Bicubic and of the run's own families; --family chooses one, drawn the same way."""
    test = load("mnist", "test", source="embedded")
    trained = tvae.load(run).triplets
    for family in (None, "shear"):
        out = tmp_path / "picture.png"
        words = ["transfer", str(run), "--count", "1", "--zoom", "1", "--seed", "3", "-o", str(out)]
        assert main(words if family is None else [*words, "--family", family]) == 0
        draw = trained if family is None else tvae.Triplets((family,), interpolation="bicubic")
        batch = draw(test.floats()[:1], tvae.generator(3, "transfer"))
        with Image.open(out) as picture:
            pixels = np.asarray(picture).astype(float)
        for row, view in ((29, batch.x1), (58, batch.x2)):
            assert np.abs(pixels[row : row + 28, :28] - 255 * view[0, 0].numpy()).max() <= 1


# --- a data set, a family and an action of one's own ----------------------------------------------

MINE = """
    import torch

    from tvae.data import describe, register
    from tvae.seeding import generator
    from tvae.transforms import Family, affine_about_centre
    from tvae.transforms import register as register_family


    @register("dots")
    def dots(split):
        images = torch.rand(30, 1, 28, 28, generator=generator(0, f"dots/{split}")).mul(255).byte()
        return describe("dots", "drawn", split, images, torch.arange(30) % 2)


    register_family(
        Family(
            "stretch",
            ("log_factor",),
            0.3,
            lambda uniform, most, h, w: (2 * uniform - 1) * most,
            lambda values, h, w: affine_about_centre(values[:, 0].exp(), 0, 0, 1, h, w),
        )
    )
"""


def test_every_command_takes_a_registered_data_set(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine_for_the_command_line.py").write_text(textwrap.dedent(MINE))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TVAE_PLUGINS", "mine_for_the_command_line")
    monkeypatch.chdir(tmp_path)
    for words in (
        "train --dataset dots --d 2 --epochs 1 --batch-size 10 --folder run",
        " ".join(["evaluate run", *SMALL]),
        "embed run dots -o z.npy",
        "embed mnist-A-25 dots --split train -o other.npy",
        "transfer run --count 2 -o picture.png",
        "transfer run --images mnist --source embedded --family stretch -o stretched.png",
        "info run",
    ):
        assert main(words.split()) == 0, words
    assert np.load("z.npy").shape == (30, 2) and np.load("other.npy").shape == (30, 25)
    assert "dots-A-2" in capsys.readouterr().out
    assert main(["embed", "run", "dashes", "-o", "z.npy"]) == 2
    assert "dots" in capsys.readouterr().err  # among what there is


# --- info, data, report, sweep ------------------------------------------------------------------


def test_info(run, capsys):
    assert main(["info"]) == 0
    said = capsys.readouterr().out
    assert torch.__version__ in said and "quick" in said and "paper" in said
    assert main(["info", str(run)]) == 0
    said = capsys.readouterr().out
    assert "mnist-A-2" in said and "learning_rate" in said


def test_models_are_those_of_the_package(capsys):
    assert main(["models"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(str(tvae.pretrained()))
    assert max(map(len, said.splitlines())) <= 80


def test_report(tmp_path, capsys):
    job = Job("mnist", "tvae", "A", preset="book")
    ledger.write(entry(job), tmp_path)
    words = ["report", "--results", str(tmp_path), "--d", "25", "--action", "A"]
    assert main([*words, "--format", "markdown"]) == 0
    assert f"{entry(job).metrics['mll']:.2f}" in capsys.readouterr().out


@pytest.mark.slow
def test_sweep_dry_run_lists_runs_with_their_cost(tmp_path, capsys):
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump({"datasets": "mnist", "models": ["vae", "tvae", "pca"], "d": 2}))
    results = tmp_path / "results"
    assert main(["sweep", str(path), "--dry-run", "--results", str(results)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("3 runs, 0 of them in the ledger")
    assert [line.split()[0] for line in lines[2:5]] == [
        "mnist-VAE-2_quick_seed0",
        "mnist-A-2_quick_seed0",
        "mnist-PCA-2_quick_seed0",
    ]
    assert lines[2].split()[1:3] == ["8", "480"]
    assert "on this machine" in lines[-1]
    assert not results.exists()


# --- mistakes -----------------------------------------------------------------------------------

MISTAKES = {
    "unknown command": ("paint", "paint"),
    "no data set": ("train", "--dataset"),
    "unknown data set": ("train --dataset cifar", "cifar"),
    "unknown preset": ("train --dataset mnist --preset slow", "slow"),
    "unknown strategy": ("train --dataset mnist --strategy alone", "alone"),
    "unknown precision": ("train --dataset mnist --precision 7-bit", "7-bit"),
    "unknown action": ("train --dataset mnist --action Q", "Q"),
    "odd d": ("train --dataset mnist --action M --d 25", "26"),
    "d not positive": ("train --dataset mnist --d 0", "positive"),
    "batch larger than the data": ("train --dataset mnist --batch-size 7000", "7000"),
    "no such device": ("train --dataset mnist --device tpu", "tpu"),
    "no threads": ("train --dataset mnist --threads 0", "positive whole number"),
    "nothing to resume": ("resume nowhere", "nowhere"),
    "no such run": ("evaluate nowhere", "nowhere"),
    "no such run to embed with": ("embed nowhere mnist -o z.npy", "nowhere"),
    "no such images": ("embed RUN nothing -o z.npy", "nothing"),
    "no such array": ("embed RUN nothing.npy -o z.npy", "nothing.npy"),
    "wrong size": ("embed RUN small.npy -o z.npy", "28"),
    "wrong values": ("embed RUN large.npy -o z.npy", "[0, 1]"),
    "wrong kind": ("embed RUN signed.npy -o z.npy", "int16"),
    "not an array": ("embed RUN text.npy -o z.npy", "text.npy"),
    "empty folder": ("embed RUN empty -o z.npy", "holds no picture"),
    "picture of another size": ("embed RUN wide -o z.npy", "60x80 pixels"),
    "transfer with a VAE": ("transfer PLAIN -o p.png", "T-VAE"),
    "half a triplet": ("transfer RUN --triplet two.npy -o p.png", "three images"),
    "no such family": ("transfer RUN --family bend -o p.png", "bend"),
    "no such image": ("transfer RUN --index 100000 -o p.png", "100000"),
    "no such sweep": ("sweep nowhere.yaml", "nowhere.yaml"),
    "no jobs": ("sweep some.yaml --jobs 0", "positive whole number"),
    "unknown format": ("report --format html", "html"),
    "no such run to describe": ("info nowhere", "nowhere"),
    "data that is not there": ("train --dataset mnist --preset book", "MNIST"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_sentence_and_exit_code_2(
    mistake, run, plain, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TVAE_DATA", str(tmp_path / "no-data"))
    monkeypatch.delenv("TVAE_DEBUG", raising=False)
    np.save("small.npy", np.zeros((2, 20, 20), np.uint8))
    np.save("large.npy", np.full((2, 28, 28), 7.0))
    np.save("signed.npy", np.zeros((2, 28, 28), np.int16))
    np.save("two.npy", np.zeros((2, 28, 28), np.uint8))
    Path("text.npy").write_text("not an array")
    Path("empty").mkdir()
    Path("wide").mkdir()
    Image.new("L", (60, 80)).save("wide/1.png")
    command, word = MISTAKES[mistake]
    words = [{"RUN": str(run), "PLAIN": str(plain)}.get(w, w) for w in command.split()]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert word in said and "Traceback" not in said
    assert not Path("z.npy").exists() and not Path("p.png").exists()
    last = said.strip().splitlines()[-1]
    assert last.startswith("tvae")


def test_debug_shows_where_an_error_comes_from(monkeypatch, tmp_path):
    with pytest.raises(ValueError, match="cifar"):
        main(["--debug", "train", "--dataset", "cifar"])
    monkeypatch.setenv("TVAE_DEBUG", "1")
    with pytest.raises(ValueError, match="cifar"):
        main(["train", "--dataset", "cifar"])


def test_a_truncated_run_is_named(run, tmp_path, capsys):
    folder = shutil.copytree(run, tmp_path / "run")
    for checkpoint in checkpoints.checkpoint_folders(folder):
        (checkpoint / "model.safetensors").write_bytes(b"")
    assert main(["info", str(folder)]) == 2
    assert "damaged" in capsys.readouterr().err


def test_data_list_check_and_fetch(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TVAE_DATA", str(tmp_path))
    assert main(["data", "list"]) == 0
    said = capsys.readouterr().out
    lines = [line.split() for line in said.splitlines()]
    assert ["mnist", "torchvision", "no"] in [line[:3] for line in lines]
    assert ["mnist", "embedded", "yes"] in [line[:3] for line in lines]
    assert "tvae data fetch mnist" in said and str(tmp_path) in said
    assert main(["data"]) == 0
    assert capsys.readouterr().out == said
    assert main(["data", "check", "mnist"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines and all("embedded" in line and line.endswith(": ok") for line in lines)
    wrong = tmp_path / "MNIST" / "raw" / "t10k-labels-idx1-ubyte"
    wrong.parent.mkdir(parents=True)
    wrong.write_bytes(b"not labels")
    assert main(["data", "check", "mnist"]) == 1
    assert "WRONG" in capsys.readouterr().out
    assert main(["data", "check", "cifar"]) == 2
    assert main(["data", "fetch", "cifar"]) == 2
    assert "cifar" in capsys.readouterr().err
