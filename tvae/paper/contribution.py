"""What does the action contribute? The T-VAE and VAE+ with and without their parts, from the ledger.

    from tvae.paper import contribution
    contribution.table("fashion-mnist")        # a row for each variant that was run
    contribution.square("fashion-mnist", "knn_out")   # the 2×2 table of the two parts
    contribution.effects("fashion-mnist", "knn_out")

A T-VAE differs from VAE+ in two respects: it has an action, with the terms that belong to it, and it has
no KL terms on the views. Runs with every combination of the two tell them apart (`sweeps/contribution.yaml`).
"""

import numpy as np
import pandas as pd

from tvae.files import AnyPath
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


def _runs(dataset: str, results: AnyPath | None) -> pd.DataFrame:
    """The runs of every variant at d = 25, preset book, on the full data: a row for each seed."""
    variants = {key: name for name, key in VARIANTS.items()}
    rows = []
    for entry in ledger.entries(results):
        settings = entry.configuration
        variant = variants.get((RunName.of(settings).label, settings.tag))
        place = (settings.dataset, settings.d, settings.preset, settings.source)
        if entry.status == "ok" and variant and place == (dataset, 25, "book", "full"):
            further = {name: found.value for name, found in entry.further.items()}
            epochs = entry.training["epochs"]
            rows.append({"variant": variant, "epochs": epochs, **entry.metrics, **further})
    columns = ["epochs", *METRICS]
    return pd.DataFrame(rows, columns=["variant", *columns]).astype(dict.fromkeys(columns, float))


def table(dataset: str, results: AnyPath | None = None) -> pd.DataFrame:
    """A row for each variant: how many seeds, epochs, and the means of `METRICS` over the seeds.

    A variant that was not run has 0 seeds, and NaN in the other columns.
    """
    runs = _runs(dataset, results).groupby("variant")
    means = runs.mean().reindex(list(VARIANTS)).rename_axis(index=None)
    means.insert(0, "seeds", runs.size().reindex(list(VARIANTS), fill_value=0))
    return means


def square(dataset: str, metric: str, results: AnyPath | None = None) -> pd.DataFrame:
    """The 2×2 table of {action} × {KL on the views} in one metric; NaN where a variant was not run."""
    means = table(dataset, results)[metric].to_numpy()[:4]
    return pd.DataFrame(means.reshape(2, 2), index=list(ACTION), columns=list(VIEWS))


def missing(dataset: str, results: AnyPath | None = None) -> list[str]:
    """The variants that the ledger does not hold for a data set."""
    seeds = table(dataset, results)["seeds"]
    return list(seeds.index[seeds == 0])


def effects(dataset: str, metric: str, results: AnyPath | None = None) -> pd.DataFrame:
    """What each of the two parts changes, with the other and without it: `difference` and `error`.

    `metric` is one of the twelve. The error is that between seeds (`comparison.spread`), for as many
    seeds as either side has; NaN where a run is missing.
    """
    means = table(dataset, results)
    apart = comparison.spread(metric, dataset, results)[0]
    squares = apart**2 / means["seeds"].where(means["seeds"] > 0)
    ones, twos = (list(side) for side in zip(*_FACTORS.values(), strict=True))
    return pd.DataFrame(
        {
            "difference": means[metric].to_numpy()[ones] - means[metric].to_numpy()[twos],
            "error": np.sqrt(squares.to_numpy()[ones] + squares.to_numpy()[twos]),
        },
        index=list(_FACTORS),
    )
