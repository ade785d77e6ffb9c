"""Transformations without a zoom: groups, exact inverses, and pairs that share them."""

from __future__ import annotations

import pytest
import torch
from scipy.linalg import expm

from tvae import data
from tvae.seeding import generator
from tvae.transforms import Parameters, Triplets, homographies

FAMILIES = ("rotation", "shear", "scale", "translation", "affine")
EYE = torch.eye(3, dtype=torch.float64)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_inverse_parameters_give_the_inverse(name):
    triplets = Triplets((name,), geometry="exact")
    parameters = triplets.draw(50, 28, 20, generator(0, name))
    one, two = triplets.matrices(parameters, 28, 20)
    assert torch.allclose(one @ two, EYE.expand(50, 3, 3), atol=1e-12)
    assert float((one - EYE).abs().amax((1, 2)).median()) > 0.1


@pytest.mark.parametrize("name", ["rotation", "shear", "scale", "translation", "affine"])
def test_multiples_of_one_transformation_add_up(name):
    triplets = Triplets((name,), geometry="exact")
    drawn = triplets.draw(20, 28, 28, generator(1, name))
    values = drawn.values.clone()
    if name == "shear":  # tan, not the angle, is what adds up
        double = values.clone()
        double[:, 0] = torch.rad2deg(torch.atan(2 * torch.deg2rad(values[:, 0]).tan()))
    else:
        double = 2 * values
    one, _ = triplets.matrices(drawn, 28, 28)
    two, _ = triplets.matrices(Parameters(drawn.families, drawn.family, double), 28, 28)
    assert torch.allclose(one @ one, two, atol=1e-9)


def test_the_affine_family_agrees_with_scipy_and_with_the_single_families():
    values = torch.randn(4, 6, generator=generator(2, "affine"), dtype=torch.float64)
    got = homographies("affine", values, 28, 28)
    zero = torch.zeros(1, 6, dtype=torch.float64)
    shift = torch.eye(3, dtype=torch.float64)
    shift[:2, 2] = -14
    basis = []
    for i in range(6):  # the generators, by differences at the identity
        step = zero.clone()
        step[0, i] = 1e-6
        basis.append((homographies("affine", step, 28, 28)[0] - EYE) / 1e-6)
    for row, found in zip(values, got, strict=True):
        flow = sum(float(v) * g for v, g in zip(row, basis, strict=True))
        assert torch.allclose(found, torch.from_numpy(expm(flow.numpy())), atol=1e-4)
    turn = zero.clone()
    turn[0, 2] = 0.6
    exact = Triplets(("rotation",), geometry="exact")
    rotation = exact.matrices(Parameters.of("rotation", [0.6 * 25]), 28, 28)[0]
    assert torch.allclose(homographies("affine", turn, 28, 28), rotation, atol=1e-12)


def test_pairs_share_their_transformation():
    images = data.load("mnist", "test", source="embedded").floats()[:8]
    triplets = Triplets(geometry="exact", families=("rotation", "affine"), pairs=True)
    batch = triplets(images, generator(0, "pairs"))
    values = batch.parameters.values
    assert torch.equal(values[::2], values[1::2]) and not torch.equal(values[0], values[2])
    assert torch.equal(batch.parameters.family[::2], batch.parameters.family[1::2])
    again = triplets.replay(images, batch.parameters)
    assert torch.equal(again.x1, batch.x1) and torch.equal(again.x2, batch.x2)
    with pytest.raises(ValueError, match="even number of images, not 7"):
        triplets(images[:7], generator(0, "pairs"))


def test_without_pairs_the_draws_are_what_they_were():
    assert Triplets().settings()["pairs"] is False
    one = Triplets().draw(4, 28, 28, generator(0, "draws"))
    assert len(one.values.unique(dim=0)) == 4


def test_a_tilt_has_no_exact_form():
    with pytest.raises(ValueError, match="leave a zoom behind"):
        Triplets(("tilt",), geometry="exact")
