"""Images normalised by their own moments."""

from __future__ import annotations

import math

import pytest
import torch

from tvae import data
from tvae.evaluation.normalisation import mean_size, normalised, normalising_matrices
from tvae.transforms.warp import warp


def ellipse(cx, cy, sx, sy, slant=0.0, side=28):
    """A soft blob with these standard deviations, sheared by `slant` pixels a row: (1, 1, s, s)."""
    at = torch.arange(side, dtype=torch.float64) + 0.5
    y, x = torch.meshgrid(at - cy, at - cx, indexing="ij")
    return torch.exp(-0.5 * ((x - slant * y) / sx) ** 2 - 0.5 * (y / sy) ** 2)[None, None].float()


def test_the_centre_of_mass_comes_to_the_middle():
    blob = ellipse(10.3, 16.9, 2.0, 3.0)
    moved = warp(blob, normalising_matrices(blob, "centred", None), "bicubic")
    assert torch.allclose(moved, ellipse(14, 14, 2.0, 3.0), atol=0.02)


@pytest.mark.parametrize("slant", [-0.4, 0.0, 0.3])
@pytest.mark.parametrize("zoom", [0.8, 1.0, 1.25])
def test_slant_and_size_are_undone(slant, zoom):
    blob = ellipse(13.0, 15.0, 1.8 * zoom, 3.0 * zoom, slant)
    size = math.sqrt((1.8**2 + 3.0**2) / 2)
    assert mean_size(blob) == pytest.approx(size * zoom, rel=0.02)
    moved = warp(blob, normalising_matrices(blob, "moments", size), "bicubic")
    assert torch.allclose(moved, ellipse(14, 14, 1.8, 3.0), atol=0.06)


def test_normalising_twice_changes_little_and_labels_stay():
    digits = data.load("mnist", "test", source="embedded").take(50)
    size = mean_size(digits)
    once = normalised(digits, "moments", size)
    assert once.images.dtype == torch.uint8 and torch.equal(once.labels, digits.labels)
    assert once.provenance.checksum != digits.provenance.checksum
    eye = torch.eye(3, dtype=torch.float64)
    matrices = normalising_matrices(once.floats(), "moments", size)
    assert float((matrices[:, :2, :2] - eye[:2, :2]).abs().median()) < 0.02
    assert float((matrices - eye).abs().max()) < 0.5


def test_blank_images_and_single_rows_stay_finite():
    blank = torch.zeros(1, 1, 28, 28)
    row = torch.zeros(1, 1, 28, 28)
    row[0, 0, 5, 3:9] = 1
    for image in (blank, row):
        for kind in ("centred", "moments"):
            assert bool(normalising_matrices(image, kind, 4.0).isfinite().all())
    assert torch.equal(normalising_matrices(blank, "centred", None)[0], torch.eye(3).double())


def test_errors_speak():
    digits = data.load("mnist", "test", source="embedded").take(2)
    with pytest.raises(ValueError, match="one of centred, moments"):
        normalised(digits, "upright")
    with pytest.raises(ValueError, match="positive size"):
        normalised(digits, "moments")
    with pytest.raises(ValueError, match="grey"):
        normalised(data.load("portraits", "test", source="embedded").take(2), "centred")
