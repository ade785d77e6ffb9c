"""Importance sampling against closed forms, quadrature and a loop over single samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tvae.evaluation import likelihood
from tvae.evaluation.likelihood import log_likelihood
from tvae.models import TVAE, VAE
from tvae.seeding import generator

SHAPE = (1, 2, 3)


pytestmark = pytest.mark.usefixtures("one_thread")


class Affine(nn.Module):
    """Any shape in, an affine map of the flattened input out, in double precision."""

    def __init__(self, weight, bias, shape):
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)
        self.shape = shape

    def forward(self, x):
        return F.linear(x.flatten(1), self.weight, self.bias).view(-1, *self.shape)


def linear_gaussian(widen=1.0, shift=0.0, sigma=0.1):
    """A VAE x = W z + b + σ ε whose encoder is the exact posterior, or is made worse on purpose.

    With orthogonal columns in W the exact posterior is a diagonal Gaussian.
    """
    draws = torch.Generator().manual_seed(5)
    w = torch.linalg.qr(torch.randn(6, 2, generator=draws, dtype=torch.float64)).Q
    w = w * torch.tensor([0.12, 0.05], dtype=torch.float64)
    b = torch.full((6,), 0.5, dtype=torch.float64)
    variance = 1 / (1 + w.square().sum(0) / sigma**2)
    to_mean = variance[:, None] * w.T / sigma**2
    logvar = variance.log() + 2 * math.log(widen)
    encoder = Affine(
        torch.cat((to_mean, torch.zeros_like(to_mean))),
        torch.cat((-to_mean @ b + shift * variance.sqrt(), logvar)),
        (4,),
    )
    decoder = Affine(w, b, SHAPE)
    vae = VAE(2, SHAPE, likelihood="gaussian", sigma=sigma, encoder=encoder, decoder=decoder)
    normal = torch.distributions.MultivariateNormal(
        b, w @ w.T + sigma**2 * torch.eye(6, dtype=torch.float64)
    )
    x = _sample(normal, 40)
    return vae, x.view(-1, *SHAPE), normal.log_prob(x)


def _sample(normal, n):
    noise = torch.randn(n, 6, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    return (normal.mean + noise @ normal.scale_tril.T).clamp(0, 1)


def small_vae(dtype=torch.float32, d=3):
    """A Bernoulli VAE with random networks of its own for 2×3 images."""
    draws = torch.Generator().manual_seed(3)

    def weights(*size):
        return torch.randn(size, generator=draws, dtype=dtype)

    encoder = Affine(0.3 * weights(2 * d, 6), 0.3 * weights(2 * d), (2 * d,))
    decoder = nn.Sequential(
        Affine(weights(20, d), weights(20), (20,)),
        nn.Tanh(),
        Affine(weights(6, 20), weights(6), SHAPE),
    )
    return VAE(d, SHAPE, encoder=encoder, decoder=decoder)


def grey_images(n, dtype=torch.float32):
    return torch.rand((n, *SHAPE), generator=torch.Generator().manual_seed(n)).to(dtype)


@torch.no_grad()
def plain(vae, x, samples, gen):
    """One draw at a time, with torch's own distributions, in float64: log p̂ and ESS of each image."""
    noise = torch.randn((len(x), samples, vae.d), generator=gen, dtype=torch.float64)
    values, sizes = [], []
    for image, eps in zip(x, noise, strict=True):
        mean, logvar = vae.moments(image[None])
        q = torch.distributions.Normal(mean[0], torch.exp(0.5 * logvar[0]))
        log_w = []
        for e in eps:
            z = q.mean + q.stddev * e
            prior = torch.distributions.Normal(torch.zeros_like(z), 1).log_prob(z).sum()
            logits = vae.decode_logits(z[None])[0]
            p = torch.sigmoid(logits)
            log_p = (image * p.log() + (1 - image) * (1 - p).log()).sum()
            log_w.append(float(log_p + prior - q.log_prob(z).sum()))
        w = np.exp(np.array(log_w))
        values.append(np.log(w.mean()))
        sizes.append(w.sum() ** 2 / (w**2).sum())
    return np.array(values), np.array(sizes)


