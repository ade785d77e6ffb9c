"""What each ingredient of lending does, in short runs: `results/lending_trials.csv`.

    python scripts/lending_trials.py                 # every trial that the table does not hold yet
    python scripts/lending_trials.py half means      # only these

A trial is three passes through a third of MNIST (600 steps), rotations with true inverses, d = 26, one
seed. Too short for a final number, long enough to see what presses on what: the widths of the codes
(KL0), the log-likelihood of 200 test images by 300 importance samples, and what a borrowed τ does to
300 test digits.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas as pd
import torch

import tvae
from tvae.evaluation.likelihood import log_likelihood
from tvae.experiments.lending import Line, Scorecard
from tvae.objective import kl_standard_normal
from tvae.training import RunConfig, train

TABLE = Path(__file__).parents[1] / "results" / "lending_trials.csv"
ANGLES = (-24.0, -16.0, -8.0, 8.0, 16.0, 24.0)
LENT = ("tie", "borrowed_constraint", "borrowed_likelihood")
C, BORROWED = ("c1", "c2"), ("borrowed_c1", "borrowed_c2")
#: Trials by name: what is other than E with all terms of lending at weight one.
TRIALS: dict[str, dict[str, Any]] = {
    "A, the paper's loss": {"action": "A", "pairs": False},
    "E, weights one": {},
    "E, weights one, means": {"further": (*LENT, "means")},
    "E, half weights": {"weights": dict.fromkeys((*C, *BORROWED), 0.5)},
    "E, half weights, view KL": {
        "weights": dict.fromkeys((*C, *BORROWED), 0.5),
        "further": (*LENT, "view_kl"),
    },
    "E, quarter weights": {"weights": {**dict.fromkeys((*C, *BORROWED), 0.25), "tie": 0.5}},
}


def trial(settings: dict[str, Any]) -> dict[str, float]:
    """Train and measure one."""
    base: dict[str, Any] = {"action": "E", "d": 26, "pairs": True, "preset": "book", "epochs": 3}
    base |= {"families": ("rotation",), "geometry": "exact", "halve_every": 2}
    config = RunConfig.from_preset("mnist", **{**base, **settings})
    images = tvae.data.load("mnist", "train", source="full").take(20_000)
    test = tvae.data.load("mnist", "test", source="full")
    model = train(config, images, device="cpu").model
    x = test.floats(slice(0, 2000))
    with torch.no_grad():
        card = Scorecard(model, x[:300], x[300:600])
        own, borrowed = (Line.of(r, ANGLES) for r in card.readings("rotation", ANGLES))
        likelihood = log_likelihood(
            model, test.take(200), samples=300, generator=tvae.generator(0, "ll")
        )
        kl0 = float(kl_standard_normal(*model.encode(x)).mean())
    return {
        "own slope": own.slope[0],
        "slope": borrowed.slope[0],
        "correlation": borrowed.correlation[0],
        "error": borrowed.error[0],
        "digit from τ": card.class_from_tau(x[:1000], test.labels[:1000], "rotation", 20.0),
        "KL0": kl0,
        "−log p(x)": -likelihood.mean,
    }


def main() -> int:
    torch.set_num_threads(1)
    names = sys.argv[1:] or list(TRIALS)
    if unknown := set(names) - set(TRIALS):
        print(f"There is no trial {', '.join(sorted(unknown))}; there are {', '.join(TRIALS)}.")
        return 1
    table = pd.read_csv(TABLE, index_col=0) if TABLE.is_file() else pd.DataFrame()
    for name in names:
        if name not in table.index:
            row = pd.DataFrame([trial(TRIALS[name])], index=pd.Index([name], name="trial"))
            table = pd.concat([table, row])
            table.rename_axis("trial").round(3).to_csv(TABLE)
            print(row.round(3).to_string())
    return 0


if __name__ == "__main__":
    sys.exit(main())
