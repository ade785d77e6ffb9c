"""τ on loan, against closed forms and NumPy."""

import chapters
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

import tvae
from tvae.experiments import figures, poses, transfer
from tvae.models import TVAE, VAE
from tvae.seeding import generator

chapter = chapters.functions("14_tau")
D = 6


def model_of(letter: str | None, residual: bool = False) -> VAE:
    draws = generator(0, "model")
    if letter is None:
        return VAE(D, generator=draws).eval().requires_grad_(False)
    model = TVAE(D, action=letter, residual=residual, generator=draws)
    return model.eval().requires_grad_(False)


def digits(count: int) -> torch.Tensor:
    return tvae.data.load("mnist", "test", source="embedded").floats(range(count))


ALL = [(None, False), ("A", False), ("M", False), ("T", False), ("N", True)]


@pytest.mark.parametrize(("letter", "residual"), ALL)
def test_infer_and_act_are_the_models_own(letter: str | None, residual: bool) -> None:
    model = model_of(letter, residual)
    x1, x2 = digits(6).chunk(2)
    z, tau = transfer.infer(model, x1, x2)
    if isinstance(model, TVAE):
        assert torch.equal(z, model.infer(x1, x2)[0])
        assert torch.equal(transfer.act(model, z, tau), model.act(z, tau))
        assert torch.equal(transfer.act(model, z, tau, -1), model.act_inverse(z, tau))
    else:  # a translation meets the codes of the two views
        for sign, x in ((1, x1), (-1, x2)):
            torch.testing.assert_close(transfer.act(model, z, tau, sign), model.encode(x)[0])
    with pytest.raises(ValueError, match="sign must be"):
        transfer.act(model, z, tau, 0)


@pytest.mark.parametrize(("letter", "residual"), ALL)
def test_orbit_and_displacement(letter: str | None, residual: bool) -> None:
    model = model_of(letter, residual)
    z, tau = transfer.infer(model, *digits(6).chunk(2))
    for sign in (1, -1):
        codes = transfer.orbit(model, z, tau, 3, sign)
        assert len(codes) == 4 and torch.equal(codes[0], z)
        thrice = z
        for _ in range(3):
            thrice = transfer.act(model, thrice, tau, sign)
        assert torch.equal(codes[3], thrice)
    moved = transfer.displacement(model, z, tau)
    if letter in (None, "A"):
        torch.testing.assert_close(moved, tau)
        torch.testing.assert_close(transfer.orbit(model, z, tau, 3)[3], z + 3 * tau)


def test_lenders_come_later_and_are_of_the_right_class() -> None:
    labels = torch.randint(4, (60,), generator=generator(0, "labels"))
    for same in (True, False):
        found = transfer.lenders(labels, 12, same=same)
        assert len(found) == 12
        for i, j in enumerate(found):
            assert j >= 12 + i
            assert bool(labels[i] == labels[j]) == same
            assert all(bool(labels[k] == labels[i]) != same for k in range(12 + i, j))
    with pytest.raises(ValueError, match="no lender of its own class"):
        transfer.lenders([0, 1, 1, 1], 1, same=True)


def test_fit_agrees_with_numpy() -> None:
    draws = generator(0, "readings")
    true = torch.linspace(-20, 20, 5, dtype=torch.float64)
    readings = 0.4 * true + torch.randn(7, 30, 5, generator=draws, dtype=torch.float64)
    result = transfer.against_true(readings, true)
    for k in range(7):
        x, y = np.tile(true.numpy(), 30), readings[k].flatten().numpy()
        assert float(result.correlation[k]) == pytest.approx(np.corrcoef(x, y)[0, 1])
        assert float(result.slope[k]) == pytest.approx(np.polyfit(x, y, 1)[0])
        assert float(result.error[k]) == pytest.approx(np.abs(x - y).mean())
    flat = transfer.against_true(torch.ones(30, 5), true)
    assert float(flat.correlation) == pytest.approx(0, abs=1e-6)
    assert float(flat.slope) == pytest.approx(0, abs=1e-6)


def test_agreement_of_known_displacements() -> None:
    """A common vector plus independent noise: the share of the common part."""
    draws = generator(0, "displacements")
    labels = torch.arange(600) % 3
    common, by_class = torch.randn(8, generator=draws), torch.randn(3, 8, generator=draws)
    by_class -= by_class.mean(0)
    noise = torch.randn(600, 8, generator=draws)
    d = common + by_class[labels] + noise
    pairs, different, same = chapter.lender_agreement(d, labels)
    square = float(common.square().sum() + by_class.square().sum(1).mean() + 8)
    assert pairs == pytest.approx(float(common.square().sum()) / square, abs=0.06)
    within = float(common.square().sum() + by_class.square().sum(1).mean())
    assert same == pytest.approx(within / square, abs=0.06)
    assert different < pairs < same
    products = d.double() @ d.double().T
    sums = [float(products[i, j]) for i in range(600) for j in range(600) if i != j]
    assert pairs == pytest.approx(np.mean(sums) / float(products.diagonal().mean()))
    assert chapter.lender_agreement(common.repeat(600, 1), labels) == pytest.approx((1, 1, 1))


def test_held_out_finds_a_linear_map() -> None:
    draws = generator(0, "features")
    features = torch.randn(200, 5, generator=draws)
    targets = features.double() @ torch.randn(5, 2, generator=draws).double() + 1.5
    guess = transfer.predict_held_out(features, targets, penalty=1e-9)
    torch.testing.assert_close(guess, targets[1::2], atol=1e-6, rtol=0)
    assert transfer.predict_held_out(features, targets[:, :1]).shape == (100, 1)
    # rows 1, 3, ... are not used for the fit
    changed = targets.clone()
    changed[1::2] = 0
    assert torch.equal(transfer.predict_held_out(features, changed, penalty=1e-9), guess)


def test_guide_lines_lean_as_the_pictures_do() -> None:
    """A vertical bar turned by 30 degrees to the left: the line lies on it."""
    bar = torch.zeros(1, 1, 28, 28)
    bar[..., 4:24, 13:15] = 1
    turned = poses.transformed(bar, "rotation", 30.0, zoom=1.0)
    ax = figures.image_grid(torch.cat((bar, turned))[None])
    chapter.guide_lines(ax, torch.tensor([[0.0, 30.0]]))
    assert len(ax.lines) == 4
    for line, picture, left in ((ax.lines[1], bar, 0), (ax.lines[3], turned, 29)):
        x, y = (np.asarray(v, dtype=float) for v in line.get_data())
        for t in np.linspace(0.2, 0.8, 9):
            column, row = x[0] + t * (x[1] - x[0]) - left, y[0] + t * (y[1] - y[0])
            near = picture[0, 0, round(row), [int(column), int(np.ceil(column))]]
            assert float(near.max()) > 0.5
    plt.close("all")
