"""Kills training runs and resumes them; `test_resume.py` runs this file as a program.

Usage: python killing.py FOLDER

Every run is a process of its own, forked from this one after the imports (which take longer than the
runs). Runs are killed by SIGKILL, which no process can catch: at chosen places, by a process that
kills itself there, and at arbitrary moments, by this one. Each is then resumed, perhaps to be killed
again, until it ends. The result is a JSON object on standard output: for every scenario the hash of
the final weights and how often it was killed.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "campaign"))
from processes import at_call, begin, was_killed

from tvae.data.dataset import Dataset, describe
from tvae.runs.trained import load
from tvae.seeding import generator
from tvae.training import checkpoints, loop, train
from tvae.training.configuration import RunConfig

EPOCHS, STEPS = 3, 4  # per run, and per epoch


def data() -> Dataset:
    images = torch.rand(43, 1, 28, 28, generator=generator(0, "pictures")).mul(255).byte()
    return describe("mnist", "test", "train", images, torch.arange(43) % 10)


def config(model: str) -> RunConfig:
    return RunConfig.from_preset(
        "mnist", model=model, d=2, epochs=EPOCHS, halve_every=1, batch_size=10, seed=3
    )


Place = tuple[object, str, int, bool]  # the count-th call of a function, and whether after it


def kill_at(owner: object, name: str, count: int, *, after: bool = False) -> Place:
    """A place where a run kills itself."""
    return owner, name, count, after


def run(folder: Path, model: str, place: Place | None = None) -> int:
    """Train in a process of its own; returns its identity at once."""

    def work() -> None:
        train(config(model), data(), folder=folder, device="cpu", progress=False)

    return begin(work if place is None else at_call(*place[:3], work, after=place[3]))


def digest(folder: Path) -> str:
    total = hashlib.sha256()
    for name, tensor in load(folder).state_dict().items():
        total.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return total.hexdigest()


def at_chosen_places(folder: Path, model: str, places: list[Place]) -> dict:
    """Be killed at each place in turn, resumed in between, and then let it end."""
    kills = sum(was_killed(run(folder, model, place)) for place in places)
    assert not was_killed(run(folder, model))
    return {"digest": digest(folder), "kills": kills, "places": len(places), "model": model}


def at_arbitrary_moments(folder: Path, model: str, seconds: float, attempts: int) -> dict:
    """Be killed from outside after random times up to `seconds`, the length of a whole run."""
    moments, kills = random.Random(0), 0
    for _ in range(attempts):
        child = run(folder, model)
        time.sleep(moments.uniform(0.1, 0.5) * seconds)
        os.kill(child, signal.SIGKILL)
        kills += was_killed(child)
    assert not was_killed(run(folder, model))
    return {"digest": digest(folder), "kills": kills, "model": model}


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    results = {}
    for model in ("vae+", "tvae"):
        assert not was_killed(run(folder / model, model))
        results[f"{model} uninterrupted"] = {"digest": digest(folder / model), "model": model}

    step = (loop.Loop, "batch")
    scenarios = {
        "before the first step": [kill_at(*step, 1)],
        "inside the first epoch": [kill_at(*step, 3)],
        "inside the second epoch": [kill_at(*step, STEPS + 2)],
        "at the last step": [kill_at(*step, EPOCHS * STEPS, after=True)],
        "twice": [kill_at(*step, STEPS + 1), kill_at(*step, STEPS + 3)],
        "in the second epoch, again and again": [kill_at(*step, k) for k in (STEPS + 1, 2, 3, 4)],
        # a checkpoint is five files and two folders flushed (fsync), one folder renamed
        "while writing the first checkpoint": [kill_at(os, "fsync", 1)],
        "while writing the second checkpoint": [kill_at(os, "fsync", 7 + 2, after=True)],
        "before the manifest of the second": [kill_at(os, "fsync", 7 + 5)],
        "before the second is published": [kill_at(os, "rename", 2)],
        "after the second is published": [kill_at(os, "rename", 2, after=True)],
        "while the first is dropped": [kill_at(shutil, "rmtree", 1)],
        "before the newest is opened": [kill_at(*step, STEPS + 1), kill_at(checkpoints, "read", 1)],
    }
    for name, places in scenarios.items():
        results[name] = at_chosen_places(folder / name.replace(" ", "-"), "vae+", places)
    results["tvae inside an epoch"] = at_chosen_places(
        folder / "tvae-epoch", "tvae", [kill_at(*step, STEPS + 2)]
    )
    # how long a run takes now: the first one may have shared the machine with many others
    start = time.monotonic()
    assert not was_killed(run(folder / "timed", "vae+"))
    length = time.monotonic() - start
    results["vae+ timed"] = {"digest": digest(folder / "timed"), "model": "vae+"}
    results["at arbitrary moments"] = at_arbitrary_moments(
        folder / "arbitrary", "vae+", length, attempts=8
    )
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
