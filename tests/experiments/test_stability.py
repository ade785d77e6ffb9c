"""Curves of training: known noise is found, lines cancel, opposite steps are seen as such."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ledgers import entry, values

from tvae.evaluation.statistics import bootstrap
from tvae.experiments import stability
from tvae.runs import ledger
from tvae.runs.sweep import Job


def lines(seed, runs=10, epochs=10, sigma=1.0, sets=()):
    """Curves (*sets, runs, epochs): lines of their own with independent noise about them."""
    draw = np.random.default_rng(seed)
    level, slope = 5 * draw.normal(size=(2, *sets, runs, 1))
    noise = sigma * draw.normal(size=(*sets, runs, epochs))
    return level + slope * np.arange(epochs) + noise


@pytest.mark.parametrize("epochs", [3, 10, 25])
def test_roughness_is_the_noise_whatever_level_and_slope(epochs):
    squares = stability.roughness(lines(0, 20_000, epochs, sigma=1.7)) ** 2
    error = squares.std() / math.sqrt(len(squares))
    assert abs(squares.mean() - 1.7**2) < 5 * error
    assert stability.roughness(3 + 2 * np.arange(8.0)) == pytest.approx(0, abs=1e-12)


def test_roughness_agrees_with_a_fitted_line():
    curves = lines(1, runs=4, epochs=7)
    for curve, found in zip(curves, stability.roughness(curves), strict=True):
        rest = curve - np.polyval(np.polyfit(range(7), curve, 1), range(7))
        assert found == pytest.approx(math.sqrt((rest**2).sum() / 5))
    expected = math.sqrt((stability.roughness(curves) ** 2).mean())
    assert stability.pooled(curves) == pytest.approx(expected)
    assert stability.pooled(3 * curves) == pytest.approx(3 * expected)


def test_coupling_sees_steps_against_each_other_and_no_descent():
    noise = np.random.default_rng(2).normal(size=(2, 500, 12))
    against = np.stack((noise[0], -2 * noise[0]), axis=-1)
    assert stability.coupling(against) == pytest.approx(-1)
    alone = np.stack((noise[0], noise[1]), axis=-1)
    assert abs(stability.coupling(alone)) < 0.05
    course = np.stack((-3.0 * np.arange(12), 2.0 * np.arange(12)), axis=-1)
    assert stability.coupling(alone + course) == pytest.approx(stability.coupling(alone))
    # many sets at once, as the bootstrap asks for
    found = stability.coupling(np.stack((against, alone)))
    assert found == pytest.approx([-1, float(stability.coupling(alone))])


def test_too_few_epochs_give_nan_and_no_number():
    assert np.isnan(stability.roughness(np.ones((5, 2)))).all()
    assert np.isnan(bootstrap(stability.pooled, np.ones((5, 2))).value)


def test_bootstrap_covers_the_true_ratio():
    hits = 0
    for k in range(200):
        ours, theirs = lines(2 * k, sigma=0.5), lines(2 * k + 1, sigma=1.0)
        found = bootstrap(stability.ratio(stability.pooled), ours, theirs, draws=400, seed=k)
        assert found.low < found.high
        hits += found.low <= 0.5 <= found.high
    # It is meant to cover 95 %; with 200 trials 85 % is more than four standard errors away.
    assert hits >= 170


def put(results, model, action, seed, status="ok", tag="stability", epochs=3, **changes):
    job = Job("mnist", model, action, seed=seed, tag=tag, **changes)
    train = values(job)["data"]["train"]
    data = {"train": train, "test": {**train, "split": "test"}}
    curve = [
        {"epoch": e, "test_nllx0": 100.0 + seed - e, "test_kl0": 10.0 + e % 2}
        for e in range(1, epochs + 1)
    ]
    made = entry(job, status=status, data=data, curve=curve)
    ledger.write(made, results)
    return made


def test_walks_are_the_finished_runs_of_one_preset_and_tag(tmp_path):
    put(tmp_path, "vae", None, 0, tag="", preset="book")
    put(tmp_path, "tvae", "A", 1, tag="", preset="book")
    put(tmp_path, "tvae", "A", 2, tag="", preset="book", status="failed")
    put(tmp_path, "tvae", "A", 3, tag="plateau", preset="book")
    put(tmp_path, "tvae", "A", 4, tag="", preset="quick")
    found = {(walk.label, walk.seed): walk for walk in stability.walks("mnist", results=tmp_path)}
    assert set(found) == {("VAE", 0), ("A", 1)}
    assert found["A", 1].has_action and not found["VAE", 0].has_action
    assert found["A", 1].values.tolist() == [[100.0, 11.0], [99.0, 10.0], [98.0, 11.0]]
    assert stability.walks("omniglot", results=tmp_path) == []


def test_last_epoch_is_the_last_value_with_the_roughness_of_the_second_half(tmp_path):
    made = put(tmp_path, "tvae", "A", 0, epochs=10)
    assert stability.last_epoch(made) == pytest.approx((90.0, 0.0), abs=1e-9)  # a line
    ends, walk = stability.last_epoch(made, *stability.PLANE)
    assert ends == 100.0
    second = np.array([94.0, 93.0, 92.0, 91.0, 90.0]) + np.array([10.0, 11.0, 10.0, 11.0, 10.0])
    assert walk == pytest.approx(stability.roughness(second)) and walk > 0.3
