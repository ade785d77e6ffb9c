"""The data a run is measured on, and the measurements themselves, ready for the ledger."""

import json
import math
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from tvae import data, evaluation
from tvae.checks import check_images
from tvae.data import Dataset, Provenance
from tvae.data.affnist import originals as affnist_originals
from tvae.evaluation import normalisation
from tvae.evaluation.inference import BATCH, batches
from tvae.files import AnyPath, atomic_path, atomic_write
from tvae.models import TVAE, VAE, evaluating
from tvae.objective import vae_terms
from tvae.runs.sweep import Job
from tvae.seeding import generator
from tvae.training.configuration import Measuring, RunConfig


def _shares_classes(test: Dataset) -> bool:
    """Whether the training images have the same classes, so that there is a kNN in sample."""
    name = test.provenance.name
    return name not in data.names() or data.entry(name).shared_classes


def affnist(
    source: str,
    measures: Measuring,
    test: Dataset,
    cache: AnyPath | None = None,
    root: AnyPath | None = None,
) -> tuple[Dataset | None, Dataset | None]:
    """AffNIST images out of sample: labelled anchors from its training part, queries from its test.

    They are made from MNIST, the embedded sample if `source` is "embedded", with seed 0 in every
    run, so that all runs answer the same questions. With a folder `cache` they are made once and
    kept. A model of other images than grey 28×28 ones, as `test` shows, has none.
    """
    if tuple(test.images.shape[1:]) != (1, 28, 28):
        return None, None
    kind = "embedded" if source == "embedded" else "regenerated"

    def made(split: str, count: int) -> Dataset:
        load = partial(data.load, "affnist", split, source=kind, count=count, root=root)
        return _kept(cache, f"affnist-{kind}-{split}-{count}", load)

    return made("train", measures.anchors), made("test", measures.queries)


def _kept(cache: AnyPath | None, name: str, make: Callable[[], Dataset]) -> Dataset:
    """The data set that `make` makes; with a folder `cache`, made once and kept there."""
    if cache is None:
        return make()
    path = Path(cache) / f"{name}.safetensors"
    if path.is_file() and (found := _read(path)) is not None:
        return found
    made = make()
    tensors = {"images": made.images, "labels": made.labels, "original": made.extras["original"]}
    with atomic_path(path) as temporary:
        save_file(
            {name: rows.contiguous() for name, rows in tensors.items()},
            temporary,
            {"provenance": json.dumps(asdict(made.provenance))},
        )
    return made


def _read(path: Path) -> Dataset | None:
    """The data set kept in `path`, or None if the file is not what was written."""
    try:
        with safe_open(path, "pt") as file:
            provenance = Provenance(**json.loads(file.metadata()["provenance"]))
            images, labels = file.get_tensor("images"), file.get_tensor("labels")
            extras = {"original": file.get_tensor("original")}
    except (SafetensorError, KeyError, TypeError, json.JSONDecodeError):
        return None
    if data.fingerprint(images, labels) != provenance.checksum:
        return None
    return Dataset(images, labels, provenance, extras=extras)


# --- trained models -----------------------------------------------------------------------------


def model_metrics(
    model: VAE,
    train: Dataset,
    test: Dataset,
    anchors: Dataset | None,
    queries: Dataset | None,
    measures: Measuring,
    config: RunConfig,
    seed: int = 0,
) -> dict[str, Any]:
    """All twelve metrics of a trained model: `metrics`, `standard_errors`, `evaluation`.

    `config` says how the model was trained: on which views, if any. With
    `measures.likelihood_error` the log-likelihood is that of all test images to this standard error;
    else it is the plain mean over `likelihood_images` of them.
    """
    target = measures.likelihood_error
    found = evaluation.evaluate(
        model,
        test,
        train=train if _shares_classes(test) else None,
        anchors=anchors,
        queries=queries,
        triplets=config.triplets(),
        views=config.model != "vae",
        seed=seed,
        likelihood_samples=measures.likelihood_samples,
        likelihood_images=measures.likelihood_images if target is None else 0,
    )
    measured = _measured(found)
    if target is not None:
        likelihood = log_likelihood_of_all(
            model, test, measures.likelihood_samples, target, seed=seed
        )
        measured["metrics"]["mll"] = -likelihood["mean"]
        measured["standard_errors"]["mll"] = likelihood["standard_error"]
        measured["evaluation"].update(
            likelihood_images=likelihood["images"],
            likelihood_samples=measures.likelihood_samples,
            likelihood_method="ELBO of all test images plus the mean gap of a random part",
            effective_sample_size=likelihood["effective_sample_size"],
            mll_sampling_error=likelihood["sampling_error"],
        )
    return measured


def _measured(found: evaluation.Metrics) -> dict[str, Any]:
    """Metrics as the ledger keeps them; an error that is not known (of a single image) is left out."""
    return {
        "metrics": dict(found),
        "standard_errors": {k: v for k, v in found.se.items() if math.isfinite(v)},
        "evaluation": dict(found.details),
    }


