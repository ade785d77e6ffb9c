"""The twelve columns of the appendix tables, from one call.

    nllx0 nllx1 nllx2   −log p(xᵢ|zᵢ), zᵢ ~ q(zᵢ|xᵢ): reconstruction of the three views
    c1 c2               ‖z₁ − r(z, τ)‖², ‖z₂ − r(z, τ⁻¹)‖²
    nll                 −log p(x₀|z), z ~ q(z|z₁, z₂): x₀ from the two views alone
    div, kl0            KL of q(z|z₁, z₂) and of q(z₀|x₀) from N(0, 1)
    elbo                nllx0 + kl0, so that smaller is better
    mll                 −log p(x₀) by importance sampling
    knn_in, knn_out     share of right answers of 5-nearest-neighbours on posterior means: test among
                        training images, and on another data set (AffNIST)

All but the last two are means over the test images, in nats (c1, c2: squared latent units).
"""

import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import torch

from tvae.data import Dataset, pixels_of
from tvae.evaluation.inference import BATCH, Embedding, batches, embed
from tvae.evaluation.knn import Neighbours, vote
from tvae.evaluation.likelihood import log_likelihood
from tvae.evaluation.statistics import Estimate
from tvae.models import TVAE, VAE, Views, evaluating, reparameterise
from tvae.objective import tvae_terms, vae_terms
from tvae.seeding import generator
from tvae.transforms import Triplets

#: The twelve columns of the paper's appendix tables, in their order.
METRICS = (
    "nllx0",
    "nllx1",
    "nllx2",
    "c1",
    "c2",
    "nll",
    "div",
    "kl0",
    "elbo",
    "mll",
    "knn_in",
    "knn_out",
)
ACCURACIES = ("knn_in", "knn_out")
_PART = 20_000  # queries whose neighbours are looked for at once


