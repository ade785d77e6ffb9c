"""The sampler: what it draws, what it keeps, that it can be replayed, and what it refuses."""

from __future__ import annotations

import json
import pickle

import pytest
import torch
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as vision

from tvae.seeding import generator
from tvae.transforms import Parameters, TripletBatch, Triplets, homographies, warp

FIVE = ("rotation", "tilt", "shear", "translation", "scale")
SOURCES = [
    Triplets(),
    Triplets(geometry="augmentor"),
    Triplets(FIVE, interpolation="bicubic"),
    Triplets(("tilt",), interpolation="nearest", ranges={"tilt": 0.3}),
]


def pictures(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=generator(7, "pictures"))


@pytest.mark.parametrize("triplets", SOURCES, ids=str)
@pytest.mark.parametrize("shape", ((40, 1, 28, 28), (12, 3, 32, 24), (1, 1, 28, 28)))
def test_a_batch_can_be_replayed_bit_for_bit(triplets, shape) -> None:
    x0 = pictures(*shape)
    batch = triplets(x0, generator(0, "triplets"))
    assert isinstance(batch, TripletBatch)
    assert batch.x0 is x0 and batch.x1.shape == batch.x2.shape == x0.shape
    assert len(batch.parameters) == shape[0]
    again = triplets.replay(x0, batch.parameters)
    assert torch.equal(batch.x1, again.x1) and torch.equal(batch.x2, again.x2)
    # picture by picture as well: a triplet does not depend on its neighbours
    for n in range(min(3, shape[0])):
        single = triplets.replay(x0[n : n + 1], batch.parameters[n])
        assert torch.allclose(single.x1[0], batch.x1[n], atol=1e-5)
    # and the same settings with the same seed give the same batch
    same = Triplets(**json.loads(json.dumps(triplets.settings())))
    assert same == triplets and hash(same) == hash(triplets)
    assert torch.equal(same(x0, generator(0, "triplets")).x1, batch.x1)
    assert not torch.equal(same(x0, generator(1, "triplets")).x1, batch.x1)


def test_views_are_the_warps_by_the_parameters_and_by_their_inverse() -> None:
    x0 = pictures(60, 1, 28, 28)
    batch = Triplets(FIVE)(x0, generator(0, "triplets"))
    seen = set()
    for n in range(60):
        name = batch.parameters.families[int(batch.parameters.family[n])]
        seen.add(name)
        columns = 1 if name == "rotation" else 2
        values = batch.parameters.values[n : n + 1, :columns]
        inverse = values.clone()
        inverse[:, : columns if name in ("translation", "scale") else 1] *= -1
        for view, given in ((batch.x1, values), (batch.x2, inverse)):
            alone = warp(x0[n : n + 1], homographies(name, given, 28, 28))
            assert torch.allclose(view[n : n + 1], alone, atol=1e-5)
    assert seen == set(FIVE)


def test_swapping_the_views_is_the_inverse_parameter() -> None:
    x0 = pictures(3, 1, 28, 28)
    forward = Triplets(("shear",)).replay(x0, Parameters.of("shear", [(9.0, 0), (9.0, 1), (1, 1)]))
    back = Triplets(("shear",)).replay(x0, Parameters.of("shear", [(-9.0, 0), (-9.0, 1), (-1, 1)]))
    assert torch.equal(forward.x1, back.x2) and torch.equal(forward.x2, back.x1)


def test_families_are_drawn_equally_often() -> None:
    parameters = Triplets().draw(30_000, 28, 28, generator(0, "triplets"))
    counts = torch.bincount(parameters.family, minlength=3)
    assert (counts - 10_000).abs().max() < 400  # five standard deviations


def test_ranges_are_respected() -> None:
    triplets = Triplets(("rotation", "tilt"), ranges={"rotation": 5, "tilt": 0.25})
    parameters = triplets.draw(2000, 20, 40, generator(0, "triplets"))
    for k, most in enumerate((5.0, 10.0)):
        strength = parameters.values[parameters.family == k, 0].abs().max()
        assert 0.95 * most < strength <= most


def test_parameters_replay_under_triplets_with_more_families_and_other_geometry() -> None:
    x0 = pictures(20, 1, 28, 28)
    drawn = Triplets(("shear", "rotation"), geometry="augmentor")(x0, generator(0, "t"))
    wider = Triplets(("rotation", "tilt", "shear"), geometry="augmentor")
    assert torch.equal(wider.replay(x0, drawn.parameters).x1, drawn.x1)
    clean = Triplets().replay(x0, drawn.parameters)
    assert not torch.equal(clean.x1, drawn.x1)


