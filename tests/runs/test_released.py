"""Released weights: loaded offline, checked, refused when changed. The weights are made here."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import project
import pytest
import release_weights
import torch
from ledgers import entry

from tvae import data, evaluation
from tvae.models import TVAE, VAE
from tvae.paper import METRICS
from tvae.runs import execution, measurements, released, trained
from tvae.runs.name import RunName
from tvae.runs.sweep import Job
from tvae.runs.trained import find


def _model(job: Job) -> VAE:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        if job.action is None:
            return VAE(job.d)
        return TVAE(job.d, action=job.action, residual=job.residual)


JOBS = [
    Job("mnist", "tvae", "A", d=4, preset="book"),
    Job("mnist", "tvae", "M", d=6, preset="book"),
    Job("mnist", "tvae", "N", residual=True, d=4, preset="book"),
    Job("fashion-mnist", "vae+", d=4, preset="book"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("released")
    for job in JOBS:
        release_weights.release(_model(job), entry(job), folder)
    return folder


@pytest.fixture
def folder(made, tmp_path):
    return shutil.copytree(made, tmp_path / "released")


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_a_released_model_is_the_model_rounded_to_half_precision(job, made):
    name = str(RunName.of(job))
    model = released.pretrained(name, folder=made)
    original = _model(job)
    assert type(model) is type(original) and not model.training
    assert model.settings == original.settings
    for key, value in original.state_dict().items():
        found = model.state_dict()[key]
        assert found.dtype == torch.float32
        assert torch.equal(found, value.half().float())
    x = torch.rand(3, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        model.encode(x)[0], original.eval().encode(x)[0], atol=5e-3, rtol=5e-3
    )


def test_the_list_has_the_metrics_of_the_ledger(made):
    table = released.pretrained(folder=made)
    assert list(table.index) == released.names(made)
    assert len(table) == len(JOBS)
    for job in JOBS:
        row = table.loc[str(RunName.of(job))]
        for name in METRICS:
            value = entry(job).metrics[name]
            assert row[name] == value if value is not None else row[name] != row[name]


def test_names_as_the_paper_writes_them(made):
    assert released.resolve("mnist-M-5", made) == "mnist-M-6"
    assert released.resolve("mnist-N-4", made) == released.resolve("mnist-N^R-4", made)
    assert released.resolve("mnist-N-4", made) == "mnist-NR-4"
    with pytest.raises(released.ReleaseError, match="mnist-A-4"):
        released.resolve("mnist-A-25", made)


def test_tampered_weights_are_refused(folder):
    path = folder / "mnist-A-4.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1  # one bit of the last weight
    path.write_bytes(content)
    with pytest.raises(released.ReleaseError, match="refused"):
        released.pretrained("mnist-A-4", folder=folder)
    path.write_bytes(content[:-10])
    with pytest.raises(released.ReleaseError, match="refused"):
        released.pretrained("mnist-A-4", folder=folder)
    path.unlink()
    with pytest.raises(released.ReleaseError, match="missing"):
        released.pretrained("mnist-A-4", folder=folder)


@pytest.fixture
def page(made, tmp_path, monkeypatch):
    """Descriptions in the package, weights on a release page alone; returns the folder of the page."""
    package, page = tmp_path / "package", shutil.copytree(made, tmp_path / "page")
    package.mkdir()
    for path in page.glob("*.json"):
        shutil.move(path, package)
    monkeypatch.setattr(released, "home", lambda folder=None: Path(folder or package))
    monkeypatch.setenv("TVAE_WEIGHTS", str(tmp_path / "cache"))
    monkeypatch.setenv("TVAE_RELEASES", page.as_uri())
    return page


def test_weights_that_do_not_come_with_the_package_are_fetched_once(page, made):
    fetched = released.pretrained("fashion-mnist-VAE+-4")
    held = released.pretrained("fashion-mnist-VAE+-4", folder=made)
    for key, value in held.state_dict().items():
        assert torch.equal(fetched.state_dict()[key], value)
    assert len(released.pretrained()) == len(JOBS)  # the table needs no weights
    shutil.rmtree(page)  # from here on offline
    assert released.pretrained("fashion-mnist-VAE+-4").settings == held.settings
    with pytest.raises(released.ReleaseError, match="could not be fetched"):
        released.pretrained("mnist-A-4")


def test_other_weights_on_the_release_page_are_refused(page, tmp_path):
    (page / "mnist-A-4.safetensors").write_bytes(b"<html>not found</html>")
    with pytest.raises(released.ReleaseError, match="checksum"):
        released.pretrained("mnist-A-4")
    assert not list((tmp_path / "cache").glob("*.safetensors"))


def test_weights_put_there_by_hand_are_taken_and_checked(page, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    shutil.move(page / "mnist-A-4.safetensors", cache)
    shutil.move(page / "mnist-M-6.safetensors", cache / "mnist-NR-4.safetensors")
    assert released.fetch("mnist-A-4") == cache / "mnist-A-4.safetensors"
    assert released.pretrained("mnist-A-4").d == 4
    with pytest.raises(released.ReleaseError, match="refused"):
        released.pretrained("mnist-NR-4")


def test_the_release_page_is_that_of_the_project_and_version(monkeypatch):
    monkeypatch.delenv("TVAE_RELEASES", raising=False)
    page = f"{project.address()}/releases/download/v{project.version()}"
    assert released._address("mnist-VAE+-25.safetensors") == f"{page}/mnist-VAE%2B-25.safetensors"


def _improve(description):
    description["entry"]["metrics"]["knn_out"] = 0.99


def _other_action(description):
    description["settings"]["action"] = "M"


def _no_checksum(description):
    del description["sha256"]


@pytest.mark.parametrize("change", [_improve, _other_action, _no_checksum])
def test_a_changed_description_is_refused(change, folder):
    path = folder / "mnist-A-4.json"
    description = json.loads(path.read_text())
    change(description)
    path.write_text(json.dumps(description))
    with pytest.raises(released.ReleaseError, match="refused"):
        released.pretrained("mnist-A-4", folder=folder)
    with pytest.raises(released.ReleaseError, match="refused"):
        released.pretrained(folder=folder)


def test_weights_under_another_name_are_refused(folder):
    for suffix in (".json", ".safetensors"):
        shutil.copy(folder / f"mnist-A-4{suffix}", folder / f"mnist-A-5{suffix}")
    with pytest.raises(released.ReleaseError, match="refused"):
        released.pretrained("mnist-A-5", folder=folder)


def test_failed_runs_and_too_large_models_are_not_released(tmp_path, monkeypatch):
    job = JOBS[0]
    with pytest.raises(released.ReleaseError, match="failed"):
        release_weights.release(_model(job), entry(job, status="failed"), tmp_path)
    monkeypatch.setattr(release_weights, "LIMIT", 1000)
    with pytest.raises(released.ReleaseError, match="MB"):
        release_weights.release(_model(job), entry(job), tmp_path)
    wild = _model(job)
    with torch.no_grad():
        next(wild.parameters()).mul_(1e9)
    monkeypatch.undo()
    with pytest.raises(released.ReleaseError, match="half precision"):
        release_weights.release(wild, entry(job), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_everything_released_with_the_package_is_intact():
    table = released.pretrained()
    for name in table.index:
        assert not released.pretrained(name).training
    assert table["megabytes"].sum() * 2**20 <= release_weights.LIMIT


def test_the_table_is_readable_in_80_characters_and_holds_every_column():
    table = released.pretrained()
    head, *lines = str(table).splitlines()
    assert head.split() == ["name", "trained", "nllx0", "kl0", "mll", "knn_in", "knn_out", "MB"]
    assert max(map(len, [head, *lines])) <= 80 and len(lines) == len(table)
    for line, (name, row) in zip(lines, table.iterrows(), strict=True):
        assert line.split()[:4] == [name, row["preset"], str(row["epochs"]), f"{row['nllx0']:.1f}"]
    assert set(table.columns) == {"preset", "epochs", *METRICS, "megabytes"}
    assert type(table[["mll"]]) is pd.DataFrame
    del table["mll"]
    assert "preset" in str(table) and "mll" not in str(table)


def _agrees(found, held, names):
    """Half precision has 11 bits: the metrics may move in the fourth digit, accuracies by a little."""
    for name in names:
        if held[name] is not None:
            margin = 0.01 if name.startswith("knn") else 0.002 * abs(held[name]) + 0.02
            assert abs(found[name] - held[name]) <= margin, name


@pytest.mark.slow
def test_metrics_of_the_rounded_weights_agree_with_the_ledger(tmp_path):
    job = Job(
        "mnist",
        "tvae",
        "A",
        d=4,
        measuring=tuple(
            {
                "anchors": 300,
                "likelihood_images": 20,
                "likelihood_samples": 20,
                "queries": 100,
            }.items()
        ),
        max_steps=5,
    )
    held = execution.execute(job, results=tmp_path / "results", runs=tmp_path / "runs")
    model = trained.load(tmp_path / "runs" / job.name)
    release_weights.release(model, held, tmp_path / "released")
    rounded = released.pretrained("mnist-A-4", folder=tmp_path / "released")
    train, test = execution.own_data("mnist", "embedded")
    out = measurements.affnist("embedded", job.measures(), test)
    found = measurements.model_metrics(
        rounded, train, test, *out, job.measures(), job.config(), job.seed
    )
    _agrees(found["metrics"], held.metrics, METRICS)


@pytest.mark.parametrize(
    "name", ["mnist-A-25", "mnist-MA-26", "mnist-N-25", "fashion-mnist-VAE+-25"]
)
def test_released_weights_agree_with_the_ledger_on_the_full_data(name):
    if name not in released.names():
        pytest.skip(f"{name} has not been released")
    held = released.entry(name)
    found = find(name)
    try:
        train, test = execution.own_data(found.config.dataset, "full")
    except data.DataNotFound as error:
        pytest.skip(str(error))
    assert test.provenance.checksum == held.data["test"].checksum
    metrics = evaluation.evaluate(
        found.model,
        test,
        train=train,
        triplets=found.config.triplets(),
        views=found.config.model != "vae",
        likelihood_images=0,
    )
    shown = [name for name in METRICS if name not in ("mll", "knn_out")]
    _agrees(metrics, held.metrics, shown)
