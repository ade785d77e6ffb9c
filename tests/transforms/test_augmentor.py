"""Exhaustive agreement with the Augmentor library over its finite parameter set at 28×28."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from Augmentor import Operations
from PIL import Image

from tvae.seeding import generator
from tvae.transforms import Parameters, Triplets, augmentor_geometry
from tvae.transforms.augmentor import (
    AugmentorTriplets,
    Rotate,
    Shear,
    Tilt,
    operation,
    recorded_matrix,
)

# 51 rotations, 112 tilts; shears from −26 to 26, which holds all 100 that Augmentor draws (−24 to
# 26, without 0) and their inverses.
EVERY = {
    "rotation": [(a,) for a in range(-25, 26)],
    "tilt": [(s * d, axis) for s in range(1, 29) for d in (1, -1) for axis in (0, 1)],
    "shear": [(a, axis) for a in range(-26, 27) if a for axis in (0, 1)],
}


def pictures(n: int, channels: int = 1, height: int = 28, width: int = 28) -> torch.Tensor:
    """Smooth blobs with a sharp bar: ink, edges and empty ground, in whole grey levels."""
    noise = torch.rand(n, channels, height, width, generator=generator(3, "ink"))
    soft = torch.nn.functional.avg_pool2d(noise, 5, 1, 2)
    soft = ((soft - 0.4) * 5).clamp(0, 1)
    soft[:, :, height // 4 : -height // 4, width // 2 - 2 : width // 2 + 1] = 1
    return (soft * 255).round() / 255


def test_the_finite_set_has_the_known_size() -> None:
    assert [len(EVERY[name]) for name in EVERY] == [51, 112, 104]


@pytest.mark.parametrize("size", ((28, 28), (28, 32), (40, 40)), ids=str)
@pytest.mark.parametrize("name", EVERY)
def test_every_matrix_equals_what_reaches_pillow(name, size) -> None:
    matrices, inverse = Triplets((name,), geometry="augmentor").matrices(
        Parameters.of(name, EVERY[name]), *size
    )
    for values, ours, back in zip(EVERY[name], matrices, inverse, strict=True):
        theirs = recorded_matrix(operation(name, *values), *size)
        assert np.abs((ours / ours[2, 2]).numpy() - theirs).max() < 1e-9, values
        opposite = (-values[0], *values[1:])
        theirs = recorded_matrix(operation(name, *opposite), *size)
        assert np.abs((back / back[2, 2]).numpy() - theirs).max() < 1e-9, opposite


def test_the_crop_of_a_rotation_has_augmentors_sizes() -> None:
    """The table of crops at 28×28, written down from the library's behaviour: not isotropic."""
    table = {3: (28, 28), 6: (26, 26), 7: (26, 24), 10: (24, 24), 11: (24, 22), 13: (22, 22)}
    table |= {16: (22, 20), 18: (20, 18), 21: (20, 16), 23: (20, 14), 25: (20, 12)}
    for angle, expected in table.items():
        for sign in (1, -1):
            _, _, left, top, right, bottom = augmentor_geometry.rotation_crop(sign * angle, 28, 28)
            assert (right - left, bottom - top) == expected


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("channels", (1, 3))
def test_every_picture_is_close_to_augmentors(name, channels) -> None:
    """The stated tolerance, in grey values from 0 to 1: mean 0.03, each picture 0.06, pixel 0.5.

    The geometry is the same to 1e-9, so what is left is resampling: Pillow's bicubic kernels differ
    from torch's, it resamples rotations and shears twice and rounds to whole levels in between, and
    it extends the picture where we fade to black.
    """
    x0 = pictures(len(EVERY[name]), channels)
    parameters = Parameters.of(name, EVERY[name])
    theirs = AugmentorTriplets((name,)).replay(x0, parameters)
    ours = Triplets((name,), geometry="augmentor", interpolation="bicubic").replay(x0, parameters)
    for a, b in ((ours.x1, theirs.x1), (ours.x2, theirs.x2)):
        difference = (a - b).abs()
        assert difference.mean() < 0.03
        assert difference.mean((1, 2, 3)).max() < 0.06
        assert difference.max() < 0.5


