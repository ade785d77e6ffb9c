"""The ledger: what is written can be read, what is damaged is refused, tables follow the files."""

from __future__ import annotations

import copy
import json

import pytest
from ledgers import entry, values

from tvae.paper import METRICS
from tvae.runs import execution, ledger
from tvae.runs.name import RunName
from tvae.runs.sweep import Job

A = Job("mnist", "tvae", "A", preset="book")
MR = Job("mnist", "tvae", "M", residual=True, d=26)
VAE = Job("omniglot", "vae+", d=25, seed=3)
PIXELS = Job("mnist", "pixels", d=784)


@pytest.mark.parametrize(
    ("job", "name"),
    [
        (A, "mnist-A-25_book_seed0"),
        (MR, "mnist-MR-26_quick_seed0"),
        (VAE, "omniglot-VAE+-25_quick_seed3"),
        (PIXELS, "mnist-pixels_quick_seed0"),
        (Job("mnist", "pca", d=25), "mnist-PCA-25_quick_seed0"),
        (Job("mnist", "untrained", d=25), "mnist-untrained-25_quick_seed0"),
        (Job("mnist", "tvae", "A", tag="smoke"), "smoke/mnist-A-25_quick_seed0"),
    ],
)
def test_names(job, name, tmp_path):
    assert job.name == name
    path = ledger.write(entry(job), tmp_path)
    assert path == tmp_path / f"{name}.json"


@pytest.mark.parametrize("job", [A, MR, VAE, PIXELS])
def test_what_is_written_is_read(job, tmp_path):
    written = entry(job)
    path = ledger.write(written, tmp_path)
    assert ledger.read(path) == written
    assert ledger.find(job.configuration(), tmp_path) == written
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


def test_files_of_the_project_are_written_again_as_they_are(tmp_path):
    """Also the older ones, which lack fields of the newer: their bytes are kept."""
    for path in sorted(ledger.folder().rglob("*.json")):
        assert ledger.write(ledger.read(path), tmp_path).read_bytes() == path.read_bytes()


def test_an_entry_is_frozen():
    made = entry(A, further={"knn_out_centred": {"value": 0.5, "standard_error": None}})
    assert made.further["knn_out_centred"].value == 0.5
    assert (made.seconds.total, made.configuration.likelihood_error) == (2.0, 0.5)
    with pytest.raises(ValueError, match="frozen"):
        made.status = "failed"


def _broken():
    good = values(A)

    def change(*keys, value):
        bad = copy.deepcopy(good)
        place = bad
        for key in keys[:-1]:
            place = place[key]
        if value is KeyError:
            del place[keys[-1]]
        else:
            place[keys[-1]] = value
        return bad

    yield "no metrics", change("metrics", value=KeyError), "metrics"
    yield "one metric missing", change("metrics", "mll", value=KeyError), "mll"
    yield "a metric too many", change("metrics", "fid", value=1.0), "fid"
    yield "text as metric", change("metrics", "elbo", value="95"), "elbo"
    yield "accuracy above one", change("metrics", "knn_in", value=1.2), "knn_in"
    yield "not finite", change("metrics", "elbo", value=float("nan")), "finite"
    yield "unknown status", change("status", value="perhaps"), "status"
    yield "failed without reason", change("status", value="failed"), "reason"
    yield "ok with reason", change("reason", value="because"), "reason"
    yield "unknown model", change("configuration", "model", value="gan"), "model"
    yield "no seed", change("configuration", "seed", value=KeyError), "seed"
    yield "negative error", change("standard_errors", "mll", value=-1.0), "mll"
    yield "another name", change("name", value="mnist-M-26"), "mnist-A-25"
    yield "a field too many", change("host", value="me"), "host"
    yield (
        "an epoch and a half",
        change("curve", 0, "epoch", value=1.5),
        "an epoch of the curve is 1.5",
    )
    yield (
        "a row without epoch",
        change("curve", 1, "epoch", value=KeyError),
        "epoch of the curve is None",
    )
    yield "not finite in a list", change("configuration", "own", value=[float("inf")]), "finite"
    yield "yes as a number", change("training", "steps", value=True), "steps"
    yield "no version", change("versions", "torch", value=KeyError), "torch is missing"
    yield "a negative time", change("seconds", "training", value=-1), "seconds.training"
    yield "no such moment", change("finished", value="yesterday"), "finished"
    yield "no image", change("data", "train", "count", value=0), "count"
    yield "no checksum", change("data", "train", "checksum", value=KeyError), "checksum"


