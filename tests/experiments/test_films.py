"""Prediction on cases where the answer is known: exact actions, exact matrices, exact lines."""

import pytest
import torch
from torch import nn

from tvae import TVAE, VAE, objective
from tvae.data import solids
from tvae.experiments import sequences
from tvae.seeding import generator
from tvae.transforms import Sequences


class Read(nn.Module):
    """An encoder that reads d codes off the first d pixels, which are (z + 4)/8."""

    def __init__(self, d):
        super().__init__()
        self.d = d

    def forward(self, x):
        mean = 8 * x.flatten(1)[:, : self.d] - 4
        return torch.cat((mean, torch.full_like(mean, -20.0)), 1)


class Write(nn.Module):
    """The decoder that writes them there, as means."""

    def __init__(self, shape=(1, 6, 6)):
        super().__init__()
        self.shape = shape

    def forward(self, z):
        x = torch.full((len(z), 36), 0.5, dtype=z.dtype)
        x[:, : z.shape[1]] = (z + 4) / 8
        return x.view(-1, *self.shape)


def transparent(action="E", d=8, **options):
    """A T-VAE whose code can be written into an image and read off it without loss."""
    model = TVAE(
        d,
        (1, 6, 6),
        action=action,
        likelihood="gaussian",
        encoder=Read(d),
        decoder=Write(),
        generator=generator(0, "weights"),
        **options,
    )
    return model.double().eval().requires_grad_(False)


def orbit(model, tau, frames, seed=0):
    """Codes (T, N, d) of films in which every frame is two half steps of τ after the last."""
    z = torch.randn(len(tau), model.d, generator=generator(seed, "z")).double() / 2
    codes = [z]
    for _ in range(frames - 1):
        codes.append(model.act(model.act(codes[-1], tau), tau))
    return codes


def some_tau(n=5, k=3, scale=0.15, seed=1):
    return scale * torch.randn(n, k, generator=generator(seed, "tau")).double()


def test_a_film_of_the_action_itself_is_predicted_exactly():
    model, tau = transparent(action_options={"k": 3}), some_tau()
    x = [model.decode(z) for z in orbit(model, tau, 4)]
    found = sequences.half_step(model, x[0], x[1], solved=True)
    assert torch.allclose(found, tau, atol=1e-5)
    assert torch.allclose(sequences.predict(model, x[0], x[1], solved=True), x[2], atol=1e-5)
    assert torch.allclose(sequences.go_on(model, x[1], tau, frames=2), x[3], atol=1e-9)
    straight = sequences.extrapolate(model, x[0], x[1])
    assert not torch.allclose(straight, x[2], atol=1e-3)  # a turn is no straight line


def test_a_changing_velocity_goes_on_in_a_straight_line_of_tau():
    """τ grows by α from frame to frame; f_ξ is replaced by a network that knows the answer."""
    model, tau, alpha = transparent("W", action_options={"k": 3}), some_tau(), some_tau(seed=2)
    z = [torch.randn(5, 8, generator=generator(3, "z")).double() / 4]
    for step in range(3):
        now = tau + step * alpha
        z.append(model.act(model.act(z[-1], now), now))
    back = torch.linalg.pinv(model.action.shift)  # z' − z = 2 W τ
    reads = nn.Linear(16, 3, bias=False).double()
    reads.weight.data = torch.cat((back, -back), 1) / 2
    model.xi = reads
    x = [model.decode(code) for code in z]
    found = sequences.predict_changing(model, *x[:3])
    assert torch.allclose(found, x[3], atol=1e-8)
    constant = sequences.predict(model, *x[1:3])
    assert not torch.allclose(constant, x[3], atol=1e-3)


