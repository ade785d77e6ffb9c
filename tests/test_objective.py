"""The loss: every term against a closed form, a Monte-Carlo estimate or a second derivation."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.distributions import Independent, Normal, kl_divergence

from tvae.models import TVAE, VAE
from tvae.objective import (
    FURTHER,
    TERMS,
    kl_standard_normal,
    mmd_linear,
    tvae_terms,
    vae_id_terms,
    vae_terms,
)
from tvae.seeding import generator


def images(n, name, shape=(1, 28, 28), dtype=torch.float):
    return torch.rand(n, *shape, generator=generator(0, name), dtype=dtype)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(0, 10**6))
def test_kl_against_torch_distributions(d, seed):
    stream = generator(seed, "kl")
    mean = torch.randn(3, d, generator=stream, dtype=torch.double)
    logvar = 2 * torch.randn(3, d, generator=stream, dtype=torch.double)
    q = Independent(Normal(mean, (0.5 * logvar).exp()), 1)
    p = Independent(Normal(torch.zeros_like(mean), torch.ones_like(mean)), 1)
    assert torch.allclose(kl_standard_normal(mean, logvar), kl_divergence(q, p), atol=1e-10)


def test_kl_against_monte_carlo():
    mean, logvar = torch.tensor([0.7, -1.2, 0.1]), torch.tensor([-0.5, 0.4, -2.0])
    q = Independent(Normal(mean, (0.5 * logvar).exp()), 1)
    p = Independent(Normal(torch.zeros(3), torch.ones(3)), 1)
    noise = torch.randn(400_000, 3, generator=generator(0, "mc"))
    z = mean + (0.5 * logvar).exp() * noise
    ratio = q.log_prob(z) - p.log_prob(z)
    error = float(ratio.std() / len(ratio) ** 0.5)
    assert abs(float(ratio.mean() - kl_standard_normal(mean, logvar))) < 4 * error


def test_linear_mmd_is_the_kernel_mmd_with_a_linear_kernel():
    """E k(a, a') + E k(b, b') − 2 E k(a, b) over two empirical distributions, k(u, v) = u·v."""
    stream = generator(0, "mmd")
    a = torch.randn(200, 5, generator=stream, dtype=torch.double) + 1
    b = torch.randn(300, 5, generator=stream, dtype=torch.double) * 2
    kernel = (a @ a.T).mean() + (b @ b.T).mean() - 2 * (a @ b.T).mean()
    assert torch.allclose(mmd_linear(a.mean(0), b.mean(0)), kernel, atol=1e-10)


def test_linear_mmd_against_monte_carlo():
    """The sampled form of C exceeds the analytic-mean one by the trace of the variance."""
    mean, deviation = torch.tensor([0.5, -1.0]), torch.tensor([0.3, 0.8])
    target = torch.tensor([0.1, 0.2])
    z = mean + deviation * torch.randn(400_000, 2, generator=generator(0, "mc"))
    sampled = mmd_linear(z, target)
    error = float(sampled.std() / len(z) ** 0.5)
    expected = mmd_linear(mean, target) + deviation.square().sum()
    assert abs(float(sampled.mean() - expected)) < 4 * error


@pytest.fixture(scope="module")
def model():
    return TVAE(6, action="M", generator=generator(0, "weights"))


def test_every_term_against_a_loop_over_single_samples(model):
    """The batched objective equals Algorithm 1 followed literally, one sample at a time."""
    x0, x1, x2 = (images(3, name) for name in ("x0", "x1", "x2"))
    terms = tvae_terms(model, x0, x1, x2, generator(1, "noise"))
    stream = generator(1, "noise")
    eps = torch.randn(9, 6, generator=stream)
    eps_z = torch.randn(3, 6, generator=stream)

    def nll(x, z):
        probability = model.decode(z)
        return F.binary_cross_entropy(probability, x, reduction="sum")

    for n in range(3):
        z, moments = [], []
        for view, x in enumerate((x0, x1, x2)):
            mean, logvar = model.encode(x[n : n + 1])
            moments.append((mean, logvar))
            z.append(mean + (logvar / 2).exp() * eps[3 * view + n])
        both = torch.cat(z[1:], 1)
        mean, logvar = model.psi(both)[:, :6], model.psi(both)[:, 6:]
        tau, zz = model.xi(both), mean + (logvar / 2).exp() * eps_z[n]
        expected = {
            "nllx0": nll(x0[n : n + 1], z[0]),
            "nllx1": nll(x1[n : n + 1], z[1]),
            "nllx2": nll(x2[n : n + 1], z[2]),
            "nll": nll(x0[n : n + 1], zz),
            "c1": (z[1] - model.act(zz, tau)).square().sum(),
            "c2": (z[2] - model.act_inverse(zz, tau)).square().sum(),
            "kl0": -0.5 * (1 + moments[0][1] - moments[0][0] ** 2 - moments[0][1].exp()).sum(),
            "div": -0.5 * (1 + logvar - mean**2 - logvar.exp()).sum(),
        }
        assert tuple(name for name, _ in terms.items()) == TERMS
        for name, value in expected.items():
            assert torch.allclose(terms[name][n], value, rtol=1e-4, atol=1e-4), name
    assert torch.allclose(terms.total(), sum(value for _, value in terms.items()))


def test_the_analytic_form_uses_means_in_c_only(model):
    x = [images(4, name) for name in ("x0", "x1", "x2")]
    sampled = tvae_terms(model, *x, generator(1, "noise"))
    analytic = tvae_terms(model, *x, generator(1, "noise"), analytic=True)
    for name in TERMS:
        same = torch.equal(sampled[name], analytic[name])
        assert same == (name not in ("c1", "c2")), name
    # averaged over the noise of z1 alone, sampled − analytic would be the trace of the variance
    without_noise = [tvae_terms(model, *x, None, analytic=a) for a in (False, True)]
    assert torch.equal(without_noise[0].c1, without_noise[1].c1)


@pytest.mark.parametrize(
    ("letter", "residual"), [("A", False), ("M", False), ("T", False), ("T", True)]
)
def test_vae_id_is_a_vae(letter, residual):
    """With one view and τ fixed to the identity the loss equals that of a VAE."""
    model = TVAE(6, action=letter, residual=residual, generator=generator(0, "weights"))
    x = images(4, "x0")
    ours = vae_id_terms(model, x, generator(1, "noise"))
    vae = vae_terms(model.as_vae(), x, generator(1, "noise"))
    assert torch.equal(ours.kl0, vae.kl0)
    assert torch.allclose(ours.nllx0, vae.nllx0, rtol=1e-6)
    assert torch.allclose(ours.total(), vae.total(), rtol=1e-6)


def test_there_is_no_vae_id_without_an_identity():
    model = TVAE(6, action="N")
    with pytest.raises(ValueError, match="N has no identity"):
        vae_id_terms(model, images(1, "x0"), None)


def tiny(action, residual):
    """A double-precision model small enough for finite differences."""
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4))
    decoder = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 6), nn.Unflatten(1, (1, 2, 3)))
    model = TVAE(2, (1, 2, 3), action=action, residual=residual, encoder=encoder, decoder=decoder)
    small = lambda outputs: nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, outputs))  # noqa: E731
    model.psi, model.xi = small(4), small(model.action.tau_size)
    if action == "N":
        (model.action.inner if residual else model.action).chi = small(2)
    return model.double()


@pytest.mark.parametrize(
    ("action", "residual"),
    [("A", False)] + [(a, r) for a in ("M", "MA", "T", "N") for r in (False, True)],
)
def test_gradients_against_finite_differences(action, residual):
    model = tiny(action, residual)
    names, values = zip(*model.named_parameters(), strict=True)
    x = [images(2, name, (1, 2, 3), torch.double) for name in ("x0", "x1", "x2")]

    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self):
            return tvae_terms(self.model, *x, generator(0, "noise")).total().mean()

    loss = Loss()

    def f(*parameters):
        named = {f"model.{n}": p for n, p in zip(names, parameters, strict=True)}
        return torch.func.functional_call(loss, named, ())

    assert torch.autograd.gradcheck(f, tuple(v.detach().requires_grad_() for v in values))


def test_gradients_of_the_vae_against_finite_differences():
    model = tiny("A", False).as_vae()
    x = images(2, "x0", (1, 2, 3), torch.double)
    parameter = next(model.parameters())

    def f(p):
        return vae_terms_with(model, x, p)

    def vae_terms_with(vae, x, p):
        name = next(iter(dict(vae.named_parameters())))
        moments = torch.func.functional_call(vae, {name: p}, (x, generator(0, "noise")))
        raw, mean, logvar = moments
        return (vae.nll(raw, x) + kl_standard_normal(mean, logvar)).mean()

    assert torch.autograd.gradcheck(f, (parameter.detach().clone().requires_grad_(),))


def test_weights_and_unknown_terms(model):
    x = images(2, "x0")
    terms = vae_terms(model.as_vae(), x, None)
    assert torch.allclose(terms.total({"kl0": 0.0}), terms.nllx0)
    with pytest.raises(ValueError, match="Unknown loss terms"):
        terms.total({"kl": 1.0})
    with pytest.raises(KeyError, match="No term 'c1' here"):
        terms["c1"]


def test_a_plain_vae_has_two_terms():
    terms = vae_terms(VAE(3), images(2, "x0"), generator(0, "noise"))
    assert [name for name, _ in terms.items()] == ["nllx0", "kl0"]
    assert all(not value.requires_grad and value.ndim == 0 for value in terms.means().values())


# --- beyond the paper's loss ------------------------------------------------------------------------


def further_terms(switches, n=4):
    model = TVAE(4, action="E", action_options={"k": 3}, generator=generator(0, "weights"))
    x0, x1, x2 = (images(n, name) for name in ("x0", "x1", "x2"))
    with torch.no_grad():
        return model, (x0, x1, x2), tvae_terms(model, x0, x1, x2, None, further=switches)


def test_further_terms_leave_the_others_as_they_are():
    _, _, plain = further_terms(())
    assert [name for name, _ in plain.items()] == list(TERMS)
    _, _, full = further_terms(tuple(FURTHER))
    assert [name for name, _ in full.items()][: len(TERMS)] == list(TERMS)
    for name, value in plain.items():
        assert torch.allclose(value, full[name], rtol=1e-6), name
    expected = sum(value for _, value in full.items())
    assert torch.allclose(full.total(), expected)
    with pytest.raises(KeyError, match="No term 'tie'"):
        plain["tie"]


def test_terms_of_the_views_and_the_tie_written_out():
    model, (x0, x1, x2), terms = further_terms(("view_kl", "tie"))
    with torch.no_grad():
        moments = [model.encode(x) for x in (x0, x1, x2)]
        z, _ = model.infer(x1, x2)
    assert torch.allclose(terms["kl1"], kl_standard_normal(*moments[1]), rtol=1e-5)
    assert torch.allclose(terms["kl2"], kl_standard_normal(*moments[2]), rtol=1e-5)
    assert torch.allclose(terms["tie"], (z - moments[0][0]).square().sum(1), rtol=1e-4)


def test_borrowed_terms_give_each_image_the_transformation_of_its_neighbour():
    model, (_, x1, x2), terms = further_terms(("borrowed_constraint", "borrowed_likelihood"))
    with torch.no_grad():
        z1, z2 = model.encode(x1)[0], model.encode(x2)[0]
        z, tau = model.infer(x1, x2)
        for own, other in ((0, 1), (1, 0), (2, 3), (3, 2)):
            there = model.act(z[own : own + 1], tau[other : other + 1])
            back = model.act_inverse(z[own : own + 1], tau[other : other + 1])
            assert float(terms["borrowed_c1"][own]) == pytest.approx(
                float((z1[own] - there).square().sum()), rel=1e-4
            )
            assert float(terms["borrowed_c2"][own]) == pytest.approx(
                float((z2[own] - back).square().sum()), rel=1e-4
            )
            for name, code, x in (("x1", there, x1), ("x2", back, x2)):
                nll = float(model.nll(model.decode_logits(code), x[own : own + 1]))
                assert float(terms[f"borrowed_nll{name}"][own]) == pytest.approx(nll, rel=1e-5)


def test_means_change_nothing_but_what_the_constraints_compare():
    """With noise: the constraints are those without it, everything else stays to the last bit."""
    model = TVAE(4, action="E", action_options={"k": 3}, generator=generator(0, "weights"))
    views = [images(4, name) for name in ("x0", "x1", "x2")]
    switches = ("tie", "borrowed_constraint", "borrowed_likelihood")
    with torch.no_grad():
        sampled = tvae_terms(model, *views, generator(0, "noise"), further=switches)
        means = tvae_terms(model, *views, generator(0, "noise"), further=(*switches, "means"))
        still = tvae_terms(model, *views, None, further=switches)
    for name, value in means.items():
        if name in ("c1", "c2", "tie", "borrowed_c1", "borrowed_c2"):
            assert torch.allclose(value, still[name], rtol=1e-4), name
            assert not torch.allclose(value, sampled[name], rtol=0.05), name
        else:
            assert torch.equal(value, sampled[name]), name


def test_pairs_need_an_even_number():
    with pytest.raises(ValueError, match="even number of images, not 3"):
        further_terms(("borrowed_constraint",), n=3)


def test_a_width_of_tau_is_drawn_and_has_its_divergence():
    model = TVAE(4, action="W", action_options={"k": 3}, tau_width=0.2, generator=generator(0, "w"))
    z1, z2 = torch.randn(2, 2000, 4, generator=generator(0, "z"))
    mean = model.posterior(z1, z2)[2]
    drawn = model.draw_tau(mean, generator(0, "tau"))
    assert (drawn - mean).std().item() == pytest.approx(0.2, rel=0.05)
    assert torch.equal(model.draw_tau(mean, None), mean)
    x = torch.rand(3, 6, 1, 28, 28, generator=generator(0, "x"))
    terms = tvae_terms(model, *x, None)
    z1, z2 = (model.encode(view)[0] for view in x[1:])
    mean = model.posterior(z1, z2)[2]
    normal = torch.distributions.Normal
    kl = torch.distributions.kl_divergence(normal(mean, 0.2), normal(0.0, 1.0)).sum(1)
    torch.testing.assert_close(terms["kl_tau"], kl, rtol=1e-4, atol=1e-4)


def test_without_a_width_nothing_is_drawn_for_tau():
    plain = TVAE(4, generator=generator(0, "w"))
    tau = torch.ones(2, 4)
    assert plain.draw_tau(tau, generator(0, "tau")) is tau
    assert "tau_width" not in plain.settings
    x = torch.rand(3, 6, 1, 28, 28, generator=generator(0, "x"))
    assert "kl_tau" not in dict(tvae_terms(plain, *x, generator(0, "noise")).items())
