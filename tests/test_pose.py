"""Content and pose: the affine group, how a pose is found, the actions P and AP, ordinary models."""

from __future__ import annotations

import pytest
import scipy.linalg
import torch

from tvae import actions, data, models, pose
from tvae.evaluation import embed
from tvae.networks import default_networks, initialise, mlp
from tvae.objective import tvae_terms
from tvae.runs import trained
from tvae.seeding import generator
from tvae.training import RunConfig, train
from tvae.transforms import Moved, Triplets, families, get_family, warp


def poses(n=40, seed=0, dtype=torch.float64):
    return torch.randn(n, pose.POSE, generator=generator(seed, "poses"), dtype=dtype)


def square(maps):
    """Affine maps (N, 2, 3) as 3×3 matrices."""
    last = torch.tensor([0.0, 0.0, 1.0], dtype=maps.dtype).expand(len(maps), 1, 3)
    return torch.cat((maps, last), 1)


def test_exponential_and_logarithm_are_those_of_matrices():
    v = torch.cat((poses(), torch.zeros(1, 6).double(), 1e-6 * poses(4, 1)))
    table = torch.tensor(pose.GENERATORS, dtype=torch.float64)
    velocity = torch.nn.functional.pad(torch.einsum("np,pij->nij", v, table), (0, 0, 0, 1))
    maps = pose.exponential(v)
    assert torch.allclose(square(maps), torch.linalg.matrix_exp(velocity), atol=1e-14)
    for one, wanted in zip(square(maps).numpy(), velocity.numpy(), strict=True):
        found = pose.logarithm(torch.from_numpy(one[None, :2]))
        rows = torch.einsum("np,pij->nij", found, table)[0].numpy()
        assert abs(rows - scipy.linalg.logm(one)[:2]).max() < 1e-12
        assert abs(rows - wanted[:2]).max() < 1e-13


def test_products_and_inverses_are_those_of_matrices():
    a, b = pose.exponential(poses()), pose.exponential(poses(seed=1))
    assert torch.allclose(square(pose.compose(a, b)), square(b) @ square(a), atol=1e-13)
    assert torch.allclose(square(pose.inverse(a)), torch.linalg.inv(square(a)), atol=1e-13)


@pytest.mark.parametrize("scale", [1.0, 0.0])
def test_gradients_are_right_also_at_the_identity(scale):
    def there_and_back(v):
        return pose.logarithm(
            pose.compose(pose.exponential(v), pose.exponential(poses(3, 5) * scale))
        )

    assert torch.autograd.gradcheck(there_and_back, (poses(3) * scale).requires_grad_())


def test_units_are_those_of_the_affine_family():
    """One unit of each number moves an image as the family's own parameter does."""
    image = torch.rand(6, 1, 28, 28, generator=generator(0, "image"), dtype=torch.float64)
    values = torch.eye(6).double() * 0.7
    wanted = warp(image, get_family("affine").matrices(values, 28, 28), "bilinear")
    found = pose.look(image, pose.inverse(pose.exponential(values)))
    assert torch.allclose(found, wanted, atol=1e-12)
    assert "affine" in families()


def test_the_first_pose_follows_the_ink():
    """A blob that is moved, sized and slanted is found there; a blank image lies upright."""
    x = (2 * torch.arange(28) + 1) / 28 - 1.0
    blob = torch.exp(-(x[:, None] ** 2 + x**2) / (2 * 0.25**2)).double()[None, None]
    known = torch.tensor([[[0.8, 0.2, 0.25], [0.0, 0.8, -0.2]]]).double()
    ink = pose.look(blob, pose.inverse(known))
    found = pose.first_pose(ink[:, 0])
    expected = known.clone()
    expected[..., :2] *= 0.25 / pose.SIZE
    assert torch.allclose(found, expected, atol=0.01)
    # undone, it lies in the middle, with the size that was asked for
    again = pose.first_pose(pose.look(ink, found)[:, 0])
    assert torch.allclose(again, torch.eye(2, 3).double(), atol=0.05)  # its tails are cut
    blank = pose.first_pose(torch.zeros(2, 28, 28))
    assert torch.equal(blank, torch.eye(2, 3).expand(2, 2, 3))


@pytest.mark.parametrize("letter", ["P", "AP"])
def test_minus_tau_undoes_tau_and_the_content_stays(letter):
    action = actions.build(letter, 9).double()
    z = torch.cat((torch.randn(40, 3, generator=generator(2, "z")).double(), poses()), 1)
    tau = poses(seed=1)
    moved = action.act(z, tau)
    assert torch.equal(moved[:, :3], z[:, :3]) and float((moved - z).norm(dim=1).min()) > 0.1
    assert torch.allclose(action.act_inverse(moved, tau), z, atol=1e-12)
    assert torch.allclose(action.act(action.act_inverse(z, tau), tau), z, atol=1e-12)
    assert torch.allclose(action.act(z, action.identity().double().expand(40, -1)), z, atol=1e-14)
    assert action.exact_inverse and action.content_size == 3
    with pytest.raises(ValueError, match="at least 7"):
        actions.build(letter, 6)


