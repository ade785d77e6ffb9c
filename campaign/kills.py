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
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tiny
import torch
import yaml

from tvae.files import Busy, locked
from tvae.runs import execution, ledger, sweep
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


# --- processes ----------------------------------------------------------------------------------


def begin(work: Callable[[], object]) -> int:
    """Do the work in a process of its own, forked from this one; returns its identity at once."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        torch.set_num_threads(1)
        work()
        status = 0
    finally:
        os._exit(status)


def was_killed(child: int) -> bool:
    """Wait for a process; whether it was killed. Any other failure is an error here."""
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return True
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError("a run failed by itself")
    return False


def at_call(owner: Any, name: str, count: int, work: Callable[[], object]) -> Callable[[], object]:
    """The work, with the process killing itself at the `count`-th call of `owner.name`."""

    def prepared() -> object:
        real, calls = getattr(owner, name), 0

        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == count:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        setattr(owner, name, call)
        return work()

    return prepared


#: Where a process may kill itself: the calls that saving and publishing consist of.
PLACES = (
    (os, "fsync", 30),
    (os, "rename", 6),
    (os, "replace", 4),
    (shutil, "rmtree", 4),
    (checkpoints, "read", 1),
    (loop.Loop, "batch", 6),
)


def harass(work: Callable[[], object], attempts: int, length: float, draw: random.Random) -> int:
    """Begin the work again and again, kill it each time, then let it end; returns the kills.

    Half of the kills come from outside, after any part of the `length` that the work takes
    undisturbed; half at a call that saving consists of.
    """
    kills = 0
    for _ in range(attempts):
        if draw.random() < 0.5:
            child = begin(work)
            time.sleep(draw.uniform(0, length))
            os.kill(child, signal.SIGKILL)
        else:
            owner, name, most = draw.choice(PLACES)
            child = begin(at_call(owner, name, draw.randint(1, most), work))
        kills += was_killed(child)
    if was_killed(begin(work)):
        raise RuntimeError("nobody killed this run")
    return kills


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
    found = [f"{path.name} is left" for path in folder.rglob("*.part")]
    for path in folder.rglob("*.lock"):
        try:
            with locked(path):
                pass
        except Busy:
            found.append(f"{path.name} is held")
    return found


# --- the parts ----------------------------------------------------------------------------------


def training(place: Path, attempts: int, draw: random.Random) -> tuple[int, list[str]]:
    """Training and saving, for all models."""
    images, kills, faults = tiny.tiny("train"), 0, []
    for settings in MODELS:
        config = RunConfig.from_preset(
            "tiny", d=4, epochs=6, halve_every=2, batch_size=10, seed=3, **settings
        )
        name = "-".join(str(value) for value in settings.values())

        def work(folder: Path, config: RunConfig = config) -> None:
            train(config, images, folder=folder, device="cpu", progress=False)

        alone, harassed = place / f"{name}-alone", place / f"{name}-harassed"
        start = time.monotonic()
        was_killed(begin(lambda work=work, alone=alone: work(alone)))
        length = time.monotonic() - start
        kills += harass(lambda work=work, to=harassed: work(to), attempts, length, draw)
        if state(alone) != state(harassed):
            faults.append(f"{name}: another result after kills than without")
        faults += [f"{name}: {what}" for what in left_behind(harassed)]
    return kills, faults


def measuring(place: Path, attempts: int, draw: random.Random) -> tuple[int, list[str]]:
    """Whole runs with their measurements and the ledger."""
    kills, faults = 0, []
    for job in sweep.expand({**SWEEP, "seeds": [0]}):

        def work(folder: Path, job: sweep.Job = job) -> None:
            execution.execute(job, results=folder / "results", runs=folder / "runs", device="cpu")

        alone, harassed = place / f"{job.name}-alone", place / f"{job.name}-harassed"
        start = time.monotonic()
        was_killed(begin(lambda work=work, alone=alone: work(alone)))
        length = time.monotonic() - start
        kills += harass(lambda work=work, to=harassed: work(to), attempts, length, draw)
        if entries(alone / "results") != entries(harassed / "results"):
            faults.append(f"{job.name}: another entry after kills than without")
        faults += [f"{job.name}: {what}" for what in left_behind(harassed)]
    return kills, faults


def _command(folder: Path, engine: str) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sweep.yaml").write_text(yaml.safe_dump(SWEEP))
    command = [sys.executable, "-m", "tvae.cli", "sweep", str(folder / "sweep.yaml")]
    command += ["--results", str(folder / "results"), "--runs", str(folder / "runs")]
    return [*command, *(["--engine", "ray"] if engine == "ray" else ["--jobs", "2"])]


def _workers(folder: Path, driver: int, engine: str) -> list[int]:
    """The processes that make runs at this moment."""
    if engine == "ray":
        found = []
        for path in (folder / "runs" / "events").glob("**/*.jsonl"):
            events = [
                json.loads(line)
                for line in path.read_text().splitlines(keepends=True)
                if line[-1:] == "\n"
            ]
            begun = [event["pid"] for event in events if event["event"] == "start"]
            found += begun[-1:] if not (folder / "results" / f"{path.stem}.json").exists() else []
    else:
        listed = Path(f"/proc/{driver}/task/{driver}/children")
        found = [int(pid) for pid in listed.read_text().split()] if listed.exists() else []
    return [pid for pid in found if Path(f"/proc/{pid}").exists()]


def sweeping(
    place: Path, wanted: int, draw: random.Random, engine: str = "local"
) -> tuple[int, list[str]]:
    """A sweep whose workers and driver are killed, and which is begun again until all is done."""
    environment = {**os.environ, "TVAE_PLUGINS": "tiny", "PYTHONPATH": str(Path(__file__).parent)}
    environment["OMP_NUM_THREADS"] = "1"
    options: dict[str, Any] = {
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "env": environment,
    }
    alone = place / f"{engine}-alone"
    start = time.monotonic()
    subprocess.run(_command(alone, engine), check=True, **options)
    length = time.monotonic() - start
    kills, faults, rounds = 0, [], 0
    while kills < wanted and rounds < 20 * wanted:
        rounds += 1
        harassed = place / f"{engine}-{rounds}"
        for _ in range(3):  # begun three times, killed in between
            driver = subprocess.Popen(_command(harassed, engine), **options)
            end = time.monotonic() + draw.uniform(0.2, 1.0) * length
            while time.monotonic() < end and driver.poll() is None:
                time.sleep(draw.uniform(0, 0.3 * length))
                working = _workers(harassed, driver.pid, engine)
                if working and draw.random() < 0.5:
                    try:
                        os.kill(draw.choice(working), signal.SIGKILL)
                        kills += 1
                    except ProcessLookupError:
                        pass
            if driver.poll() is None:
                driver.kill()
                kills += 1
            driver.wait()
        for _ in range(5):  # another process may still hold a run: the next call makes it
            subprocess.run(_command(harassed, engine), check=False, **options)
            if entries(harassed / "results") == entries(alone / "results"):
                break
            time.sleep(2)
        else:
            faults.append(
                f"{engine} sweep, round {rounds}: not the entries of an undisturbed sweep"
            )
        faults += [f"{engine} sweep, round {rounds}: {what}" for what in left_behind(harassed)]
        shutil.rmtree(harassed)
    return kills, faults


def run(seed: int, scale: float = 1.0) -> dict[str, Any]:
    """All parts; `scale` multiplies the number of kills (1: at least 200)."""
    draw, counts, faults = random.Random(f"{seed}/kills"), {}, []
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        place = Path(folder)
        few, some = max(1, round(14 * scale)), max(1, round(20 * scale))
        for name, part in {
            "training and saving": lambda at: training(at, few, draw),
            "measuring": lambda at: measuring(at, some, draw),
            "local sweep": lambda at: sweeping(at, some, draw),
            "Ray sweep": lambda at: sweeping(at, max(1, some // 2), draw, "ray"),
        }.items():
            at = place / str(len(counts))
            at.mkdir()
            counts[name], found = part(at)
            faults += found
            print(f"{name}: {counts[name]} kills, {len(found)} faults", flush=True)
    return {"kills": counts, "faults": faults}


if __name__ == "__main__":
    print(run(int(sys.argv[1]) if sys.argv[1:] else 0, float(sys.argv[2]) if sys.argv[2:] else 0.2))
