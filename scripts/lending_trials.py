"""What each ingredient of lending does, in short runs: `results/lending_trials.csv`.

    python scripts/lending_trials.py                      # every trial that the table does not hold
    python scripts/lending_trials.py "E, half weights"    # only these

Rotations with true inverses, d = 26, one seed. 600 steps are three passes through a third of MNIST,
measured on 300 digits that borrow from 300 others and by the log-likelihood of 200 test images; 300
steps are five passes through the embedded images at twice the rate, with 200 digits and 100 images.
Too short for a final number, long enough to see what presses on what: compare within one length.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import trials

import tvae
from tvae.evaluation.likelihood import log_likelihood
from tvae.experiments.lending import Line, Scorecard
from tvae.objective import kl_standard_normal
from tvae.transforms import Triplets

TABLE = Path(__file__).parents[1] / "results" / "lending_trials.csv"
ANGLES = (-24.0, -16.0, -8.0, 8.0, 16.0, 24.0)
LENT = ("tie", "borrowed_constraint", "borrowed_likelihood")
HALF = dict.fromkeys(("c1", "c2", "borrowed_c1", "borrowed_c2"), 0.5)
#: Trials by name: their action, terms and weights.
TRIALS: dict[str, dict[str, Any]] = {
    "A, the paper's loss": {"action": "A"},
    "E, weights one": {"further": LENT},
    "E, weights one, means": {"further": (*LENT, "means")},
    "E, half weights": {"further": LENT, "weights": HALF},
    "E, half weights, view KL": {"further": (*LENT, "view_kl"), "weights": HALF},
    "E, half weights, shorter": {"further": LENT, "weights": HALF},
    "E, half weights, view KL, shorter": {"further": (*LENT, "view_kl"), "weights": HALF},
}


def trial(settings: dict[str, Any], short: bool) -> dict[str, float]:
    """Train and measure one."""
    settings = dict(settings)
    source = "embedded" if short else "full"
    images = tvae.data.load("mnist", "train", source=source)
    test = tvae.data.load("mnist", "test", source=source)
    model = tvae.TVAE(26, action=settings.pop("action", "E"), generator=tvae.generator(0, "init"))
    length: dict[str, Any] = {"steps": 300, "learning_rate": 2e-3}
    if not short:
        length = {"epochs": 3, "halve_every": 2}
    triplets = Triplets(("rotation",), "exact", pairs="further" in settings)
    tvae.fit(
        model,
        images if short else images.take(20_000),
        triplets=triplets,
        device="cpu",
        **settings,
        **length,
    )
    model.eval().requires_grad_(False).triplets = Triplets(("rotation",), "exact")
    x = test.floats(slice(0, 2000))
    n, first, samples = (200, 100, 100) if short else (300, 200, 300)
    card = Scorecard(model, x[:n], x[300 : 300 + n])
    own, borrowed = (Line.of(read, ANGLES) for read in card.readings("rotation", ANGLES))
    draws = tvae.generator(0, "ll")
    likelihood = log_likelihood(model, test.take(first), samples=samples, generator=draws)
    return {
        "steps": 300 if short else 600,
        "own slope": own.slope[0],
        "slope": borrowed.slope[0],
        "correlation": borrowed.correlation[0],
        "error": borrowed.error[0],
        "digit from τ": card.class_from_tau(x[:1000], test.labels[:1000], "rotation", 20.0),
        "KL0": float(kl_standard_normal(*model.encode(x)).mean()),
        "−log p(x)": -likelihood.mean,
    }


if __name__ == "__main__":
    sys.exit(
        trials.make(TRIALS, lambda name: trial(TRIALS[name], name.endswith("shorter")), TABLE, 3)
    )
