"""The chapter on lending: what a borrowed τ does, and how nearly the action behaves like a group.

    card = Scorecard(model, receivers, lenders)          # float images, (N, C, H, W) each
    own, borrowed = card.readings("rotation", angles)    # (N, K) each: read off the decoded images
    Line.of(borrowed, angles)                            # slope, correlation, error, with intervals
    solve(model.action, z1, z2)                          # τ from two codes without a network

Every measurement acts on the receiver's plain code z₀ = μ(x), which a borrower has anyway, and takes
means where the model is Gaussian. Transformations are made in the geometry that the model was trained
on. Intervals are bootstrapped over receivers, and the same draws serve every model: differences
between two models are paired.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.func import jacrev, vmap

from tvae.evaluation.statistics import central
from tvae.experiments.poses import ZOOMS, PoseReader
from tvae.experiments.transfer import against_true, orbit, predict_held_out
from tvae.models import TVAE, evaluating
from tvae.motions import SharedAction
from tvae.transforms import Parameters, Triplets

#: The families, the unit of each first parameter, and the values of the others: one axis at a time.
UNITS = {"rotation": "°", "shear": "°", "scale": "log", "translation": "px"}
_OTHERS = {family: () if family == "rotation" else (0.0,) for family in UNITS}
_GRIDS = {
    "rotation": torch.arange(-45.0, 46, 3),
    "shear": torch.arange(-45.0, 46, 3),
    "scale": torch.arange(-12.0, 13) / 32,
    "translation": torch.arange(-10.0, 11),
}
_DRAWS = 1000


class Line(NamedTuple):
    """Readings against true values: three numbers, each with the ends of its 95 % interval."""

    slope: tuple[float, float, float]
    correlation: tuple[float, float, float]
    error: tuple[float, float, float]

    @classmethod
    def of(cls, readings: Tensor, true: Tensor | Sequence[float], seed: int = 0) -> Line:
        """From readings (N, K) at K true values; whole receivers are drawn with replacement."""
        values = torch.as_tensor(true, dtype=torch.float64)
        readings = readings.double()
        rows = _resample(len(readings), seed)
        found, drawn = against_true(readings, values), against_true(readings[rows], values)
        return cls(*(_with_ends(getattr(found, n), getattr(drawn, n)) for n in cls._fields))

    def text(self, digits: int = 2) -> dict[str, str]:
        """Each number with its interval, for a table."""
        return {
            name: f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
            for name, (value, low, high) in self._asdict().items()
        }


def difference(a: Tensor, b: Tensor, true: Tensor | Sequence[float]) -> tuple[float, float, float]:
    """The slope of readings `a` less that of `b` (N, K), of the same receivers, with its interval."""
    values = torch.as_tensor(true, dtype=torch.float64)
    rows = _resample(len(a))
    a, b = a.double(), b.double()
    gap = against_true(a, values).slope - against_true(b, values).slope
    drawn = against_true(a[rows], values).slope - against_true(b[rows], values).slope
    return _with_ends(gap, drawn)


def _resample(count: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(count, size=(_DRAWS, count)))


def _with_ends(value: Tensor, drawn: Tensor) -> tuple[float, float, float]:
    low, high = central(drawn.numpy())
    return float(value), float(low), float(high)


class Scorecard:
    """What is measured of one model, on the same receivers and lenders for all.

    Args:
        model: a trained T-VAE that carries its triplets.
        receivers, lenders: float images (N, C, H, W), receiver i borrows from lender i.
    """

    def __init__(self, model: TVAE, receivers: Tensor, lenders: Tensor) -> None:
        if receivers.shape != lenders.shape:
            raise ValueError(
                f"Every receiver needs one lender: {tuple(receivers.shape)} and "
                f"{tuple(lenders.shape)} differ."
            )
        if not isinstance(model, TVAE) or not isinstance(model.triplets, Triplets):
            raise TypeError(
                "A scorecard needs a T-VAE that carries the triplets it was trained on."
            )
        self.model, self.receivers, self.lenders = model, receivers, lenders
        self.triplets: Triplets = model.triplets
        with evaluating(model):
            self.codes = model.encode(receivers)[0]

    def views(self, x: Tensor, family: str, value: float) -> tuple[Tensor, Tensor]:
        """f(x) and f⁻¹(x) with one value of a family for all, in the model's own geometry."""
        values = [[float(value), *_OTHERS[family]]] * len(x)
        whole = Triplets((family,), self.triplets.geometry)  # a family need not be one it knows
        return whole.replay(x, Parameters.of(family, values))[1:3]

    def tau(
        self, x: Tensor, family: str, value: float, draws: torch.Generator | None = None
    ) -> Tensor:
        """τ read off the two views of each image, (N, k); with `draws`, one with a width is drawn."""
        with evaluating(self.model):
            mean = self.model.infer(*self.views(x, family, value))[1]
            return self.model.draw_tau(mean, draws)

    def moved(self, tau: Tensor) -> Tensor:
        """The receivers after the action of τ (N, k) or (1, k), decoded: (N, C, H, W)."""
        with evaluating(self.model):
            return self.model.decode(self.model.act(self.codes, tau))

    def reader(self, family: str, grid: Tensor | None = None) -> PoseReader:
        """Reads the first parameter of a family off decoded receivers.

        In the clean geometry a decoder may or may not have learned the zoom, so all are tried; in
        the exact one there is none.
        """
        zooms: Sequence[float] | None = None
        if family in ("rotation", "shear"):
            zooms = (1.0,) if self.triplets.geometry == "exact" else ZOOMS
        where = _GRIDS[family] if grid is None else grid
        return PoseReader(self.receivers, family, where, others=_OTHERS[family], zooms=zooms)

    def readings(
        self, family: str, values: Sequence[float], read: PoseReader | None = None
    ) -> tuple[Tensor, Tensor]:
        """Own and borrowed: what is read off every receiver after τ of either, (N, K) each."""
        read = self.reader(family) if read is None else read
        found = []
        for x in (self.receivers, self.lenders):
            images = [self.moved(self.tau(x, family, value)) for value in values]
            found.append(read(torch.stack(images, 1)).value)
        return found[0], found[1]

    def swapped(self, family: str, values: Sequence[float]) -> tuple[Tensor, Tensor, Tensor]:
        """Squared errors of the predicted view over all pixels, (N,) each: with the receiver's own
        τ, with the lender's, and without any; the mean over `values`."""
        sums = [torch.zeros(len(self.receivers)) for _ in range(3)]
        for value in values:
            target = self.views(self.receivers, family, value)[0]
            taus = (self.tau(x, family, value) for x in (self.receivers, self.lenders))
            images = [self.moved(t) for t in taus]
            with evaluating(self.model):
                images.append(self.model.decode(self.codes))
            for total, image in zip(sums, images, strict=True):
                total += (image - target).square().flatten(1).sum(1) / len(values)
        return sums[0], sums[1], sums[2]

    def nats(self, family: str, values: Sequence[float]) -> dict[str, Tensor]:
        """NLL of the view f(x) of a receiver, (N,) each: from its own code, by its own τ, by the
        lender's, and without action."""
        total = {
            name: torch.zeros(len(self.receivers)) for name in ("code", "own", "borrowed", "none")
        }
        for value in values:
            target = self.views(self.receivers, family, value)[0]
            own, lent = (self.tau(x, family, value) for x in (self.receivers, self.lenders))
            with evaluating(self.model):
                codes = {
                    "code": self.model.encode(target)[0],
                    "own": self.model.act(self.codes, own),
                    "borrowed": self.model.act(self.codes, lent),
                    "none": self.codes,
                }
                for name, code in codes.items():
                    nll = self.model.nll(self.model.decode_logits(code), target)
                    total[name] += nll / len(values)
        return total

    def group(self, family: str, first: float, second: float) -> dict[str, float]:
        """Laws of a group with borrowed τ, as relative errors of codes; 0 is perfect.

        - `identity`: what the τ of an image that stands still does, over what τ of `second` does;
        - `inverse`: there and back again, over the way there;
        - `composition`: τ of first + second at once against one after the other, over the way;
        - `order`: the two orders of the same two steps, over the way.
        """
        small, large, both = (
            self.tau(self.lenders, family, v) for v in (first, second, first + second)
        )
        with evaluating(self.model):
            act, z = self.model.act, self.codes
            still = self.model.infer(self.lenders, self.lenders)[1]
            there = act(z, large)
            once, twice = act(z, both), act(act(z, small), large)
            pairs = {
                "identity": (act(z, still) - z, there - z),
                "inverse": (self.model.act_inverse(there, large) - z, there - z),
                "composition": (twice - once, once - z),
                "order": (twice - act(there, small), once - z),
            }
        return {
            k: float(a.norm(dim=1).mean() / b.norm(dim=1).mean()) for k, (a, b) in pairs.items()
        }

    def orders(self, one: tuple[str, float], two: tuple[str, float]) -> dict[str, float]:
        """Two transformations that need not commute, one after the other, by borrowed τ.

        - `apart`: distance of the images of the two orders, over that of either from the receiver;
        - `told`: share of receivers whose decoded image is nearer to the true image of its own order
          than to that of the other; one half is chance.
        """
        taus = [self.tau(self.lenders, *step) for step in (one, two)]
        steps = [(one, two), (two, one)]
        truth = [self.views(self.views(self.receivers, *a)[0], *b)[0] for a, b in steps]
        with evaluating(self.model):
            act, z = self.model.act, self.codes
            codes = [act(act(z, taus[i]), taus[1 - i]) for i in (0, 1)]
            decoded = [self.model.decode(code) for code in codes]

        def gap(a: Tensor, b: Tensor) -> Tensor:
            return (a - b).flatten(1).norm(dim=1)

        told = gap(decoded[0], truth[0]) + gap(decoded[1], truth[1])
        crossed = gap(decoded[0], truth[1]) + gap(decoded[1], truth[0])
        way = (gap(truth[0], self.receivers) + gap(truth[1], self.receivers)) / 2
        return {
            "apart": float(gap(*decoded).mean() / way.mean()),
            "apart in truth": float(gap(*truth).mean() / way.mean()),
            "told": float((told < crossed).double().mean()),
        }

    def linear(self, family: str, values: Sequence[float]) -> float:
        """Share of τ, over lenders and values, that is one vector times the value: 1 is a ruler."""
        tau = torch.stack(
            [self.tau(self.lenders, family, v) for v in values], 1
        ).double()  # (N, K, k)
        v = torch.as_tensor(list(values), dtype=torch.float64)
        along = torch.einsum("nkj,k->j", tau, v) / (len(tau) * v.square().sum())
        rest = (tau - v[:, None] * along).square().sum()
        return 1 - float(rest / tau.square().sum())

    def class_from_tau(
        self,
        images: Tensor,
        labels: Tensor,
        family: str,
        value: float,
        draws: torch.Generator | None = None,
    ) -> float:
        """How often a linear map of τ names the class, all images moved alike; of held-out halves.

        Read off the mean of τ; with `draws`, off what is lent if τ has a width: a sample.
        """
        tau = self.tau(images, family, value, draws).cpu()
        if self.model.action.letter.startswith("M"):  # of angles: a whole turn must not count
            tau = torch.cat((tau.sin(), tau.cos()), 1)
        guess = predict_held_out(tau, torch.eye(int(labels.max()) + 1)[labels]).argmax(1)
        return float((guess == labels[1::2]).double().mean())

    def repeated(self, family: str, value: float, times: int, grid: Tensor) -> Tensor:
        """A small τ, borrowed once and used 1, ..., `times` times: readings (N, times)."""
        tau = self.tau(self.lenders, family, value)
        with evaluating(self.model):
            codes = orbit(self.model, self.codes, tau, times)[1:]
            images = torch.stack([self.model.decode(code) for code in codes], 1)
        return self.reader(family, grid)(images).value


