"""Questions in batches, against the model itself, one image at a time."""

import pytest
import torch

import tvae
from tvae.evaluation.inference import Probe, embed
from tvae.models import TVAE, VAE, evaluating
from tvae.seeding import generator
from tvae.transforms import Triplets

D = 6


@pytest.fixture(scope="module")
def batch():
    images = tvae.data.load("mnist", "test", source="embedded").floats(range(7))
    return Triplets()(images, generator(0, "triplets"))


@pytest.mark.parametrize("letter", ["A", "M", "T", "N"])
def test_answers_are_those_of_the_model(letter, batch):
    model = TVAE(D, action=letter, generator=generator(0, "model")).double()
    probe = Probe(model, batch=3)  # 7 images: two full batches and a rest
    mean, logvar = probe.encode(batch.x0)
    z1, z2 = probe.encode(batch.x1)[0], probe.encode(batch.x2)[0]
    z, spread, tau = probe.posterior(z1, z2)
    moved, back = probe.act(z, tau), probe.act_inverse(z, tau)
    pictures, nll = probe.decode(moved), probe.nll(moved, batch.x1)
    with torch.no_grad():
        for k in range(7):
            rows = slice(k, k + 1)
            one = model.encode(batch.x0[rows])
            torch.testing.assert_close(mean[rows], one[0])
            torch.testing.assert_close(logvar[rows], one[1])
            found_z, found_tau = model.infer(batch.x1[rows], batch.x2[rows])
            torch.testing.assert_close(z[rows], found_z)
            torch.testing.assert_close(tau[rows], found_tau)
            torch.testing.assert_close(spread[rows], model.posterior(z1[rows], z2[rows])[1])
            torch.testing.assert_close(moved[rows], model.act(found_z, found_tau))
            torch.testing.assert_close(back[rows], model.act_inverse(found_z, found_tau))
            torch.testing.assert_close(pictures[rows], model.decode(moved[rows]))
            raw = model.decode_logits(moved[rows])
            torch.testing.assert_close(nll[rows], model.nll(raw, batch.x1[rows].double()))
    assert model.training  # as it was
    assert not any(t.requires_grad for t in (mean, tau, pictures, nll))


def test_a_vae_has_no_tau(batch):
    probe = Probe(VAE(D, generator=generator(0, "model")))
    code = probe.encode(batch.x0)[0]
    assert probe.decode(code).shape == batch.x0.shape
    for call in (probe.posterior, probe.act, probe.act_inverse):
        with pytest.raises(TypeError, match="VAE has no latent transformation"):
            call(code, code)


def test_bytes_are_read_as_floats(batch):
    images = (255 * batch.x0).to(torch.uint8)
    for model in (VAE(D, generator=generator(0, "model")), VAE(D).double()):
        probe = Probe(model)
        code = probe.encode(images)[0]
        assert torch.equal(code, embed(model, images))
        assert torch.equal(code, probe.encode(images / 255.0)[0]) or code.dtype == torch.float64
        assert torch.equal(probe.nll(code, images), probe.nll(code, images.double() / 255))


def test_every_mode_is_put_back_also_after_an_error():
    model = TVAE(D, action="A")
    model.encoder.eval()
    with pytest.raises(KeyError), evaluating(model):
        assert not any(module.training for module in model.modules())
        assert not torch.is_grad_enabled()
        raise KeyError
    assert model.training and model.decoder.training and not model.encoder.training
    assert torch.is_grad_enabled()


def test_nonsense_is_refused(batch):
    model = VAE(D, generator=generator(0, "model"))
    with pytest.raises(ValueError, match="positive whole number, not 0"):
        Probe(model, batch=0)
    with pytest.raises(ValueError, match="same number of rows"):
        Probe(model).nll(torch.zeros(3, D), batch.x0)
