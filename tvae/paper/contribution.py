"""What does the action contribute? The T-VAE and VAE+ with and without their parts, from the ledger.

    from tvae.paper import contribution
    contribution.table("fashion-mnist")        # a row for each variant that was run
    contribution.square("fashion-mnist", "knn_out")   # the 2×2 table of the two parts
    contribution.effects("fashion-mnist", "knn_out")

A T-VAE differs from VAE+ in two respects: it has an action, with the terms that belong to it, and it has
no KL terms on the views. Runs with every combination of the two tell them apart (`sweeps/contribution.yaml`).
"""

from __future__ import annotations

import math
import os
from statistics import fmean

import pandas as pd

from tvae.paper import comparison
from tvae.runs import ledger
from tvae.runs.name import RunName

#: What is compared; the accuracies on normalised images where they were measured.
METRICS = ("knn_out", "knn_out_centred", "knn_out_moments", "knn_in", "nllx0", "kl0", "mll")
#: Each variant by the label and the tag of its runs. The first four are the 2×2 table.
VARIANTS = {
    "action, no KL on views (A)": ("A", ""),
    "action, KL on views": ("A", "view-kl"),
    "no action, no KL on views": ("A", "no-action"),
    "no action, KL on views": ("A", "no-action-view-kl"),
    "A with the tie": ("A", "tie"),
    "VAE+": ("VAE+", ""),
    "VAE+, three times as long": ("VAE+", "three-times"),
}
#: The rows and columns of the 2×2 table.
ACTION = ("with the action", "without the action")
VIEWS = ("no KL on the views", "KL on the views")
_FACTORS = {
    "action, without KL on the views": (0, 2),
    "action, with KL on the views": (1, 3),
    "KL on the views, with the action": (1, 0),
    "KL on the views, without the action": (3, 2),
}


def _entries(dataset: str, results: str | os.PathLike[str] | None) -> dict[str, list[ledger.Entry]]:
    """The runs of every variant at d = 25, preset book, on the full data: one for each seed."""
    found: dict[str, list[ledger.Entry]] = {name: [] for name in VARIANTS}
    for entry in ledger.entries(results):
        settings = entry.configuration
        key = (RunName.of(settings).label, settings.tag)
        plain = (settings.dataset, settings.d, settings.preset) == (dataset, 25, "book")
        if entry.status == "ok" and plain and settings.source == "full":
            for name, wanted in VARIANTS.items():
                if key == wanted:
                    found[name].append(entry)
    return found


def _value(entry: ledger.Entry, metric: str) -> float:
    if metric in entry.further:
        return float(entry.further[metric].value)
    value = entry.metrics.get(metric)
    return math.nan if value is None else float(value)


def table(dataset: str, results: str | os.PathLike[str] | None = None) -> pd.DataFrame:
    """A row for each variant: how many seeds, epochs, and the means of `METRICS` over the seeds.

    A variant that was not run has 0 seeds, and NaN in the other columns.
    """
    rows = {}
    for name, entries in _entries(dataset, results).items():
        row: dict[str, float] = {"seeds": len(entries)}
        row["epochs"] = float(entries[0].training["epochs"] or 0) if entries else math.nan
        for metric in METRICS:
            values = [v for v in (_value(e, metric) for e in entries) if not math.isnan(v)]
            row[metric] = fmean(values) if values else math.nan
        rows[name] = row
    return pd.DataFrame.from_dict(rows, orient="index").astype({"seeds": int})


def square(
    dataset: str, metric: str, results: str | os.PathLike[str] | None = None
) -> pd.DataFrame:
    """The 2×2 table of {action} × {KL on the views} in one metric; NaN where a variant was not run."""
    means = table(dataset, results)[metric].to_numpy()[:4]
    return pd.DataFrame(means.reshape(2, 2), index=list(ACTION), columns=list(VIEWS))


def missing(dataset: str, results: str | os.PathLike[str] | None = None) -> list[str]:
    """The variants that the ledger does not hold for a data set."""
    seeds = table(dataset, results)["seeds"]
    return list(seeds.index[seeds == 0])


def effects(
    dataset: str, metric: str, results: str | os.PathLike[str] | None = None
) -> pd.DataFrame:
    """What each of the two parts changes, with the other and without it: `difference` and `error`.

    `metric` is one of the twelve. The error is that between seeds (`comparison.spread`), for as many
    seeds as either side has; NaN where a run is missing.
    """
    runs = list(_entries(dataset, results).values())
    means = table(dataset, results)[metric]
    apart = comparison.spread(metric, dataset, results)[0]
    rows = {}
    for name, (one, two) in _FACTORS.items():
        parts = [apart / math.sqrt(len(runs[side])) for side in (one, two) if runs[side]]
        error = math.hypot(*parts) if len(parts) == 2 else math.nan
        rows[name] = {"difference": means.iloc[one] - means.iloc[two], "error": error}
    return pd.DataFrame.from_dict(rows, orient="index")
