"""SIGKILL at random moments: while training and saving, while measuring, in sweeps here and on Ray.

Every run that is killed is begun again, perhaps to be killed again, and ends with what an undisturbed
run ends with, to the last bit: weights, optimiser, generators, history, ledger entry. Only times may
differ. No entry is lost or there twice, no lock is held, nothing half-written is left.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import tiny
import torch
import yaml
from found import Found, times
from processes import at_call, begin, command, was_killed

from tvae.files import Busy, locked
from tvae.runs import execution, ledger, measurements, sweep
from tvae.training import checkpoints, loop, train
from tvae.training.configuration import RunConfig

#: The paper's nine actions, VAE and VAE+.
MODELS: tuple[dict[str, Any], ...] = (
    *({"model": "tvae", "action": letter} for letter in ("A", "M", "MA", "T", "N")),
    *({"model": "tvae", "action": letter, "residual": True} for letter in ("M", "MA", "T", "N")),
    {"model": "vae"},
    {"model": "vae+"},
)
SWEEP = {
    "preset": "quick",
    "datasets": ["tiny"],
    "models": ["tvae", "vae"],
    "seeds": [0, 1],
    "epochs": 30,
    "batch_size": 20,
    "d": 2,
    "anchors": 200,
    "queries": 40,
    "likelihood_samples": 5,
    "likelihood_images": 5,
}

#: Where a process may kill itself, and at which call at most: what saving and publishing consist of.
SAVING = ((os, "fsync", 30), (os, "rename", 6), (shutil, "rmtree", 4))
TRAINING = ((checkpoints, "read", 1), (loop.Loop, "batch", 20))
MEASURING = (
    (measurements, "model_metrics", 1),
    (measurements, "further_metrics", 1),
    (ledger, "write", 1),
    (os, "replace", 4),
)
MOST = 5  # kills of one run, which is then left to end


# --- what has to be the same --------------------------------------------------------------------


def _without_times(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            k: _without_times(v) for k, v in value.items() if "seconds" not in k and k != "finished"
        }
    return [_without_times(v) for v in value] if isinstance(value, list) else value


def state(folder: Path) -> str:
    """A digest of all that a run folder's newest checkpoint holds, but for times."""
    found = checkpoints.latest(folder)
    if found is None:
        raise RuntimeError(f"{folder.name} has no checkpoint")
    total = hashlib.sha256()
    for tensors in (found.weights, found.training):
        for name in sorted(tensors):
            array = tensors[name].contiguous()
            total.update(f"{name}{array.dtype}{tuple(array.shape)}".encode())
            total.update(array.reshape(-1).view(torch.uint8).numpy().tobytes())
    plain = [found.epoch, found.step, found.settings, found.config, found.history, found.extra]
    total.update(json.dumps(_without_times(plain), sort_keys=True).encode())
    return total.hexdigest()


def entries(results: Path) -> dict[str, Any]:
    """All entries of a ledger, but for times."""
    found = {str(path.relative_to(results)): ledger.read(path) for path in results.rglob("*.json")}
    return {name: _without_times(entry.to_dict()) for name, entry in found.items()}


def left_behind(folder: Path) -> list[str]:
    """Half-written files below a folder, and locks that somebody still holds."""
    # a writer of the shared cache that is killed leaves a hidden file, which nobody takes for data
    # and nobody else may sweep away: another process may be writing it
    parts = [path for path in folder.rglob("*.part") if path.parent.name != "cache"]
    found = [f"{path.name} is left" for path in parts]
    for path in folder.rglob("*.lock"):
        try:
            with locked(path):
                pass
        except Busy:
            found.append(f"{path.name} is held")
    return found


