"""Families of homographies: identities, inverses, compositions, and what their names promise."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tvae.transforms import (
    Family,
    Parameters,
    Triplets,
    augmentor_geometry,
    get_family,
    homographies,
    register,
)
from tvae.transforms.families import _REGISTRY, affine_about_centre, families

SIZES = st.tuples(st.integers(8, 64), st.integers(8, 64))
SHAPES = [(28, 28), (20, 36), (33, 17)]
ALL = ("rotation", "tilt", "shear", "translation", "scale")


def drawn(name: str, n: int, height: int, width: int, seed: int = 0) -> torch.Tensor:
    """n parameters of a family over its default range."""
    family = get_family(name)
    uniform = torch.rand(
        n,
        len(family.parameters),
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(seed),
    )
    return family.draw(uniform, family.range, height, width)


def apply(matrix: torch.Tensor, x: float, y: float) -> tuple[float, float]:
    u, v, s = (matrix @ torch.tensor([x, y, 1.0], dtype=torch.float64)).tolist()
    return u / s, v / s


def test_the_five_families_are_registered() -> None:
    assert set(ALL) <= set(families())


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("size", SHAPES)
def test_identity_parameters_give_exactly_the_identity_matrix(name, size) -> None:
    identity = torch.zeros(1, len(get_family(name).parameters), dtype=torch.float64)
    assert torch.equal(homographies(name, identity, *size)[0], torch.eye(3, dtype=torch.float64))


@pytest.mark.parametrize("name", ALL)
def test_the_inverse_of_the_inverse_is_the_parameter_itself(name) -> None:
    values = drawn(name, 50, 28, 28)
    inverse = get_family(name).inverse
    assert torch.equal(inverse(inverse(values)), values)
    assert not torch.equal(inverse(values), values)


@pytest.mark.parametrize("name", ALL)
@given(size=SIZES, seed=st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_a_transformation_and_its_inverse_compose_to_a_zoom_about_the_centre(
    name, size, seed
) -> None:
    """The promise of the clean geometry: everything comes back in line, only larger."""
    height, width = size
    values = drawn(name, 8, height, width, seed)
    forward = homographies(name, values, height, width)
    backward = homographies(name, get_family(name).inverse(values), height, width)
    for product in (forward @ backward, backward @ forward):
        product = product / product[:, 2:, 2:]
        x, y = product[:, 0, 0], product[:, 1, 1]
        assert torch.allclose(
            product, affine_about_centre(x, 0.0, 0.0, y, height, width), atol=1e-9
        )
        if name in ("rotation", "shear"):  # one zoom for both directions
            assert torch.allclose(x, y, atol=1e-12)
        elif name == "tilt":  # along the axis a true inverse, across it a zoom
            across = torch.where(values[:, 1] == 0, y, x)
            along = torch.where(values[:, 1] == 0, x, y)
            assert torch.allclose(along, torch.ones_like(along), atol=1e-9)
            length = torch.where(values[:, 1] == 0, float(height), float(width))
            assert torch.allclose(across, length / (length + 2 * values[:, 0].abs()), atol=1e-9)
        else:  # these two have true inverses
            assert torch.allclose(product, torch.eye(3, dtype=torch.float64), atol=1e-9)
        assert (torch.minimum(x, y) > 0).all() and (torch.maximum(x, y) <= 1 + 1e-9).all()


@pytest.mark.parametrize("name", ("rotation", "tilt", "shear"))
@given(size=SIZES, seed=st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_the_frame_stays_full_and_could_not_be_fuller(name, size, seed) -> None:
    """No corner reads outside the picture, and at least one touches its edge: the crop is tight."""
    height, width = size
    for matrix in homographies(name, drawn(name, 6, height, width, seed), height, width):
        corners = [apply(matrix, x, y) for x in (0, width) for y in (0, height)]
        slack = [min(u, width - u, v, height - v) for u, v in corners]
        assert min(slack) >= -1e-9
        assert min(slack) <= 1e-9


def test_rotation_turns_the_content_counter_clockwise_with_the_known_zoom() -> None:
    for angle in (10.0, 25.0):
        matrix = homographies("rotation", torch.tensor([[angle]], dtype=torch.float64), 28, 28)[0]
        zoom = 1 / (math.cos(math.radians(angle)) + math.sin(math.radians(angle)))
        assert torch.linalg.det(matrix[:2, :2]).sqrt().item() == pytest.approx(zoom, rel=1e-12)
        # content at the right of the centre moves up: it is found above, y smaller
        x, y = apply(torch.linalg.inv(matrix), 14 + 5, 14)
        assert x > 14 and y < 14
        assert math.degrees(math.atan2(14 - y, x - 14)) == pytest.approx(angle)


def test_shear_slides_rows_by_the_tangent() -> None:
    for axis in (0, 1):
        values = torch.tensor([[20.0, axis]], dtype=torch.float64)
        matrix = homographies("shear", values, 28, 28)[0]
        tangent = math.tan(math.radians(20.0))
        assert matrix[axis, 1 - axis].item() / matrix[axis, axis].item() == pytest.approx(tangent)
        assert matrix[0, 0].item() == pytest.approx(1 / (1 + tangent))


def test_tilt_enlarges_the_edge_it_names() -> None:
    """A tilt of s on the left edge shows h² / (h + 2s) of it, and all of the right edge."""
    edges = {(5.0, 0): ((0, 0), (0, 28)), (-5.0, 0): ((28, 0), (28, 28))}
    edges |= {(5.0, 1): ((0, 0), (28, 0)), (-5.0, 1): ((0, 28), (28, 28))}
    for (amount, axis), (start, end) in edges.items():
        values = torch.tensor([[amount, axis]], dtype=torch.float64)
        matrix = homographies("tilt", values, 28, 28)[0]
        a, b = apply(matrix, *start), apply(matrix, *end)
        assert math.dist(a, b) == pytest.approx(28 * 28 / (28 + 2 * 5))


def test_translation_moves_and_scale_enlarges_the_content() -> None:
    move = homographies("translation", torch.tensor([[3.0, -2.0]], dtype=torch.float64), 20, 30)[0]
    assert apply(torch.linalg.inv(move), 10, 10) == pytest.approx((13, 8))
    log = torch.tensor([[math.log(2.0), math.log(0.5)]], dtype=torch.float64)
    scale = homographies("scale", log, 20, 30)[0]
    assert apply(torch.linalg.inv(scale), 15 + 4, 10 + 4) == pytest.approx((15 + 8, 10 + 2))


@pytest.mark.parametrize("name", ALL)
def test_draws_fill_the_range_and_not_more(name) -> None:
    height, width = 20, 40
    values = drawn(name, 20_000, height, width)
    family = get_family(name)
    largest = {
        "rotation": (25.0,),
        "tilt": (40.0,),
        "shear": (25.0,),
        "translation": (0.2 * width, 0.2 * height),
        "scale": (math.log(1.2), math.log(1.2)),
    }[name]
    for column, most in enumerate(largest):
        v = values[:, column]
        assert v.abs().max() <= most and v.abs().max() > 0.99 * most
        assert v.mean().abs() < 0.03 * most  # four standard errors of a uniform mean
    if family.parameters[-1] == "axis":
        assert set(values[:, 1].tolist()) == {0.0, 1.0}
        assert abs(values[:, 1].mean().item() - 0.5) < 0.02


# Augmentor's finite draws: the distribution of each, enumerated by hand from its source.


def frequencies(values: torch.Tensor) -> dict[float, float]:
    unique, counts = values.unique(return_counts=True)
    return {v: c / len(values) for v, c in zip(unique.tolist(), counts.tolist(), strict=True)}


def fine_grid(n: int, p: int) -> torch.Tensor:
    """(m, p) midpoints of a regular grid on the unit cube: draws become exact frequencies."""
    ticks = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    return torch.cartesian_prod(*[ticks] * p).reshape(-1, p)


def test_augmentor_draws_whole_degrees_of_rotation_with_zero_twice_as_often() -> None:
    family = augmentor_geometry.get_family("rotation")
    found = frequencies(family.draw(fine_grid(52 * 10, 1), 25.0, 28, 28)[:, 0])
    assert set(found) == set(range(-25, 26))
    for angle, share in found.items():
        assert share == pytest.approx((2 if angle == 0 else 1) / 52, abs=1e-9)


def test_augmentor_draws_shears_from_minus_24_to_26_without_zero() -> None:
    family = augmentor_geometry.get_family("shear")
    values = family.draw(fine_grid(520, 2), 25.0, 28, 28)
    found = frequencies(values[:, 0])
    assert set(found) == set(range(-24, 27)) - {0}
    for angle, share in found.items():
        assert share == pytest.approx((2 if abs(angle) == 1 else 1) / 52, abs=1e-9)
    assert frequencies(values[:, 1]) == {0.0: 0.5, 1.0: 0.5}


def test_augmentor_draws_tilts_of_whole_pixels_in_four_directions() -> None:
    family = augmentor_geometry.get_family("tilt")
    values = family.draw(fine_grid(28 * 4, 2), 1.0, 28, 28)
    pairs = {tuple(v) for v in values.tolist()}
    assert pairs == {(s * d, a) for s in range(1, 29) for d in (1, -1) for a in (0, 1)}
    for share in frequencies(values[:, 0]).values():
        assert share == pytest.approx(1 / 56, abs=1e-9)


# A family of the user's own


def squeeze() -> Family:
    return Family(
        name="squeeze",
        parameters=("log_factor",),
        range=0.3,
        draw=lambda uniform, most, h, w: (2 * uniform - 1) * most,
        matrices=lambda v, h, w: affine_about_centre(v[:, 0].exp(), 0.0, 0.0, 1.0, h, w),
    )


@pytest.fixture
def clean_registry():
    before = dict(_REGISTRY)
    yield
    _REGISTRY.clear()
    _REGISTRY.update(before)


def test_a_family_of_ones_own_takes_a_few_lines(clean_registry) -> None:
    register(squeeze())
    triplets = Triplets(families=("rotation", "squeeze"), ranges={"squeeze": 0.5})
    x0 = torch.rand(64, 1, 12, 10)
    batch = triplets(x0, torch.Generator().manual_seed(0))
    assert batch.x1.shape == x0.shape
    assert set(batch.parameters.family.tolist()) == {0, 1}
    again = triplets.replay(x0, batch.parameters)
    assert torch.equal(batch.x2, again.x2)
    with pytest.raises(ValueError, match="exists already"):
        register(squeeze())
    register(squeeze(), replace=True)


def test_errors_name_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="no family 'swirl'"):
        get_family("swirl")
    with pytest.raises(ValueError, match=r"shape \(n, 2\)"):
        homographies("tilt", torch.zeros(3, 1), 28, 28)
    with pytest.raises(ValueError, match="at least one parameter"):
        Family("empty", (), 1.0, torch.neg, torch.neg)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="At least one of a, b, c, d"):
        affine_about_centre(1.0, 0.0, 0.0, 1.0, 28, 28)
    with pytest.raises(ValueError, match="not for 'scale'"):
        Triplets(families=("scale",), geometry="augmentor")
    with pytest.raises(ValueError, match="whole numbers only"):
        Triplets(("shear",), geometry="augmentor").matrices(
            Parameters.of("shear", [(1.5, 0.0)]), 28, 28
        )
    with pytest.raises(ValueError, match="goes up to 25°"):
        Triplets(("rotation",), geometry="augmentor").matrices(
            Parameters.of("rotation", [26.0]), 28, 28
        )
    with pytest.raises(ValueError, match="is empty for pictures of 12×80"):
        augmentor_geometry.shear_matrix(12, 1, 12, 80)
    with pytest.raises(ValueError, match="is empty for pictures of 80×12"):
        augmentor_geometry.rotation_crop(25, 80, 12)
