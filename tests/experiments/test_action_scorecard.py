"""The scorecard, against the loss, dense matrices and one picture at a time."""

import pytest
import torch

import tvae
from tvae import objective
from tvae.experiments import action_scorecard
from tvae.models import TVAE, VAE
from tvae.seeding import generator
from tvae.transforms import Parameters, Triplets

ALL = [("A", False)] + [(letter, r) for letter in ("M", "MA", "T", "N") for r in (False, True)]
D = 6


def model_of(letter, residual=False, **options):
    """A T-VAE in double precision whose offset, where it has one, is not zero."""
    stream = generator(0, "model")
    model = TVAE(D, action=letter, residual=residual, action_options=options, generator=stream)
    for name, parameter in model.action.named_parameters():
        if name.endswith("b"):
            parameter.data = torch.randn(D, generator=stream)
    return model.double().eval().requires_grad_(False)


@pytest.fixture(scope="module")
def batch():
    images = tvae.data.load("mnist", "test", source="embedded").floats(range(7))
    return Triplets()(images, generator(0, "triplets"))


@pytest.mark.parametrize(("letter", "residual"), ALL)
def test_terms_are_those_of_the_loss(letter, residual, batch):
    model = model_of(letter, residual)
    score = action_scorecard.measure(model, batch)
    views = [view.double() for view in batch[:3]]
    terms = {k: float(v) for k, v in objective.tvae_terms(model, *views, None).means().items()}
    assert score.c1 == pytest.approx(terms["c1"], rel=1e-10)
    assert score.c2 == pytest.approx(terms["c2"], rel=1e-10)
    assert score.x0 == pytest.approx(terms["nll"], rel=1e-10)
    assert score.own == pytest.approx((terms["nllx1"] + terms["nllx2"]) / 2, rel=1e-10)


def dense(letter, tau, b):
    """The maps z ↦ r(z, τ) and z ↦ r(z, τ⁻¹) as pairs (matrix, offset), written out."""
    eye, zero = torch.eye(D).double(), torch.zeros(D).double()
    if letter == "A":
        return (eye, tau), (eye, -tau)
    if letter in ("M", "MA"):
        blocks = [torch.tensor([[t.cos(), -t.sin()], [t.sin(), t.cos()]]) for t in tau]
        turn = torch.block_diag(*blocks).double()
        offset = zero if letter == "M" else b
        return (turn, offset), (turn.T, turn.T @ offset)
    matrix = tau[:D].diag() + tau[D : 2 * D - 1].diag(1) + tau[2 * D - 1 :].diag(-1)
    return (matrix, b), (matrix.T, matrix.T @ b)


@pytest.mark.parametrize(("letter", "residual"), [pair for pair in ALL if pair[0] != "N"])
def test_errors_and_decoded_views_agree_with_dense_matrices(letter, residual, batch):
    model = model_of(letter, residual)
    inner = model.action.inner if residual else model.action
    score = action_scorecard.measure(model, batch)
    z, tau = model.infer(batch.x1, batch.x2)
    errors, nll1, nll2 = [], [], []
    for k in range(len(z)):
        (there, plus), (back, minus) = dense(letter, tau[k], getattr(inner, "b", None))
        if residual:
            there, back = there + torch.eye(D), back + torch.eye(D)
        moved = there @ z[k] + plus
        errors.append((back @ moved + minus - z[k]).norm() / z[k].norm())
        for views, code, values in (
            (batch.x1, moved, nll1),
            (batch.x2, back @ z[k] + minus, nll2),
        ):
            raw = model.decode_logits(code.unsqueeze(0))
            values.append(model.nll(raw, views[k : k + 1].double()))
    assert score.inverse == pytest.approx(float(torch.stack(errors).mean()), abs=1e-10)
    assert score.x1 == pytest.approx(float(torch.cat(nll1).mean()), rel=1e-10)
    assert score.x2 == pytest.approx(float(torch.cat(nll2).mean()), rel=1e-10)


def test_identity_error_is_zero_the_size_of_the_offset_or_undefined(batch):
    for letter in ("A", "M"):
        assert action_scorecard.measure(model_of(letter), batch).identity == 0
    for residual in (False, True):
        model = model_of("T", residual)
        z, _ = model.infer(batch.x1, batch.x2)
        b = model.action.inner.b if residual else model.action.b
        expected = float((b.norm() / z.norm(dim=1)).mean())
        assert action_scorecard.measure(model, batch).identity == pytest.approx(expected, rel=1e-10)
    for letter, residual in (("MA", False), ("N", False), ("N", True), ("M", True)):
        assert action_scorecard.measure(model_of(letter, residual), batch).identity is None


def test_the_true_inverse_of_ma_has_no_inverse_error(batch):
    assert action_scorecard.measure(model_of("MA", inverse="true"), batch).inverse < 1e-12
    printed = model_of("MA")
    z, _ = printed.infer(batch.x1, batch.x2)
    expected = float((2 * printed.action.b.norm() / z.norm(dim=1)).mean())
    assert action_scorecard.measure(printed, batch).inverse == pytest.approx(expected, rel=1e-10)