def test_the_predicted_terms_vanish_on_a_film_of_the_action_itself():
    model, tau = transparent("W", action_options={"k": 3}), some_tau()
    back = torch.linalg.pinv(model.action.shift)
    reads = nn.Linear(16, 3, bias=False).double()
    reads.weight.data = torch.cat((back, -back), 1) / 2
    model.xi = reads.requires_grad_(False)
    codes = orbit(model, tau, 3)
    x2, x0, x1 = (model.decode(z) for z in codes)
    switches = ("predicted_constraint", "predicted_likelihood")
    terms = objective.tvae_terms(model, x0, x1, x2, None, further=switches)
    assert float(terms["predicted_c1"].max()) < 1e-12 and float(terms["predicted_c2"].max()) < 1e-12
    perfect = model.nll(x1, x1)
    assert torch.allclose(terms["predicted_nllx1"], perfect)
    assert torch.allclose(terms["predicted_nllx2"], perfect)
    ends = objective.predicted_codes(model, codes[1], codes[2], codes[0])
    assert torch.allclose(ends[0], codes[2]) and torch.allclose(ends[1], codes[0])


def test_the_predicted_terms_written_out_and_alone():
    model = TVAE(6, action="E", generator=generator(0, "weights"), action_options={"k": 2})
    draws = generator(0, "x")
    x0, x1, x2 = (torch.rand(3, 1, 28, 28, generator=draws) for _ in range(3))
    switches = ("predicted_constraint", "predicted_likelihood")
    with torch.no_grad():
        plain = objective.tvae_terms(model, x0, x1, x2, generator(1, "n"))
        more = objective.tvae_terms(model, x0, x1, x2, generator(1, "n"), further=switches)
        for name, value in plain.items():  # batches of other sizes may round otherwise
            assert torch.allclose(value, more[name], rtol=1e-5), name
        means = objective.tvae_terms(model, x0, x1, x2, None, further=switches)
        z0, z1, z2 = (model.encode(x)[0] for x in (x0, x1, x2))
        tau = model.posterior(z0, z2)[2]  # as if x₀ were the later view and x₂ the earlier
        there = model.act(model.act(z0, tau), tau)
    assert torch.allclose(means["predicted_c1"], (z1 - there).square().sum(1), rtol=1e-4)
    assert torch.allclose(
        means["predicted_nllx1"], model.nll(model.decode_logits(there), x1), rtol=1e-4
    )


def test_a_straight_line_of_codes_is_extrapolated():
    vae = VAE(8, (1, 6, 6), likelihood="gaussian", encoder=Read(8), decoder=Write()).eval()
    z, step = (torch.randn(4, 8, generator=generator(i, "line")) / 4 for i in range(2))
    x = [vae.decode(z + t * step) for t in range(3)]
    assert torch.allclose(sequences.extrapolate(vae, x[0], x[1]), x[2], atol=1e-5)
    assert torch.equal(sequences.repeat(x[0], x[1]), x[1])
    assert torch.allclose(
        sequences.squared_error(x[1], x[0]), (x[1] - x[0]).square().sum((1, 2, 3))
    )


def test_a_matrix_is_found_by_least_squares():
    meta = sequences.MetaSequential(24, 4, generator(0, "meta"), ridge=0.0).double()
    true = torch.randn(3, 4, 4, generator=generator(1, "m")).double()
    z = torch.randn(3, 4, 6, generator=generator(2, "m")).double()
    assert torch.allclose(meta.transition(z, true @ z), true, atol=1e-8)
    x = torch.rand(3, 1, 28, 28, generator=generator(3, "x")).double()
    meta.ridge = 1e-12
    assert float(meta.read(x, x).abs().max()) < 1e-2  # nothing happens: the identity
    with pytest.raises(ValueError, match="10 numbers must fill 4 equal rows"):
        sequences.MetaSequential(10, 4, generator(0, "meta"))


@pytest.mark.slow
def test_meta_sequential_prediction_learns():
    films = solids.film(8, generator(0, "few")).images.flatten(0, 1)
    meta = sequences.MetaSequential(16, 4, generator(0, "meta"))
    few = {"rate": 2e-3, "halve_every": 100, "batch": 10}
    first = sequences.fit_meta(meta, films, Sequences(5), steps=1, **few)
    assert sequences.fit_meta(meta, films, Sequences(5), steps=40, **few) < first


def test_a_velocity_that_is_linear_in_tau_is_read_off_it():
    draws = generator(0, "read")
    tau, test = (torch.randn(n, 4, generator=draws) for n in (50, 30))
    to = torch.randn(4, 2, generator=draws)
    perfect = sequences.readable(tau, tau @ to, test, test @ to)
    assert torch.allclose(perfect, torch.ones(2, dtype=torch.float64), atol=1e-6)
    noise = torch.randn(30, 2, generator=draws)
    assert bool((sequences.readable(tau, tau @ to, test, noise) < 0.5).all())


