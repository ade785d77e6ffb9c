"""The warp against independent resamplers: SciPy's map_coordinates and Pillow's Image.transform."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.ndimage import map_coordinates

from tvae.transforms import homographies, warp
from tvae.transforms.families import get_family


def picture(seed: int, channels: int, height: int, width: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(1, channels, height, width, generator=generator)


def one_of(name: str, seed: int, height: int, width: int) -> torch.Tensor:
    family = get_family(name)
    uniform = torch.rand(
        1,
        len(family.parameters),
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(seed),
    )
    return homographies(name, family.draw(uniform, family.range, height, width), height, width)


def by_scipy(image: np.ndarray, matrix: np.ndarray, order: int) -> np.ndarray:
    """One channel, read at the mapped pixel centres; array indices are edge coordinates − ½."""
    height, width = image.shape
    rows, columns = np.mgrid[0:height, 0:width]
    points = np.stack([columns.ravel() + 0.5, rows.ravel() + 0.5, np.ones(rows.size)])
    u, v, s = matrix @ points
    index = [v / s - 0.5, u / s - 0.5]
    return map_coordinates(image, index, order=order, mode="grid-constant").reshape(height, width)


@pytest.mark.parametrize("name", ("rotation", "tilt", "shear", "translation", "scale"))
@given(
    seed=st.integers(0, 10_000),
    channels=st.sampled_from((1, 3)),
    size=st.tuples(st.integers(6, 40), st.integers(6, 40)),
)
@settings(max_examples=15, deadline=None)
def test_bilinear_warp_equals_scipy(name, seed, channels, size) -> None:
    image, matrix = picture(seed, channels, *size), one_of(name, seed, *size)
    ours = warp(image, matrix, "bilinear")[0].numpy()
    for plane, source in zip(ours, image[0].double().numpy(), strict=True):
        assert np.allclose(plane, by_scipy(source, matrix[0].numpy(), order=1), atol=2e-5)


def test_nearest_warp_equals_scipy_away_from_ties() -> None:
    image, matrix = picture(1, 1, 24, 18), one_of("rotation", 5, 24, 18)
    ours = warp(image, matrix, "nearest")[0, 0].numpy()
    theirs = by_scipy(image[0, 0].double().numpy(), matrix[0].numpy(), order=0)
    assert (np.abs(ours - theirs) < 1e-6).mean() > 0.99


@pytest.mark.parametrize("name", ("rotation", "tilt", "shear"))
@pytest.mark.parametrize("size", ((28, 28), (20, 31)))
def test_bilinear_warp_equals_pillow_inside(name, size) -> None:
    """Pillow shares the convention; it rounds to whole grey levels and treats the rim otherwise."""
    height, width = size
    levels = (picture(2, 1, height, width) * 255).round()
    for seed in range(5):
        matrix = one_of(name, seed, height, width)
        coefficients = (matrix[0] / matrix[0, 2, 2]).flatten()[:8].tolist()
        source = Image.fromarray(levels[0, 0].to(torch.uint8).numpy())
        theirs = source.transform(
            (width, height), Image.Transform.PERSPECTIVE, coefficients, Image.Resampling.BILINEAR
        )
        ours = warp(levels / 255, matrix, "bilinear")[0, 0].numpy() * 255
        inside = by_scipy(np.pad(np.ones((height - 2, width - 2)), 1), matrix[0].numpy(), 1) > 0.999
        assert inside.sum() > 50
        assert np.abs(ours - np.asarray(theirs, dtype=float))[inside].max() <= 1.01


@pytest.mark.parametrize("interpolation", ("bilinear", "bicubic", "nearest"))
@pytest.mark.parametrize("size", ((28, 28), (17, 40)))
def test_the_identity_returns_every_pixel_bit_for_bit(interpolation, size) -> None:
    images = torch.rand(3, 3, *size)
    matrices = torch.eye(3, dtype=torch.float64).repeat(3, 1, 1)
    assert torch.equal(warp(images, matrices, interpolation), images)
    # also beside others in one batch
    matrices[1] = one_of("tilt", 0, *size)[0]
    out = warp(images, matrices, interpolation)
    assert torch.equal(out[0], images[0]) and torch.equal(out[2], images[2])
    assert not torch.equal(out[1], images[1])


def test_whole_pixel_translations_move_pixels_and_leave_black() -> None:
    image = picture(3, 1, 10, 12)
    shift = torch.tensor([[2.0, 3.0]], dtype=torch.float64)
    out = warp(image, homographies("translation", shift, 10, 12))
    assert torch.allclose(out[0, 0, 3:, 2:], image[0, 0, :-3, :-2], atol=1e-5)
    assert out[0, 0, :3].abs().max() < 1e-5 and out[0, 0, :, :2].abs().max() < 1e-5


def test_composition_follows_the_convention() -> None:
    """First H, then G, reads at H G: shown on a smooth picture, where resampling twice costs little."""
    y, x = torch.meshgrid(torch.linspace(-2, 2, 96), torch.linspace(-2, 2, 96), indexing="ij")
    smooth = torch.exp(-(x**2) - 2 * (y - 0.2) ** 2)[None, None]
    h, g = one_of("tilt", 1, 96, 96), one_of("shear", 2, 96, 96)
    twice, once = warp(warp(smooth, h), g), warp(smooth, h @ g)
    swapped = warp(smooth, g @ h)
    assert (twice - once).abs().max() < 0.01
    assert (twice - swapped).abs().max() > 0.05


def test_beyond_the_horizon_there_is_nothing() -> None:
    matrix = torch.tensor([[[1.0, 0, 0], [0, 1, 0], [-0.1, 0, 1]]], dtype=torch.float64)
    out = warp(torch.ones(1, 1, 8, 20), matrix)
    assert torch.isfinite(out).all()
    assert out[..., 10:].abs().max() == 0 and out[..., :4, 0].min() > 0.99


def test_bicubic_stays_in_the_unit_interval() -> None:
    image = (picture(4, 1, 28, 28) > 0.5).float()
    out = warp(image, one_of("rotation", 3, 28, 28), "bicubic")
    assert out.min() >= 0 and out.max() <= 1


def test_gradients_flow_to_pictures_and_matrices() -> None:
    images = torch.rand(2, 1, 6, 5, dtype=torch.float64, requires_grad=True)
    base = torch.cat((one_of("tilt", 3, 6, 5), one_of("rotation", 7, 6, 5))).requires_grad_()
    assert torch.autograd.gradcheck(warp, (images, base), atol=1e-5)


def test_the_cached_grid_survives_inference_mode() -> None:
    size = (9, 7)  # a size no other test uses, so that the grid is made here
    matrix = one_of("tilt", 0, *size)
    with torch.inference_mode():
        warp(torch.rand(1, 1, *size), matrix.clone())
    learned = matrix.clone().requires_grad_()
    warp(torch.rand(1, 1, *size), learned).sum().backward()
    assert learned.grad is not None and learned.grad.abs().sum() > 0


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16, torch.float64))
def test_types_are_kept(dtype) -> None:
    image, matrix = picture(5, 1, 28, 28), one_of("shear", 0, 28, 28)
    out = warp(image.to(dtype), matrix)
    assert out.dtype == dtype
    assert torch.allclose(out.float(), warp(image, matrix), atol=0.01)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_gpu_and_cpu_agree() -> None:
    image, matrix = picture(6, 3, 28, 28), one_of("tilt", 0, 28, 28)
    assert torch.allclose(warp(image.cuda(), matrix).cpu(), warp(image, matrix), atol=1e-5)
    assert torch.allclose(warp(image.cuda(), matrix.cuda()).cpu(), warp(image, matrix), atol=1e-5)


def test_errors_name_what_is_wrong() -> None:
    eye = torch.eye(3)[None]
    with pytest.raises(ValueError, match="interpolation must be one of"):
        warp(torch.rand(1, 1, 4, 4), eye, "lanczos")
    with pytest.raises(ValueError, match="floating point of shape"):
        warp(torch.rand(1, 4, 4), eye)
    with pytest.raises(ValueError, match="floating point of shape"):
        warp(torch.zeros(1, 1, 4, 4, dtype=torch.uint8), eye)
    with pytest.raises(ValueError, match=r"matrices must have shape \(2, 3, 3\)"):
        warp(torch.rand(2, 1, 4, 4), eye)
