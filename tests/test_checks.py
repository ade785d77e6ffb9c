"""Bad input gets one sentence that says what was wrong and what would be right."""

import numpy as np
import pytest
import torch

from tvae.checks import check_dimension, check_images
from tvae.training.configuration import RunConfig

GOOD = torch.rand(2, 1, 28, 28)


@pytest.mark.parametrize("images", [GOOD, GOOD.double(), (GOOD * 255).to(torch.uint8)])
def test_good_images_pass_through(images):
    assert check_images(images, (1, 28, 28)) is images


@pytest.mark.parametrize(
    ("images", "error", "sentence"),
    [
        (np.zeros((1, 1, 28, 28)), TypeError, "must be a torch.Tensor"),
        (torch.rand(28, 28), ValueError, r"shape \(N, C, H, W\)"),
        (torch.rand(0, 1, 28, 28), ValueError, "is empty"),
        (torch.rand(2, 1, 0, 28), ValueError, "size zero"),
        (torch.rand(2, 3, 28, 28), ValueError, r"must have 1 channel\(s\), not 3"),
        (torch.rand(2, 1, 32, 32), ValueError, r"\(N, 1, 28, 28\), not \(2, 1, 32, 32\)"),
        (torch.zeros(2, 1, 28, 28, dtype=torch.int64), TypeError, "uint8 or floating point"),
        (torch.full((1, 1, 28, 28), float("nan")), ValueError, "not finite"),
        (torch.full((1, 1, 28, 28), float("inf")), ValueError, "not finite"),
        (GOOD * 255, ValueError, r"must lie in \[0, 1\].*divide"),
        (GOOD - 1, ValueError, r"must lie in \[0, 1\]"),
    ],
)
def test_bad_images_get_one_sentence(images, error, sentence):
    with pytest.raises(error, match=sentence) as caught:
        check_images(images, (1, 28, 28))
    assert str(caught.value).count("\n") == 0
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("d", [0, -3, 2.5, True, "25"])
def test_a_latent_dimension_is_a_positive_whole_number(d):
    with pytest.raises(ValueError, match="positive whole number"):
        check_dimension(d)


def test_a_dimension_from_a_numpy_grid_becomes_a_plain_one():
    """It goes into configurations that are written as JSON, which knows no numpy integers."""
    for d in np.arange(2, 5):
        assert type(check_dimension(d)) is int
    config = RunConfig.from_preset("mnist", preset="quick", d=np.int64(26))
    assert type(config.d) is int and config.d == 26
