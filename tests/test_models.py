"""VAE and TVAE: shapes, replaceable parts, and what they hand out."""

import pytest
import torch
from torch import nn

from tvae import actions
from tvae.models import TVAE, VAE, build, reparameterise
from tvae.seeding import generator

X = torch.rand(5, 1, 28, 28, generator=generator(0, "images"))


@pytest.fixture(scope="module")
def model():
    return TVAE(6, generator=generator(0, "weights")).eval()


def test_encode_and_decode(model):
    mean, logvar = model.encode(X)
    assert mean.shape == logvar.shape == (5, 6)
    images = model.decode(mean)
    assert images.shape == X.shape
    assert images.min() >= 0 and images.max() <= 1
    assert torch.allclose(images, torch.sigmoid(model.decode_logits(mean)))


def test_uint8_images_are_encoded_as_fractions_of_255(model):
    pixels = (X * 255).to(torch.uint8)
    assert torch.allclose(model.encode(pixels)[0], model.encode(pixels.float() / 255)[0], atol=1e-6)


def test_infer_and_act(model):
    z, tau = model.infer(X, X.flip(3))
    assert z.shape == (5, 6) and tau.shape == (5, 6)
    again, _ = model.infer(X, X.flip(3))
    assert torch.equal(z, again)  # without a generator: means only
    sampled, _ = model.infer(X, X.flip(3), generator(0, "noise"))
    assert not torch.equal(z, sampled)
    assert torch.allclose(model.act_inverse(model.act(z, tau), tau), z, atol=1e-6)
    assert model.act(z, tau[:1]).shape == z.shape  # one τ for all codes


def test_reparameterisation_has_the_right_moments():
    mean, logvar = torch.tensor([[1.0, -2.0]]), torch.tensor([[0.0, 2.0]])
    n = 200_000
    z = reparameterise(mean.expand(n, -1), logvar.expand(n, -1), generator(0, "noise"))
    deviation = torch.exp(0.5 * logvar[0])
    assert ((z.mean(0) - mean[0]).abs() < 5 * deviation / n**0.5).all()
    assert ((z.std(0) / deviation - 1).abs() < 5 / (2 * n) ** 0.5).all()


@pytest.mark.parametrize("letter", ["A", "M", "MA", "T", "N"])
def test_every_action_makes_a_model(letter):
    tvae = TVAE(6, action=letter, residual=letter != "A")
    z, tau = tvae.infer(X, X)
    assert tau.shape == (5, actions.tau_size(letter, 6))
    assert tvae.decode(tvae.act(z, tau)).shape == X.shape


def test_as_vae_shares_encoder_and_decoder(model):
    vae = model.as_vae()
    assert type(vae) is VAE
    assert torch.equal(vae.encode(X)[0], model.encode(X)[0])
    assert torch.equal(vae.decode(vae.encode(X)[0]), model.decode(model.encode(X)[0]))
    assert vae.encoder is model.encoder and vae.decoder is model.decoder
    assert {name.split(".")[0] for name, _ in vae.named_parameters()} == {"encoder", "decoder"}


@pytest.mark.parametrize(
    "model",
    [
        VAE(4),
        TVAE(4, action="T", residual=True),
        TVAE(4, action="MA", action_options={"inverse": "true"}),
        VAE(4, (3, 64, 64), likelihood="gaussian", sigma=0.3),
    ],
    ids=["vae", "T^R", "MA true", "64"],
)
def test_settings_rebuild_an_equal_model(model):
    import json

    other = build(json.loads(json.dumps(model.settings)))
    assert other.settings == model.settings
    other.load_state_dict(model.state_dict())
    x = torch.rand(2, *model.shape)
    assert torch.equal(other.eval().encode(x)[0], model.eval().encode(x)[0])


def test_the_generator_decides_the_weights():
    models = [TVAE(4, action="N", generator=generator(7, "weights")) for _ in range(2)]
    for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(a, b)


class Flat(nn.Module):
    """A linear encoder of one's own."""

    def __init__(self, outputs):
        super().__init__()
        self.linear = nn.Linear(2 * 5 * 7, outputs)

    def forward(self, x):
        return self.linear(x.flatten(1))


def decoder(d):
    return nn.Sequential(nn.Linear(d, 70), nn.Unflatten(1, (2, 5, 7)))


