"""Where we stand: for each row of the paper's tables, the best run of it that the ledger holds.

    from tvae.paper import comparison
    comparison.best("mnist", "M^R", 25)          # an entry of the ledger, or None
    comparison.rows("mnist", d=25)               # the paper's rows beside ours

A row may have been run more than once: for a few epochs first, to the end later. The best run is the
one nearest to the paper's: the preset `paper`, then `book`, both without a tag; then those with a
tag (a shorter run of the same thing), the one with the most steps first. Runs that stand for another
experiment never count: those of the preset `quick`, the tags in `EXCLUDED`, other transformations, or a
part of the data set.

`rows` shows single runs, with the error of measuring them. `averages` is for comparing methods: means
over seeds, with the error that another seed makes.
"""

import itertools
import math
from collections import defaultdict
from statistics import fmean, median, variance
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from tvae import paper
from tvae.evaluation.statistics import CLEAR, Array
from tvae.files import AnyPath
from tvae.paper import METRICS, report
from tvae.runs import ledger
from tvae.runs.name import BASELINES as _WRITTEN
from tvae.runs.name import RunName, fold
from tvae.training.configuration import RunConfig

#: Tags of experiments whose runs are never a row of the paper's tables.
EXCLUDED = (
    *("smoke", "stability", "plateau", "eight-alphabets"),
    *("no-action", "view-kl", "no-action-view-kl", "tie", "three-times"),
)
#: Accuracies out of sample that the paper does not have: on AffNIST normalised by its moments.
FURTHER = ("knn_out_centred", "knn_out_moments")
#: The dimensions of the paper's tables; M and MA have 26 in place of 25.
DIMENSIONS = (100, 25, 10)
#: The rows that the paper lacks, by the labels that the tables give them.
BASELINES = tuple(_WRITTEN.values())

_PRESETS = ("paper", "book")
_PIXELS = _WRITTEN["pixels"]
_Key = tuple[str, str, int]


def _counts(entry: ledger.Entry) -> bool:
    """Whether this run may stand for a row of the paper's tables."""
    settings = entry.configuration
    return (
        entry.status == "ok"
        and settings.preset in _PRESETS
        and settings.source == "full"
        and settings.tag not in EXCLUDED
        and "not the full set" not in entry.data["train"].note
        and tuple(settings.families or RunConfig.families) == RunConfig.families
    )


def _rank(entry: ledger.Entry) -> tuple[int, float, int]:
    """Smaller is better: untagged runs by preset, then tagged ones by steps; then by seed."""
    settings = entry.configuration
    place = len(_PRESETS) if settings.tag else _PRESETS.index(settings.preset)
    return place, -(entry.training.get("steps") or 0), settings.seed


def _schedule(entry: ledger.Entry) -> tuple[str, str]:
    return entry.configuration.preset, entry.configuration.tag


def _entries(results: AnyPath | None) -> list[tuple[_Key, ledger.Entry]]:
    """The entries that may stand for a row, each with its data set, label and true dimension."""
    found = [entry for entry in ledger.entries(results) if _counts(entry)]
    settings = [entry.configuration for entry in found]
    keys = [(its.dataset, RunName.of(its).label, its.d) for its in settings]
    return list(zip(keys, found, strict=True))


def _runs(
    results: AnyPath | None, schedule: tuple[str, str] | None = None, seed: int | None = None
) -> dict[_Key, ledger.Entry]:
    """The best run for every data set, label and true dimension."""
    found: dict[_Key, ledger.Entry] = {}
    for key, entry in sorted(_entries(results), key=lambda pair: _rank(pair[1])):
        alike = schedule in (None, _schedule(entry)) and seed in (None, entry.configuration.seed)
        if alike or key[1] in BASELINES:
            found.setdefault(key, entry)
    return found


def _known(label: str) -> str:
    for name in (*report.LABELS, *BASELINES):
        if fold(name) == fold(label):
            return name
    raise ValueError(
        f"There is no row {label!r}; choose one of {', '.join((*report.LABELS, *BASELINES))}."
    )


def _dimension(label: str, d: int) -> int:
    return RunName.of_label("", label, d).nearest().d or d


