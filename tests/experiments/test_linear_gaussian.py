"""The exact linear-Gaussian T-VAE against SciPy, sampling, and a general-purpose optimiser."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from tvae.experiments.linear_gaussian import (
    DATA,
    Factor,
    Network,
    closest,
    descend,
    kl,
    structure,
    tvae_network,
)
from tvae.seeding import generator

X = DATA


def decoder(rows: int = 3, columns: int = 2, seed: int = 0) -> torch.Tensor:
    g = generator(seed, "decoder")
    return torch.randn(rows, columns, generator=g, dtype=torch.float64)


def model(s0: float = 0.6, s1: float = 0.4, s2: float | None = None) -> Network:
    return tvae_network(decoder(), s0=s0, s1=s1, s2=s2, sigma=0.8)


def by_hand(s0: float, s1: float, s2: float, sigma: float, w: np.ndarray) -> np.ndarray:
    """Cov(x0, x1, x2), written out entry by entry from Cov(z_i, z_j) = (1 + signs) I + widths."""
    latent = np.array([[1 + s0**2, 1.0, 1.0], [1.0, 2 + s1**2, 1 - 1.0], [1.0, 1 - 1.0, 2 + s2**2]])
    return np.kron(latent, w @ w.T) + sigma**2 * np.eye(3 * len(w))


@pytest.mark.parametrize("widths", [(0.6, 0.4, 0.4), (0.1, 0.9, 0.3)])
def test_log_marginal_is_scipys(widths: tuple[float, float, float]) -> None:
    s0, s1, s2 = widths
    p = model(s0, s1, s2)
    values = p.sample(20, generator(1, "triplets"))
    flat = torch.cat([values[name] for name in X], dim=1).numpy()
    oracle = multivariate_normal(cov=by_hand(s0, s1, s2, 0.8, decoder().numpy())).logpdf(flat)
    np.testing.assert_allclose(p.log_marginal(values).numpy(), oracle, rtol=1e-12)


def test_samples_have_the_stated_covariance() -> None:
    p = model()
    values = p.sample(200_000, generator(2, "triplets"))
    joint = torch.cat([values[factor.target] for factor in p.factors], dim=1)
    exact = p.covariance()
    deviation = torch.cov(joint.T) - exact
    # Var of an empirical covariance is at most (C_ii C_jj + C_ij^2) / n
    error = ((exact.diagonal().outer(exact.diagonal()) + exact**2) / len(joint)).sqrt()
    assert (deviation.abs() < 5 * error).all()


def test_joint_log_density_is_the_gaussian_with_that_covariance() -> None:
    p = model()
    values = p.sample(10, generator(3, "triplets"))
    joint = torch.cat([values[factor.target] for factor in p.factors], dim=1).numpy()
    oracle = multivariate_normal(cov=p.covariance().numpy()).logpdf(joint)
    np.testing.assert_allclose(
        sum(f.log_density(values) for f in p.factors).numpy(), oracle, rtol=1e-11
    )


def test_conditional_and_given_values() -> None:
    p = model()
    weights, covariance = p.conditional(["tau"], ["z1", "z2"])
    half = 0.5 / (1 + 0.4**2 / 2)  # tau from (z1 - z2) / 2, shrunk by its noise s1^2 / 2
    expected = torch.cat([half * torch.eye(2), -half * torch.eye(2)], dim=1).double()
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(covariance, torch.eye(2).double() / (1 + 2 / 0.4**2))
    fixed = torch.ones(7, 2, dtype=torch.float64)
    drawn = p.sample(7, generator(0, "x"), given={"z": fixed})
    assert torch.equal(drawn["z"], fixed)


def test_full_structure_is_the_exact_posterior() -> None:
    p = model(0.5, 0.3, 0.9)
    q = closest(p, structure())
    assert abs(float(kl(q, p))) < 1e-10
    weights, covariance = p.conditional(["z"], ["z0", "z1", "z2"])
    torch.testing.assert_close(torch.cat(list(q["z"].weights.values()), 1), weights)
    torch.testing.assert_close(q["z"].covariance, covariance)


def test_tau_from_the_views_is_free_only_for_equal_widths() -> None:
    equal, unequal = model(0.5, 0.4), model(0.5, 0.3, 0.7)
    for own, z in itertools.product((False, True), repeat=2):
        cost = []
        for p in (equal, unequal):
            gap = [float(kl(closest(p, structure(own=own, z=z, tau=t)), p)) for t in (True, False)]
            cost.append(gap[0] - gap[1])
        assert abs(cost[0]) < 1e-10
        assert cost[1] > 1e-2


def test_own_observation_only_has_a_closed_form() -> None:
    p = model(0.5, 0.3, 0.7)
    q = closest(p, structure(own=True))
    # The chain rule leaves KL[prod q(z_i|x_i) || p(z0,z1,z2|x)]: variances and regressions separate.
    latents = ("z0", "z1", "z2")
    mean, covariance = p.conditional(latents, X)
    precision, cxx = torch.linalg.inv(covariance), p.covariance(X)
    d, big = 2, 3
    for i in range(3):
        block = precision[d * i : d * i + d, d * i : d * i + d]
        torch.testing.assert_close(q[f"z{i}"].covariance, torch.linalg.inv(block))
    a = torch.block_diag(*(q[f"z{i}"].weights[f"x{i}"] for i in range(3)))
    stationary = precision @ (a - mean) @ cxx
    for i in range(3):
        block = stationary[d * i : d * i + d, big * i : big * i + big]
        assert block.abs().max() < 1e-7


@pytest.mark.parametrize(
    ("restrictions", "d", "widths"),
    [
        ({"own": True, "z": True, "tau": True}, 2, (0.5, 0.4, 0.4)),
        ({"own": True, "z": True, "tau": True, "diagonal": True}, 2, (0.5, 0.3, 0.7)),
        ({"z": True, "tau": True}, 1, (0.5, 0.3, 0.7)),
        ({"shared": True, "z": True, "tau": True, "diagonal": True}, 2, (0.5, 0.4, 0.4)),
    ],
)
def test_closest_agrees_with_a_general_optimiser(
    restrictions: dict[str, bool], d: int, widths: tuple[float, float, float]
) -> None:
    p = tvae_network(decoder(2, d), s0=widths[0], s1=widths[1], s2=widths[2], sigma=0.8)
    groups = structure(**restrictions)
    best = float(kl(closest(p, groups), p))
    found = float(kl(descend(p, groups, generator=generator(4, "start")), p))
    assert best > 0.05
    assert math.isclose(found, best, abs_tol=1e-6)


def test_structure_has_the_restrictions_asked_for() -> None:
    def parents(**restrictions: bool) -> dict[str, tuple[str, ...]]:
        groups = structure(**restrictions)
        return {t: p for g in groups for t, p in zip(g.targets, g.parents, strict=True)}

    assert parents(own=True, z=True, tau=True) == parents(shared=True, z=True, tau=True)
    assert parents(shared=True, z=True, tau=True) == {
        "z0": ("x0",),
        "z1": ("x1",),
        "z2": ("x2",),
        "z": ("z1", "z2"),
        "tau": ("z1", "z2"),
    }
    full = parents()
    assert set(full["z0"]) == {*X, "z1", "z2"}
    assert set(full["z"]) == {"z0", "z1", "z2"}
    assert set(full["tau"]) == {"z", "z0", "z1", "z2"}


def test_closest_says_when_it_does_not_converge() -> None:
    groups = structure(own=True, z=True)
    with pytest.raises(RuntimeError, match="No convergence in 2 sweeps"):
        closest(model(), groups, sweeps=2)


def test_kl_is_that_of_torch_distributions() -> None:
    p = model(0.5, 0.4, 0.4)
    q = closest(p, structure(own=True, z=True, tau=True))
    names = [factor.target for factor in p.factors]
    normal = torch.distributions.MultivariateNormal
    zero = torch.zeros(p.size, dtype=torch.float64)
    a, b = normal(zero, q.covariance(names)), normal(zero, p.covariance(names))
    torch.testing.assert_close(kl(q, p), torch.distributions.kl_divergence(a, b))


def test_errors_say_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="s1 must be positive, not 0"):
        tvae_network(decoder(), s0=1.0, s1=0.0, sigma=1.0)
    with pytest.raises(ValueError, match="one factor for each"):
        closest(model(), structure()[:-1])
    with pytest.raises(ValueError, match="after its parents"):
        Network([Factor("a", {"b": torch.eye(2)}, torch.eye(2))])
