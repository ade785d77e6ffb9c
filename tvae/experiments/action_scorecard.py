"""The chapters on actions: a scorecard with the same columns for each of them.

The paper's tables hold C1 and C2 and the reconstruction of each view from its *own* code; how well
a view can be decoded from r_χ(z, τ), the code that the action makes, is in none of them. Here it
is, beside the two errors that say how far an action is from the group it stands for.

    triplets = tvae.Triplets()
    batch = triplets(test.floats(), tvae.generator(0, "scorecard"))
    score = measure(model, batch, tvae.generator(0, "noise"))
    table({"A": score})
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import pandas as pd
import torch

from tvae.evaluation.inference import BATCH
from tvae.models import TVAE, evaluating, reparameterise
from tvae.objective import mmd_linear
from tvae.training.configuration import Preset
from tvae.transforms import TripletBatch, Triplets


def schedule(preset: Preset, steps: int) -> dict[str, Any]:
    """The arguments of `tvae.fit` that say how long to train, for a preset.

    For `quick`, so many `steps` with batches half the usual size at twice the usual rate, which
    learns more in a few seconds than fewer steps of the usual kind. For the others, the preset's own
    schedule.
    """
    if preset.name == "quick":
        return {
            "steps": steps,
            "batch_size": preset.batch_size // 2,
            "learning_rate": 2 * preset.learning_rate,
        }
    return {
        "epochs": preset.epochs,
        "batch_size": preset.batch_size,
        "learning_rate": preset.learning_rate,
        "halve_every": preset.halve_every,
    }


@dataclass(frozen=True)
class Score:
    """The means over test triplets; negative log-likelihoods in nats per image.

    - `inverse`: ‖r(r(z, τ), τ⁻¹) − z‖ / ‖z‖ with the inferred z and τ;
    - `identity`: ‖r(z, τ_id) − z‖ / ‖z‖, None where the action has no identity;
    - `c1`, `c2`: as in the loss;
    - `x1`, `x2`: NLL of the view decoded from r(z, τ), and from r(z, τ⁻¹);
    - `x0`: NLL of x0 decoded from z (the paper's column `nll`);
    - `own`: NLL of x1 and x2 decoded from their own codes, the mean of the two: what the decoder
      could do (the paper's columns `nllx1` and `nllx2`);
    - `idle`: NLL of x1 and x2 decoded from z, the mean of the two: what no action at all would do.
    """

    inverse: float
    identity: float | None
    c1: float
    c2: float
    x1: float
    x2: float
    x0: float
    own: float
    idle: float

    @property
    def share(self) -> float:
        """How much of the way from `idle` to `own` the action goes: 0 is none of it, 1 all."""
        return (self.idle - 0.5 * (self.x1 + self.x2)) / (self.idle - self.own)


#: The columns of `table`, the same for every action, and the digits they are shown with.
COLUMNS = {
    "inverse": ("inverse", 3),
    "identity": ("identity", 3),
    "c1": ("C1", 2),
    "c2": ("C2", 2),
    "x1": ("NLL x1", 1),
    "x2": ("NLL x2", 1),
    "x0": ("NLL x0", 1),
    "own": ("own", 1),
    "idle": ("idle", 1),
}


def relative_error(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """‖a − b‖ / ‖b‖ for each row: (N, d), (N, d) → (N,)."""
    return (a - b).norm(dim=-1) / b.norm(dim=-1)


def measure(model: TVAE, batch: TripletBatch, generator: torch.Generator | None = None) -> Score:
    """Measure `model` on triplets of float images; its training mode and weights stay as they are.

    With a generator z1, z2 and z are sampled as in training, so that C1, C2 and x0 compare with the
    paper's columns; without one every Gaussian gives its mean.
    """
    if not isinstance(model, TVAE):
        raise TypeError(f"A scorecard needs a TVAE, not {type(model).__name__}.")
    with evaluating(model):
        parts = [
            _rows(model, x0, x1, x2, generator)
            for x0, x1, x2 in zip(*(view.split(BATCH) for view in batch[:3]), strict=True)
        ]
    means = {
        name: None if parts[0][name] is None else float(torch.cat([p[name] for p in parts]).mean())
        for name in (field.name for field in fields(Score))
    }
    return Score(**means)  # type: ignore[arg-type]


def _rows(
    model: TVAE,
    x0: torch.Tensor,
    x1: torch.Tensor,
    x2: torch.Tensor,
    generator: torch.Generator | None,
) -> dict[str, torch.Tensor]:
    """Every quantity of `Score` for each triplet, (N,)."""
    reference = next(model.parameters())
    x0, x1, x2 = (x.to(reference) for x in (x0, x1, x2))
    z1 = reparameterise(*model.encode(x1), generator)
    z2 = reparameterise(*model.encode(x2), generator)
    mean, logvar, tau = model.posterior(z1, z2)
    z = reparameterise(mean, logvar, generator)
    moved, moved_back = model.act(z, tau), model.act_inverse(z, tau)

    raw = model.decode_logits(torch.cat((z, z1, z2, moved, moved_back)))
    from_z, own1, own2, from_moved, from_back = raw.chunk(5)
    identity = model.action.identity()
    rows = {
        "inverse": relative_error(model.act_inverse(moved, tau), z),
        "identity": None
        if identity is None
        else relative_error(model.act(z, identity.to(z).unsqueeze(0)), z),
        "c1": mmd_linear(z1, moved),
        "c2": mmd_linear(z2, moved_back),
        "x1": model.nll(from_moved, x1),
        "x2": model.nll(from_back, x2),
        "x0": model.nll(from_z, x0),
        "own": 0.5 * (model.nll(own1, x1) + model.nll(own2, x2)),
        "idle": 0.5 * (model.nll(from_z, x1) + model.nll(from_z, x2)),
    }
    return rows  # type: ignore[return-value]


def table(scores: Mapping[str, Score]) -> pd.DataFrame:
    """The scores as a table for the reader, one row each, with the columns of `COLUMNS`."""
    if not scores:
        raise ValueError("A scorecard needs at least one score.")
    rows = {
        name: {
            title: "none" if (value := getattr(score, field)) is None else f"{value:.{digits}f}"
            for field, (title, digits) in COLUMNS.items()
        }
        for name, score in scores.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=[t for t, _ in COLUMNS.values()])


@dataclass(frozen=True)
class Borrowed:
    """NLL of the view f(x) of a picture x, decoded in three ways; nats per image.

    - `none`: from the code of x, without an action;
    - `borrowed`: after the action of a τ that was read off *another* picture's triplet by f;
    - `own`: after the action of the τ that was read off this picture's own triplet by f.

    `sided` is the part of the pictures for which the borrowed τ tells f from f⁻¹: what is decoded
    from r(z, τ) and r(z, τ⁻¹) fits x1 and x2 better than x2 and x1. One half is chance: then τ
    transfers only what both views have in common.
    """

    none: float
    borrowed: float
    own: float
    sided: float

    @property
    def share(self) -> float:
        """The gain of `borrowed` over `none`, as a part of the gain of `own`."""
        return (self.none - self.borrowed) / (self.none - self.own)


def borrow(model: TVAE, triplets: Triplets, batch: TripletBatch) -> Borrowed:
    """Apply the τ of every triplet to another picture, and compare with its true view.

    Picture i gets the transformation of picture i + 1 (the first follows the last). Everything
    is deterministic: Gaussians give their means. The view by f⁻¹, from r(z, τ⁻¹), counts as well.
    """
    n = len(batch.x0)
    if n < 2:
        raise ValueError(f"To borrow takes two pictures or more, not {n}.")
    reference = next(model.parameters())
    lender = torch.arange(n).roll(-1)
    sums, sided = torch.zeros(3, dtype=torch.float64), 0
    with evaluating(model):
        for rows in torch.arange(n).split(BATCH):
            parameters = batch.parameters[lender[rows]]
            own = triplets.replay(batch.x0[rows], parameters)
            views = (own.x1.to(reference), own.x2.to(reference))
            z = model.encode(batch.x0[rows])[0]
            _, tau_own = model.infer(views[0], views[1])
            _, tau_other = model.infer(batch.x1[lender[rows]], batch.x2[lender[rows]])
            for k, tau in enumerate((None, tau_other, tau_own)):
                codes = (z, z) if tau is None else (model.act(z, tau), model.act_inverse(z, tau))
                raw = [model.decode_logits(code) for code in codes]
                straight = model.nll(raw[0], views[0]) + model.nll(raw[1], views[1])
                sums[k] += straight.sum().double().cpu() / 2
                if k == 1:
                    crossed = model.nll(raw[0], views[1]) + model.nll(raw[1], views[0])
                    sided += int((straight < crossed).sum())
    none, borrowed, own_tau = (float(s) / n for s in sums)
    return Borrowed(none, borrowed, own_tau, sided / n)
