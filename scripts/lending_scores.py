"""The scorecard of a group, for every run of the chapter on lending: `results/lending_scores.csv`.

    TVAE_DATA=... python scripts/lending_scores.py [--runs runs] [--only lending-drawn/mnist-E-26 ...]

One row for each run and family of transformations that it was trained on, measured on the full test set
of MNIST: 300 digits borrow from 300 others. Runs are those of `sweeps/lending.yaml` whose entry is in the
ledger and whose folder is under --runs, and the paper's actions as they are released. A run that the
table holds is not measured again, so an interrupted script goes on where it stopped.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import torch

import tvae
from tvae.experiments.lending import Line, Scorecard
from tvae.files import atomic_write
from tvae.runs import ledger, released, sweep

ROOT = Path(__file__).parents[1]
RECEIVERS, POOL = 300, 3000
ANGLES = (-24.0, -16.0, -8.0, 8.0, 16.0, 24.0)
#: The values at which each family is measured, and the one at which the class is read off τ.
VALUES = {
    "rotation": ANGLES,
    "shear": ANGLES,
    "scale": (-0.18, -0.12, -0.06, 0.06, 0.12, 0.18),
    "translation": (-5.0, -3.0, -1.0, 1.0, 3.0, 5.0),
}
#: Two steps of each family, for the laws of a group.
STEPS = {
    "rotation": (8.0, 12.0),
    "shear": (8.0, 12.0),
    "scale": (0.06, 0.1),
    "translation": (1.0, 3.0),
}
#: The paper's models, as they are released.
PAPER = ("mnist-A-25", "mnist-M-26", "mnist-T-25", "mnist-NR-25")


def runs(folder: Path) -> Iterator[tuple[dict[str, Any], Any]]:
    """What the table says of each run, and a function that loads its model."""
    for name in PAPER:
        entry = released.entry(name)
        yield described(name, entry), lambda name=name: tvae.pretrained(name)
    for job in sweep.load(ROOT / "sweeps" / "lending.yaml"):
        found = ledger.find(job.configuration())
        if found is not None and found.status == "ok" and (folder / job.name).is_dir():
            yield described(job.name, found), lambda job=job: tvae.load(folder / job.name)


def described(name: str, entry: ledger.Entry) -> dict[str, Any]:
    settings, metrics = entry.configuration, entry.metrics
    held = {"run": name, "tag": settings.tag, "action": settings.action, "d": settings.d}
    held |= {"seed": settings.seed, "families": " ".join(settings.families or ())}
    return held | {key: metrics[key] for key in ("mll", "kl0", "nllx0", "knn_out")}


def scores(model: Any, test: Any) -> Iterator[dict[str, Any]]:
    """A row for each family that the model knows."""
    x, labels = test.floats(slice(0, POOL)), test.labels[:POOL]
    card = Scorecard(model, x[:RECEIVERS], x[RECEIVERS : 2 * RECEIVERS])
    for family in model.triplets.families:
        if family not in VALUES:
            continue
        values = VALUES[family]
        own, borrowed = (Line.of(read, values) for read in card.readings(family, values))
        squares = [float(square.mean()) for square in card.swapped(family, values)]
        nats = {
            f"nats {key}": float(value.mean()) for key, value in card.nats(family, values).items()
        }
        at = 20.0 if family in ("rotation", "shear") else values[-1]
        draws = tvae.generator(0, "tau")
        yield {
            "family": family,
            "own slope": own.slope[0],
            **{key: value[0] for key, value in borrowed._asdict().items()},
            "own error": own.error[0],
            **dict(zip(("square own", "square swapped", "square none"), squares, strict=True)),
            **nats,
            **card.group(family, *STEPS[family]),
            "linear": card.linear(family, values),
            "class": card.class_from_tau(x, labels, family, at),
            "class drawn": card.class_from_tau(x, labels, family, at, draws),
        }


def main() -> None:
    """Measure what the table lacks, one run after the other."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where run folders lie")
    parser.add_argument("--only", nargs="+", default=[""], help="beginnings of the runs' names")
    arguments = parser.parse_args()
    path = ledger.folder() / "lending_scores.csv"
    table = pd.read_csv(path) if path.is_file() else pd.DataFrame({"run": []})
    test = tvae.data.load("mnist", "test", source="full")
    for held, load in runs(arguments.runs):
        if held["run"] in set(table["run"]) or not held["run"].startswith(tuple(arguments.only)):
            continue
        model = load().eval().requires_grad_(False)
        found = pd.DataFrame([held | row for row in scores(model, test)])
        table = pd.concat([table, found], ignore_index=True)
        atomic_write(path, table.to_csv(index=False, float_format="%.5g"))
        print(
            found[["run", "family", "own slope", "slope", "correlation", "error", "class"]],
            flush=True,
        )


if __name__ == "__main__":
    with torch.inference_mode():
        main()
