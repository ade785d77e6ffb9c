"""Entries of a ledger for tests, filled with numbers that a seeded generator draws."""

from __future__ import annotations

import random
from typing import Any

from tvae.paper import METRICS
from tvae.runs.ledger import Entry
from tvae.runs.name import RunName
from tvae.runs.sweep import Job


def entry(job: Job, *, status: str = "ok", seed: int = 0, **changes: Any) -> Entry:
    """An entry of this job with made-up metrics, single fields replaced."""
    return Entry.checked({**values(job, status=status, seed=seed), **changes})


def values(job: Job, *, status: str = "ok", seed: int = 0) -> dict[str, Any]:
    """The plain values of a valid entry; None where the model has no such metric."""
    draw = random.Random(f"{job.name}{seed}")
    metrics: dict[str, float | None] = {}
    for name in METRICS:
        value = draw.uniform(0, 1) if name.startswith("knn") else draw.uniform(50, 100)
        latent = name in ("c1", "c2", "nll", "div") and job.model != "tvae"
        views = name in ("nllx1", "nllx2") and job.model not in ("tvae", "vae+")
        only_knn = not job.trained and not name.startswith("knn")
        no_classes = name == "knn_in" and job.dataset == "omniglot"
        metrics[name] = None if latent or views or only_knn or no_classes else value
    configuration = job.configuration()
    good = status == "ok"
    return {
        "schema": 1,
        "name": str(RunName.of(job)),
        "status": status,
        "reason": None if good else "ValueError: for the sake of the test",
        "configuration": configuration,
        "data": {
            "train": {
                "name": job.dataset,
                "source": "embedded",
                "split": "train",
                "count": 10,
                "checksum": "0123456789abcdef",
                "note": "",
            }
        },
        "versions": {"python": "3", "torch": "2", "numpy": "2", "tvae": "0"},
        "commit": None,
        "hardware": {"cpu": "x", "cores": 2, "threads": 1, "memory_gib": 4.0, "device": "cpu"},
        "seconds": {"training": 1.5, "evaluation": 0.5},
        "finished": "2026-01-01T00:00:00Z",
        "training": {"epochs": 2, "steps": 20} if job.trained else {},
        "metrics": metrics if good else dict.fromkeys(METRICS),
        "standard_errors": {"mll": 0.25} if good and job.trained else {},
        "evaluation": {"likelihood_samples": 10},
        "curve": [{"epoch": 1, "total": 200.5}, {"epoch": 2, "total": 150.25}],
    }
