"""Two at once: into one run folder, over one ledger, an evaluation during training.

One waits, or is refused in a sentence; nothing is damaged.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import tiny
import yaml
from kills import SWEEP, begin, entries, left_behind, state, was_killed

from tvae.runs.trained import load
from tvae.training import train
from tvae.training.checkpoints import CheckpointError
from tvae.training.configuration import RunConfig


def _config(seed: int) -> RunConfig:
    return RunConfig.from_preset("tiny", action="A", d=2, epochs=8, batch_size=10, seed=seed)


def one_folder(place: Path, draw: random.Random) -> list[str]:
    """Two trainings of the same run into one folder, the second a little later."""
    images, config, faults = tiny.tiny("train"), _config(draw.randint(0, 9)), []
    train(config, images, folder=place / "alone", device="cpu", progress=False)

    def work() -> None:
        (place / f"told-{os.getpid()}").touch()
        try:
            train(config, images, folder=place / "run", device="cpu", progress=False)
        except CheckpointError as error:
            (place / f"told-{os.getpid()}").write_text(str(error))

    first = begin(work)
    time.sleep(draw.uniform(0, 0.5))
    second = begin(work)
    was_killed(first)
    was_killed(second)
    told = [path.read_text() for path in place.glob("told-*") if path.stat().st_size]
    # none is refused if the second came when the first had ended: it finds the run complete
    if len(told) > 1 or any("Another process is training" not in text for text in told):
        faults.append(f"refused in other words than meant: {told}")
    if state(place / "run") != state(place / "alone"):
        faults.append("another result than that of one training alone")
    return faults + left_behind(place / "run")


def watched(place: Path, draw: random.Random) -> list[str]:
    """The newest checkpoint is loaded, again and again, while the training goes on."""
    images, config = tiny.tiny("train"), _config(draw.randint(0, 9))
    train(config, images, folder=place / "alone", device="cpu", progress=False)
    child = begin(lambda: train(config, images, folder=place / "run", device="cpu", progress=False))
    loaded, faults = 0, []
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        try:
            load(place / "run")
            loaded += 1
        except ValueError as error:
            # before the first checkpoint there is none
            if not str(error).startswith(("There is no trained run", "There is no run folder")):
                faults.append(f"a model could not be loaded during training: {error}")
    was_killed(child)
    if state(place / "run") != state(place / "alone"):
        faults.append("another result than without being watched")
    return faults


def one_ledger(place: Path, draw: random.Random) -> list[str]:
    """Two sweeps of the same runs over one ledger and one folder of runs."""
    environment = {**os.environ, "TVAE_PLUGINS": "tiny", "PYTHONPATH": str(Path(__file__).parent)}
    environment["OMP_NUM_THREADS"] = "1"
    (place / "sweep.yaml").write_text(yaml.safe_dump({**SWEEP, "epochs": 5}))

    def command(folder: Path) -> list[str]:
        words = [sys.executable, "-m", "tvae.cli", "sweep", str(place / "sweep.yaml")]
        return [*words, "--results", str(folder / "results"), "--runs", str(folder / "runs")]

    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "env": environment}
    subprocess.run(command(place / "alone"), check=True, **quiet)
    first = subprocess.Popen(command(place / "both"), **quiet)
    time.sleep(draw.uniform(0, 5))
    second = subprocess.Popen(command(place / "both"), **quiet)
    codes = first.wait(), second.wait()
    faults = [] if codes == (0, 0) else [f"two sweeps ended with {codes}"]
    if entries(place / "both" / "results") != entries(place / "alone" / "results"):
        faults.append("not the entries of one sweep alone")
    return faults + left_behind(place / "both")


def run(seed: int, scale: float = 1.0) -> dict[str, Any]:
    """All cases; `scale` multiplies how often each comes."""
    counts: dict[str, int] = {}
    faults: list[str] = []
    for name, case, often in (
        ("two trainings, one folder", one_folder, 20),
        ("loading during training", watched, 10),
        ("two sweeps, one ledger", one_ledger, 5),
    ):
        counts[name] = max(1, round(often * scale))
        for number in range(counts[name]):
            with tempfile.TemporaryDirectory(prefix="together-") as place:
                draw = random.Random(f"{seed}/{name}/{number}")
                faults += [f"{name} {number}: {what}" for what in case(Path(place), draw)]
        print(f"{name}: {counts[name]} times, {len(faults)} faults so far", flush=True)
    return {"together": counts, "faults": faults}


if __name__ == "__main__":
    print(
        run(int(sys.argv[1]) if sys.argv[1:] else 0, float(sys.argv[2]) if sys.argv[2:] else 0.05)
    )
