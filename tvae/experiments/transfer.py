"""The chapter on τ: read off one image's triplet, applied to another image, and what to measure then.

A T-VAE brings its own inference and action. A VAE or VAE+ has neither; for comparison it is given the
natural ones, a translation with τ = (z₁ − z₂)/2 and z = (z₁ + z₂)/2, which is the additive action with
the split that its loss asks for.

    z, tau = infer(model, x1, x2)
    codes = orbit(model, z, tau, 8)        # after 0, 1, ..., 8 applications
    result = against_true(readings, true)  # correlation, slope, mean absolute error
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from sklearn.linear_model import Ridge
from torch import Tensor

from tvae.models import TVAE, VAE


def infer(model: VAE, x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
    """z (N, d) and τ (N, tau_size) from two views; for a baseline half the sum and difference."""
    if isinstance(model, TVAE):
        return model.infer(x1, x2)
    z1, z2 = model.encode(x1)[0], model.encode(x2)[0]
    return (z1 + z2) / 2, (z1 - z2) / 2


def act(model: VAE, z: Tensor, tau: Tensor, sign: int = 1) -> Tensor:
    """The action of τ on codes (N, d), or for `sign` −1 that of τ⁻¹; for a baseline z ± τ."""
    if sign not in (1, -1):
        raise ValueError(f"sign must be 1 (τ) or -1 (its inverse), not {sign!r}.")
    if isinstance(model, TVAE):
        return model.act(z, tau) if sign > 0 else model.act_inverse(z, tau)
    return z + sign * tau


def orbit(model: VAE, z: Tensor, tau: Tensor, times: int, sign: int = 1) -> list[Tensor]:
    """The codes after 0, 1, ..., `times` applications of τ (or of τ⁻¹), each (N, d)."""
    codes = [z]
    for _ in range(times):
        codes.append(act(model, codes[-1], tau, sign))
    return codes


def displacement(model: VAE, z: Tensor, tau: Tensor) -> Tensor:
    """The odd part of the action, (r(z, τ) − r(z, τ⁻¹))/2, (N, d): for a translation τ itself."""
    return (act(model, z, tau) - act(model, z, tau, -1)) / 2


def lenders(labels: Tensor | Sequence[int], count: int, *, same: bool) -> list[int]:
    """For each of the first `count` images the index of one that lends it τ.

    It is the first image from `count` places further on that is of the same class, or of another
    one; as all of them lie behind the first `count`, none is a receiver itself.
    """
    classes = [int(k) for k in labels]
    found = []
    for i in range(count):
        later = range(count + i, len(classes))
        index = next((j for j in later if (classes[j] == classes[i]) == same), None)
        if index is None:
            kind = "its own" if same else "another"
            raise ValueError(
                f"Image {i} has no lender of {kind} class among the {len(classes)} images; "
                f"take fewer receivers than {count} or more images."
            )
        found.append(index)
    return found


class AgainstTrue(NamedTuple):
    """How readings compare with true values: each a tensor, one number for each set of readings."""

    correlation: Tensor
    slope: Tensor  # of the regression of the readings on the true values
    error: Tensor  # mean absolute error


def against_true(readings: Tensor, true: Tensor) -> AgainstTrue:
    """Compare readings (..., N, K) of N images at K true values (K,); all N·K count alike.

    Readings that do not vary have the correlation 0.
    """
    flat = readings.flatten(-2)
    values = true.to(readings).expand_as(readings).flatten(-2)
    a, b = values - values.mean(-1, keepdim=True), flat - flat.mean(-1, keepdim=True)
    product = (a * b).sum(-1)
    norms = (a.norm(dim=-1) * b.norm(dim=-1)).clamp(min=1e-9)
    return AgainstTrue(product / norms, product / (a * a).sum(-1), (flat - values).abs().mean(-1))


def predict_held_out(features: Tensor, targets: Tensor, penalty: float = 1e-3) -> Tensor:
    """Predictions for every other row by ridge regression on the rows between them.

    Args:
        features: (N, D); a constant is added.
        targets: (N, M).
        penalty: on the squared weights, for each row of the fit.

    Returns:
        (⌊N/2⌋, M), for the rows 1, 3, 5, ...
    """
    f = torch.cat((features.double(), features.new_ones(len(features), 1).double()), 1).numpy()
    ridge = Ridge(penalty * len(f[::2]), fit_intercept=False)
    guess = ridge.fit(f[::2], targets[::2].double().numpy()).predict(f[1::2])
    return torch.from_numpy(guess).view(-1, targets.shape[1])  # scikit-learn drops a single column