def test_exact_posterior_has_no_variance():
    vae, x, exact = linear_gaussian()
    found = log_likelihood(vae, x, samples=7, generator=generator(0, "a"))
    torch.testing.assert_close(found.per_image, exact, rtol=0, atol=1e-9)
    torch.testing.assert_close(found.sizes, torch.full_like(exact, 7), rtol=1e-9, atol=0)
    assert found.monte_carlo_error < 1e-4
    assert found.effective_sample_size == pytest.approx(7)


@pytest.mark.parametrize("samples", [400, 2500])
def test_another_posterior_agrees_with_the_exact_value_within_three_standard_errors(samples):
    vae, x, exact = linear_gaussian(widen=1.3, shift=0.4)
    found = log_likelihood(vae, x, samples=samples, generator=generator(1, "a"))
    assert 0 < found.monte_carlo_error < found.standard_error
    assert abs(found.mean - float(exact.mean())) < 3 * found.monte_carlo_error
    # image by image, too: the errors have the size that is claimed for them
    claimed = (1 / found.sizes - 1 / samples).sqrt()
    pulls = (found.per_image - exact) / claimed
    assert 0.6 < float(pulls.square().mean().sqrt()) < 1.5
    assert float(pulls.abs().max()) < 5


def test_bernoulli_with_grey_targets_agrees_with_quadrature():
    vae, x = small_vae(torch.float64, d=1), grey_images(6, torch.float64)
    z = torch.linspace(-12, 12, 20001, dtype=torch.float64)[:, None]
    with torch.no_grad():
        logits = vae.decode_logits(z)
        prior = -0.5 * z[:, 0].square() - 0.5 * math.log(2 * math.pi)
        exact = [float(torch.logsumexp(prior - vae.nll(logits, i.expand_as(logits)), 0)) for i in x]
    exact = np.array(exact) + math.log(24 / 20000)
    found = log_likelihood(vae, x, samples=5000, generator=generator(2, "a"))
    assert abs(found.mean - exact.mean()) < 3 * found.monte_carlo_error
    np.testing.assert_allclose(found.per_image, exact, atol=0.1)


def test_equals_a_loop_over_single_samples():
    vae, x = small_vae(torch.float64), grey_images(4, torch.float64)
    values, sizes = plain(vae, x, 50, generator(3, "a"))
    found = log_likelihood(vae, x, samples=50, generator=generator(3, "a"), chunk=7)
    np.testing.assert_allclose(found.per_image, values, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found.sizes, sizes, rtol=1e-9)
    assert found.mean == pytest.approx(values.mean(), abs=1e-10)
    assert found.standard_error == pytest.approx(values.std(ddof=1) / 2, rel=1e-9)
    assert found.effective_sample_size == pytest.approx(sizes.mean())
    assert found.least_effective_sample_size == pytest.approx(sizes.min())


