"""Images moved first: where they go, that the views follow, that a seed gives the same."""

from __future__ import annotations

import json

import pytest
import torch

from tvae.seeding import generator
from tvae.transforms import Moved, Triplets, get_family, warp
from tvae.transforms.moved import RANGES

AFFINE = Triplets(("affine",), "exact")


def test_views_are_those_of_the_moved_image():
    """x1 is x0 moved by f, but for a second interpolation; exactly, it is one look at the original."""
    x = torch.zeros(8, 1, 28, 28)
    x[:, :, 8:20, 8:20] = torch.rand(8, 1, 12, 12, generator=generator(0, "x"))
    views = Moved(AFFINE)(x, generator(0, "views"))
    draws = generator(0, "views")
    places = Moved(AFFINE).places(8, 28, 28, draws)
    first, second = AFFINE.matrices(AFFINE.draw(8, 28, 28, draws), 28, 28)
    assert torch.equal(views.x0, warp(x, places))
    assert torch.equal(views.x1, warp(x, places @ first))
    assert torch.allclose(first @ second, torch.eye(3).double().expand(8, 3, 3), atol=1e-9)
    smooth = torch.nn.functional.avg_pool2d(x, 5, 1, 2)
    views = Moved(AFFINE)(smooth, generator(0, "views"))
    assert float((warp(views.x0, first) - views.x1).abs().mean()) < 0.01
    assert not torch.equal(views.x0, smooth)


def test_places_lie_in_their_ranges():
    places = Moved(AFFINE).places(500, 28, 28, generator(1, "places"))
    low, high = (torch.tensor([pair[k] for pair in RANGES.values()]).double() for k in (0, 1))
    assert tuple(get_family("affine").parameters) == tuple(RANGES)
    determinant = torch.linalg.det(places[:, :2, :2])  # output to input: of a smaller image above 1
    grow = -determinant.log() / 2 / torch.log(torch.tensor(1.2))
    assert float(grow.min()) >= low[3] - 1e-6 and float(grow.max()) <= high[3] + 1e-6
    assert float(grow.min()) < low[3] + 0.1 and float(grow.max()) > high[3] - 0.1


def test_equal_settings_are_equal_and_errors_are_those_of_triplets():
    assert Moved(AFFINE) == Moved(Triplets(("affine",), "exact")) and hash(Moved(AFFINE))
    assert json.loads(json.dumps(Moved(AFFINE).settings()))["moved"] is True
    with pytest.raises(TypeError, match="floating point"):
        Moved(AFFINE)(torch.zeros(2, 1, 28, 28, dtype=torch.uint8), generator(0, "v"))