def test_networks_of_ones_own_on_images_of_any_shape():
    tvae = TVAE(3, (2, 5, 7), encoder=Flat(6), decoder=decoder(3))
    x = torch.rand(4, 2, 5, 7)
    z, tau = tvae.infer(x, x)
    assert tvae.decode(tvae.act(z, tau)).shape == x.shape
    with pytest.raises(ValueError, match="encoder or decoder of its own"):
        build(tvae.settings)
    assert build(tvae.settings, encoder=Flat(6), decoder=decoder(3)).shape == (2, 5, 7)


def test_an_action_of_ones_own_is_taken_as_it_is():
    action = actions.Additive(3)
    assert TVAE(3, action=action).action is action
    with pytest.raises(ValueError, match="made for d = 3, the model has d = 4"):
        TVAE(4, action=action)


def test_the_gaussian_likelihood_is_that_of_torch():
    vae = VAE(3, (2, 5, 7), likelihood="gaussian", sigma=0.2, encoder=Flat(6), decoder=decoder(3))
    raw, x = torch.randn(4, 2, 5, 7), torch.rand(4, 2, 5, 7)
    expected = -torch.distributions.Normal(raw, 0.2).log_prob(x).flatten(1).sum(1)
    assert torch.allclose(vae.nll(raw, x), expected, rtol=1e-5)


def test_the_bernoulli_likelihood_is_that_of_torch_for_black_and_white_targets():
    vae, raw = VAE(3), torch.randn(4, 1, 28, 28)
    x = (torch.rand(4, 1, 28, 28) > 0.5).float()
    expected = -torch.distributions.Bernoulli(logits=raw).log_prob(x).flatten(1).sum(1)
    assert torch.allclose(vae.nll(raw, x), expected, rtol=1e-5)


def test_samples_are_images_and_repeat():
    vae = VAE(3)
    a, b = (vae.sample(4, generator(0, "samples")) for _ in range(2))
    assert a.shape == (4, 1, 28, 28) and torch.equal(a, b)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: VAE(0), "positive whole number, not 0"),
        (lambda: TVAE(-1), "positive whole number, not -1"),
        (lambda: TVAE(25, action="M"), "use d = 26 instead of 25"),
        (lambda: TVAE(25, action="X"), "Unknown latent action 'X'"),
        (lambda: VAE(4, (1, 32, 32)), "not for 32×32"),
        (lambda: VAE(4, (28, 28)), "three positive ints"),
        (lambda: VAE(4, likelihood="poisson"), "'bernoulli' or 'gaussian'"),
        (lambda: VAE(4, likelihood="gaussian", sigma=0), "sigma must be positive"),
        (lambda: VAE(4, (3, 64, 64)), "use likelihood='gaussian'"),
        (lambda: VAE(3, (2, 5, 7), encoder=Flat(3), decoder=decoder(3)), r"to \(N, 6\)"),
        (
            lambda: VAE(3, (2, 7, 5), encoder=Flat(6), decoder=decoder(3)),
            r"but gives \(1, 2, 5, 7\)",
        ),
        (lambda: build({"model": "gan"}), "must be 'vae' or 'tvae', not 'gan'"),
    ],
)
def test_mistakes_in_building_get_a_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_mistakes_in_use_get_a_sentence(model):
    z, tau = torch.zeros(2, 6), torch.zeros(2, 6)
    for call, sentence in [
        (lambda: model.encode(torch.rand(2, 3, 28, 28)), "1 channel"),
        (lambda: model.encode(X * 2), r"in \[0, 1\]"),
        (lambda: model.encode(X * float("nan")), "not finite"),
        (lambda: model.encode(X[:0]), "empty"),
        (lambda: model.decode(torch.zeros(2, 5)), r"z must have shape \(N, 6\)"),
        (lambda: model.act(torch.zeros(2, 5), tau), r"z must have shape \(N, 6\)"),
        (lambda: model.act(z, torch.zeros(3, 6)), r"tau must have shape \(2, 6\) or \(1, 6\)"),
        (lambda: model.infer(X, X[:2]), "same shape"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            call()


def test_narrower_networks_are_remembered_and_the_usual_ones_leave_no_trace():
    model = TVAE(4, action="E", hidden=16, generator=generator(0, "narrow"))
    assert model.psi[0].out_features == 16 and model.xi[2].out_features == 16
    again = build(model.settings)
    again.load_state_dict(model.state_dict())
    assert "hidden" not in TVAE(4, generator=generator(0, "wide")).settings
    with pytest.raises(ValueError, match="width of q_ψ and f_ξ must be a positive whole number"):
        TVAE(4, hidden=0)