@given(
    n=st.integers(1, 5),
    samples=st.integers(1, 40),
    chunk=st.integers(1, 250),
    block=st.sampled_from([1, 3, 16, 1024]),
    group=st.sampled_from([1, 10, 8192]),
)
@settings(max_examples=25, deadline=None)
def test_chunk_size_does_not_matter(n, samples, chunk, block, group):
    vae, x = small_vae(torch.float64), grey_images(n, torch.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(likelihood, "BLOCK", block)
        patch.setattr(likelihood, "GROUP", group)
        one = log_likelihood(vae, x, samples, generator(4, "a"), chunk=10**6)
        other = log_likelihood(vae, x, samples, generator(4, "a"), chunk=chunk)
    torch.testing.assert_close(other.per_image, one.per_image, rtol=0, atol=1e-10)
    torch.testing.assert_close(other.sizes, one.sizes, rtol=1e-10, atol=0)


@pytest.mark.parametrize("chunk", [7, 37, 64, 5000])
def test_chunk_size_does_not_matter_in_float32_with_the_papers_networks(chunk):
    model = TVAE(10, generator=generator(0, "init"))
    x = torch.rand((3, 1, 28, 28), generator=torch.Generator().manual_seed(0))
    one = log_likelihood(model, x, 60, generator(5, "a"))
    other = log_likelihood(model, x, 60, generator(5, "a"), chunk=chunk)
    torch.testing.assert_close(other.per_image, one.per_image, rtol=2e-6, atol=0)
    torch.testing.assert_close(other.sizes, one.sizes, rtol=1e-2, atol=0)


def test_more_samples_than_a_block_and_more_images_than_a_group(monkeypatch):
    """Blocks and groups change the noise, not the estimate: with many draws all agree."""
    vae, x, exact = linear_gaussian(widen=1.2)
    monkeypatch.setattr(likelihood, "BLOCK", 64)
    monkeypatch.setattr(likelihood, "GROUP", 200)
    found = log_likelihood(vae, x, samples=1000, generator=generator(6, "a"), chunk=33)
    assert abs(found.mean - float(exact.mean())) < 3 * found.monte_carlo_error


def test_same_generator_state_same_result_and_it_moves_on():
    vae, x = small_vae(), grey_images(3)
    gen = generator(7, "a")
    first, second = (log_likelihood(vae, x, 20, gen) for _ in range(2))
    again = log_likelihood(vae, x, 20, generator(7, "a"))
    assert torch.equal(first.per_image, again.per_image)
    assert not torch.equal(first.per_image, second.per_image)
    default = [log_likelihood(vae, x, 20).mean for _ in range(2)]
    assert default[0] == default[1]


def test_bytes_and_floats_are_the_same_images():
    vae = small_vae()
    bytes_ = torch.randint(0, 256, (5, *SHAPE), generator=torch.Generator().manual_seed(1))
    bytes_ = bytes_.to(torch.uint8)
    one = log_likelihood(vae, bytes_, 30)
    other = log_likelihood(vae, bytes_.float() / 255, 30)
    torch.testing.assert_close(one.per_image, other.per_image, rtol=1e-6, atol=0)


def test_extreme_logits_stay_finite():
    """−log(1 − σ(ℓ)) overflows for ℓ = 200 if it is taken from the probability."""
    vae = small_vae()
    with torch.no_grad():
        vae.decoder[2].bias.fill_(200.0)
    x = torch.zeros((2, *SHAPE))
    found = log_likelihood(vae, x, 10)
    assert -1300 < found.mean < -1100


def test_evaluation_mode_is_used_and_put_back():
    class Noisy(nn.Sequential):
        def __init__(self):
            super().__init__(Affine(torch.ones(6, 3), torch.zeros(6), SHAPE), nn.Dropout(0.5))

    plain_vae = small_vae()
    vae = VAE(3, SHAPE, encoder=plain_vae.encoder, decoder=Noisy())
    vae.train()
    vae.encoder.eval()
    one, two = (log_likelihood(vae, grey_images(3), 20).mean for _ in range(2))
    assert one == two
    assert vae.training and vae.decoder[1].training and not vae.encoder.training


def test_text_names_the_numbers():
    text = str(log_likelihood(small_vae(), grey_images(3), 20))
    assert "3 images" in text and "20 samples each" in text and "nats" in text


def test_a_single_image_has_no_standard_error():
    found = log_likelihood(small_vae(), grey_images(1), 20)
    assert math.isnan(found.standard_error) and found.monte_carlo_error > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samples": 0}, "samples must be a positive whole number, not 0"),
        ({"samples": 2.5}, "samples must be a positive whole number, not 2.5"),
        ({"chunk": -1}, "chunk must be a positive whole number, not -1"),
        ({"x": grey_images(2)[:0]}, "x is empty"),
        ({"x": grey_images(2)[:, :, :1]}, r"x must have shape \(N, 1, 2, 3\)"),
        ({"x": grey_images(2) * math.nan}, "not finite"),
        ({"x": grey_images(2) + 1}, r"must lie in \[0, 1\]"),
    ],
)
def test_mistakes_are_told_in_one_sentence(change, message):
    with pytest.raises(ValueError, match=message):
        log_likelihood(**{"vae": small_vae(), "x": grey_images(2), **change})


def test_a_diverged_model_is_named():
    vae = small_vae()
    with torch.no_grad():
        vae.decoder[2].bias.fill_(math.nan)
    with pytest.raises(ValueError, match="image 0 is not finite"):
        log_likelihood(vae, grey_images(2), 10)
