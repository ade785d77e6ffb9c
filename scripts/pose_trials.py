"""What each part of content and pose does, in short runs: `results/pose_trials.csv`.

    python scripts/pose_trials.py                       # every trial that the table does not hold
    python scripts/pose_trials.py "P, moments alone"    # only these

400 steps at the book's rate on MNIST images that are moved first, one seed. Measured on AffNIST's
*validation* part, which is what was tuned on: 5 nearest neighbours of 5,000 of its images among 1,000 and
10,000 labelled training images. Too short for a final number, long enough to see what each part is worth:
compare within the table only.
The rows "begun at −4" were made first, when all log-variances between views began there; the code has
no switch for them any more.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import trials

import tvae
from tvae.evaluation import PCA, Pixels, embed, normalisation
from tvae.evaluation.knn import Neighbours, vote
from tvae.transforms import Moved, Triplets

TABLE = Path(__file__).parents[1] / "results" / "pose_trials.csv"
STEPS = 400
PULL = {"c1": 4.0, "c2": 4.0}
#: Trials by name; those without an action are not trained.
TRIALS: dict[str, dict[str, Any]] = {
    "P": {},
    "P, moments alone": {"action_options": {"parts": ()}},
    "P, without saliency": {"action_options": {"parts": ("refinement",)}},
    "P, without refinement": {"action_options": {"parts": ("saliency",)}},
    "P, four times the pull, on means": {"weights": PULL, "further": ("means",)},
    "AP, the soft split": {"action": "AP"},
    "AP, four times the pull": {"action": "AP", "weights": PULL},
    "A, no pose": {"action": "A", "d": 25},
    "pixels": {"embedding": "pixels"},
    "PCA": {"embedding": "PCA"},
    "PCA, centred": {"embedding": "PCA", "kind": "centred"},
    "PCA, moments": {"embedding": "PCA", "kind": "moments"},
}


def neighbours(model: Any, kind: str | None) -> dict[str, float]:
    """The accuracies on AffNIST's validation part, normalised first if `kind` says how."""
    anchors = tvae.data.load("affnist", "train", source="regenerated", count=10_000)
    queries = tvae.data.load("affnist", "validation", source="regenerated", count=5_000)
    if kind is not None:
        size = normalisation.mean_size(tvae.data.load("mnist", "train"))
        anchors, queries = (normalisation.normalised(x, kind, size) for x in (anchors, queries))
    near, far = embed(model, anchors), embed(model, queries)
    found = {}
    for size in (1_000, 10_000):
        right = vote(anchors.labels[:size][Neighbours(near[:size], 5)(far).indices])
        found[f"{size:,} anchors"] = float((right == queries.labels).double().mean())
    return found


def trial(settings: dict[str, Any]) -> dict[str, float]:
    """Train and measure one."""
    settings = dict(settings)
    images = tvae.data.load("mnist", "train")
    kind = settings.pop("kind", None)
    if "embedding" in settings:
        return neighbours(Pixels() if settings["embedding"] == "pixels" else PCA(images, 25), kind)
    options: dict[str, Any] = {"d": 31, "action": "P", "action_options": {}}
    options |= {key: settings.pop(key) for key in tuple(options) if key in settings}
    model = tvae.TVAE(**options, generator=tvae.generator(0, "init"))
    views = Moved(Triplets(("affine",), "exact"))
    history = tvae.fit(
        model, images, triplets=views, steps=STEPS, learning_rate=1e-3, device="cpu", **settings
    )
    return {"steps": STEPS, **neighbours(model, None), "−log p(x₀|z₀)": history[-1]["nllx0"]}


if __name__ == "__main__":
    sys.exit(trials.make(TRIALS, lambda name: trial(TRIALS[name]), TABLE, 4))