@pytest.mark.parametrize(
    ("bad", "word"), [pytest.param(bad, word, id=what) for what, bad, word in _broken()]
)
def test_nonsense_is_refused_in_memory_and_on_reading(bad, word, tmp_path):
    with pytest.raises(ledger.LedgerError, match=word):
        ledger.Entry.checked(bad)
    path = tmp_path / f"{A.name}.json"
    path.write_text(json.dumps(bad))
    with pytest.raises(ledger.LedgerError, match=word):
        ledger.read(path)


def test_truncated_and_renamed_files_are_refused(tmp_path):
    path = ledger.write(entry(A), tmp_path)
    other = tmp_path / "mnist-A-25_book_seed1.json"
    other.write_text(path.read_text())
    with pytest.raises(ledger.LedgerError, match="must bear the name"):
        ledger.read(other)
    for content in (path.read_text()[:-100], "[" * 100_000 + "]" * 100_000):
        path.write_text(content)
        with pytest.raises(ledger.LedgerError, match="not JSON"):
            ledger.read(path)


def test_what_a_killed_writer_left_of_an_entry_is_swept_away(tmp_path):
    job = Job("mnist", "tvae", "A", preset="book")
    ledger.write(entry(job), tmp_path)
    left, other = (tmp_path / f".{name}.json.x1.part" for name in (job.name, "another"))
    left.write_text("{")
    other.write_text("{")  # perhaps being written at this moment
    execution.execute(job, results=tmp_path, runs=tmp_path / "runs", device="cpu")
    assert not left.exists() and other.exists()


def test_find_wants_the_same_settings(tmp_path):
    ledger.write(entry(A), tmp_path)
    longer = Job("mnist", "tvae", "A", preset="book", training=(("epochs", 21),))
    assert (tmp_path / f"{longer.name}.json").is_file()
    assert ledger.find(longer.configuration(), tmp_path) is None


def test_table_is_tidy_and_follows_the_files(tmp_path):
    assert len(ledger.table(tmp_path)) == 0
    for job in (A, VAE, PIXELS, Job("mnist", "tvae", "A", tag="smoke")):
        ledger.write(entry(job), tmp_path)
    ledger.write(entry(MR, status="failed"), tmp_path)
    table = ledger.table(tmp_path).set_index("name")
    assert sorted(table.index) == ["mnist-A-25", "mnist-A-25", "mnist-pixels", "omniglot-VAE+-25"]
    assert set(table["tag"]) == {"", "smoke"}
    one = ledger.table(tmp_path).query("model == 'tvae' and tag == ''").iloc[0]
    for name in METRICS:
        assert one[name] == entry(A).metrics[name]
    assert one["mll_se"] == 0.25 and one["epochs"] == 2 and one["training_seconds"] == 1.5
    assert table.loc["omniglot-VAE+-25", "action"] == ""
    assert len(ledger.table(tmp_path, failed=True)) == 5
    (tmp_path / f"{A.name}.json").unlink()
    assert len(ledger.table(tmp_path)) == 3


def test_curves_have_a_row_per_epoch(tmp_path):
    assert len(ledger.curves(tmp_path)) == 0
    for job in (A, VAE):
        ledger.write(entry(job), tmp_path)
    curves = ledger.curves(tmp_path)
    assert len(curves) == 4
    assert list(curves[curves.name == "mnist-A-25"]["total"]) == [200.5, 150.25]


def test_folder_can_be_chosen(tmp_path, monkeypatch):
    monkeypatch.setenv("TVAE_RESULTS", str(tmp_path))
    assert ledger.folder() == tmp_path
    ledger.write(entry(A), tmp_path)
    assert len(ledger.table()) == 1


def test_nothing_names_the_host():
    import platform

    said = json.dumps([ledger.hardware(), ledger.versions(), ledger.commit()])
    assert platform.node() not in said
    assert "/" not in said.replace("N/A", "")


def test_the_projects_own_ledger_is_valid():
    for found in ledger.entries():
        name = RunName.parse(found.name)
        assert str(name) == found.name and name == RunName.of(found.configuration)
