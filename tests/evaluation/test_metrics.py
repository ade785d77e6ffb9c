"""The twelve columns against closed forms, direct computation and scikit-learn; the baselines."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.neighbors import KNeighborsClassifier
from torch import nn

from tvae import evaluation, paper
from tvae.data import Dataset, Provenance
from tvae.evaluation import (
    PCA,
    Metrics,
    Pixels,
    Untrained,
    embed,
    evaluate,
    log_likelihood,
    metrics,
)
from tvae.evaluation.metrics import METRICS
from tvae.models import TVAE, VAE
from tvae.objective import tvae_terms
from tvae.seeding import generator
from tvae.transforms import Triplets

SHAPE = (1, 8, 8)
VIEWLESS = ("nllx1", "nllx2", "c1", "c2", "nll", "div")


pytestmark = pytest.mark.usefixtures("one_thread")


class Linear(nn.Module):
    def __init__(self, inputs, outputs, shape, seed):
        super().__init__()
        draws = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(torch.randn(outputs, inputs, generator=draws) / inputs**0.5)
        self.shape = shape

    def forward(self, x):
        return F.linear(x.flatten(1), self.weight).view(-1, *self.shape)


def networks(d=4):
    return {"encoder": Linear(64, 2 * d, (2 * d,), 1), "decoder": Linear(d, 64, SHAPE, 2)}


def t_vae():
    return TVAE(4, SHAPE, action="A", generator=generator(0, "init"), **networks())


def data(n, seed=0, classes=("bright", "dark"), name="made up"):
    """Noisy pictures of two kinds, as bytes: brighter on the left or on the right."""
    draws = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 2, (n,), generator=draws)
    images = torch.rand((n, *SHAPE), generator=draws) * 200
    images[labels == 0, ..., :4] += 25
    images[labels == 1, ..., 4:] += 25
    provenance = Provenance(name, "test", "test", n, "0")
    return Dataset(images.to(torch.uint8), labels, provenance, classes)


@pytest.fixture(scope="module")
def everything():
    """One model measured in every column."""
    return evaluate(
        t_vae(),
        data(60),
        train=data(300, 1),
        anchors=data(200, 2),
        queries=data(90, 3),
        likelihood_samples=50,
        likelihood_images=20,
        batch=25,
    )


def test_columns_are_those_of_the_papers_tables(everything):
    assert METRICS == paper.METRICS
    assert list(everything) == list(METRICS) and len(everything) == 12


def test_a_t_vae_has_all_twelve_with_standard_errors(everything):
    assert all(math.isfinite(value) for value in everything.values())
    assert set(everything.se) == set(METRICS)
    assert all(error > 0 for error in everything.se.values())
    assert everything["elbo"] == pytest.approx(everything["nllx0"] + everything["kl0"], abs=1e-6)
    assert everything.details["test_images"] == 60
    assert everything.details["likelihood_images"] == 20
    assert everything.details["knn_in_anchors"] == 300
    assert everything.details["knn_out_queries"] == 90


def test_terms_are_the_objectives():
    model, test = t_vae(), data(40)
    found = evaluate(model, test, likelihood_images=0, seed=3, batch=40)
    x0 = test.floats()
    views = Triplets()(x0, generator(3, "evaluation/triplets"))
    with torch.no_grad():
        terms = tvae_terms(model, x0, views.x1, views.x2, generator(3, "evaluation/noise"))
    for name, values in terms.items():
        values = values.double()
        assert found[name] == pytest.approx(float(values.mean()), rel=1e-5)
        assert found.se[name] == pytest.approx(float(values.std()) / 40**0.5, rel=1e-4)
    assert found["mll"] is None and found["knn_in"] is None and found["knn_out"] is None


def test_linear_gaussian_vae_agrees_with_closed_forms():
    """Expected reconstruction, KL and log p are known; only nllx0 and mll are noisy."""
    d, sigma, n = 4, 0.3, 250
    nets = networks(d)
    with torch.no_grad():
        nets["decoder"].weight.mul_(0.05)  # then the posterior is close to the prior, and so
        nets["encoder"].weight.mul_(0.1)  # is q: importance sampling works
    vae = VAE(d, SHAPE, likelihood="gaussian", sigma=sigma, **nets)
    test = data(n)
    x, w = test.floats().double().flatten(1), vae.decoder.weight.detach().double()
    mean, logvar = (m.detach().double() for m in vae.encode(test.images))
    traces = (logvar.exp() * w.square().sum(0)).sum(1)
    constant = 32 * math.log(2 * math.pi * sigma**2)
    nll = ((x - mean @ w.T).square().sum(1) + traces) / (2 * sigma**2) + constant
    kl = 0.5 * (mean.square() + logvar.exp() - 1 - logvar).sum(1)
    normal = torch.distributions.MultivariateNormal(
        torch.zeros(64, dtype=torch.float64),
        w @ w.T + sigma**2 * torch.eye(64, dtype=torch.float64),
    )
    exact = -normal.log_prob(x)

    found = evaluate(vae, test, likelihood_samples=400)
    assert found["kl0"] == pytest.approx(float(kl.mean()), rel=1e-5)
    assert abs(found["nllx0"] - float(nll.mean())) < 4 * found.se["nllx0"]
    assert found["elbo"] > found["mll"]
    bias = found["mll"] - float(exact.mean())  # of a finite sample: positive, and small
    noise = found.details["monte_carlo_error"]
    assert -3 * noise < bias < 3 * noise + 0.05
    assert found.se["mll"] == pytest.approx(float(exact.std()) / n**0.5, rel=0.05)


def test_a_vae_has_no_views_and_a_vae_plus_has_two():
    vae, test = VAE(4, SHAPE, **networks()), data(30)
    plain = evaluate(vae, test, likelihood_images=0)
    plus = evaluate(vae, test, likelihood_images=0, views=True, batch=7)
    assert all(plain[name] is None and name not in plain.se for name in VIEWLESS)
    assert plus["nllx1"] > 0 and plus["nllx2"] > 0
    assert all(plus[name] is None for name in VIEWLESS[2:])
    assert plus["kl0"] == pytest.approx(plain["kl0"], rel=1e-6)


def test_identical_views_have_nllx_of_x0():
    """With f the identity, VAE+ reconstructs the same picture three times."""
    vae, test = VAE(4, SHAPE, **networks()), data(400)
    same = Triplets.from_callables(lambda x: x, lambda x: x)
    found = evaluate(vae, test, triplets=same, views=True, likelihood_images=0)
    for name in ("nllx1", "nllx2"):
        assert abs(found[name] - found["nllx0"]) < 4 * found.se["nllx0"]


def test_likelihood_is_that_of_the_chosen_images():
    vae, test = VAE(4, SHAPE, **networks()), data(50)
    found = evaluate(vae, test, likelihood_samples=30, likelihood_images=12, seed=5)
    chosen = torch.randperm(50, generator=generator(5, "evaluation/subset"))[:12]
    direct = log_likelihood(vae, test.images[chosen], 30, generator(5, "evaluation/likelihood"))
    assert found["mll"] == -direct.mean and found.se["mll"] == direct.standard_error
    everything = evaluate(vae, test, likelihood_samples=30, likelihood_images=10**6)
    assert everything.details["likelihood_images"] == 50


def test_accuracies_are_sklearns():
    model, train, test = t_vae(), data(300, 1), data(80)
    found = evaluate(model, test, train=train, likelihood_images=0)
    theirs = KNeighborsClassifier(5, algorithm="brute").fit(embed(model, train), train.labels)
    share = theirs.score(embed(model, test), test.labels)
    assert found["knn_in"] == pytest.approx(share, abs=1e-12) and 0.5 < share < 1
    assert found.se["knn_in"] == pytest.approx(math.sqrt(share * (1 - share) / 80))


def test_queries_are_searched_in_parts(monkeypatch):
    anchors, queries = data(220, 2), data(90, 3)
    whole = evaluate(Pixels(), data(5), anchors=anchors, queries=queries)
    monkeypatch.setattr(metrics, "_PART", 7)
    parts = evaluate(Pixels(), data(5), anchors=anchors, queries=queries)
    assert whole["knn_out"] == parts["knn_out"] and 0.5 < whole["knn_out"] <= 1
    assert whole.details == parts.details


@pytest.mark.parametrize("make", [Pixels, lambda: PCA(data(99, 4), 6), None])
def test_baselines_are_rows_like_any_other(make):
    if make is None:

        class Mine:
            def embed(self, images):
                return images.float().mean((1, 2))

        make = Mine
    found = evaluate(make(), data(40), train=data(200, 1), anchors=data(50, 2), queries=data(9, 3))
    assert [n for n, value in found.items() if value is not None] == ["knn_in", "knn_out"]


def test_no_accuracy_in_sample_where_the_classes_differ():
    train, test = data(40, 1, classes=("a", "b")), data(20, classes=("c", "d"))
    found = evaluate(Pixels(), test, train=train)
    assert found["knn_in"] is None and "classes" in found.details["knn_in"]


def test_same_seed_same_numbers_and_nothing_else_is_touched():
    model, test = t_vae().train(), data(30)
    model.encoder.eval()
    before = torch.get_rng_state()
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    one, two, other = (evaluate(model, test, likelihood_samples=5, seed=seed) for seed in (1, 1, 2))
    assert dict(one) == dict(two) and one["nllx0"] != other["nllx0"]
    assert torch.equal(torch.get_rng_state(), before)
    assert model.training and not model.encoder.training
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())


def test_metrics_are_a_frozen_mapping(everything):
    with pytest.raises(AttributeError, match="cannot be changed"):
        everything.se = {}
    with pytest.raises(TypeError):
        everything.se["mll"] = 0
    with pytest.raises(KeyError, match="the columns are nllx0"):
        everything["nllx3"]
    with pytest.raises(ValueError, match="no column 'nllx3'"):
        Metrics({"nllx3": 1.0})
    again = pickle.loads(pickle.dumps(everything))
    assert again == everything and again.se == everything.se


def test_metrics_print_well():
    found = Metrics({"nllx0": 101.234, "knn_in": 0.91237}, {"knn_in": 0.00123})
    assert str(found) == "nllx0 101.23  knn_in 0.9124"


def test_embed_gives_posterior_means_whatever_the_batch():
    model, test = t_vae(), data(33)
    expected = model.encode(test.images)[0].detach()
    for batch in (1, 10, 33, 500):
        found = embed(model, test, batch=batch)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(embed(model, test.floats()), expected, rtol=1e-5, atol=1e-6)
    assert not found.requires_grad and not found.is_inference()


def test_pca_is_the_singular_value_decomposition():
    train, test = data(200, 1), data(20)
    x = train.floats().flatten(1).double().numpy()
    _, scale, rows = np.linalg.svd(x - x.mean(0), full_matrices=False)
    pca = PCA(train, 5)
    expected = (test.floats().flatten(1).double().numpy() - x.mean(0)) @ rows[:5].T
    found = pca.embed(test.images).numpy()
    signs = np.sign((found * expected).sum(0))
    np.testing.assert_allclose(found, expected * signs, atol=1e-4)
    assert pca.explained == pytest.approx((scale[:5] ** 2).sum() / (scale**2).sum(), rel=1e-4)
    torch.testing.assert_close(pca.embed(test.floats()), pca.embed(test.images))


def test_pixels_and_untrained_encoder():
    images = torch.randint(0, 256, (7, 1, 28, 28), generator=torch.Generator().manual_seed(0))
    images = images.to(torch.uint8)
    assert torch.equal(Pixels().embed(images), images.flatten(1).float() / 255)
    fresh = VAE(5, generator=generator(2, "init"))
    torch.testing.assert_close(Untrained(5, seed=2).embed(images), fresh.encode(images)[0].detach())
    assert Untrained(6, (3, 64, 64)).embed(torch.rand(2, 3, 64, 64)).shape == (2, 6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: evaluate(t_vae(), data(5), anchors=data(9)), "both anchors and queries"),
        (lambda: evaluate(t_vae(), data(5).images, train=data(9)), "pass test as a Dataset"),
        (lambda: evaluate(t_vae(), data(5), likelihood_images=-1), "must not be negative"),
        (lambda: evaluate(t_vae(), torch.rand(3, 1, 9, 9)), r"test must have shape \(N, 1, 8, 8\)"),
        (lambda: evaluate(t_vae(), torch.rand(3, *SHAPE) * 2), r"must lie in \[0, 1\]"),
        (lambda: evaluate(t_vae(), data(5), batch=0), "batch size must be a positive"),
        (lambda: evaluate(Pixels(), data(5), train=data(3)), "k = 5 neighbours cannot be found"),
        (lambda: PCA(data(5), 6), "5 images of 64 pixels have at most 5 principal components"),
        (lambda: PCA(data(50), 3).embed(torch.rand(2, 1, 4, 4)), r"\(N, 1, 8, 8\)"),
        (lambda: embed(t_vae(), data(5).images[:0]), "images is empty"),
    ],
)
def test_mistakes_are_told_in_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_public_names_exist():
    assert all(hasattr(evaluation, name) for name in evaluation.__all__)


def test_a_model_whose_tau_has_a_width_is_measured_like_any_other():
    model = TVAE(4, action="W", tau_width=0.1, generator=generator(0, "w"))
    images = torch.rand(20, 1, 28, 28, generator=generator(0, "x"))
    found = evaluate(model, images, likelihood_images=0)
    assert found["kl0"] is not None and found["c1"] is not None
