"""The films of solids against closed forms: a sphere, the area of a box, the laws of light."""

import math

import pytest
import torch

from tvae import data
from tvae.data import solids
from tvae.data.solids import FAMILIES, FRAMES, Solid, cuboid, film, render
from tvae.seeding import generator


def alone(planes=None, axes=None, centre=(0.0, 0.0, 0.5)):
    """One solid of one part, white."""
    none = torch.tensor([[[[0.0, 0.0, 0.0, 1.0]]]])
    body = torch.zeros(1, 1, 3, 3) if axes is None else torch.diag(1 / torch.tensor(axes))
    return Solid(
        none if planes is None else planes[None],
        body.expand(1, 1, 3, 3),
        torch.tensor(centre).expand(1, 1, 3),
        torch.ones(1, 1),
    )


def draw(solid, turn=0.0, light=0.0, **options):
    return render(solid, torch.tensor([turn]), torch.tensor([light]), **options)[0, 0]


def box(a=0.7, b=0.4, h=0.9):
    a, b, h, zero = (torch.tensor([v]) for v in (a, b, h, 0.0))
    return alone(cuboid((-a, a), (-b, b), (zero, h)))


@pytest.mark.parametrize("light", [0.0, 40.0, 135.0, 250.0])
def test_a_sphere_has_the_shading_of_the_closed_form(light):
    """(1 + n·l)/2 with n = (x, y, √(r² − x² − y²))/r, in axes worked out here by hand."""
    r, side = 0.8, 28
    found = draw(alone(axes=(r, r, r)), turn=77.0, light=light, side=side, rays=1)
    place = ((torch.arange(side) + 0.5) / side - 0.5) * solids.WIDTH
    x, y = place[None, :], -place[:, None]
    depth = r * r - x * x - y * y
    c, s = math.cos(math.radians(30)), math.sin(math.radians(30))
    flat, high, phi = math.cos(math.radians(15)), math.sin(math.radians(15)), math.radians(light)
    east, north, up = flat * math.sin(phi), -flat * math.cos(phi), high
    # the camera's right, up and towards: (1, 0, 0), (0, sin 30°, cos 30°), (0, −cos 30°, sin 30°)
    lit = (
        x * east + y * (s * north + c * up) + depth.clamp(min=0).sqrt() * (s * up - c * north)
    ) / r
    assert torch.allclose(found, torch.where(depth > 0, (1 + lit) / 2, 0.0), atol=1e-5)


@pytest.mark.parametrize("turn", [0.0, 20.0, 63.0, 90.0])
def test_the_area_of_a_projected_box(turn):
    """A convex body covers half the sum of its faces' projections: Σ A |n·v| over one of each pair."""
    a, b, h = 0.7, 0.4, 0.9
    seen = draw(box(a, b, h), turn, side=500, rays=1) > 0
    area = float(seen.double().mean()) * solids.WIDTH**2
    t, c, s = math.radians(turn), math.cos(math.radians(30)), math.sin(math.radians(30))
    sides = 2 * b * h * c * abs(math.sin(t)) + 2 * a * h * c * abs(math.cos(t))
    assert area == pytest.approx(4 * a * b * s + sides, rel=0.01)


def test_faces_of_a_box_have_the_grey_of_their_normals():
    picture = draw(box(), turn=30.0, light=70.0, side=200, rays=1)
    light = solids.direction(torch.tensor([math.radians(70.0)]), solids.SUN)[0]
    normals = torch.tensor(
        [
            (0.0, 0.0, 1.0),
            (math.cos(math.radians(-60)), math.sin(math.radians(-60)), 0.0),
            (math.cos(math.radians(210)), math.sin(math.radians(210)), 0.0),
        ]
    )
    expected = {round(float(v), 4) for v in (1 + normals @ light) / 2}
    assert {round(float(v), 4) for v in picture[picture > 0].unique()} == expected


