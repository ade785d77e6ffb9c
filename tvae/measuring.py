"""The data a run is measured on, and the measurements themselves, ready for the ledger."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from sklearn.decomposition import PCA

from tvae import data, evaluation, training
from tvae.checks import check_images
from tvae.data import Dataset, Provenance
from tvae.files import atomic_path, atomic_write
from tvae.models import VAE
from tvae.objective import vae_terms
from tvae.paper import METRICS
from tvae.seeding import generator
from tvae.sweep import Job

__all__ = [
    "affnist",
    "baseline_metrics",
    "log_likelihood_of_all",
    "model_metrics",
]

#: Whose train and test classes differ, so that there is no kNN accuracy in sample.
NO_IN_SAMPLE = ("omniglot", "glyphs", "celeba", "faces")


def affnist(
    source: str,
    measures: Mapping[str, Any],
    test: Dataset,
    cache: str | os.PathLike[str] | None = None,
    root: str | os.PathLike[str] | None = None,
) -> tuple[Dataset | None, Dataset | None]:
    """AffNIST images out of sample: labelled anchors from its training part, queries from its test.

    A model of other than grey 28×28 images, such as those of `test`, has none. They are made from MNIST, the embedded sample if `source` is "embedded", with seed 0 in every run,
    so that all runs answer the same questions. With a folder `cache` they are made once and kept.
    """
    if tuple(test.images.shape[1:]) != (1, 28, 28):
        return None, None
    kind = "embedded" if source == "embedded" else "regenerated"
    return (
        _cached("train", kind, measures["anchors"], cache, root),
        _cached("test", kind, measures["queries"], cache, root),
    )


def _cached(
    split: str,
    source: str,
    count: int,
    cache: str | os.PathLike[str] | None,
    root: str | os.PathLike[str] | None,
) -> Dataset:
    path = None if cache is None else Path(cache) / f"affnist-{source}-{split}-{count}.safetensors"
    if path is not None and path.is_file():
        found = _read(path)
        if found is not None:
            return found
    made = data.load("affnist", split, source=source, count=count, root=root)
    if path is not None:
        with atomic_path(path) as temporary:
            tensors = {"images": made.images.contiguous(), "labels": made.labels.contiguous()}
            save_file(tensors, temporary, {"provenance": json.dumps(asdict(made.provenance))})
    return made


def _read(path: Path) -> Dataset | None:
    """The data set kept in `path`, or None if the file is not what was written."""
    try:
        with safe_open(path, "pt") as file:
            provenance = Provenance(**json.loads(file.metadata()["provenance"]))
            images, labels = file.get_tensor("images"), file.get_tensor("labels")
    except (SafetensorError, KeyError, TypeError, json.JSONDecodeError):
        return None
    if data.fingerprint(images, labels) != provenance.checksum:
        return None
    return Dataset(images, labels, provenance)


# --- trained models -----------------------------------------------------------------------------


def model_metrics(
    model: VAE,
    train: Dataset,
    test: Dataset,
    anchors: Dataset | None,
    queries: Dataset | None,
    measures: Mapping[str, Any],
    seed: int = 0,
) -> dict[str, Any]:
    """All twelve metrics of a trained model: `metrics`, `standard_errors`, `evaluation`.

    `measures` may name `likelihood_error`, the standard error in nats that the log-likelihood has to
    reach; else it is the plain mean over the first `likelihood_images` test images.
    """
    target = measures.get("likelihood_error")
    labelled = test.provenance.name not in NO_IN_SAMPLE
    limit = measures["likelihood_images"]
    found = evaluation.evaluate(
        model,
        test,
        train=train if labelled else None,
        anchors=anchors,
        queries=queries,
        seed=seed,
        likelihood_samples=measures["likelihood_samples"],
        likelihood_images=limit if target is None else 0,
    )
    metrics = {name: _plain(found[name]) for name in METRICS}
    errors = {name: float(value) for name, value in found.se.items() if value is not None}
    details: dict[str, Any] = {"likelihood_samples": measures["likelihood_samples"]}
    if target is None:
        details["likelihood_images"] = len(test) if limit is None else min(limit, len(test))
    else:
        likelihood = log_likelihood_of_all(
            model, test, measures["likelihood_samples"], target, seed=seed
        )
        metrics["mll"], errors["mll"] = -likelihood["mean"], likelihood["standard_error"]
        details.update(
            likelihood_images=likelihood["images"],
            likelihood_method="ELBO of all test images plus the mean gap of a random part",
            effective_sample_size=likelihood["effective_sample_size"],
        )
    return {"metrics": metrics, "standard_errors": errors, "evaluation": details}


def _plain(value: Any) -> float | None:
    return None if value is None else float(value)


@torch.no_grad()
def log_likelihood_of_all(
    model: VAE,
    test: Dataset,
    samples: int,
    target: float,
    *,
    seed: int = 0,
    least: int = 400,
    batch: int = 500,
) -> dict[str, Any]:
    """The mean of log p(x) over all test images, to a standard error of at most `target` nats.

    Importance sampling costs a thousand decoder passes an image, the ELBO one, and the two differ by
    a few nats while images differ by dozens. So the ELBO is taken on all test images and only the
    gap, log p(x) − ELBO(x), on a part drawn at random, as large as the wanted error asks for (at
    least `least`). The standard error is that of the mean gap over a sample without repetition from
    a finite set: it vanishes if the part is the whole.

    Returns mean, standard_error, images (the size of the part) and effective_sample_size (mean over
    it).
    """
    vae = model.as_vae() if hasattr(model, "as_vae") else model
    check_images(test.images, name="test")
    device = next(vae.parameters()).device
    noise = generator(seed, "likelihood/elbo", device)
    bounds = []
    for start in range(0, len(test), batch):
        x = test.floats(slice(start, start + batch)).to(device)
        bounds.append(-vae_terms(vae, x, noise).total().double().cpu())
    elbo = torch.cat(bounds)
    order = torch.randperm(len(test), generator=generator(seed, "likelihood/images"))
    draws = generator(seed, "likelihood/samples", device)
    gaps = torch.empty(0, dtype=torch.float64)
    sizes = torch.empty(0, dtype=torch.float64)
    wanted = min(least, len(test))
    while len(gaps) < wanted:
        index = order[len(gaps) : wanted]
        found = evaluation.log_likelihood(
            vae, test.floats(index).to(device), samples=samples, generator=draws
        )
        gaps = torch.cat([gaps, found.per_image.double().cpu() - elbo[index]])
        sizes = torch.cat([sizes, torch.full((len(index),), float(found.effective_sample_size))])
        spread = float(gaps.std()) if len(gaps) > 1 else 0.0
        # n with spread² / n · (1 − n / N) ≤ target², a tenth more since the spread is an estimate
        needed = (spread / target) ** 2
        needed = 1.1 * needed / (1 + needed / len(test))
        wanted = min(max(wanted, int(needed) + 1), len(test))
    n = len(gaps)
    error = float(gaps.std()) / n**0.5 * (1 - n / len(test)) ** 0.5 if n > 1 else 0.0
    return {
        "mean": float(elbo.mean() + gaps.mean()),
        "standard_error": error,
        "images": n,
        "effective_sample_size": float(sizes.mean()),
    }


# --- baselines ----------------------------------------------------------------------------------


def baseline_metrics(
    job: Job,
    train: Dataset,
    test: Dataset,
    anchors: Dataset | None,
    queries: Dataset | None,
    cache: str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """The kNN columns of raw pixels, of PCA fitted on the training images, of an untrained encoder."""
    features = _features(job, train)
    metrics: dict[str, float | None] = dict.fromkeys(METRICS)
    if test.provenance.name not in NO_IN_SAMPLE:
        metrics["knn_in"] = _accuracy(features, train, test)
    if anchors is not None and queries is not None:
        # Pixels out of sample have nothing to do with the data set, and take longest of all.
        kept = cache if job.model == "pixels" else None
        metrics["knn_out"] = _kept_accuracy(features, anchors, queries, kept)
    sizes = {"knn_in": len(test), "knn_out": 0 if queries is None else len(queries)}
    errors = {
        name: (share * (1 - share) / sizes[name]) ** 0.5
        for name in ("knn_in", "knn_out")
        if (share := metrics[name]) is not None
    }
    return {"metrics": metrics, "standard_errors": errors, "evaluation": {}}


Features = Callable[[Dataset], torch.Tensor]


def _features(job: Job, train: Dataset) -> Features:
    """The map from a data set to vectors (N, d)."""
    if job.model == "pixels":
        return lambda part: part.images.flatten(1)
    if job.model == "pca":
        pca = PCA(job.d, svd_solver="covariance_eigh").fit(train.floats().flatten(1).numpy())
        return lambda part: _chunked(
            part, lambda x: torch.from_numpy(pca.transform(x.flatten(1).numpy()))
        )
    model = training.build_model(job.config(), train).eval()
    with torch.no_grad():
        return lambda part: _chunked(part, lambda x: model.encode(x)[0].detach())


def _chunked(part: Dataset, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    starts = range(0, len(part), 2000)
    return torch.cat([function(part.floats(slice(start, start + 2000))) for start in starts])


def _accuracy(features: Features, anchors: Dataset, queries: Dataset) -> float:
    return evaluation.knn_accuracy(
        features(anchors), anchors.labels, features(queries), queries.labels, k=5
    )


def _kept_accuracy(
    features: Features,
    anchors: Dataset,
    queries: Dataset,
    cache: str | os.PathLike[str] | None,
) -> float:
    """The accuracy, from the folder `cache` if it has been computed for the very same images."""
    if cache is None:
        return _accuracy(features, anchors, queries)
    sums = {"anchors": anchors.provenance.checksum, "queries": queries.provenance.checksum}
    path = Path(cache) / f"pixels-{sums['anchors'][:12]}-{sums['queries'][:12]}.json"
    if path.is_file():
        found = json.loads(path.read_text(encoding="utf-8"))
        if {key: found[key] for key in sums} == sums:
            return float(found["accuracy"])
    accuracy = _accuracy(features, anchors, queries)
    atomic_write(path, json.dumps({**sums, "accuracy": accuracy}) + "\n")
    return accuracy
