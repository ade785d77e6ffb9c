"""The algebra of the latent actions, against dense matrices and against the definitions."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tvae import actions
from tvae.seeding import generator

ALL = [("A", False)] + [(letter, r) for letter in ("M", "MA", "T", "N") for r in (False, True)]
EXACT = ["A", "M"]


def draw(letter, d, n=7, residual=False, seed=0, **options):
    """An action with a nonzero offset, and codes and transformations for it, in double precision."""
    stream = generator(seed, f"{letter}{d}{residual}")
    action = actions.build(letter, d, residual, **options).double()
    for name, parameter in action.named_parameters():
        if name.endswith("b"):
            parameter.data = torch.randn(d, generator=stream, dtype=torch.double)
    z = torch.randn(n, d, generator=stream, dtype=torch.double)
    tau = torch.randn(n, action.tau_size, generator=stream, dtype=torch.double)
    return action, z, tau


@pytest.mark.parametrize(("letter", "residual"), ALL)
def test_shapes_and_sizes(letter, residual):
    sizes = {"A": 26, "M": 13, "MA": 13, "T": 76, "N": 26}
    action, z, tau = draw(letter, 26, residual=residual)
    assert action.tau_size == sizes[letter] == actions.tau_size(letter, 26)
    assert action.act(z, tau).shape == action.act_inverse(z, tau).shape == z.shape
    assert action.letter == letter + ("^R" if residual else "")


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(EXACT), st.integers(1, 20), st.integers(0, 10**6))
def test_exact_actions_are_undone_by_their_inverse(letter, half, seed):
    action, z, tau = draw(letter, 2 * half, seed=seed)
    assert action.exact_inverse
    assert torch.allclose(action.act_inverse(action.act(z, tau), tau), z, atol=1e-12)
    assert torch.allclose(action.act(action.act_inverse(z, tau), tau), z, atol=1e-12)
    z32, tau32 = z.float(), tau.float()
    back = action.float().act_inverse(action.float().act(z32, tau32), tau32)
    assert (back - z32).abs().max() <= 1e-6 * max(1.0, float(z32.abs().max() + tau32.abs().max()))


@pytest.mark.parametrize("letter", EXACT)
def test_exact_actions_compose_as_a_commutative_group(letter):
    action, z, tau = draw(letter, 12)
    _, _, other = draw(letter, 12, seed=1)
    one_after_the_other = action.act(action.act(z, tau), other)
    assert torch.allclose(one_after_the_other, action.act(z, tau + other), atol=1e-12)
    assert torch.allclose(one_after_the_other, action.act(action.act(z, other), tau), atol=1e-12)


@pytest.mark.parametrize(
    ("letter", "residual"), [("A", False), ("M", False), ("T", False), ("T", True)]
)
def test_the_identity_acts_as_the_identity(letter, residual):
    action = actions.build(letter, 12, residual).double()  # offsets start at zero
    z = torch.randn(5, 12, dtype=torch.double)
    tau = action.identity().double().expand(5, -1)
    assert torch.equal(action.act(z, tau), z)
    assert torch.equal(action.act_inverse(z, tau), z)


@pytest.mark.parametrize(
    ("letter", "residual"),
    [("MA", False), ("N", False), ("M", True), ("MA", True), ("N", True)],
)
def test_actions_without_an_identity_say_so(letter, residual):
    assert actions.build(letter, 12, residual).identity() is None


def rotation_matrix(theta):
    blocks = [
        torch.stack([torch.stack([t.cos(), -t.sin()]), torch.stack([t.sin(), t.cos()])])
        for t in theta
    ]
    return torch.block_diag(*blocks)


def tridiagonal_matrix(action, tau):
    diagonal, upper, lower = action.bands(tau)
    return torch.diag(diagonal) + torch.diag(upper, 1) + torch.diag(lower, -1)


def test_block_rotations_equal_the_dense_matrix():
    action, z, tau = draw("M", 10)
    for code, theta in zip(z, tau, strict=True):
        matrix = rotation_matrix(theta)
        assert torch.allclose(action.act(code[None], theta[None])[0], matrix @ code, atol=1e-12)
        assert torch.allclose(
            action.act_inverse(code[None], theta[None])[0], matrix.T @ code, atol=1e-12
        )
        assert torch.allclose(matrix @ matrix.T, torch.eye(10, dtype=torch.double), atol=1e-12)


def test_rotations_keep_the_norm_of_every_pair():
    action, z, tau = draw("M", 10)
    pairs = [v.unflatten(-1, (-1, 2)).norm(dim=-1) for v in (z, action.act(z, tau))]
    assert torch.allclose(*pairs, atol=1e-12)


def test_ma_as_printed_and_as_a_true_inverse():
    printed, z, tau = draw("MA", 10)
    true = actions.build("MA", 10, inverse="true").double()
    true.load_state_dict(printed.state_dict())
    for code, theta in zip(z, tau, strict=True):
        matrix, b = rotation_matrix(theta), printed.b
        args = (code[None], theta[None])
        assert torch.allclose(printed.act(*args)[0], matrix @ code + b, atol=1e-12)
        assert torch.allclose(
            printed.act_inverse(*args)[0], matrix.T @ code + matrix.T @ b, atol=1e-12
        )
        assert torch.allclose(true.act_inverse(*args)[0], matrix.T @ (code - b), atol=1e-12)
    assert torch.allclose(true.act_inverse(true.act(z, tau), tau), z, atol=1e-12)
    # what the printed form leaves is exactly 2 R(−θ) b
    error = printed.act_inverse(printed.act(z, tau), tau) - z
    expected = 2 * actions.rotate_blocks(printed.b.expand_as(z), -tau)
    assert torch.allclose(error, expected, atol=1e-12)
    assert error.norm(dim=-1).min() > 0.1


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 12), st.integers(0, 10**6))
def test_tridiagonal_products_equal_the_dense_matrix(d, seed):
    action, z, tau = draw("T", d, n=3, seed=seed)
    for code, t in zip(z, tau, strict=True):
        matrix = tridiagonal_matrix(action, t)
        args = (code[None], t[None])
        assert torch.allclose(action.act(*args)[0], matrix @ code + action.b, atol=1e-12)
        expected = matrix.T @ code + matrix.T @ action.b
        assert torch.allclose(action.act_inverse(*args)[0], expected, atol=1e-12)


def test_the_transpose_departs_from_the_inverse_as_the_dense_matrices_say():
    """The error of the transpose is (τᵀτ − I) z + 2 τᵀ b; it vanishes for orthogonal τ and b = 0."""
    action, z, tau = draw("T", 8)
    error = action.act_inverse(action.act(z, tau), tau) - z
    eye = torch.eye(8, dtype=torch.double)
    for row, code, t in zip(error, z, tau, strict=True):
        matrix = tridiagonal_matrix(action, t)
        expected = (matrix.T @ matrix - eye) @ code + 2 * matrix.T @ action.b
        assert torch.allclose(row, expected, atol=1e-12)
        assert row.norm() > 0.5  # for a random τ the transpose is far from the inverse
    # rotations of neighbouring pairs are tridiagonal and orthogonal: there it is the inverse
    action.b.data.zero_()
    theta = torch.linspace(-2, 2, 4, dtype=torch.double)
    diagonal = theta.cos().repeat_interleave(2)
    band = torch.zeros(7, dtype=torch.double)
    band[::2] = theta.sin()
    orthogonal = torch.cat((diagonal, -band, band)).expand(7, -1)
    assert torch.allclose(
        action.act(z, orthogonal), actions.rotate_blocks(z, theta.expand(7, -1)), atol=1e-12
    )
    assert torch.allclose(action.act_inverse(action.act(z, orthogonal), orthogonal), z, atol=1e-12)


def test_neural_actions_use_minus_tau_for_the_inverse():
    action, z, tau = draw("N", 6)
    assert torch.equal(action.act_inverse(z, tau), action.act(z, -tau))


@pytest.mark.parametrize("letter", ["M", "MA", "T", "N"])
def test_residual_forms_add_z(letter):
    residual, z, tau = draw(letter, 6, residual=True)
    assert torch.allclose(residual.act(z, tau), z + residual.inner.act(z, tau))
    assert torch.allclose(residual.act_inverse(z, tau), z + residual.inner.act_inverse(z, tau))


@pytest.mark.parametrize(("letter", "residual"), ALL)
def test_gradients_against_finite_differences(letter, residual):
    action, z, tau = draw(letter, 4, n=2, residual=residual)
    z.requires_grad_(), tau.requires_grad_()
    assert torch.autograd.gradcheck(action.act, (z, tau))
    assert torch.autograd.gradcheck(action.act_inverse, (z, tau))


@pytest.mark.parametrize("letter", ["M", "MA"])
@pytest.mark.parametrize("residual", [False, True])
def test_an_odd_dimension_names_the_next_even_one(letter, residual):
    with pytest.raises(ValueError, match="use d = 26 instead of 25"):
        actions.build(letter, 25, residual)


def test_other_mistakes_get_a_sentence():
    with pytest.raises(ValueError, match=r"Unknown latent action 'Q'; known are A, M, MA, T, N"):
        actions.build("Q", 4)
    with pytest.raises(ValueError, match="A has no residual form"):
        actions.build("A", 4, residual=True)
    with pytest.raises(ValueError, match="'printed' or 'true', not 'both'"):
        actions.build("MA", 4, inverse="both")
    with pytest.raises(ValueError, match="defined for its plain form"):
        actions.build("MA", 4, residual=True, inverse="true")
    with pytest.raises(ValueError, match="already names Additive"):
        actions.register("A")(type("Other", (actions.Action,), {}))


def test_a_user_registers_an_action_in_a_few_lines(monkeypatch):
    monkeypatch.setattr(actions, "_REGISTRY", dict(actions._REGISTRY))

    @actions.register("S")
    class Scaling(actions.Action):
        def act(self, z, tau):
            return z * tau.exp()

        def act_inverse(self, z, tau):
            return z * (-tau).exp()

        def identity(self):
            return torch.zeros(self.tau_size)

    action, z, tau = draw("S", 5)
    assert "S" in actions.letters()
    assert torch.allclose(action.act_inverse(action.act(z, tau), tau), z)
    residual = actions.build("S", 5, residual=True)
    assert residual.letter == "S^R" and residual.identity() is None