# --- one run after another ----------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """Something to be killed: `make` it in a folder, and say what it `ends` with there.

    `make` gets a function to call when that begins which the kills from outside are meant for.
    """

    name: str
    make: Callable[[Path, Callable[[], object]], object]
    ends: Callable[[Path], Any]
    places: Mapping[str, tuple[tuple[Any, str, int], ...]]  # of calls, by what they are part of
    outside: str  # what kills from outside fall into


def _from_outside(work: Callable[[Callable[[], object]], object], seconds: float) -> bool:
    """Begin the work and kill it so many seconds after it has said that it has come to the point."""
    reading, writing = os.pipe()
    child = begin(lambda: work(lambda: os.write(writing, b".")))
    os.close(writing)
    os.read(reading, 1)  # a byte, or the end if it never came to the point
    os.close(reading)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)  # perhaps it has ended, but nobody has waited for it yet
    return was_killed(child)


def harass(work: Work, place: Path, wanted: int, draw: random.Random, found: Found) -> None:
    """Begin the work again and again until it was killed so often, and compare what it ends with.

    Half of the kills come from outside, after any part of the time that it takes undisturbed; half
    at a call that it consists of.
    """
    began: list[float] = []
    alone = place / "alone"

    def watched(folder: Path) -> object:
        return work.make(folder, lambda: began.append(time.monotonic()))

    watched(alone)
    length = time.monotonic() - began[0]
    expected, kills, rounds = work.ends(alone), 0, 0
    while kills < wanted and rounds < 5 * wanted:
        rounds += 1
        folder, alive = place / str(rounds), True
        make = partial(work.make, folder)
        whole = partial(make, _nothing)
        for _ in range(min(MOST, wanted - kills)):
            if draw.random() < 0.5:
                what, killed = work.outside, _from_outside(make, draw.uniform(0, length))
            else:
                what = draw.choice(sorted(work.places))
                owner, name, most = draw.choice(work.places[what])
                at = draw.randint(1, most)
                killed = was_killed(begin(at_call(owner, name, at, whole)))
            if not killed:
                alive = False  # it has come to its end
                break
            kills += 1
            found.counts[what] += 1
        if alive and was_killed(begin(whole)):
            raise RuntimeError("nobody killed this run")
        if work.ends(folder) != expected:
            found.faults.append(f"{work.name}: another result after kills than without")
        found.faults += [f"{work.name}: {what}" for what in left_behind(folder)]
        shutil.rmtree(folder)
    if kills < wanted:
        found.faults.append(f"{work.name}: only {kills} kills in {rounds} rounds")


def _nothing() -> None:
    pass


def training(seed: int, scale: float) -> Found:
    """Training and saving, for all models."""
    images, found = tiny.tiny("train"), Found()
    torch.set_num_threads(1)
    for settings in MODELS:
        config = RunConfig.from_preset(
            "tiny", d=4, epochs=6, halve_every=2, batch_size=10, seed=3, **settings
        )
        name = "-".join(str(value) for value in settings.values())

        def make(folder: Path, begins: Callable[[], object], config: RunConfig = config) -> None:
            begins()
            train(config, images, folder=folder, device="cpu", progress=False)

        places = {"SIGKILLs while training": TRAINING, "SIGKILLs while saving": SAVING}
        work = Work(name, make, state, places, "SIGKILLs while training")
        with tempfile.TemporaryDirectory(prefix="kills-") as place:
            draw = random.Random(f"{seed}/kills/{name}")
            harass(work, Path(place), times(14, scale), draw, found)
    return found


def measuring(seed: int, scale: float) -> Found:
    """Whole runs with their measurements and the ledger."""
    found = Found()
    torch.set_num_threads(1)
    models = {**SWEEP, "epochs": 2, "models": ["tvae", "vae", "pca"], "seeds": [0]}
    for job in sweep.expand(models):

        def make(folder: Path, begins: Callable[[], object], job: sweep.Job = job) -> None:
            def notify(event: Mapping[str, Any]) -> None:
                if event["event"] == "evaluating":
                    begins()

            execution.execute(
                job, results=folder / "results", runs=folder / "runs", device="cpu", notify=notify
            )

        what = "SIGKILLs while measuring"
        work = Work(job.name, make, lambda at: entries(at / "results"), {what: MEASURING}, what)
        with tempfile.TemporaryDirectory(prefix="kills-") as place:
            draw = random.Random(f"{seed}/kills/{job.name}")
            harass(work, Path(place), times(16, scale), draw, found)
    return found


# --- sweeps -------------------------------------------------------------------------------------


def _sweep(folder: Path, engine: str) -> subprocess.Popen[str]:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "sweep.yaml"
    file.write_text(yaml.safe_dump(SWEEP))
    engine_options = ["--engine", "ray"] if engine == "ray" else ["--jobs", "2"]
    places = ["--results", folder / "results", "--runs", folder / "runs"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return command("sweep", file, *places, *engine_options, **quiet)


def _workers(folder: Path, driver: int, engine: str) -> list[int]:
    """The processes that make runs at this moment."""
    if engine == "local":
        listed = Path(f"/proc/{driver}/task/{driver}/children")
        found = [int(pid) for pid in listed.read_text().split()] if listed.exists() else []
        return [pid for pid in found if b"tvae.runs.worker" in _command_line(pid)]
    found = []
    for path in (folder / "runs" / "events").glob("**/*.jsonl"):
        lines = path.read_text().splitlines(keepends=True)
        events = [json.loads(line) for line in lines if line[-1:] == "\n"]
        begun = [event["pid"] for event in events if event["event"] == "start"]
        found += begun[-1:] if not (folder / "results" / f"{path.stem}.json").exists() else []
    # the number of a process that is gone may belong to somebody else by now
    return [pid for pid in found if b"ray::" in _command_line(pid)]


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def sweeping(seed: int, scale: float, engine: str = "local") -> Found:
    """A sweep whose workers and driver are killed, and which is begun again until all is done."""
    found, wanted = Found(), times(40 if engine == "local" else 24, scale)
    draw = random.Random(f"{seed}/kills/{engine}")
    on = " on Ray" if engine == "ray" else ""
    a_worker, the_sweep = f"SIGKILLs of a sweep's worker{on}", f"SIGKILLs of a sweep{on}"
    with tempfile.TemporaryDirectory(prefix="kills-") as place:
        alone, rounds = Path(place) / "alone", 0
        start = time.monotonic()
        if _sweep(alone, engine).wait():
            found.faults.append(f"a sweep{on} failed by itself")
            return found
        length, expected = time.monotonic() - start, entries(alone / "results")
        while found.counts.total() < wanted and rounds < 5 * wanted:
            rounds += 1
            harassed = Path(place) / str(rounds)
            for _ in range(3):  # begun three times, killed in between
                driver = _sweep(harassed, engine)
                end = time.monotonic() + draw.uniform(0.2, 1.0) * length
                while time.monotonic() < end and driver.poll() is None:
                    time.sleep(draw.uniform(0, 0.3 * length))
                    working = _workers(harassed, driver.pid, engine)
                    if working and draw.random() < 0.5:
                        try:
                            os.kill(draw.choice(working), signal.SIGKILL)
                            found.counts[a_worker] += 1
                        except ProcessLookupError:
                            pass
                if driver.poll() is None:
                    driver.kill()
                    found.counts[the_sweep] += 1
                driver.wait()
            for _ in range(5):  # another process may still hold a run: the next call makes it
                _sweep(harassed, engine).wait()
                if entries(harassed / "results") == expected:
                    break
                time.sleep(2)
            else:
                found.faults.append(
                    f"sweep{on}, round {rounds}: not the entries of an undisturbed one"
                )
            found.faults += [f"sweep{on}, round {rounds}: {x}" for x in left_behind(harassed)]
            shutil.rmtree(harassed)
    return found


PARTS: dict[str, Callable[[int, float], Found]] = {
    "kills, training": training,
    "kills, measuring": measuring,
    "kills, sweep": sweeping,
    "kills, Ray": partial(sweeping, engine="ray"),
}
