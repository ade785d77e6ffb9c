"""τ on loan: read off one picture's triplet, applied to another picture, and what to measure then.

A T-VAE brings its own inference and action. A VAE or VAE+ has neither; for comparison it is given the
natural ones, a translation with τ = (z₁ − z₂)/2 and z = (z₁ + z₂)/2, which is the additive action with
the split that its loss asks for.

    z, tau = infer(model, x1, x2)
    codes = orbit(model, z, tau, 8)        # after 0, 1, ..., 8 applications
    result = fit(readings, true)           # correlation, slope, mean absolute error
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from torch import Tensor

from tvae.evaluation.statistics import central
from tvae.experiments import figures
from tvae.models import TVAE, VAE

__all__ = [
    "Fit",
    "act",
    "agreement",
    "curve",
    "displacement",
    "fit",
    "guide_lines",
    "held_out",
    "infer",
    "lenders",
    "orbit",
]


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
    """For each of the first `count` pictures the index of one that lends it τ.

    It is the first picture from `count` places further on that is of the same class, or of another
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
                f"Picture {i} has no lender of {kind} class among the {len(classes)} pictures; "
                f"take fewer receivers than {count} or more pictures."
            )
        found.append(index)
    return found


class Fit(NamedTuple):
    """How readings compare with true values: each a tensor, one number for each set of readings."""

    correlation: Tensor
    slope: Tensor  # of the regression of the readings on the true values
    error: Tensor  # mean absolute error


def fit(readings: Tensor, true: Tensor) -> Fit:
    """Compare readings (..., N, K) of N pictures at K true values (K,); all N·K count alike.

    Readings that do not vary have the correlation 0.
    """
    flat = readings.flatten(-2)
    values = true.to(readings).expand_as(readings).flatten(-2)
    a, b = values - values.mean(-1, keepdim=True), flat - flat.mean(-1, keepdim=True)
    product = (a * b).sum(-1)
    norms = (a.norm(dim=-1) * b.norm(dim=-1)).clamp(min=1e-9)
    return Fit(product / norms, product / (a * a).sum(-1), (flat - values).abs().mean(-1))


def agreement(displacements: Tensor, labels: Tensor) -> tuple[float, float, float]:
    """How far lenders agree: the mean inner product of two different displacements over the mean
    square of one; over all pairs, pairs of different classes, and pairs of the same class.

    Args:
        displacements: (N, D).
        labels: (N,).
    """
    d = displacements.double()
    products, n = d @ d.mT, len(d)
    square = products.diagonal().mean().clamp(min=1e-30)
    labels = labels.to(d.device)
    alike = labels[:, None] == labels
    different = products[~alike].mean() / square
    alike.fill_diagonal_(False)
    pairs = (products.sum() - products.trace()) / (n * (n - 1))
    return float(pairs / square), float(different), float(products[alike].mean() / square)


def held_out(features: Tensor, targets: Tensor, penalty: float = 1e-3) -> Tensor:
    """Predictions for every other row by ridge regression on the rows between them.

    Args:
        features: (N, D); a constant is added.
        targets: (N, M).
        penalty: on the squared weights, for each row of the fit.

    Returns:
        (⌊N/2⌋, M), for the rows 1, 3, 5, ...
    """
    f = torch.cat((features.double(), features.new_ones(len(features), 1).double()), 1)
    y, fitted = targets.to(f), f[::2]
    ridge = penalty * len(fitted) * torch.eye(f.shape[1], dtype=f.dtype, device=f.device)
    return f[1::2] @ torch.linalg.solve(fitted.mT @ fitted + ridge, fitted.mT @ y[::2])


def guide_lines(ax: Axes, angles: Tensor, side: int = 28, pad: int = 1) -> None:
    """Over a grid of images, in each a dotted vertical and a solid line at its angle (rows, columns).

    Angles are in degrees, counter-clockwise; the grid is one that `tvae.experiments.figures.image_grid` drew.
    """
    half = side / 2 - 1
    for i, row in enumerate(angles.tolist()):
        for j, angle in enumerate(row):
            x, y = (k * (side + pad) + (side - 1) / 2 for k in (j, i))
            # y points down: the upper end of a line that leans to the left has the smaller x
            dx, dy = half * math.sin(math.radians(angle)), half * math.cos(math.radians(angle))
            ax.plot([x, x], [y - half, y + half], ":", color="#7CE0B8", linewidth=0.8)
            ax.plot([x - dx, x + dx], [y - dy, y + dy], color="#00C853", linewidth=1.2)


def curve(ax: Axes, x: Tensor, readings: Tensor, draws: Tensor, name: str) -> None:
    """The mean of readings (N, K) over x (K,) in the colour of a model, with a bootstrap band.

    `draws` (B, N) are indices: row b says which of the N pictures make up the b-th sample.
    """
    low, high = central(readings[draws].mean(1).numpy())
    colour = figures.colour(name)
    style = {"marker": figures.marker(name), "markersize": 3, "linewidth": 1.3}
    ax.plot(x.numpy(), readings.mean(0).numpy(), color=colour, label=name, **style)  # type: ignore[arg-type]
    ax.fill_between(x.numpy(), low, high, color=colour, alpha=0.15, linewidth=0)