def log_likelihood_of_all(
    model: VAE,
    test: Dataset,
    samples: int,
    target: float,
    *,
    seed: int = 0,
    least: int = 400,
) -> dict[str, Any]:
    """The mean of log p(x) over all test images, to a sampling error of at most `target` nats.

    Importance sampling costs a thousand decoder passes an image, the ELBO one, and the two differ by
    a few nats while images differ by dozens. So the ELBO is taken on all test images and only the
    gap, log p(x) − ELBO(x), on a part drawn at random, as large as the wanted error asks for (at
    least `least`). The sampling error is that of the mean gap over a sample without repetition from
    a finite set: it vanishes if the part is the whole, and it is what a comparison on the same test
    images needs. The standard error has in it the choice of the test images as well.

    Returns mean, standard_error, sampling_error, images (the size of the part) and
    effective_sample_size (mean over it).
    """
    vae = model.as_vae() if isinstance(model, TVAE) else model
    check_images(test.images, name="test")
    device = next(vae.parameters()).device
    noise = generator(seed, "likelihood/elbo", device)
    with evaluating(vae):
        parts = [vae_terms(vae, x, noise).total() for x in batches(test.images, vae, BATCH)]
    elbo = -torch.cat(parts).double().cpu()
    order = torch.randperm(len(test), generator=generator(seed, "likelihood/images"))
    draws = generator(seed, "likelihood/samples", device)
    gaps = torch.empty(0, dtype=torch.float64)
    sizes = torch.empty(0, dtype=torch.float64)
    wanted = min(least, len(test))
    while len(gaps) < wanted:
        index = order[len(gaps) : wanted]
        found = evaluation.log_likelihood(vae, test.images[index], samples, draws)
        gaps = torch.cat([gaps, found.per_image.double().cpu() - elbo[index]])
        sizes = torch.cat([sizes, found.sizes])
        spread = float(gaps.std()) if len(gaps) > 1 else 0.0
        # n with spread² / n · (1 − n / N) ≤ target², a tenth more since the spread is an estimate
        needed = (spread / target) ** 2
        needed = 1.1 * needed / (1 + needed / len(test))
        wanted = min(max(wanted, int(needed) + 1), len(test))
    n = len(gaps)
    error = float(gaps.std()) / n**0.5 * (1 - n / len(test)) ** 0.5 if n > 1 else 0.0
    spread = float((gaps + elbo[order[:n]]).std()) if n > 1 else 0.0
    return {
        "mean": float(elbo.mean() + gaps.mean()),
        "standard_error": math.hypot(error, spread / len(test) ** 0.5),
        "sampling_error": error,
        "images": n,
        "effective_sample_size": float(sizes.mean()),
    }


# --- baselines ----------------------------------------------------------------------------------


def baseline_metrics(
    embedding: evaluation.Embedding,
    train: Dataset,
    test: Dataset,
    anchors: Dataset | None,
    queries: Dataset | None,
    cache: AnyPath | None = None,
) -> dict[str, Any]:
    """The kNN columns of raw pixels, of PCA fitted on the training images, of an untrained encoder."""
    found = evaluation.evaluate(embedding, test, train=train if _shares_classes(test) else None)
    measured = _measured(found)
    if anchors is not None and queries is not None:
        share, error = _accuracy(embedding, anchors, queries, cache)
        measured["metrics"]["knn_out"] = share
        if math.isfinite(error):
            measured["standard_errors"]["knn_out"] = error
        measured["evaluation"].update(
            knn_out_anchors=len(anchors),
            knn_out_queries=len(queries),
            knn_out_groups=len(queries.extras["original"].unique()),
        )
    return measured


def baseline(job: Job, train: Dataset) -> evaluation.Embedding:
    """The representation that a baseline's run is about."""
    if job.model == "pixels":
        return evaluation.Pixels()
    if job.model == "pca":
        return evaluation.PCA(train, job.d)
    channels, height, width = train.images.shape[1:]
    return evaluation.Untrained(job.d, (channels, height, width), seed=job.seed)


def _accuracy(
    embedding: VAE | evaluation.Embedding,
    anchors: Dataset,
    queries: Dataset,
    cache: AnyPath | None = None,
) -> tuple[float, float]:
    """kNN accuracy and its standard error.

    Those of pixels have nothing to do with the data set of the run, and take longest of all: they are
    kept in `cache` for the same images.
    """
    sums = {"anchors": anchors.provenance.checksum, "queries": queries.provenance.checksum}
    path = None
    if cache is not None and isinstance(embedding, evaluation.Pixels):
        path = Path(cache) / f"pixels-{sums['anchors'][:12]}-{sums['queries'][:12]}.json"
        if path.is_file():
            found = json.loads(path.read_text(encoding="utf-8"))
            if {key: found.get(key) for key in sums} == sums and "standard_error" in found:
                return float(found["accuracy"]), float(found["standard_error"])
    # one image is enough for the columns that are not asked for here
    measured = evaluation.evaluate(
        embedding, queries.take(1), anchors=anchors, queries=queries, likelihood_images=0
    )
    accuracy, error = measured["knn_out"], measured.se["knn_out"]
    assert accuracy is not None
    if path is not None:
        atomic_write(
            path, json.dumps({**sums, "accuracy": accuracy, "standard_error": error}) + "\n"
        )
    return accuracy, error


# --- out of sample, with the pose taken out by hand ---------------------------------------------


def further_metrics(
    model: VAE | evaluation.Embedding,
    source: str,
    anchors: Dataset,
    queries: Dataset,
    cache: AnyPath | None = None,
) -> dict[str, dict[str, float | None]]:
    """Accuracies on AffNIST normalised by its own moments: `knn_out_centred`, `knn_out_moments`.

    Sizes are brought to the mean size of the MNIST images that AffNIST is made from.
    """
    made = "embedded" if source == "embedded" else "regenerated"
    size = normalisation.mean_size(affnist_originals("train", made))
    found: dict[str, dict[str, float | None]] = {}
    for kind in normalisation.KINDS:
        near, far = (
            _kept(
                cache,
                f"affnist-{part.provenance.checksum[:16]}-{kind}",
                partial(normalisation.normalised, part, kind, size),
            )
            for part in (anchors, queries)
        )
        accuracy, error = _accuracy(model, near, far, cache)
        # a single digit has no error
        known = error if math.isfinite(error) else None
        found[f"knn_out_{kind}"] = {"value": accuracy, "standard_error": known}
    return found
