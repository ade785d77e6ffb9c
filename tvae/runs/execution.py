"""One run from beginning to end: data, training, the twelve metrics, an entry in the ledger."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from tvae import data, training
from tvae.data import Dataset
from tvae.evaluation import METRICS
from tvae.files import AnyPath, Busy, locked
from tvae.models import VAE
from tvae.runs import ledger
from tvae.runs.ledger import Entry
from tvae.runs.name import RunName
from tvae.runs.sweep import Job

Notify = Callable[[Mapping[str, Any]], None]


# --- the entry ----------------------------------------------------------------------------------


def _begun(job: Job, device: str) -> dict[str, Any]:
    """The values of an entry with everything but the results."""
    return {
        "schema": 1,
        "name": str(RunName.of(job)),
        "status": "ok",
        "reason": None,
        "configuration": job.configuration(),
        "data": {},
        "versions": ledger.versions(),
        "commit": ledger.commit(),
        "hardware": ledger.hardware(device),
        "seconds": {"training": 0.0, "evaluation": 0.0},
        "finished": ledger.now(),
        "training": {},
        "metrics": dict.fromkeys(METRICS),
        "standard_errors": {},
        "further": {},
        "evaluation": {},
        "curve": [],
    }


def failure(job: Job, reason: str) -> Entry:
    """The entry of a run that failed."""
    return Entry.checked({**_begun(job, "cpu"), "status": "failed", "reason": reason})


def _curve(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    # seven digits are what float32 has; more would only make the files longer
    return [
        {
            name: value if isinstance(value, int) else float(f"{value:.7g}")
            for name, value in row.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)
        }
        for row in history
    ]


# --- the run ------------------------------------------------------------------------------------


def own_data(dataset: str, source: str, root: AnyPath | None = None) -> tuple[Dataset, Dataset]:
    """Training and test images of the data set a model is trained on."""
    return (
        data.load(dataset, "train", source=source, root=root),
        data.load(dataset, "test", source=source, root=root),
    )


def execute(
    job: Job,
    *,
    results: AnyPath,
    runs: AnyPath,
    device: str = "auto",
    notify: Notify = lambda event: None,
) -> Entry:
    """Make one run and write its entry into `results`; return the entry.

    The run folder is `runs`/NAME. If it holds checkpoints, training goes on from the newest. If the
    ledger already holds this run, that entry is returned and nothing is done.
    """
    results, runs = Path(results), Path(runs)
    with locked(runs / "locks" / f"{job.name}.lock"):
        for part in results.glob(f"**/.{Path(job.name).name}.json.*.part"):
            part.unlink(missing_ok=True)  # of a process that was killed as it wrote this entry
        found = ledger.find(job.configuration(), results)
        if found is not None and found.status == "ok":
            return found
        place = training.pick_device(device)
        source = job.config().source
        train_data, test_data = own_data(job.dataset, source)
        values = _begun(job, place.type)
        values["data"] = {
            "train": asdict(train_data.provenance),
            "test": asdict(test_data.provenance),
        }
        cache = runs / "cache"
        if job.trained:
            model, history = _train(job, train_data, test_data, runs, place, notify)
            last = history[-1]
            values["curve"] = _curve(history)
            values["training"] = {
                "epochs": last["epoch"],
                "steps": last["step"],
                "halve_every": job.schedule(len(train_data)).halve_every,
            }
            values["seconds"]["training"] = round(history.seconds, 2)
            values["seconds"]["training_process"] = round(history.process_seconds, 2)
        from tvae.runs import measurements

        notify({"event": "evaluating"})
        start, worked = time.perf_counter(), time.process_time()
        anchors, queries = measurements.affnist(source, job.measures(), test_data, cache)
        if anchors is not None and queries is not None:
            values["data"] |= {
                "anchors": asdict(anchors.provenance),
                "queries": asdict(queries.provenance),
            }
        if job.trained:
            measured = measurements.model_metrics(
                model,
                train_data,
                test_data,
                anchors,
                queries,
                job.measures(),
                job.config(),
                job.seed,
            )
        else:
            model = measurements.baseline(job, train_data)
            measured = measurements.baseline_metrics(
                model, train_data, test_data, anchors, queries, cache
            )
        # a code that keeps the pose apart undoes it by itself: there is nothing to take out by hand
        apart = isinstance(model, VAE) and model.content_size < model.d
        if anchors is not None and queries is not None and not apart:
            measured["further"] = measurements.further_metrics(
                model, source, anchors, queries, cache
            )
        values.update(measured)
        values["seconds"]["evaluation"] = round(time.perf_counter() - start, 2)
        values["seconds"]["evaluation_process"] = round(time.process_time() - worked, 2)
        values["finished"] = ledger.now()
        entry = Entry.checked(values)
        ledger.write(entry, results)
        return entry


def _train(
    job: Job,
    train_data: Dataset,
    test_data: Dataset,
    runs: Path,
    device: torch.device,
    notify: Notify,
) -> tuple[Any, training.History]:
    config = job.schedule(len(train_data))

    def report(model: Any, history: training.History) -> None:
        epoch, loss = history[-1]["epoch"], history[-1].get("total")
        notify({"event": "epoch", "epoch": epoch, "epochs": config.epochs, "loss": loss})

    done = training.train(
        config,
        train_data,
        test_data,
        folder=runs / job.name,
        device=device,
        max_steps=job.max_steps,
        callbacks=(report,),
        progress=False,
    )
    return done.model, done.history


def execute_and_record(
    job: Job, *, results: AnyPath, runs: AnyPath, **options: Any
) -> dict[str, Any]:
    """Make one run; if it fails, record that in the ledger. Returns the event that says how it ended.

    The arguments are those of `execute`. The events are `ok`, `failed` (with the reason) and `elsewhere` (another process is making it).
    """
    try:
        entry = execute(job, results=results, runs=runs, **options)
    except Busy:
        return {"event": "elsewhere"}
    except Exception as error:
        import traceback

        traceback.print_exc()  # goes to the log of the run
        text = " ".join(str(error).split()) or "no message"
        # the ledger is published: the folders of this machine are nobody's business
        for path in (Path(runs).resolve(), Path(runs), Path(results).resolve()):
            text = text.replace(str(path), path.name)
        reason = f"{type(error).__name__}: {text}"
        ledger.write(failure(job, reason), results)
        return {"event": "failed", "reason": reason}
    shown = ("elbo", "mll", "knn_in", "knn_out")
    values = {name: entry.metrics[name] for name in shown}
    summary = ", ".join(f"{k} {v:.3f}" for k, v in values.items() if v is not None)
    return {"event": "ok", "summary": summary}
