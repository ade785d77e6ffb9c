"""Sweeps that really run: side by side, interrupted, killed, failing, and on Ray.

The runs are of a few steps on the embedded images, so that every part of a run is there and none of
it takes long.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tvae.files import locked
from tvae.runs import engines, ledger, sweep

pytestmark = pytest.mark.slow

SMALL = {
    "preset": "quick",
    "datasets": ["mnist"],
    "epochs": 3,
    "max_steps": 3,
    "anchors": 100,
    "queries": 20,
    "likelihood_samples": 2,
    "likelihood_images": 2,
    "d": 2,
}


#: The keys of a file of the ledger, in the order in which they have always been written.
LAYOUT = [
    "schema",
    "name",
    "status",
    "reason",
    "configuration",
    "dataset",
    "model",
    "action",
    "residual",
    "d",
    "seed",
    "preset",
    "source",
    "epochs",
    "learning_rate",
    "halve_every",
    "batch_size",
    "analytic",
    "families",
    "geometry",
    "interpolation",
    "anchors",
    "queries",
    "likelihood_samples",
    "likelihood_images",
    "likelihood_error",
    "epoch_images",
    "max_steps",
    "tag",
    "data",
    "train",
    "test",
    "anchors",
    "queries",
    "versions",
    "commit",
    "hardware",
    "cpu",
    "cores",
    "threads",
    "memory_gib",
    "device",
    "seconds",
    "training",
    "evaluation",
    "training_process",
    "evaluation_process",
    "finished",
    "training",
    "epochs",
    "steps",
    "halve_every",
    "metrics",
    "standard_errors",
    "further",
    "knn_out_centred",
    "value",
    "standard_error",
    "knn_out_moments",
    "value",
    "standard_error",
    "evaluation",
    "curve",
]


def layout(values):
    """The keys of an entry with those of its parts, but for what its run alone decides."""
    closed = ("versions", "metrics", "standard_errors", "evaluation")
    closed += ("train", "test", "anchors", "queries")
    found = []
    for key, value in values.items():
        found += [key, *(layout(value) if isinstance(value, dict) and key not in closed else ())]
    return found


def jobs(**changes):
    return sweep.expand({**SMALL, "models": ["vae"], **changes})


def run(todo, folder, **options):
    stream = io.StringIO()
    outcome = engines.local(
        todo, results=folder / "results", runs=folder / "runs", stream=stream, **options
    )
    return outcome, stream.getvalue()


def names(folder):
    return sorted(path.stem for path in (folder / "results").rglob("*.json"))


def workers_of(parent: int) -> list[int]:
    """The worker processes that `parent` has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rsplit(")", 1)[1].split()
            command = (stat.parent / "cmdline").read_text()
        except OSError:
            continue
        if int(words[1]) == parent and "tvae.runs.worker" in command and words[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def test_side_by_side_then_skipped_then_only_what_is_missing(tmp_path):
    todo = jobs(models=["vae", "tvae", "pca"])
    outcome, said = run(todo, tmp_path, side_by_side=2)
    assert sorted(outcome.ok) == sorted(job.name for job in todo), said
    for found in ledger.entries(tmp_path / "results"):
        assert found.status == "ok"
        assert set(found.data) == {"train", "test", "anchors", "queries"}
        assert found.hardware.threads == max((os.cpu_count() or 1) // 2, 1)
        model = found.configuration.model
        empty = {name for name, value in found.metrics.items() if value is None}
        if model == "tvae":
            assert empty == set()
        if model == "vae":
            assert empty == {"nllx1", "nllx2", "c1", "c2", "nll", "div"}
        if model != "pca":
            assert found.training["steps"] == 3 and len(found.curve) == 1
            assert "mll" in found.standard_errors
        if model == "vae":
            path = tmp_path / "results" / f"{found.configuration.entry_name}.json"
            assert layout(json.loads(path.read_text())) == LAYOUT
    text = "".join(repr(found) for found in ledger.entries(tmp_path / "results"))
    assert str(tmp_path) not in text

    outcome, said = run(todo, tmp_path)
    assert outcome.ok == [] and len(outcome.present) == 3

    (tmp_path / "results" / f"{todo[0].name}.json").unlink()
    outcome, said = run(todo, tmp_path)
    assert outcome.ok == [todo[0].name] and len(outcome.present) == 2


def test_a_failing_run_is_recorded_and_stops_no_other(tmp_path, monkeypatch):
    monkeypatch.setenv("TVAE_DATA", str(tmp_path / "nothing"))
    todo = jobs(source="full") + jobs(seeds=[1])
    outcome, said = run(todo, tmp_path)
    assert list(outcome.failed) == [todo[0].name] and outcome.ok == [todo[1].name], said
    failed = ledger.read(tmp_path / "results" / f"{todo[0].name}.json")
    assert failed.status == "failed" and "mnist" in failed.reason.lower()
    # failed runs are tried again; with the data there, this one is made
    outcome, said = run(todo, tmp_path)
    assert list(outcome.failed) == [todo[0].name] and outcome.present == [todo[1].name]


def test_a_run_that_another_process_makes_is_left_alone(tmp_path):
    todo = jobs()
    with locked(tmp_path / "runs" / "locks" / f"{todo[0].name}.lock"):
        outcome, _ = run(todo, tmp_path)
    assert outcome.elsewhere == [todo[0].name] and names(tmp_path) == []


def test_other_settings_under_the_same_name_are_a_conflict(tmp_path):
    from ledgers import entry

    ledger.write(entry(jobs()[0]), tmp_path / "results")
    with pytest.raises(engines.Conflict, match="max_steps 3 instead of 2"):
        run(jobs(max_steps=2), tmp_path)


class _Killer(io.StringIO):
    """A stream that kills a worker of this process when the first run has started."""

    def __init__(self) -> None:
        super().__init__()
        self.killed = 0

    def write(self, text: str) -> int:
        if "started" in text and not self.killed:
            (worker,) = workers_of(os.getpid())
            os.kill(worker, signal.SIGKILL)
            self.killed = worker
        return super().write(text)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_a_killed_worker_is_replaced(tmp_path):
    stream = _Killer()
    todo = jobs()
    outcome = engines.local(
        todo, results=tmp_path / "results", runs=tmp_path / "runs", stream=stream
    )
    assert stream.killed and "killed by signal 9" in stream.getvalue()
    assert outcome.ok == [todo[0].name] and len(names(tmp_path)) == 1


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_a_sweep_that_is_killed_goes_on_where_it_was(tmp_path):
    path = tmp_path / "sweep.yaml"
    content = {**SMALL, "models": ["vae"], "seeds": [0, 1]}
    path.write_text(yaml.safe_dump(content))
    command = [sys.executable, "-m", "tvae.cli", "sweep", str(path)]
    command += ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        # until the first run is in the ledger and the second under way
        while not (names(tmp_path) and workers_of(first.pid)):
            assert first.poll() is None
            time.sleep(0.1)
        orphans = workers_of(first.pid)
    finally:
        first.kill()
        first.wait()
    while any(Path(f"/proc/{pid}/stat").exists() for pid in orphans):
        time.sleep(0.1)  # the worker notices that its sweep is gone
    before = names(tmp_path)
    second = subprocess.run(command, capture_output=True, text=True)
    assert second.returncode == 0, second.stderr
    assert len(before) == 1 and len(names(tmp_path)) == 2
    assert "1 were in the ledger already" in second.stdout


def test_ray_is_asked_for_politely(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"tvae-book\[cluster\]"):
        engines.over_ray(jobs(), results=tmp_path, runs=tmp_path)


def _started(folder: Path) -> dict[str, list[int]]:
    """The processes that have begun each run, from the files in which the runs report."""
    found: dict[str, list[int]] = {}
    for path in (folder / "runs" / "events").glob("*.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines(keepends=True)]
        found[path.stem] = [line["pid"] for line in lines if line["event"] == "start"]
    return found


def test_on_ray_with_a_worker_killed_every_run_ends_in_the_ledger_once(tmp_path):
    pytest.importorskip("ray", reason="Ray is an optional extra")
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump({**SMALL, "models": ["vae"], "seeds": [0, 1, 2]}))
    command = [sys.executable, "-m", "tvae.cli", "sweep", str(path), "--engine", "ray"]
    command += ["--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")]
    # Ray puts its sockets below the temporary folder, and their paths must be short
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ)
    )
    try:
        while not any(_started(tmp_path).values()):
            assert process.poll() is None, process.stdout.read()
            time.sleep(0.05)
        name, (worker, *_) = next((k, v) for k, v in _started(tmp_path).items() if v)
        os.kill(worker, signal.SIGKILL)
        said, _ = process.communicate()
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, said
    began = _started(tmp_path)
    assert len(began[name]) == 2 and len(set(began[name])) == 2, said
    assert all(len(pids) == 1 for other, pids in began.items() if other != name)
    found = ledger.entries(tmp_path / "results")
    assert [entry.configuration.seed for entry in found] == [0, 1, 2]
    assert all(entry.status == "ok" for entry in found)
    assert said.count(": ok after") == 3


def test_a_worker_that_cannot_begin_says_so_by_its_exit_code(tmp_path):
    """No abort of the interpreter while a thread still waits for the sweep."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "tvae.runs.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TVAE_PLUGINS": "there_is_no_such_module"},
    )
    job = sweep.expand(SMALL)[0]
    order = engines._order(job, tmp_path / "results", tmp_path / "runs", "cpu", 1)
    worker.stdin.write(json.dumps(order).encode() + b"\n")
    worker.stdin.flush()  # and the pipe stays open, as that of a living sweep
    assert worker.wait(60) == 1
    assert b"there_is_no_such_module" in worker.stderr.read()