def solve(
    action: SharedAction, z1: Tensor, z2: Tensor, *, iterations: int = 8, ridge: float = 1e-6
) -> Tensor:
    """τ (N, k) that leads from z₂ to z₁ in two steps, r(r(z₂, τ), τ) = z₁, by Gauss and Newton.

    This is f_ξ's task without a network: z is eliminated, as z = r(z₂, τ) and z₁ = r(z, τ). Each
    iteration is one k × k solve for each image; for W, which is linear in τ, the first is exact.
    """

    def miss(tau: Tensor, a: Tensor, b: Tensor) -> Tensor:
        there = action.act(action.act(b[None], tau[None]), tau[None])[0]
        return there - a

    slope = vmap(jacrev(miss))
    eye = torch.eye(action.tau_size, dtype=z1.dtype, device=z1.device)
    tau = z1.new_zeros(len(z1), action.tau_size)
    left = vmap(miss)(tau, z1, z2)
    for _ in range(iterations):
        j: Any = slope(tau, z1, z2)  # (N, d, k)
        step = torch.linalg.solve(j.mT @ j + ridge * eye, (j.mT @ left[..., None]))[..., 0]
        for _ in range(5):  # shorter steps for those that would overshoot
            trial = tau - step
            rest = vmap(miss)(trial, z1, z2)
            worse = rest.square().sum(1) > left.square().sum(1)
            if not bool(worse.any()):
                break
            step = torch.where(worse[:, None], step / 2, step)
        better = rest.square().sum(1) <= left.square().sum(1)
        tau = torch.where(better[:, None], trial, tau)
        left = torch.where(better[:, None], rest, left)
    return tau


def solve_matrix(z0: Tensor, z1: Tensor, z2: Tensor, rows: int, ridge: float = 1e-6) -> Tensor:
    """A free matrix M (N, a, a) by least squares, as in meta-sequential prediction.

    The code of d numbers is read as `rows` × d/rows, and M leads from z₂ to z₀ and from z₀ to z₁:
    the M of the smallest ‖M [Z₂ Z₀] − [Z₀ Z₁]‖² for every image by itself.
    """
    if z0.shape[1] % rows:
        raise ValueError(f"A code of {z0.shape[1]} numbers does not fill {rows} equal rows.")
    a, b, c = (z.unflatten(1, (rows, -1)) for z in (z2, z0, z1))
    start, end = torch.cat((a, b), 2), torch.cat((b, c), 2)
    eye = torch.eye(rows, dtype=z0.dtype, device=z0.device)
    return torch.linalg.solve(start @ start.mT + ridge * eye, start @ end.mT).mT