class Metrics(Mapping[str, float | None]):
    """A frozen mapping of the twelve columns, None where a model or data set does not have one.

    - `se`: standard errors of the columns that are there. Queries that come in groups, as AffNIST's
      32 views of each digit, are not independent: where a data set says which digit a query shows
      (`extras["original"]`), the digits are what is counted, and `details` has their number
      (`knn_out_groups`). Else the error of an accuracy is the binomial one.
    - `details`: what the columns rest on, such as the number of images.
    """

    __slots__ = ("_values", "details", "se")

    def __init__(
        self,
        values: Mapping[str, float | None],
        se: Mapping[str, float] | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        for name in {*values, *(se or {})} - set(METRICS):
            raise ValueError(f"There is no column {name!r}; the columns are {', '.join(METRICS)}.")
        found = {name: values.get(name) for name in METRICS}
        object.__setattr__(self, "_values", MappingProxyType(found))
        object.__setattr__(self, "se", MappingProxyType(dict(se or {})))
        object.__setattr__(self, "details", MappingProxyType(dict(details or {})))

    _values: Mapping[str, float | None]
    se: Mapping[str, float]
    details: Mapping[str, Any]

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("Metrics cannot be changed.")

    def __getitem__(self, name: str) -> float | None:
        if name not in self._values:
            raise KeyError(f"There is no column {name!r}; the columns are {', '.join(METRICS)}.")
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(METRICS)

    def __len__(self) -> int:
        return len(METRICS)

    def __reduce__(self) -> tuple[Any, ...]:
        return Metrics, (dict(self._values), dict(self.se), dict(self.details))

    def __str__(self) -> str:
        """One line: the columns that are there."""
        return "  ".join(
            f"{name} {value:.{4 if name in ACCURACIES else 2}f}"
            for name, value in self._values.items()
            if value is not None
        )

    def __repr__(self) -> str:
        return f"Metrics({self})"


def evaluate(
    model: VAE | TVAE | Embedding,
    test: torch.Tensor | Dataset,
    *,
    train: Dataset | None = None,
    anchors: Dataset | None = None,
    queries: Dataset | None = None,
    triplets: Views | None = None,
    views: bool | None = None,
    seed: int = 0,
    likelihood_samples: int = 1000,
    likelihood_images: int | None = None,
    k: int = 5,
    batch: int = BATCH,
) -> Metrics:
    """Measure a model on test images, a batch at a time; the model's own mode and weights stay.

    Args:
        model: a `VAE` or `TVAE`, or anything with a method `embed` (see `baselines`), which has the
            two kNN columns only.
        test: the test images, (N, C, H, W) or a data set.
        train: labelled training images for knn_in. Where the named classes of the test images are
            not among theirs, as for Omniglot, there is no knn_in.
        anchors, queries: labelled images for knn_out, both or neither.
        triplets: the source of the views; None means those that the model was trained on
            (`model.triplets`), and `Triplets()` for a model of which that is not known.
            A source that moves the images first (`tvae.transforms.Moved`) makes x₀ of a `TVAE` the
            moved image, in all columns but mll, knn_in and knn_out.
        views: whether to measure nllx1 and nllx2 for a plain `VAE`; None means if it was trained on
            views, as a VAE+ is. A `TVAE` always has them.
        seed: of all noise and transformations. The stream of draws also depends on `batch`.
        likelihood_samples: draws per image for mll.
        likelihood_images: on how many test images, chosen at random by the seed, mll is estimated:
            None means all, 0 none, and then there is no mll.
        k: how many neighbours vote.
        batch: images through the networks at once.
    """
    if (anchors is None) != (queries is None):
        raise ValueError("Pass both anchors and queries for knn_out, or neither.")
    if train is not None and not isinstance(test, Dataset):
        raise ValueError("knn_in needs the labels of the test images: pass test as a Dataset.")
    values: dict[str, float | None] = {}
    errors: dict[str, float] = {}
    details: dict[str, Any] = {}
    if isinstance(model, VAE):
        images = pixels_of(test, model.shape, "test")
        sampler = triplets or model.triplets or Triplets()
        trained_on_views = isinstance(model, TVAE) or model.triplets is not None
        with_views = trained_on_views if views is None else views
        for name, column in _terms(model, images, sampler, with_views, seed, batch).items():
            values[name], errors[name] = Estimate.of(column)
        details["test_images"] = len(images)
        limit = len(images) if likelihood_images is None else likelihood_images
        if limit < 0:
            raise ValueError(f"likelihood_images must not be negative, but is {limit}.")
        if limit > 0:
            order = torch.randperm(len(images), generator=generator(seed, "evaluation/subset"))
            some = images if limit >= len(images) else images[order[:limit].to(images.device)]
            draws = generator(seed, "evaluation/likelihood")
            found = log_likelihood(model, some, likelihood_samples, draws)
            values["mll"], errors["mll"] = -found.mean, found.standard_error
            details["likelihood_images"] = len(some)
            details["likelihood_samples"] = likelihood_samples
            details["effective_sample_size"] = found.effective_sample_size
            details["monte_carlo_error"] = found.monte_carlo_error
    searched: dict[str, tuple[Dataset, Dataset]] = {}
    if train is not None and isinstance(test, Dataset):
        if set(test.classes) <= set(train.classes) or not train.classes:
            searched["knn_in"] = train, test
        else:
            details["knn_in"] = "not defined: there are test classes without a training image"
    if anchors is not None and queries is not None:
        searched["knn_out"] = anchors, queries
    for name, (known, asked) in searched.items():
        values[name], errors[name], counts = _accuracy(name, model, known, asked, k, batch)
        details |= counts
    return Metrics(values, errors, details)


def _terms(
    model: VAE | TVAE,
    images: torch.Tensor,
    triplets: Views,
    views: bool,
    seed: int,
    batch: int,
) -> dict[str, torch.Tensor]:
    """The columns of the training objective and the ELBO, image by image: (N,) float64 each."""
    noise, draws = generator(seed, "evaluation/noise"), generator(seed, "evaluation/triplets")
    parts: dict[str, list[torch.Tensor]] = {}
    with evaluating(model):
        for x0 in batches(images, model, batch):
            if isinstance(model, TVAE):
                # films and moved images have an x0 of their own
                x0, x1, x2, _ = triplets(x0, draws, check=False)
                found = dict(tvae_terms(model, x0, x1, x2, noise).items())
            else:
                found = dict(vae_terms(model, x0, noise).items())
                if views:
                    _, x1, x2, _ = triplets(x0, draws, check=False)
                    found["nllx1"], found["nllx2"] = (
                        model.nll(model.decode_logits(reparameterise(*model.moments(x), noise)), x)
                        for x in (x1, x2)
                    )
            found["elbo"] = found["nllx0"] + found["kl0"]
            for name, value in found.items():
                if name not in METRICS:  # the divergence of a τ with a width is no column
                    continue
                parts.setdefault(name, []).append(value.double().cpu())
    return {name: torch.cat(values) for name, values in parts.items()}


def _accuracy(
    name: str, model: VAE | Embedding, anchors: Dataset, queries: Dataset, k: int, batch: int
) -> tuple[float, float, dict[str, int]]:
    """The kNN accuracy `name`, its error and the number of anchors and queries."""
    device = next(model.parameters()).device if isinstance(model, VAE) else torch.device("cpu")
    index = Neighbours(embed(model, anchors, batch=batch), k, device=device)
    labels = anchors.labels.cpu()
    # in parts, so that the codes of the queries, perhaps their pixels, stay few
    found = [
        vote(labels[index(embed(model, part, batch=batch)).indices])
        for part in queries.images.split(_PART)
    ]
    right = torch.cat(found) == queries.labels.cpu()
    share = float(right.double().mean())
    error = math.sqrt(share * (1 - share) / len(right))
    details = {f"{name}_anchors": len(labels), f"{name}_queries": len(right)}
    if "original" in queries.extras:
        originals = queries.extras["original"].cpu()
        error = Estimate.of(right, originals).standard_error
        details[f"{name}_groups"] = len(originals.unique())
    return share, error, details