def test_tau_and_the_pose_between_follow_from_two_views():
    """From g₁ = exp(τ) g and g₂ = exp(−τ) g back to τ and g, with scipy's logarithm as the judge."""
    action = actions.build("P", 8).double()
    z = torch.cat((torch.zeros(20, 2).double(), 0.5 * poses(20)), 1)
    tau = 0.5 * poses(20, 1)
    z1, z2 = action.act(z, tau), action.act_inverse(z, tau)
    z1[:, 0], z2[:, 0] = 3.0, 1.0
    mean, logvar, found = action.infer(z1, z2)
    assert torch.allclose(found, tau, atol=1e-12) and logvar.shape == mean.shape
    assert torch.allclose(mean[:, 2:], z[:, 2:], atol=1e-12)
    assert torch.equal(mean[:, 0], torch.full((20,), 2.0).double())
    g1, g2 = (square(pose.exponential(code[:1, 2:]))[0] for code in (z1, z2))
    half = scipy.linalg.logm((g1 @ torch.linalg.inv(g2)).numpy()) / 2
    rows = torch.einsum(
        "np,pij->nij", found[:1], torch.tensor(pose.GENERATORS, dtype=torch.float64)
    )[0]
    assert abs(rows.numpy() - half[:2]).max() < 1e-12


@pytest.mark.parametrize("parts", [(), ("saliency",), ("refinement",), pose.PARTS])
def test_a_model_of_content_and_pose_is_a_model_like_any_other(parts):
    model = models.TVAE(
        12, action="P", action_options={"parts": parts}, generator=generator(0, "i")
    )
    x = data.load("mnist", "test", source="embedded").floats(slice(0, 6))
    mean, logvar = model.encode(x)
    assert mean.shape == logvar.shape == (6, 12) and model.content_size == 6
    assert embed(model, x).shape == (6, 6)
    assert torch.allclose(embed(model, x), mean[:, :6], atol=1e-5)
    again = models.build(model.settings)
    again.load_state_dict(model.state_dict())
    assert torch.allclose(again.encode(x)[0], mean)
    assert not list(model.psi.parameters()) and not list(model.xi.parameters())
    views = Moved(Triplets(("affine",), "exact"))(x, generator(0, "views"))
    terms = tvae_terms(model, *views[:3], generator(0, "noise"))
    terms.total().mean().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())
    assert model.as_vae().settings["custom_networks"]
    with torch.no_grad():  # black far away from the ink, and finite everywhere
        far = model.decode(torch.cat((mean[:, :6], torch.tensor([[9.0, 0, 0, 0, 0, 0]] * 6)), 1))
    assert float(far.max()) < 1e-4 and torch.isfinite(model.decode_logits(mean)).all()


def test_the_decoder_moves_what_the_content_draws():
    model = models.TVAE(9, action="P", generator=generator(0, "i")).eval().requires_grad_(False)
    content, tau = (
        torch.randn(4, 3, generator=generator(0, "z")),
        torch.tensor([[0.5, 0, 0, 0, 0, 0]]),
    )
    upright = model.decode(torch.cat((content, torch.zeros(4, 6)), 1))
    moved = model.decode(model.act(torch.cat((content, torch.zeros(4, 6)), 1), tau))
    # half a unit is a tenth of the image, 2.8 pixels to the right: between 2 and 3
    logits = torch.logit(upright)
    expected = 0.2 * logits[..., 1:-2] + 0.8 * logits[..., :-3]
    assert torch.allclose(torch.logit(moved)[..., 3:], expected, atol=1e-3)


def test_shapes_and_parts_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="grey 28×28 images, not of shape"):
        models.TVAE(31, (3, 64, 64), action="P", likelihood="gaussian")
    with pytest.raises(ValueError, match="no part wings; there are saliency, refinement"):
        actions.build("P", 31, parts=("wings",))


def test_a_run_of_p_is_kept_continued_and_loaded(tmp_path):
    few = data.load("mnist", source="embedded").take(60)
    settings = {"action": "P", "d": 9, "moved": True, "epochs": 2, "batch_size": 20}
    config = RunConfig.from_preset("mnist", **settings)
    assert config.families == ("affine",) and config.geometry == "exact"
    whole = train(config, few, folder=tmp_path / "whole", device="cpu")
    train(config, few, folder=tmp_path / "cut", device="cpu", max_steps=3)
    again = train(config, few, folder=tmp_path / "cut", device="cpu")
    for a, b in zip(whole.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(a, b)
    model = trained.load(tmp_path / "whole")
    assert model.triplets == config.own_triplets() and isinstance(model.triplets, Moved)


def test_models_without_a_pose_are_built_and_infer_as_before():
    """The draws of all weights in their old order, and f_ξ and q_ψ where no action infers itself."""
    model = models.TVAE(4, action="N", generator=generator(0, "init"))
    draws = generator(0, "init")
    expected = [*default_networks(4, (1, 28, 28)), mlp(8, 8), mlp(8, 4), mlp(8, 4)]
    for network in expected:
        initialise(network, draws)
    parts = (model.encoder, model.decoder, model.psi, model.xi, model.action)
    for part, network in zip(parts, expected, strict=True):
        for a, b in zip(part.parameters(), network.parameters(), strict=True):
            assert torch.equal(a, b)
    z1, z2 = torch.randn(2, 5, 4, generator=generator(0, "codes"))
    both = torch.cat((z1, z2), 1)
    mean, logvar, tau = model.posterior(z1, z2)
    assert torch.equal(torch.cat((mean, logvar), 1), model.psi(both))
    assert torch.equal(tau, model.xi(both)) and model.content_size == 4
