"""Two at once: into one run folder, over one ledger, an evaluation during training.

One waits, or is refused in a sentence; nothing is damaged.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tiny
import yaml
from found import Found, times
from kills import SWEEP, entries, left_behind, state
from processes import begin, command, was_killed

from tvae.runs.trained import load
from tvae.training import train
from tvae.training.checkpoints import CheckpointError
from tvae.training.configuration import RunConfig


def _config(draw: random.Random, epochs: int = 8) -> RunConfig:
    seed = draw.randint(0, 9)
    return RunConfig.from_preset("tiny", action="A", d=2, epochs=epochs, batch_size=10, seed=seed)


def _train(config: RunConfig, folder: Path) -> None:
    train(config, tiny.tiny("train"), folder=folder, device="cpu", progress=False)


def one_folder(place: Path, draw: random.Random) -> list[str]:
    """Two trainings into one folder, the second a little later, of the same run or of another."""
    first = _config(draw)
    second = first if draw.random() < 0.7 else _config(draw, epochs=first.epochs + 1)
    _train(first, place / "alone")

    def work(config: RunConfig) -> None:
        try:
            _train(config, place / "run")
        except CheckpointError as error:
            (place / f"told-{os.getpid()}").write_text(str(error))

    children = [begin(lambda: work(first))]
    while second is not first and not (place / "run" / ".lock").exists():
        time.sleep(0.001)  # which of two different runs comes first is not for chance to say
    time.sleep(draw.uniform(0, 0.5))
    children.append(begin(lambda: work(second)))
    for child in children:
        was_killed(child)
    told, faults = [path.read_text() for path in place.glob("told-*")], []
    # none is refused if the second came when the first had ended: it finds the run complete
    words = ("Another process is training", "is a checkpoint of another run")
    if len(told) > 1 or any(not any(x in text for x in words) for text in told):
        faults.append(f"refused in other words than meant: {told}")
    longer = second.epochs > first.epochs and second.seed == first.seed and not told
    if not longer and state(place / "run") != state(place / "alone"):
        faults.append("another result than that of one training alone")
    return faults + left_behind(place / "run")


def watched(place: Path, draw: random.Random) -> list[str]:
    """The newest checkpoint is loaded, again and again, while the training goes on."""
    config = _config(draw)
    _train(config, place / "alone")
    child = begin(lambda: _train(config, place / "run"))
    faults = []
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        try:
            load(place / "run")
        except ValueError as error:
            # before the first checkpoint there is none
            if not str(error).startswith(("There is no trained run", "There is no run folder")):
                faults.append(f"a model could not be loaded during training: {error}")
    was_killed(child)
    if state(place / "run") != state(place / "alone"):
        faults.append("another result than without being watched")
    return faults


def evaluated(place: Path, draw: random.Random) -> list[str]:
    """`tvae evaluate` of a run whose training goes on."""
    config, faults = _config(draw, epochs=1000), []
    child = begin(lambda: _train(config, place / "run"))
    while not (place / "run" / "epoch-00001").exists():
        time.sleep(0.01)
    few = ["--anchors", 50, "--queries", 10, "--likelihood-samples", 2, "--likelihood-images", 2]
    measured = command("evaluate", place / "run", *few, "--json", place / "measured.json")
    _, told = measured.communicate()
    if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
        faults.append("the training ended before its time")
    os.kill(child, 9)
    was_killed(child)
    if measured.returncode or told:
        faults.append(f"the evaluation ended with {measured.returncode}: {told[-300:]!r}")
    elif not json.loads((place / "measured.json").read_text())["metrics"]:
        faults.append("the evaluation brought nothing")
    return faults


def one_ledger(place: Path, draw: random.Random) -> list[str]:
    """Two sweeps of the same runs over one ledger and one folder of runs."""
    (place / "sweep.yaml").write_text(yaml.safe_dump({**SWEEP, "epochs": 5}))

    def begun(folder: Path) -> subprocess.Popen[str]:
        places = ["--results", folder / "results", "--runs", folder / "runs"]
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL}
        return command("sweep", place / "sweep.yaml", *places, **quiet)

    alone = begun(place / "alone")
    alone.communicate()
    first = begun(place / "both")
    time.sleep(draw.uniform(0, 5))
    second = begun(place / "both")
    told = [process.communicate()[1] for process in (first, second)]
    codes = alone.returncode, first.returncode, second.returncode
    faults = [] if codes == (0, 0, 0) else [f"sweeps ended with {codes}: {told}"]
    if entries(place / "both" / "results") != entries(place / "alone" / "results"):
        faults.append("not the entries of one sweep alone")
    return faults + left_behind(place / "both")


def together(seed: int, scale: float) -> Found:
    """All cases."""
    found = Found()
    for name, case, often in (
        ("two trainings into one folder", one_folder, 30),
        ("models loaded during training", watched, 15),
        ("evaluations during training", evaluated, 10),
        ("two sweeps over one ledger", one_ledger, 6),
    ):
        for number in range(times(often, scale)):
            with tempfile.TemporaryDirectory(prefix="together-") as place:
                draw = random.Random(f"{seed}/{name}/{number}")
                found.add(name, case(Path(place), draw), number)
    return found


PARTS: dict[str, Callable[[int, float], Found]] = {"two at once": together}
