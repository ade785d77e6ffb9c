"""PoseReader, against known warps, Pillow's rotation and shapes whose answer is known."""

import math

import numpy as np
import pytest
import torch
from PIL import Image

import tvae
from tvae.experiments.poses import ZOOMS, PoseReader, PoseReading, magnification, transformed
from tvae.seeding import generator
from tvae.transforms import Parameters, homographies, warp

SIDE = 28
GRIDS = {
    "rotation": torch.arange(-45.0, 46.0, 3.0),
    "shear": torch.arange(-45.0, 46.0, 3.0),
    "tilt": torch.arange(-42.0, 43.0, 3.0),
}
MOST = {"rotation": 25.0, "shear": 25.0, "tilt": 28.0}


def digits(count: int = 60) -> torch.Tensor:
    return tvae.data.load("mnist", "test", source="embedded").floats(range(count))


def others(family: str, axis: int = 0) -> tuple[float, ...]:
    return () if family == "rotation" else (float(axis),)


def known(
    x: torch.Tensor, family: str, axis: int = 0, zoom: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Three random values for each digit and the digit warped by them; `zoom` in place of the own."""
    n = len(x)
    values = torch.rand(n, 3, generator=generator(0, family), dtype=torch.float64)
    values = (2 * values - 1) * MOST[family]
    rows = torch.stack((values.flatten(), torch.full((3 * n,), float(axis)).double()), 1)
    matrices = homographies(family, rows[:, : 1 + len(others(family))], SIDE, SIDE)
    if zoom is not None:
        ratio = zoom / magnification(matrices, SIDE, SIDE)
        matrices = matrices @ homographies("scale", ratio.log()[:, None].repeat(1, 2), SIDE, SIDE)
    images = warp(x.repeat_interleave(3, 0), matrices, "bicubic")
    return values, images.view(n, 3, 1, SIDE, SIDE)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("family", ["rotation", "shear", "tilt"])
def test_finds_the_parameter_of_exact_warps(family: str, axis: int) -> None:
    """To a tenth of the grid's step on average, half a step at worst, with the family's own zoom."""
    x = digits()
    values, images = known(x, family, axis)
    found = PoseReader(x, family, GRIDS[family], others=others(family, axis))(images)
    error = (found.value - values).abs()
    assert float(error.mean()) < 0.3
    assert float(error.max()) < 1.5
    assert float(found.correlation.min()) > 0.92 and float(found.correlation.max()) <= 1
    assert bool(found.inside.all())


@pytest.mark.parametrize("zoom", [None, 1.0, 1.2])
@pytest.mark.parametrize("family", ["rotation", "shear", "tilt"])
def test_finds_the_parameter_at_any_zoom(family: str, zoom: float | None) -> None:
    x = digits()
    values, images = known(x, family, zoom=zoom)
    found = PoseReader(x, family, GRIDS[family], others=others(family), zooms=ZOOMS)(images)
    error = (found.value - values).abs()
    # A digit tilted by as much as its own size loses so much of itself that single ones are misread.
    assert float(error.median()) < 0.4
    assert float(error.mean()) < (0.8 if family == "tilt" else 0.3)
    assert family == "tilt" or float(error.max()) < 1.5
    if zoom is not None:
        assert float((found.zoom / zoom).log().abs().mean()) < 0.02


def test_own_zoom_misreads_what_was_not_enlarged() -> None:
    """Why `zooms` exists: the family's own zoom betrays the size of the angle, here wrongly."""
    x = digits()
    values, images = known(x, "rotation", zoom=1.0)
    own = PoseReader(x, "rotation", GRIDS["rotation"])(images)
    assert float((own.value - values).abs().mean()) > 3


def test_agrees_with_pillow() -> None:
    """Counter-clockwise is positive, as for Pillow, which turns without enlarging."""
    x = digits(30)
    angles = [-20.0, -7.0, 0.0, 11.0, 24.0]
    turned = [
        [
            np.asarray(
                Image.fromarray((255 * image[0].numpy()).astype(np.uint8)).rotate(
                    angle, resample=Image.Resampling.BICUBIC
                )
            )
            for angle in angles
        ]
        for image in x
    ]
    images = torch.from_numpy(np.array(turned))[:, :, None].float() / 255
    found = PoseReader(x, "rotation", GRIDS["rotation"], zooms=ZOOMS)(images)
    error = (found.value - torch.tensor(angles)).abs()
    assert float(error.mean()) < 0.3
    assert float(error.max()) < 2


def test_contrast_and_brightness_do_not_matter() -> None:
    x = digits(20)
    _, images = known(x, "rotation")
    register = PoseReader(x, "rotation", GRIDS["rotation"], zooms=ZOOMS)
    plain, faded = register(images), register(0.3 * images + 0.2)
    torch.testing.assert_close(plain.value, faded.value, atol=1e-2, rtol=0)
    torch.testing.assert_close(plain.correlation, faded.correlation, atol=1e-4, rtol=0)


def test_a_rescaled_grid_gives_the_same_answer() -> None:
    x = digits(20)
    values, images = known(x, "rotation")
    fine = PoseReader(x, "rotation", torch.arange(-40.0, 41.0, 1.0))(images)
    coarse = PoseReader(x, "rotation", torch.arange(-40.0, 41.0, 4.0))(images)
    assert float((fine.value - values).abs().mean()) < 0.1
    assert float((fine.value - coarse.value).abs().mean()) < 0.3


def test_blur_moves_the_estimate_little() -> None:
    """A decoded picture is a blurred one: a box blur of three pixels changes the angle little."""
    x = digits()
    values, images = known(x, "rotation")
    blurred = torch.nn.functional.avg_pool2d(images.flatten(0, 1), 3, 1, 1).view_as(images)
    found = PoseReader(x, "rotation", GRIDS["rotation"], zooms=ZOOMS)(blurred)
    assert float((found.value - values).abs().mean()) < 1.0


def ellipse(ratio: float) -> torch.Tensor:
    """A soft ellipse, upright, (1, 1, 28, 28); a disc for a ratio of 1."""
    side = torch.arange(SIDE) - (SIDE - 1) / 2
    square = (side[:, None] / (6 * ratio)) ** 2 + (side / 6) ** 2
    return torch.exp(-0.5 * square**2)[None, None]


def test_width_tells_what_cannot_be_read() -> None:
    """The rounder the shape, the wider the maximum; a disc has none."""
    widths = []
    for ratio in (1.6, 1.3, 1.1, 1.02, 1.0):
        shape = ellipse(ratio)
        found = PoseReader(shape, "rotation", GRIDS["rotation"], zooms=(0.9, 1.0, 1.1))(shape)
        widths.append(float(found.width))
        if ratio > 1.05:
            assert float(found.value) == pytest.approx(0, abs=0.5)
    assert widths == sorted(widths)
    assert widths[-1] > 5 * widths[0]  # a digit: about 2 degrees; this disc: more than 60


def test_width_is_the_fall_by_a_hundredth() -> None:
    x = digits(30)
    grid = torch.arange(-10.0, 11.0, 1.0)
    register = PoseReader(x, "rotation", grid, zooms=(1.0,))
    width = register(x).width[:, 0]
    # turn by the width, without the family's own zoom
    matrices = homographies("rotation", width.double()[:, None], SIDE, SIDE)
    logs = -magnification(matrices, SIDE, SIDE).log()[:, None].repeat(1, 2)
    pictures = warp(x, matrices @ homographies("scale", logs, SIDE, SIDE), "bicubic")
    fall = 1 - register.correlations(pictures[:, None])[:, 0, 10, 0]  # with the template at 0
    assert 0.006 < float(fall.median()) < 0.014


def test_round_digits_are_read_less_surely() -> None:
    """A nought has the widest maximum of the ten digits; yet an exact warp is found for it as well."""
    data = tvae.data.load("mnist", "test", source="embedded")
    widths = []
    for k in range(10):
        x = data.floats(torch.nonzero(data.labels == k)[:15, 0])
        values, images = known(x, "rotation")
        found = PoseReader(x, "rotation", GRIDS["rotation"], zooms=ZOOMS)(images)
        widths.append(float(found.width.median()))
        assert float((found.value - values).abs().mean()) < 0.5
    assert widths[0] == max(widths)
    assert widths[1] < widths[0]


def test_pictures_without_contrast_give_finite_values() -> None:
    x = digits(3)
    found = PoseReader(x, "rotation", GRIDS["rotation"], zooms=ZOOMS)(0.4 * torch.ones_like(x))
    assert float(found.correlation.abs().max()) == 0
    assert bool(found.value.isfinite().all())
    assert not bool(found.inside.any())
    assert bool(found.width.isinf().all())


def test_beyond_the_grid_is_said_to_be_outside() -> None:
    x = digits(20)
    images = warp(x, homographies("rotation", torch.full((20, 1), 30.0).double(), SIDE, SIDE))
    found = PoseReader(x, "rotation", torch.arange(-12.0, 13.0, 3.0), zooms=ZOOMS)(images)
    outside = ~found.inside
    assert float(outside.float().mean()) > 0.8
    assert bool((found.value[outside].abs() == 12).all())


def test_shapes_and_chunks() -> None:
    x = digits(45)  # more than the originals that are warped at a time
    _, images = known(x, "rotation")
    register = PoseReader(x, "rotation", GRIDS["rotation"], zooms=(1.0, 1.1, 1.2))
    found = register(images)
    assert isinstance(found, PoseReading)
    for name in ("value", "correlation", "width", "zoom", "inside"):
        assert getattr(found, name).shape == (45, 3)
    one = register(images[:, 1])
    torch.testing.assert_close(one.value[:, 0], found.value[:, 1])
    alone = PoseReader(x[40:], "rotation", GRIDS["rotation"], zooms=(1.0, 1.1, 1.2))(images[40:])
    torch.testing.assert_close(alone.value, found.value[40:])


def test_magnification_is_the_change_of_area() -> None:
    rows = {
        "rotation": torch.tensor([[0.0], [20.0], [-45.0]]).double(),
        "shear": torch.tensor([[15.0, 0.0], [-25.0, 1.0]]).double(),
        "tilt": torch.tensor([[10.0, 0.0], [-28.0, 1.0]]).double(),
    }
    for family, values in rows.items():
        matrices = homographies(family, values, SIDE, SIDE)
        points = torch.tensor(
            [[14.0, 14.0, 1.0], [14.001, 14.0, 1.0], [14.0, 14.001, 1.0]]
        ).double()
        read = points @ matrices.mT
        read = read[..., :2] / read[..., 2:]
        area = torch.linalg.det((read[:, 1:] - read[:, :1]) / 0.001)
        expected = area.rsqrt()
        torch.testing.assert_close(
            magnification(matrices, SIDE, SIDE), expected, rtol=1e-3, atol=1e-3
        )
    angle = math.radians(20)
    turned = homographies("rotation", rows["rotation"][1:2], SIDE, SIDE)
    assert float(magnification(turned, SIDE, SIDE)) == pytest.approx(
        math.cos(angle) + math.sin(angle)
    )


def test_errors_say_what_is_wrong() -> None:
    x = digits(2)
    with pytest.raises(ValueError, match="at least three values"):
        PoseReader(x, "rotation", [0.0, 1.0])
    with pytest.raises(ValueError, match="equal steps"):
        PoseReader(x, "rotation", [0.0, 1.0, 3.0])
    with pytest.raises(ValueError, match="equal steps"):
        PoseReader(x, "rotation", [2.0, 1.0, 0.0])
    with pytest.raises(ValueError, match="further parameter"):
        PoseReader(x, "shear", [0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="magnifications"):
        PoseReader(x, "rotation", [0.0, 1.0, 2.0], zooms=())
    with pytest.raises(ValueError, match="magnifications"):
        PoseReader(x, "rotation", [0.0, 1.0, 2.0], zooms=(1.2, 1.0))
    with pytest.raises(ValueError, match="floating point"):
        PoseReader((255 * x).byte(), "rotation", [0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="no family"):
        PoseReader(x, "twist", [0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="each of the 2 originals"):
        PoseReader(x, "rotation", [0.0, 1.0, 2.0])(digits(3))


def test_transformed_is_the_view_of_a_triplet() -> None:
    x = digits(4)
    triplets = tvae.Triplets(interpolation="bicubic")
    batch = triplets.replay(x, Parameters.of("shear", [[-13.0, 1.0]] * 4))
    assert torch.equal(transformed(x, "shear", -13.0, others=(1.0,)), batch.x1)
    assert torch.equal(transformed(x, "shear", 13.0, others=(1.0,)), batch.x2)
    # a zoom of 1 leaves the size alone: turning by 90 degrees is then exact
    turned = transformed(x, "rotation", 90.0, zoom=1.0)
    torch.testing.assert_close(turned, torch.rot90(x, 1, (2, 3)), atol=1e-4, rtol=0)