def best(
    dataset: str, label: str, d: int | None = 25, results: AnyPath | None = None
) -> ledger.Entry | None:
    """The run nearest to the paper's for this row of its tables, or None if there is none.

    `label` is written as in the tables: `A`, `M^R` (or `MR`), `VAE+`, `PCA`, `untrained`, `pixels`;
    case does not matter. `d` = 25 finds M and MA at 26; raw pixels have no d to choose.
    """
    label = _known(label)
    if label != _PIXELS and d is None:
        raise ValueError(f"The row {label} needs a dimension d, such as 25.")
    for (*row, size), entry in _runs(results).items():
        if row == [dataset, label] and (label == _PIXELS or size == _dimension(label, d or 0)):
            return entry
    return None


# --- errors -------------------------------------------------------------------------------------


def _grouped(entry: ledger.Entry) -> float:
    """The error of the accuracy out of sample by digits, if it was measured, else NaN."""
    if "knn_out_again" in entry.further:
        return entry.further["knn_out_again"].standard_error or math.nan
    known = "knn_out_groups" in entry.evaluation
    return entry.standard_errors.get("knn_out", math.nan) if known else math.nan


def _wider(results: AnyPath | None) -> float:
    """How many times the binomial error that by digits is, where it is known: the median."""
    known = []
    for _, entry in _entries(results):
        share, count = entry.metrics["knn_out"], entry.evaluation.get("knn_out_queries")
        if share and isinstance(count, int) and _grouped(entry) > 0:
            known.append(_grouped(entry) / math.sqrt(share * (1 - share) / count))
    return median(known) if known else 1.0


def _errors(entry: ledger.Entry, wider: float) -> dict[str, Any]:
    """The standard errors of an entry, and whether that of the accuracy was measured by digits.

    Where it was not, it is `wider` times the binomial one. The error of `mll` has the choice of the test
    images in it, `mll_sampling` has not; older entries have only the latter, and the images' part is that
    of the ELBO.
    """
    found: dict[str, Any] = {f"{m}_se": entry.standard_errors.get(m) for m in METRICS}
    grouped, again = _grouped(entry), entry.further.get("mll_again")
    found["grouped"] = not math.isnan(grouped)
    if found["grouped"]:
        found["knn_out_se"] = grouped
    elif found["knn_out_se"] is not None:
        found["knn_out_se"] *= wider
    found["mll_sampling"] = entry.evaluation.get("mll_sampling_error", found["mll_se"])
    if again is not None:
        found["mll_se"] = again.standard_error
    elif "mll_sampling_error" not in entry.evaluation and found["mll_se"] is not None:
        found["mll_se"] = math.hypot(found["mll_se"], found["elbo_se"] or 0.0)
    return found


def roughness(curves: Array) -> Array:
    """The standard deviation of each curve's epochs about a straight line: (..., E) → (...).

    The line is fitted, so the sum of squares is divided by E − 2: independent noise of variance σ²
    about any line gives σ² on average (of squares). NaN for fewer than three epochs.
    """
    epochs = curves.shape[-1]
    if epochs < 3:
        return np.full(curves.shape[:-1], np.nan)
    time = np.arange(epochs) - (epochs - 1) / 2
    centred = curves - curves.mean(axis=-1, keepdims=True)
    slope = (centred @ time) / (time @ time)
    rest = centred - slope[..., None] * time
    return np.asarray(np.sqrt(np.square(rest).sum(axis=-1) / (epochs - 2)))