def test_the_global_generator_is_not_touched() -> None:
    x0 = pictures(4, 1, 28, 28)
    before = torch.get_rng_state()
    Triplets()(x0, generator(0, "t"))
    Triplets.from_callables(v2.RandomRotation(20), v2.RandomRotation(20))(x0, generator(0, "t"))
    assert torch.equal(before, torch.get_rng_state())


def test_skipping_the_check_changes_nothing_else() -> None:
    x0 = pictures(10, 1, 28, 28)
    one, two = (Triplets()(x0, generator(0, "t"), check=c) for c in (True, False))
    assert torch.equal(one.x1, two.x1)


def test_gradients_reach_the_picture() -> None:
    x0 = pictures(6, 1, 12, 12).requires_grad_()
    batch = Triplets()(x0, generator(0, "t"))
    (batch.x1.sum() + batch.x2.sum()).backward()
    assert x0.grad is not None and torch.isfinite(x0.grad).all() and x0.grad.abs().sum() > 0


def test_half_precision_and_pickling() -> None:
    x0 = pictures(6, 1, 28, 28)
    batch = Triplets()(x0.half(), generator(0, "t"))
    assert batch.x1.dtype == torch.float16
    assert pickle.loads(pickle.dumps(Triplets())) == Triplets()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_generator_and_pictures_may_live_on_different_devices() -> None:
    x0 = pictures(10, 1, 28, 28)
    cpu = Triplets()(x0, generator(0, "t"))
    mixed = Triplets()(x0.cuda(), generator(0, "t"))
    assert mixed.x1.is_cuda and mixed.parameters.values.device.type == "cpu"
    assert torch.allclose(mixed.x1.cpu(), cpu.x1, atol=1e-5)
    on_gpu = Triplets()(x0.cuda(), generator(0, "t", "cuda"))
    moved = Triplets().replay(x0, on_gpu.parameters.to("cpu"))
    assert torch.allclose(on_gpu.x2.cpu(), moved.x2, atol=1e-5)


def test_only_the_matrices_move_to_the_pictures_device() -> None:
    """The "meta" device stands for a GPU: it has shapes and devices, but no values to look at."""
    x0 = torch.empty(5, 1, 28, 28, device="meta")
    batch = Triplets()(x0, generator(0, "t"), check=False)
    assert batch.x1.device.type == "meta" and batch.x2.shape == x0.shape
    assert batch.parameters.values.device.type == "cpu"
    reference = Triplets()(pictures(5, 1, 28, 28), generator(0, "t"))
    assert torch.equal(batch.parameters.values, reference.parameters.values)


def test_parameters_describe_themselves() -> None:
    assert Parameters.of("shear", [(12.5, 1)]).describe(0) == "shear (angle 12.5, axis 1)"
    assert Parameters.of("rotation", [-3.0]).describe(0) == "rotation (angle -3)"


# Bring your own