@pytest.mark.parametrize("name", EVERY)
def test_pillow_with_our_numbers_gives_augmentors_pixels(name) -> None:
    """With Pillow's own resampling the pictures are equal: nothing but resampling differs."""
    (x0,) = pictures(1)
    source = Image.fromarray((x0[0] * 255).to(torch.uint8).numpy())
    cubic = Image.Resampling.BICUBIC
    for values in EVERY[name]:
        (theirs,) = operation(name, *values).perform_operation([source])
        if name == "tilt":
            matrix, _ = Triplets(("tilt",)).matrices(Parameters.of("tilt", [values]), 28, 28)
            data = (matrix[0] / matrix[0, 2, 2]).flatten()[:8].tolist()
            made = source.transform((28, 28), Image.Transform.PERSPECTIVE, data, cubic)
        elif name == "rotation":
            canvas_w, canvas_h, *box = augmentor_geometry.rotation_crop(values[0], 28, 28)
            canvas = source.rotate(values[0], expand=True, resample=cubic)
            assert canvas.size == (canvas_w, canvas_h)
            made = canvas.crop(tuple(box)).resize((28, 28), cubic)
        else:
            # undo the zoom of our matrix: what remains is the shear that comes before the crop
            angle, axis = values
            matrix = np.array(augmentor_geometry.shear_matrix(angle, axis, 28, 28))
            kept = round(28 * matrix[axis, axis])
            matrix[axis, axis] = 1
            size = (kept, 28) if axis == 0 else (28, kept)
            sheared = source.transform(
                size, Image.Transform.AFFINE, tuple(matrix.flatten()[:6]), cubic
            )
            made = sheared.resize((28, 28), cubic)
        difference = np.abs(np.asarray(made, dtype=int) - np.asarray(theirs, dtype=int))
        assert difference.max() <= 1, values


def test_the_library_is_left_as_it_was() -> None:
    methods = (Image.Image.transform, Image.Image.crop, Image.Image.resize)
    state = random.getstate()
    recorded_matrix(Shear(3, 0), 28, 28)
    assert Operations.random is random
    assert methods == (Image.Image.transform, Image.Image.crop, Image.Image.resize)
    assert random.getstate() == state
    with pytest.raises(ValueError, match="from 1 to 28, not 29"):
        Tilt(29, 0).perform_operation([Image.new("L", (28, 28))])
    assert Operations.random is random


def test_our_operations_are_augmentors() -> None:
    """A drawn operation and the given one make the same picture, so nothing else was changed."""
    source = Image.fromarray((pictures(1)[0, 0] * 255).to(torch.uint8).numpy())
    assert issubclass(Rotate, Operations.RotateRange)
    assert issubclass(Tilt, Operations.Skew) and issubclass(Shear, Operations.Shear)
    random.seed(5)
    state = random.getstate()
    (drawn,) = Operations.Shear(1, 20, 20).perform_operation([source])
    random.setstate(state)
    angle = int(random.uniform(-21, 21))
    angle += angle != -1
    axis = ["x", "y"].index(random.choice(["x", "y"]))
    (given,) = Shear(angle, axis).perform_operation([source])
    assert np.array_equal(np.asarray(drawn), np.asarray(given))


def test_library_triplets_share_the_draws_of_the_closed_form() -> None:
    x0 = pictures(12)
    theirs = AugmentorTriplets()(x0, generator(0, "t"))
    ours = Triplets(geometry="augmentor")(x0, generator(0, "t"))
    assert torch.equal(theirs.parameters.values, ours.parameters.values)
    assert torch.equal(theirs.parameters.family, ours.parameters.family)
    assert (theirs.x1 - ours.x1).abs().mean() < 0.03
    again = AugmentorTriplets().replay(x0, theirs.parameters)
    assert torch.equal(again.x1, theirs.x1) and torch.equal(again.x2, theirs.x2)


def test_errors_name_what_is_wrong() -> None:
    with pytest.raises(ValueError, match=r"whole number as angle, not 2\.5"):
        Rotate(2.5)
    with pytest.raises(ValueError, match="never shears by 0"):
        Shear(0, 1)
    with pytest.raises(ValueError, match="not 'scale'"):
        operation("scale", 1)
    with pytest.raises(ValueError, match="1 or 3 channels, not 2"):
        AugmentorTriplets().replay(torch.rand(1, 2, 8, 8), Parameters.of("rotation", [1.0]))
    with pytest.raises(ValueError, match="2 images but parameters for 1"):
        AugmentorTriplets().replay(torch.rand(2, 1, 8, 8), Parameters.of("rotation", [1.0]))