def test_what_the_decoder_cannot_draw_is_carried_along():
    """Images with a pattern outside of the code: the best share is one, and the guess then exact."""
    vae = VAE(8, (1, 6, 6), likelihood="gaussian", encoder=Read(8), decoder=Write()).eval()
    z, step = (torch.randn(4, 8, generator=generator(i, "line")) / 4 for i in range(2))
    pattern = torch.zeros(4, 1, 6, 6)
    pattern[:, :, 3:] = torch.rand(4, 1, 3, 6, generator=generator(2, "pattern")) / 4
    x = [vae.decode(z + t * step) + pattern for t in range(3)]
    guess = sequences.extrapolate(vae, x[0], x[1])
    share = sequences.best_share(vae, x[1], guess, x[2])
    assert share == pytest.approx(1, abs=1e-4)
    assert torch.allclose(sequences.carried(vae, x[1], guess, share), x[2], atol=1e-4)
    assert torch.equal(sequences.carried(vae, x[1], guess, 0.0), guess)


@pytest.mark.parametrize("kind", ["E", "vae", "meta"])
def test_stored_models_come_back_but_for_half_precision(kind, tmp_path):
    if kind == "meta":
        model = sequences.MetaSequential(16, 4, generator(0, "store"))
    elif kind == "vae":
        model = VAE(4, likelihood="gaussian", generator=generator(0, "store"))
    else:
        model = TVAE(4, action="E", hidden=8, generator=generator(0, "store"))
    path = tmp_path / "model.safetensors"
    sequences.store(path, model, "two steps")
    again, note = sequences.stored(path)
    assert note == "two steps" and type(again) is type(model)
    for a, b in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-3)
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="holds no stored model"):
        sequences.stored(path)


def test_the_models_of_the_chapter_are_there_and_small():
    names = ("E", "VAE", "hand-made", "meta-sequential")
    x = torch.rand(2, 1, 28, 28, generator=generator(0, "x"))
    for name in names:
        model, note = sequences.film_model(name)
        assert "seed 0" in note and sum(p.numel() for p in model.parameters()) < 8e5
    assert sequences.predict(sequences.film_model("E")[0], x, x).shape == x.shape
    with pytest.raises(ValueError, match="no model 'F' of films; there are E, VAE"):
        sequences.film_model("F")


def test_other_solids_stand_at_the_same_angles():
    angles = torch.tensor([[[10.0, 30.0], [40.0, 30.0]]]).expand(4, 2, 2)
    frames = sequences.other_solids(angles, generator(0, "lenders"))
    assert frames.shape == (4, 2, 1, 28, 28) and not torch.equal(frames[:, 0], frames[:, 1])
    whole = sequences.other_solids(angles + torch.tensor([360.0, 0.0]), generator(0, "lenders"))
    assert float((frames - whole).abs().mean()) < 1e-4


def test_a_transition_of_its_own_film_is_exact_and_a_swapped_one_is_that_of_the_lender():
    model, tau = transparent("W", action_options={"k": 3}), some_tau()
    back = torch.linalg.pinv(model.action.shift)
    reads = nn.Linear(16, 3, bias=False).double()
    reads.weight.data = torch.cat((back, -back), 1) / 2
    model.xi = reads.requires_grad_(False)
    films = [
        torch.stack([model.decode(z) for z in orbit(model, tau, 3, seed)], 1) for seed in (0, 1)
    ]
    found = sequences.swapped_errors(model, films[0], films[1][:, :2])
    assert found["own"] < 1e-10 and found["swapped"] < 1e-10 < found["none"]
    other = torch.stack([model.decode(z) for z in orbit(model, -tau, 2, 2)], 1)
    assert sequences.swapped_errors(model, films[0], other)["swapped"] > found["none"]
    meta = sequences.MetaSequential(16, 4, generator(0, "meta"))
    x = torch.rand(2, 3, 1, 28, 28, generator=generator(1, "x"))
    same = sequences.swapped_errors(meta, x, x[:, :2])
    assert same["own"] == pytest.approx(same["swapped"])