def walk(entry: ledger.Entry, metric: str) -> float:
    """How far `metric` on the test images strays from epoch to epoch late in training.

    The `roughness` of the second half of the epochs. A T-VAE wanders along lines of equal ELBO, so
    that the last epoch's NLL is one draw of many. NaN where the curve does not record it; the
    log-likelihood has the walk of the ELBO.
    """
    whole = ("nllx0", "kl0")
    parts = {"nllx0": whole[:1], "kl0": whole[1:], "elbo": whole, "mll": whole}.get(metric, ())
    names = [f"test_{part}" for part in parts]
    rows = [r for r in entry.curve if names and all(r.get(n) is not None for n in names)]
    values = np.array([sum(r[n] or 0.0 for n in names) for r in rows][len(rows) // 2 :])
    return float(roughness(values)) if len(values) > 3 else math.nan


def runs(
    schedule: tuple[str, str], results: AnyPath | None = None
) -> dict[_Key, list[ledger.Entry]]:
    """All seeds trained by one schedule, by data set, label and true dimension; not to be changed."""
    found = defaultdict(list)
    for key, entry in _entries(results):
        if key[1] not in BASELINES and _schedule(entry) == schedule:
            found[key].append(entry)
    return dict(found)


def spread(
    metric: str,
    dataset: str | None = None,
    results: AnyPath | None = None,
    *,
    schedule: tuple[str, str] = ("book", ""),
) -> tuple[float, int]:
    """The standard deviation between seeds, and its degrees of freedom.

    Pooled over the rows of `dataset` that were trained from several seeds; over those of all data sets
    if that leaves fewer than two degrees of freedom. (NaN, 0) if there are none.
    """

    def pooled(name: str | None) -> tuple[float, int]:
        squares, freedom = 0.0, 0
        for key, entries in runs(schedule, results).items():
            values = [e.metrics[metric] for e in entries if e.metrics[metric] is not None]
            if len(values) > 1 and name in (None, key[0]):
                squares += (len(values) - 1) * variance(float(v or 0.0) for v in values)
                freedom += len(values) - 1
        return (math.sqrt(squares / freedom) if freedom else math.nan), freedom

    own = pooled(dataset)
    return own if own[1] >= 2 else pooled(None)


def averages(
    results: AnyPath | None = None, *, schedule: tuple[str, str] = ("book", "")
) -> pd.DataFrame:
    """The table of `rows` for comparing methods: the mean over all seeds of a schedule.

    `<metric>_se` is the error of that mean for comparisons: for what is trained, the `spread` between
    seeds over the root of their number (`seeds`), widened from the normal to Student's distribution for
    the few degrees of freedom, where the spread counts as at least the `walk` of the run itself; and the
    error of measuring accuracies (by digit) and `mll` (by sampling). Compared models have the same test
    images, so the choice of these is left out.
    """
    table, several = rows(results=results, schedule=schedule), runs(schedule, results)
    table["seeds"] = 1
    table["mll_se"] = table["mll_sampling"]
    for metric in METRICS:
        if metric != "mll" and not metric.startswith("knn"):
            table[f"{metric}_se"] *= 0.0
    known = {
        (metric, name): spread(metric, name, results, schedule=schedule)
        for metric in METRICS
        for name in {key[0] for key in several}
    }
    for index, row in table.iterrows():
        entries = several.get((row["dataset"], row["label"], row["d"]), [])
        if not entries:
            continue
        table.loc[index, "seeds"] = len(entries)  # type: ignore[index]
        for metric in METRICS:
            values = [e.metrics[metric] for e in entries if e.metrics[metric] is not None]
            if not values:
                continue
            apart, freedom = known[metric, row["dataset"]]
            apart *= float(stats.t.ppf(0.975, freedom)) / CLEAR if freedom else math.nan
            strays = [walk(entry, metric) for entry in entries]
            seeds = np.nanmax([0.0, apart, *strays]) / math.sqrt(len(values))
            table.loc[index, metric] = fmean(float(v or 0.0) for v in values)  # type: ignore[index]
            measured = table.loc[index, f"{metric}_se"]  # type: ignore[index]
            table.loc[index, f"{metric}_se"] = math.hypot(measured, seeds)  # type: ignore[index]
    return table


# --- the table ----------------------------------------------------------------------------------


_COLUMNS = (
    *("dataset", "label", "nominal", "d"),
    *(f"{metric}{end}" for metric in METRICS for end in ("_paper", "", "_se")),
    *("mll_sampling", "effective_sample_size"),
    *(f"{name}{end}" for name in FURTHER for end in ("", "_se")),
    *("grouped", "preset", "tag", "interpolation", "epochs", "steps", "seconds", "images"),
)
_NOT_RUN = {"grouped": False, "preset": "", "tag": "", "interpolation": ""}


def _ours(entry: ledger.Entry, wider: float) -> dict[str, Any]:
    """The columns of `rows` that are about a run of ours."""
    further = {name: entry.further[name] for name in FURTHER if name in entry.further}
    return {
        **entry.metrics,
        **_errors(entry, wider),
        **{name: found.value for name, found in further.items()},
        **{f"{name}_se": found.standard_error for name, found in further.items()},
        **{key: getattr(entry.configuration, key) or "" for key in _NOT_RUN if key != "grouped"},
        "effective_sample_size": entry.evaluation.get("effective_sample_size"),
        "epochs": entry.training.get("epochs"),
        "steps": entry.training.get("steps"),
        "seconds": entry.seconds.total,
        "images": entry.data["train"].count,
    }


def schedules(results: AnyPath | None = None) -> list[tuple[str, str]]:
    """The pairs (preset, tag) that trained runs of the ledger have, the nearest to the paper's first.

    Runs of the same schedule were trained alike and may be compared with each other: see `rows`.
    """
    trained = [entry for key, entry in _entries(results) if key[1] not in BASELINES]
    ranked = sorted((_rank(entry), _schedule(entry)) for entry in trained)
    return list(dict.fromkeys(schedule for _, schedule in ranked))


def rows(
    dataset: str | None = None,
    d: int | None = None,
    results: AnyPath | None = None,
    *,
    schedule: tuple[str, str] | None = None,
    seed: int | None = None,
) -> pd.DataFrame:
    """All 99 rows of the paper beside our best run of each, and the rows of the baselines.

    Columns: dataset, label, nominal (100, 25 or 10; 0 for raw pixels), d (26 where M and MA have
    it); for each of the twelve metrics `<metric>_paper`, `<metric>` (ours) and `<metric>_se` (the
    standard error of ours); preset, tag and interpolation (of the views) of our run ("" where there
    is none), epochs and steps it was trained for, seconds it took, training and measuring together;
    images, how many it was trained on; the two accuracies of `FURTHER`, the effective sample size
    behind `mll`, its error without the choice of test images (`mll_sampling`), and whether the error of
    `knn_out` was measured by digits (`grouped`) or estimated from others that were.
    NaN where the paper prints nothing or nothing was run. `d` = 25 includes M and MA at 26, and raw
    pixels. `schedule`, one of `schedules()`, leaves only the runs trained that way, `seed` only those
    of this seed (the baselines are not trained, and stay).
    """
    if dataset is not None and dataset not in paper.DATASETS:
        raise ValueError(
            f"The paper has no table of {dataset!r}; choose one of {', '.join(paper.DATASETS)}."
        )
    if d is not None and d not in DIMENSIONS:
        raise ValueError(f"The paper has no rows of d = {d}; choose 100, 25 or 10.")
    chosen, wider = _runs(results, schedule, seed), _wider(results)
    printed = paper.tables().appendix.rename(columns={m: f"{m}_paper" for m in METRICS})
    printed["label"] = [RunName.of(row).label for _, row in printed.iterrows()]
    printed["nominal"] = [min(DIMENSIONS, key=lambda n: abs(n - its)) for its in printed["d"]]
    further = [
        {"dataset": name, "label": label, "nominal": n, "d": n or 28 * 28}
        for name, label in itertools.product(paper.DATASETS, BASELINES)
        for n in ((0,) if label == _PIXELS else DIMENSIONS)  # pixels have no d but an image's
    ]
    found = []
    for row in (*printed.to_dict("records"), *further):
        entry = chosen.get((row["dataset"], row["label"], row["d"]))
        found.append({**row, **_NOT_RUN, **(_ours(entry, wider) if entry else {})})
    table = pd.DataFrame(found, columns=list(_COLUMNS))
    numbers = [c for c in _COLUMNS[4:] if c not in _NOT_RUN]
    table = table.astype(dict.fromkeys(numbers, float))
    if dataset is not None:
        table = table[table["dataset"] == dataset]
    if d is not None:
        table = table[table["nominal"].isin((d, 0))]
    return table.reset_index(drop=True)


def missing(table: pd.DataFrame) -> str:
    """Which rows of `table` (from `rows`) were not run, by name: a line for each data set and d."""
    absent = table[table["preset"] == ""]
    if absent.empty:
        return "not run yet: none"
    lines = [f"not run yet: {len(absent)} of {len(table)} rows"]
    for (dataset, nominal), group in absent.groupby(["dataset", "nominal"], sort=False):
        among = table[(table["dataset"] == dataset) & (table["nominal"] == nominal)]
        whole = len(group) == len(among) > 1
        size = f", d = {nominal}" if nominal else ""
        labels = f"all {len(group)}" if whole else ", ".join(group["label"])
        lines.append(f"  {dataset}{size}: {labels}")
    return "\n".join(lines)