def turn(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return vision.rotate(x, float(torch.rand((), generator=generator)) * 40)


def turn_back(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return vision.rotate(x, -float(torch.rand((), generator=generator)) * 40)


def test_a_deterministic_pair() -> None:
    x0 = pictures(5, 3, 20, 20)
    triplets = Triplets.from_callables(vision.horizontal_flip, vision.horizontal_flip)
    batch = triplets(x0, generator(0, "t"))
    assert torch.equal(batch.x1, x0.flip(-1)) and torch.equal(batch.x1, batch.x2)


@pytest.mark.parametrize("per_image", (False, True))
def test_a_random_pair_shares_its_draws_and_replays(per_image) -> None:
    x0 = pictures(6, 1, 21, 21)
    triplets = Triplets.from_callables(turn, turn_back, per_image=per_image)
    batch = triplets(x0, generator(0, "t"))
    assert len(batch.parameters) == (6 if per_image else 1)
    # the mirror image of a rotation is the rotation by the opposite angle of the mirror image
    mirrored = triplets.replay(x0.flip(-1), batch.parameters)
    assert torch.allclose(mirrored.x1.flip(-1), batch.x2, atol=1e-5)
    again = triplets.replay(x0, batch.parameters)
    assert torch.equal(again.x1, batch.x1) and torch.equal(again.x2, batch.x2)
    other = triplets(x0, generator(1, "t"))
    assert not torch.equal(other.x1, batch.x1)


def test_random_transforms_of_torchvision_replay_although_they_use_the_global_generator() -> None:
    x0 = pictures(4, 1, 28, 28)
    triplets = Triplets.from_callables(v2.RandomRotation((5, 25)), v2.RandomRotation((5, 25)))
    batch = triplets(x0, generator(0, "t"))
    torch.rand(3)  # whatever happens to the global generator in between
    assert torch.equal(triplets.replay(x0, batch.parameters).x1, batch.x1)
    assert torch.equal(batch.x1, batch.x2)  # the same draw for both


def test_a_pair_that_misbehaves_is_named() -> None:
    x0 = pictures(2, 1, 8, 8)
    same = torch.clone
    cases = [
        (same, lambda x: x[..., 1:], "f_inverse must return floating point pictures of shape"),
        (lambda x: x * float("nan"), same, r"f\(x0\) contains values that are not finite"),
        (lambda x: x + 3, same, r"f\(x0\) must lie in \[0, 1\]"),
        (lambda x: "picture", same, "f must return floating point pictures"),
    ]
    for f, f_inverse, message in cases:
        with pytest.raises(ValueError, match=message):
            Triplets.from_callables(f, f_inverse)(x0, generator(0, "t"))
    with pytest.raises(TypeError, match="f_inverse must be callable"):
        Triplets.from_callables(same, 3)  # type: ignore[arg-type]
    pair = Triplets.from_callables(same, same)
    with pytest.raises(TypeError, match="must be the Seeds"):
        pair.replay(x0, Parameters.of("rotation", [1.0, 2.0]))  # type: ignore[arg-type]


# Refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    (
        ({"families": ()}, "at least one family"),
        ({"families": ("rotation", "rotation")}, "each family once"),
        ({"families": ("swirl",)}, "no family 'swirl'"),
        ({"geometry": "round"}, "geometry must be one of clean, augmentor"),
        ({"interpolation": "lanczos"}, "interpolation must be one of"),
        ({"ranges": {"scale": 0.2}}, "entry for scale, which is not among"),
        ({"ranges": {"rotation": -3}}, "positive and at most 180, not -3"),
        ({"ranges": {"rotation": float("nan")}}, "must be finite"),
        ({"ranges": {"rotation": 30}, "geometry": "augmentor"}, "at most 25, not 30"),
    ),
)
def test_settings_that_make_no_sense_are_refused(arguments, message) -> None:
    with pytest.raises(ValueError, match=message):
        Triplets(**arguments)


def test_types_that_make_no_sense_are_refused() -> None:
    with pytest.raises(TypeError, match=r"write \('rotation',\)"):
        Triplets("rotation")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a number, not '3'"):
        Triplets(ranges={"rotation": "3"})  # type: ignore[dict-item]


def test_pictures_that_are_none_are_refused() -> None:
    draw = generator(0, "t")
    with pytest.raises(ValueError, match=r"\(N, C, H, W\)"):
        Triplets()(torch.rand(28, 28), draw)
    with pytest.raises(ValueError, match=r"\(N, C, H, W\)"):
        Triplets()(torch.rand(28, 28), draw, check=False)
    with pytest.raises(ValueError, match="not finite"):
        Triplets()(torch.full((1, 1, 8, 8), float("nan")), draw)
    with pytest.raises(ValueError, match=r"lie in \[0, 1\]"):
        Triplets()(torch.full((1, 1, 8, 8), 255.0), draw)
    for check in (True, False):
        with pytest.raises(TypeError, match="floating point"):
            Triplets()(torch.zeros(1, 1, 8, 8, dtype=torch.uint8), draw, check=check)


def test_parameters_that_do_not_fit_are_refused() -> None:
    x0 = pictures(2, 1, 8, 8)
    with pytest.raises(ValueError, match="2 images but parameters for 1"):
        Triplets().replay(x0, Parameters.of("rotation", [1.0]))
    with pytest.raises(ValueError, match="know only rotation"):
        Triplets(("rotation",)).replay(x0, Parameters.of("shear", [(1.0, 0), (1.0, 0)]))
    with pytest.raises(ValueError, match="needs 2 values per image"):
        Triplets().replay(x0, Parameters.of("tilt", [1.0, 2.0]))
    with pytest.raises(ValueError, match="not finite"):
        Triplets().replay(x0, Parameters.of("rotation", [1.0, float("inf")]))
    with pytest.raises(ValueError, match="indices must lie between 0 and 0"):
        wrong = Parameters(("rotation",), torch.tensor([0, 1]), torch.zeros(2, 1))
        Triplets().replay(x0, wrong)
    with pytest.raises(ValueError, match="family must have shape"):
        Parameters(("rotation",), torch.tensor([0, 1]), torch.zeros(3, 1))
    with pytest.raises(TypeError, match="must be the Parameters"):
        Triplets().replay(x0, [1.0, 2.0])  # type: ignore[arg-type]
