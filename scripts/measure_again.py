"""Measure again what older entries of the ledger lack, where their weights exist.

    TVAE_DATA=... python scripts/measure_again.py [--runs runs] [--only mnist-A-25 ...]

Runs that were measured before the ledger kept accuracies on normalised AffNIST, errors grouped by digit
and an error of the log-likelihood that has the choice of the test images in it get these in `further`:

- `knn_out_again`: the accuracy out of sample, with its standard error grouped by digit;
- `knn_out_centred`, `knn_out_moments`: the same on AffNIST moved to its centre of mass, and with size
  and slant normalised as well;
- `mll_again` (trained models): minus the log-likelihood, with an error that has in it the test images.

Weights are those of a run folder under --runs or the released ones (in half precision), if these belong
to this very run; a baseline is made anew. Nothing that an entry holds is changed. An entry whose weights
were not kept gets a mark that says so, `evaluation.not_measured_again`, and nothing else. What was
measured is written at once, so that an interrupted script goes on where it stopped.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch

import tvae
from tvae import data, evaluation
from tvae.runs import ledger, measurements, released
from tvae.runs.name import BASELINES
from tvae.runs.sweep import Job
from tvae.training.configuration import get_preset

FULL = (100_000, 320_000)  # anchors and queries of an entry that is worth it
MARK = "not_measured_again"  # in the `evaluation` of an entry without weights: the reason
KNN = ("knn_out_again", "knn_out_centred", "knn_out_moments")


def lacking(entry: ledger.Entry) -> list[str]:
    """What of `further` this entry could have and does not."""
    how = entry.evaluation
    if entry.status != "ok" or (how.get("knn_out_anchors"), how.get("knn_out_queries")) != FULL:
        return []
    wanted = list(KNN[1:])
    if "knn_out_groups" not in how:  # newer entries have the grouped error in its own place
        wanted.insert(0, KNN[0])
    if entry.metrics["mll"] is not None and "mll_sampling_error" not in how:
        wanted.append("mll_again")
    return [name for name in wanted if name not in entry.further]


def same_images(entry: ledger.Entry, split: str) -> Any:
    """The images that the entry was trained or measured on, or None if they are not at hand."""
    held = entry.data[split]
    try:
        found = data.load(held.name, held.split, source=held.source)
    except (data.DataNotFound, ValueError):
        return None
    return found if found.provenance.checksum == held.checksum else None


def weights(entry: ledger.Entry, runs: Path) -> tuple[Any, str] | str:
    """The representation of an entry and where it is from, or why there is none."""
    settings = entry.configuration
    if settings.model in BASELINES:
        train = same_images(entry, "train") if settings.model == "pca" else None
        if settings.model == "pca" and train is None:
            return "the images that the PCA was fitted on are not at hand"
        job = Job(settings.dataset, settings.model, d=settings.d, seed=settings.seed)
        if train is None:  # only their shape matters
            train = data.load("mnist", "train", source="embedded")
        return measurements.baseline(job, train), "made anew"
    folder = runs / settings.entry_name
    if folder.is_dir():
        return tvae.load(folder), "weights of the run"
    if entry.name in released.names() and released.entry(entry.name).finished == entry.finished:
        return released.pretrained(entry.name), "released weights, in half precision"
    return "no weights of this run are at hand"


def measured(
    entry: ledger.Entry, model: Any, wanted: list[str], cache: Path, known: dict[Any, Any]
) -> dict[str, dict[str, float | None]]:
    """The values of `wanted`; what does not depend on a data set is measured once (`known`)."""
    settings = entry.configuration
    source = settings.source or "full"
    found: dict[str, dict[str, float | None]] = {}
    key = None if settings.model not in ("untrained", "pixels") else (settings.model, settings.d)
    if key is not None and key in known:
        return {name: known[key][name] for name in wanted}
    if set(wanted) & set(KNN):
        test = data.load("mnist", "test", source="embedded")  # only the shape matters
        measures = get_preset(settings.preset).measuring
        anchors, queries = measurements.affnist(source, measures, test, cache)
        assert anchors is not None and queries is not None
        sums = [part.provenance.checksum for part in (anchors, queries)]
        assert sums == [entry.data[part].checksum for part in ("anchors", "queries")], entry.name
        if KNN[0] in wanted:
            # one image is enough for the columns that are not asked for here
            once = evaluation.evaluate(
                model, queries.take(1), anchors=anchors, queries=queries, likelihood_images=0
            )
            found[KNN[0]] = {"value": once["knn_out"], "standard_error": once.se["knn_out"]}
        if set(wanted) & set(KNN[1:]):
            found |= measurements.further_metrics(model, source, anchors, queries, cache)
    if "mll_again" in wanted and (test := same_images(entry, "test")) is not None:
        likelihood = measurements.log_likelihood_of_all(
            model,
            test,
            settings.likelihood_samples or 1000,
            settings.likelihood_error or 0.5,
            seed=settings.seed,
        )
        found["mll_again"] = {
            "value": -likelihood["mean"],
            "standard_error": likelihood["standard_error"],
        }
    if key is not None:
        known[key] = found
    return found


def main() -> None:
    """Measure what is lacking, one entry after the other."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where run folders lie")
    parser.add_argument("--only", nargs="+", default=None, help="names, such as mnist-A-25")
    parser.add_argument(
        "--tag", default=None, help="only entries of this tag ('' for those without)"
    )
    arguments = parser.parse_args()
    results, known = ledger.folder(), dict[Any, Any]()
    for entry in ledger.entries(results):
        settings, wanted = entry.configuration, lacking(entry)
        if (arguments.only and entry.name not in arguments.only) or not wanted:
            continue
        if arguments.tag is not None and settings.tag != arguments.tag:
            continue
        model = weights(entry, arguments.runs)
        values = entry.to_dict()
        if isinstance(model, str):
            if values["evaluation"].get(MARK) != model:
                values["evaluation"][MARK] = model
                ledger.write(ledger.Entry.checked(values), results)
            print(f"{settings.entry_name}: {model}; marked", flush=True)
            continue
        start = time.process_time()
        found = measured(entry, model[0], wanted, arguments.runs / "cache", known)
        note = f"{', '.join(found)}: {ledger.now()}, commit {ledger.commit()}, {model[1]}"
        values["evaluation"].pop(MARK, None)
        values["further"] = {**values.get("further", {}), **found}
        before = values["evaluation"].get("measured_again")
        values["evaluation"]["measured_again"] = f"{before}; {note}" if before else note
        ledger.write(ledger.Entry.checked(values), results)
        told = ", ".join(f"{name} {found[name]['value']:.4f}" for name in found)
        print(f"{settings.entry_name}: {told}; {time.process_time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    with torch.inference_mode():
        main()
