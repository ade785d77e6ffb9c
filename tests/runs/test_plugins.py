"""Extensions: registered data sets, and modules that the command line and the workers import."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

import tvae.cli
from tvae.data import Dataset, catalogue, describe, load, names, register
from tvae.runs import costs, ledger, plugins, sweep
from tvae.training.configuration import RunConfig

MINE = """
    import torch

    from tvae import actions
    from tvae.data import describe, register
    from tvae.seeding import generator
    from tvae.transforms import Family, affine_about_centre
    from tvae.transforms import register as register_family


    @register("bars")
    def bars(split):
        images = torch.zeros(40, 1, 28, 28, dtype=torch.uint8)
        place = torch.randint(4, 24, (40,), generator=generator(0, f"bars/{split}"))
        images[torch.arange(40), :, place] = 255
        return describe("bars", "drawn", split, images, place % 2)


    register_family(
        Family(
            "squeeze",
            ("log_factor",),
            0.3,
            lambda uniform, most, h, w: (2 * uniform - 1) * most,
            lambda values, h, w: affine_about_centre(values[:, 0].exp(), 0, 0, 1, h, w),
        )
    )


    @actions.register("Scale")
    class Scale(actions.Action):
        def act(self, z, tau):
            return z * tau.exp()

        def act_inverse(self, z, tau):
            return z * (-tau).exp()
"""

SWEEP = """
    preset: quick
    datasets: [bars]
    actions: [Scale]
    families: [squeeze]
    d: [2]
    epochs: 1
    batch_size: 20
    anchors: 20
    queries: 10
    likelihood_samples: 2
    likelihood_images: 2
"""


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "_OWN", {})


def stripes(split: str, dark: int = 0) -> Dataset:
    images = torch.full((6, 1, 28, 28), dark, dtype=torch.uint8)
    return describe("stripes", "made", split, images, torch.arange(6) % 2)


@pytest.mark.usefixtures("own")
def test_a_registered_data_set_is_loaded_by_name_and_accepted_by_runs() -> None:
    with pytest.raises(ValueError, match=r"no data set 'stripes'.*mnist"):
        RunConfig.from_preset("stripes")
    register("stripes")(stripes)
    assert names()[-1] == "stripes"
    assert load("stripes", "test").provenance.split == "test"
    assert load("stripes", source="embedded", dark=3).images.max() == 3
    assert RunConfig.from_preset("stripes", d=3).dataset == "stripes"
    with pytest.raises(ValueError, match=r"split of stripes 'valid'"):
        load("stripes", "valid")


@pytest.mark.usefixtures("own")
def test_its_size_is_counted_not_guessed() -> None:
    register("stripes")(stripes)
    for preset in ("quick", "paper"):
        assert costs.images_of(sweep.Job("stripes", "vae", preset=preset)) == (6, 6)
    assert costs.images_of(sweep.Job("mnist", "vae", preset="paper")) == (60_000, 10_000)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("name", "word"), [("mnist", "of the package"), ("A b", "letters"), ("a--b", "dashes")]
)
def test_a_name_that_cannot_be_is_refused(name: str, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        register(name)


def test_a_module_that_cannot_be_imported_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TVAE_PLUGINS", "json, no_such_module")
    with pytest.raises(plugins.PluginError, match=r"'no_such_module'.*ModuleNotFoundError"):
        plugins.load()
    assert tvae.cli.main(["report"]) == 2
    assert "no_such_module" in capsys.readouterr().err
    monkeypatch.setenv("TVAE_PLUGINS", " json ,,")
    assert plugins.load() == ("json",)
    monkeypatch.delenv("TVAE_PLUGINS")
    assert plugins.load() == ()


@pytest.mark.slow
def test_a_sweep_with_a_data_set_a_family_and_an_action_of_ones_own(tmp_path: Path) -> None:
    """In processes of their own: the sweep and its worker know the module by the variable alone."""
    (tmp_path / "mine.py").write_text(textwrap.dedent(MINE))
    (tmp_path / "mine.yaml").write_text(textwrap.dedent(SWEEP))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "TVAE_PLUGINS": "mine"}
    command = [sys.executable, "-m", "tvae.cli", "sweep", "mine.yaml"]
    command += ["--results", "ledger", "--runs", "runs", "--device", "cpu"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (entry,) = ledger.entries(tmp_path / "ledger")
    assert entry.name == "bars-Scale-2"
    assert entry.status == "ok"
    assert entry.training["steps"] == 2
    assert entry.configuration.families == ["squeeze"]
    assert entry.metrics["knn_in"] is not None
