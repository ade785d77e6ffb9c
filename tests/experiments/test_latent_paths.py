"""Paths of codes, against numpy, loops and curves whose numbers are known."""

import math

import numpy as np
import pytest
import torch

import tvae
from tvae.evaluation.inference import Probe
from tvae.experiments.latent_paths import NUMBERS, LatentPath, rotations
from tvae.models import VAE
from tvae.seeding import generator
from tvae.transforms import Parameters, Triplets

STEPS = [5.0, 10.0, 20.0]
ANGLES = torch.tensor([-20.0, -10.0, -5.0, 0.0, 5.0, 10.0, 20.0])


@pytest.fixture(scope="module")
def images():
    return tvae.data.load("mnist", "test", source="embedded").floats(range(6))


def random_path(n=6, d=5, noise=True):
    mean = torch.randn(len(ANGLES), n, d, generator=generator(0, "mean"))
    logvar = torch.randn(mean.shape, generator=generator(0, "logvar")) - 1
    return LatentPath(ANGLES, mean, logvar if noise else None)


def test_rotations_are_those_of_the_triplets(images):
    views = rotations(images, STEPS)
    assert views.shape == (7, *images.shape)
    assert torch.equal(views[3], images)
    triplets = Triplets(interpolation="bicubic")
    for k, angle in enumerate(ANGLES.tolist()):
        expected = triplets.replay(images, Parameters.of("rotation", [angle] * len(images))).x1
        torch.testing.assert_close(views[k], expected, atol=1e-6, rtol=0)


def test_path_holds_the_codes_of_the_turned_pictures(images):
    probe = Probe(VAE(4, generator=generator(0, "model")), batch=5)
    path = LatentPath.of(probe, images, STEPS)
    assert torch.equal(path.angles, ANGLES)
    for k, views in enumerate(rotations(images, STEPS)):
        torch.testing.assert_close(path.mean[k], probe.encode(views)[0])
        torch.testing.assert_close(path.logvar[k], probe.encode(views)[1])
    pixels = LatentPath.of(None, images, STEPS)
    assert pixels.logvar is None
    assert torch.equal(pixels.mean[3], images.flatten(1))


def test_numbers_against_numpy():
    path = random_path()
    found = path.numbers(generator(0, "samples"))
    assert tuple(found) == NUMBERS
    drawn = path.sampled(generator(0, "samples")).numpy()
    mean = path.mean.numpy()
    x = np.repeat(np.abs(ANGLES.numpy()), 10)
    for n in range(6):
        y = drawn[:, :, n].reshape(-1)
        slope, _ = np.polyfit(x, y, 1)
        assert float(found["slope"][n]) == pytest.approx(slope, rel=1e-3, abs=1e-5)
        assert float(found["R²"][n]) == pytest.approx(np.corrcoef(x, y)[0, 1] ** 2, rel=1e-3)
        d = np.linalg.norm(mean[:, n] - mean[3, n], axis=1)
        assert float(found["step"][n]) == pytest.approx((d[0] + d[6]) / 2, rel=1e-5)
        grows = [d[k + 1] > d[k] for k in (3, 4, 5)] + [d[k - 1] > d[k] for k in (3, 2, 1)]
        assert float(found["growing"][n]) == pytest.approx(np.mean(grows))
        others = np.mean([np.linalg.norm(mean[3, n] - mean[3, m]) for m in range(6) if m != n])
        assert float(found["of another"][n]) == pytest.approx((d[0] + d[6]) / 2 / others, rel=1e-4)
        spread = np.mean([np.std(row, ddof=1) for row in drawn[:, :, n]])
        assert float(found["spread"][n]) == pytest.approx(spread / ((d[0] + d[6]) / 2), rel=1e-4)
        assert float(found["sampled"][n]) == pytest.approx(y.mean(), rel=1e-5)
    torch.testing.assert_close(path.to_others(), path.to_others(reference=6))
    few = path.to_others(reference=2)
    pair = np.linalg.norm(mean[3, 0] - mean[3, 1])
    assert float(few[0]) == pytest.approx(pair, rel=1e-4)  # itself is not counted


def test_a_straight_line_and_a_circle():
    direction = torch.randn(4, 3, generator=generator(0, "direction"))
    start = torch.randn(4, 3, generator=generator(0, "start"))
    line = LatentPath(ANGLES, start + ANGLES[:, None, None] * direction)
    found = line.numbers()
    torch.testing.assert_close(found["slope"], direction.norm(dim=-1), rtol=1e-4, atol=0)
    for name in ("R²", "odd", "growing"):
        torch.testing.assert_close(found[name], torch.ones(4), rtol=1e-4, atol=0)
    turn = torch.deg2rad(ANGLES)
    circle = LatentPath(ANGLES, torch.stack((turn.cos(), turn.sin()), -1)[:, None])
    found = circle.numbers()
    assert float(found["step"]) == pytest.approx(2 * math.sin(math.radians(10)), rel=1e-5)
    # the odd part is sin, the even part cos - 1
    odd, even = math.sin(math.radians(20)) ** 2, (math.cos(math.radians(20)) - 1) ** 2
    assert float(found["odd"]) == pytest.approx(odd / (odd + even), rel=1e-4)


def test_squared_distances_add_up():
    path = random_path(n=400)
    d = path.distances().square()
    torch.testing.assert_close((d[0] + d[-1]) / 2, sum(path.parts()), rtol=1e-4, atol=1e-5)
    expected = d.mean() + path.logvar.exp().sum(-1).mean()
    drawn = path.sampled(generator(0, "samples"), samples=50).square().mean()
    assert float(drawn / expected) == pytest.approx(1, abs=0.02)
    found = path.numbers(generator(0, "samples"))
    noise = found["step"] / found["of the noise"]
    assert float(noise[0] ** 2) == pytest.approx(float(path.logvar[3, 0].exp().sum()))


def test_some_dimensions_only():
    path = random_path()
    mask = torch.tensor([True, False, True, True, False])
    part = path.only(mask)
    assert torch.equal(part.mean, path.mean[..., [0, 2, 3]])
    assert torch.equal(part.logvar, path.logvar[..., [0, 2, 3]])
    assert random_path(noise=False).only(mask).logvar is None


def test_nonsense_is_refused(images):
    for steps in ([], [0.0, 5.0], [10.0, 5.0], [-5.0]):
        with pytest.raises(ValueError, match="positive and growing"):
            rotations(images, steps)
    with pytest.raises(ValueError, match="needs a generator"):
        random_path().numbers()
    with pytest.raises(ValueError, match="without log-variances"):
        random_path(noise=False).sampled(generator(0, "x"))