@pytest.mark.parametrize("name", FAMILIES)
def test_a_whole_turn_is_the_identity_and_light_is_linear(name):
    solid = FAMILIES[name](torch.rand(4, 6, generator=generator(1, name)))
    turn, light = torch.tensor([3.0, 50.0, 140.0, 260.0]), torch.tensor([10.0, 100.0, 200.0, 300.0])
    once = render(solid, turn, light)
    again = render(solid, turn + 360, light - 360)
    assert float((once - again).abs().mean()) < 1e-4
    assert float((render(solid, turn + 40, light) - once).abs().mean()) > 1e-3
    # (1 + n·l)/2 is linear in l, so opposite lights have the same mean whatever their azimuth
    four = [render(solid, turn, light + 90 * i) for i in range(4)]
    assert torch.allclose(four[0] + four[2], four[1] + four[3], atol=1e-5)
    assert 0.03 < float((once > 0).double().mean()) < 0.9  # on the picture, and not all of it
    edge = torch.cat([once[..., 0, :], once[..., -1, :], once[..., :, 0], once[..., :, -1]], -1)
    assert float(edge.max()) == 0


def test_the_nearer_part_hides_the_other():
    """Two boxes one behind the other: where both are, the picture is that of the front one."""
    one = torch.tensor([1.0])
    front = cuboid((-0.5 * one, 0.5 * one), (-0.8 * one, -0.6 * one), (0 * one, one))
    back = cuboid((-0.5 * one, 0.5 * one), (0.2 * one, 0.4 * one), (0 * one, one))
    both = Solid(
        torch.stack((back, front), 1),
        torch.zeros(1, 2, 3, 3),
        torch.zeros(1, 2, 3),
        torch.tensor([[1.0, 0.5]]),
    )
    picture, single = draw(both, light=30.0), 0.5 * draw(alone(front), light=30.0)
    behind = draw(alone(back), light=30.0)
    covered = (draw(alone(front), side=28, rays=1) > 0) & (single > 0) & (behind > 0)
    inner = covered & (single > 0.9 * single.max())
    assert bool(inner.any()) and torch.allclose(picture[inner], single[inner], atol=1e-5)


def test_films_follow_their_seed_and_their_velocity():
    first, again = (film(6, generator(5, "films")) for _ in range(2))
    assert torch.equal(first.images, again.images) and first.images.dtype == torch.uint8
    assert not torch.equal(first.images, film(6, generator(6, "films")).images)
    steps = first.angles.diff(dim=1)
    assert torch.allclose(steps, first.velocity[:, None].expand_as(steps), atol=1e-3)
    assert bool(((first.velocity != 0).sum(1) == 1).all())  # the table or the light
    changing = film(6, generator(5, "films"), acceleration=0.5, motions=("both",))
    assert bool((changing.velocity != 0).all())
    second = changing.angles.diff(dim=1).diff(dim=1)
    assert torch.allclose(second, changing.acceleration[:, None].expand_as(second), atol=1e-3)


def test_the_catalogue_has_films_and_the_held_out_family_is_nowhere_else():
    train, unseen = data.load("solids", count=20), data.load("solids", "unseen", count=3)
    assert train.images.shape == (20 * FRAMES, 1, 28, 28) and data.entry("solids").frames == FRAMES
    names = [train.classes[k] for k in train.labels]
    assert "stairs" not in names
    assert {unseen.classes[k] for k in unseen.labels} == {"stairs"}
    assert train.extras["velocity"].shape == (20 * FRAMES, 2)
    test = data.load("solids", "test", count=20)
    assert not torch.equal(test.images, train.images)
    assert data.entry("solids").counts == tuple(
        solids.COUNTS[k] * FRAMES for k in ("train", "test")
    )


def test_errors_speak():
    with pytest.raises(ValueError, match="no family 'ball'"):
        film(2, generator(0, "x"), families=("ball",))
    with pytest.raises(ValueError, match="turntable, light or both, not 'wind'"):
        film(2, generator(0, "x"), motions=("wind",))
    with pytest.raises(ValueError, match="split"):
        data.load("solids", "valid")
    with pytest.raises(ValueError, match="one angle of the table"):
        render(box(), torch.zeros(2), torch.zeros(1))