def test_samples_need_a_generator_and_repeat_with_it(batch):
    model = model_of("A")
    first = action_scorecard.measure(model, batch, generator(0, "noise"))
    assert first == action_scorecard.measure(model, batch, generator(0, "noise"))
    assert (
        first.c1 > action_scorecard.measure(model, batch).c1
    )  # the variance of z1 and z adds to it


def test_chunks_and_the_training_mode_do_not_matter(batch, monkeypatch):
    model = model_of("T").train()
    whole = action_scorecard.measure(model, batch)
    lent = action_scorecard.borrow(model, Triplets(), batch)
    monkeypatch.setattr(action_scorecard, "BATCH", 2)
    pieces = action_scorecard.measure(model, batch)
    for field in action_scorecard.COLUMNS:
        assert getattr(whole, field) == pytest.approx(getattr(pieces, field), rel=1e-10)
    assert model.training
    again = action_scorecard.borrow(model, Triplets(), batch)
    assert lent.borrowed == pytest.approx(again.borrowed, rel=1e-10)
    assert model.training


def test_share_is_the_part_of_the_way_from_idle_to_own():
    score = action_scorecard.Score(0, None, 0, 0, x1=10, x2=12, x0=0, own=8, idle=20)
    assert score.share == pytest.approx(0.75)
    assert action_scorecard.Borrowed(none=20, borrowed=17, own=14, sided=1).share == pytest.approx(
        0.5
    )


def test_the_table_has_the_same_columns_for_every_action(batch):
    scores = {
        letter: action_scorecard.measure(model_of(letter), batch) for letter in ("A", "MA", "N")
    }
    table = action_scorecard.table(scores)
    assert list(table.index) == ["A", "MA", "N"]
    assert list(table.columns) == [title for title, _ in action_scorecard.COLUMNS.values()]
    assert table.loc["A", "identity"] == "0.000"
    assert table.loc["MA", "identity"] == table.loc["N", "identity"] == "none"
    assert float(table.loc["N", "NLL x1"]) == pytest.approx(scores["N"].x1, abs=0.05)


def test_borrowing_is_what_it_says_picture_by_picture(batch):
    model, triplets = model_of("M"), Triplets()
    lent = action_scorecard.borrow(model, triplets, batch)
    sums, sided = {"none": 0.0, "borrowed": 0.0, "own": 0.0}, 0
    for k in range(7):
        j = (k + 1) % 7
        own = triplets.replay(batch.x0[k : k + 1], batch.parameters[[j]])
        z = model.encode(own.x0)[0]
        taus = {
            "borrowed": model.infer(batch.x1[j : j + 1], batch.x2[j : j + 1])[1],
            "own": model.infer(own.x1, own.x2)[1],
            "none": torch.zeros(1, D // 2).double(),  # no rotation
        }
        for name, tau in taus.items():
            for code, view in (
                (model.act(z, tau), own.x1),
                (model.act_inverse(z, tau), own.x2),
            ):
                sums[name] += float(model.nll(model.decode_logits(code), view.double())) / 14
        fits = [
            [float(model.nll(model.decode_logits(code), view.double())) for view in own[1:3]]
            for code in (model.act(z, taus["borrowed"]), model.act_inverse(z, taus["borrowed"]))
        ]
        sided += fits[0][0] + fits[1][1] < fits[0][1] + fits[1][0]
    assert lent.sided == pytest.approx(sided / 7)
    for name, value in sums.items():
        assert getattr(lent, name) == pytest.approx(value, rel=1e-10)


def test_a_transformation_borrowed_from_a_twin_is_ones_own(batch):
    images = batch.x0[:1].expand(4, -1, -1, -1).contiguous()
    triplets = Triplets(families=("rotation",))
    twins = triplets.replay(images, Parameters.of("rotation", [20.0] * 4))
    lent = action_scorecard.borrow(model_of("A"), triplets, twins)
    assert lent.borrowed == pytest.approx(lent.own, rel=1e-12)
    assert lent.borrowed != lent.none


def test_schedule_is_short_for_quick_and_the_presets_own_otherwise():
    quick = action_scorecard.schedule(tvae.training.configuration.get_preset("quick"), 7)
    assert quick == {"steps": 7, "batch_size": 50, "learning_rate": 2e-3}
    full = action_scorecard.schedule(tvae.training.configuration.get_preset("paper"), 7)
    assert full == {"epochs": 200, "batch_size": 100, "learning_rate": 1e-4, "halve_every": 50}


def test_errors_speak(batch):
    with pytest.raises(TypeError, match="needs a TVAE, not VAE"):
        action_scorecard.measure(VAE(D), batch)
    with pytest.raises(ValueError, match="at least one score"):
        action_scorecard.table({})


def test_one_picture_has_nobody_to_borrow_from():
    images = torch.rand(1, 1, 28, 28, generator=generator(0, "one"))
    alone = Triplets()(images, generator(0, "triplets"))
    with pytest.raises(ValueError, match="two pictures or more, not 1"):
        action_scorecard.borrow(model_of("A"), Triplets(), alone)
