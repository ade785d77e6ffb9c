"""The chapter on films: predicting the frame after the last, and reading a velocity off τ.

    before, now, after = windows(films, 3)[:, 0].unbind(1)    # frames, (N, C, H, W) each
    predict(model, before, now)                               # what comes next, by the T-VAE
    extrapolate(model, before, now)                           # ... on a straight line of codes
    meta = MetaSequential(128, rows=8); fit_meta(meta, ...)   # ... by a matrix solved for
    readable(tau, velocity, tau_test, velocity_test)          # R² of a linear read-out

Every predictor sees two frames and gives one. Means stand for all that is Gaussian.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save as dump_tensors
from torch import Tensor, nn

from tvae.checks import to_floats
from tvae.data import solids
from tvae.experiments.lending import solve
from tvae.files import AnyPath, atomic_write, reading
from tvae.models import TVAE, VAE, build, evaluating
from tvae.motions import SharedAction
from tvae.networks import Decoder28, Encoder28, initialise
from tvae.seeding import generator
from tvae.transforms import Sequences

# --- predictors ---------------------------------------------------------------------------------


def half_step(model: TVAE, before: Tensor, now: Tensor, solved: bool = False) -> Tensor:
    """τ (N, k) of half of what happens from one frame to the next: r(r(before, τ), τ) is now.

    By f_ξ, or with `solved` by Gauss and Newton on the codes, for the actions of `tvae.motions`.
    """
    with evaluating(model):
        z, z_before = model.encode(now)[0], model.encode(before)[0]
        if solved:
            assert isinstance(model.action, SharedAction)
            return solve(model.action, z, z_before)
        return model.xi(torch.cat((z, z_before), -1))


def predict(model: TVAE, before: Tensor, now: Tensor, solved: bool = False) -> Tensor:
    """The frame after `now` (N, C, H, W): two more half steps."""
    tau = half_step(model, before, now, solved)
    return go_on(model, now, tau)


def predict_changing(model: TVAE, first: Tensor, second: Tensor, third: Tensor) -> Tensor:
    """The frame after the third if the velocity changes as it did: τ goes on in a straight line."""
    one, two = half_step(model, first, second), half_step(model, second, third)
    return go_on(model, third, 2 * two - one)


def go_on(model: TVAE, now: Tensor, tau: Tensor, frames: int = 1) -> Tensor:
    """The frame that is so many frames after `now`, with half steps τ (N, k)."""
    with evaluating(model):
        z = model.encode(now)[0]
        for _ in range(2 * frames):
            z = model.act(z, tau)
        return model.decode(z)


def extrapolate(model: VAE, before: Tensor, now: Tensor) -> Tensor:
    """The frame after `now` by a straight line through the codes: z' = 2 z − z before."""
    with evaluating(model):
        return model.decode(2 * model.encode(now)[0] - model.encode(before)[0])


def carried(model: VAE, now: Tensor, predicted: Tensor, share: float) -> Tensor:
    """A prediction (N, C, H, W) with a share of what the decoder could not draw of the frame `now`."""
    with evaluating(model):
        return predicted + share * (now - model.decode(model.encode(now)[0]))


def best_share(model: VAE, now: Tensor, predicted: Tensor, true: Tensor) -> float:
    """The share of `carried` with the smallest squared error, by least squares."""
    left = carried(model, now, torch.zeros_like(now), 1.0)
    return float(((true - predicted) * left).sum() / left.square().sum())


def repeat(before: Tensor, now: Tensor) -> Tensor:
    """The last frame again."""
    return now


def squared_error(predicted: Tensor, true: Tensor) -> Tensor:
    """Summed over the pixels: (N, C, H, W), (N, C, H, W) → (N,)."""
    return (predicted - true).square().flatten(1).sum(1)


# --- meta-sequential prediction -----------------------------------------------------------------


class MetaSequential(nn.Module):
    """Meta-sequential prediction (Miyato, Koyama and Fukumizu 2022) in the networks of this book.

    The code of d numbers is a matrix Z of `rows` × d/rows. Between two frames the transition is the
    matrix M of the smallest ‖M Z − Z'‖², and the next code is M Z'. Everything is trained for that
    prediction, through the solve.
    """

    def __init__(self, d: int, rows: int, draws: torch.Generator, ridge: float = 1e-3) -> None:
        super().__init__()
        if d % rows or d // rows < rows:
            raise ValueError(
                f"A code of {d} numbers must fill {rows} equal rows, each at least {rows} long."
            )
        self.d, self.rows, self.ridge = d, rows, ridge
        # the encoder's second half, log-variances in a VAE, is not used
        self.encoder, self.decoder = Encoder28(d), Decoder28(d)
        for network in (self.encoder, self.decoder):
            initialise(network, draws)

    @property
    def settings(self) -> dict[str, Any]:
        """What `stored` needs to build the model again."""
        return {"model": "meta", "d": self.d, "rows": self.rows}

    def codes(self, x: Tensor) -> Tensor:
        """Matrices (N, rows, d/rows) of images (N, 1, 28, 28)."""
        return self.encoder(x)[:, : self.d].unflatten(1, (self.rows, -1))

    def transition(self, before: Tensor, now: Tensor) -> Tensor:
        """M (N, rows, rows) from codes (N, rows, d/rows) one frame apart, by least squares."""
        eye = torch.eye(self.rows, dtype=now.dtype, device=now.device)
        return torch.linalg.solve(before @ before.mT + self.ridge * eye, before @ now.mT).mT

    def forward(self, before: Tensor, now: Tensor) -> Tensor:
        """The frame after `now`, (N, 1, 28, 28), as the decoder gives it."""
        z, z_before = self.codes(now), self.codes(before)
        return self.decoder((self.transition(z_before, z) @ z).flatten(1))

    @torch.no_grad()
    def read(self, before: Tensor, now: Tensor) -> Tensor:
        """The transition between two frames less the identity, as numbers: (N, rows²)."""
        matrix = self.eval().transition(self.codes(before), self.codes(now))
        return (matrix - torch.eye(self.rows, device=matrix.device)).flatten(1)

    @torch.no_grad()
    def predict(self, before: Tensor, now: Tensor) -> Tensor:
        """The frame after `now`, (N, 1, 28, 28)."""
        return self.eval()(before, now)


def fit_meta(
    meta: MetaSequential,
    images: Tensor,
    views: Sequences,
    *,
    steps: int,
    rate: float,
    halve_every: int,
    batch: int = 100,
    seed: int = 0,
) -> float:
    """Train on films (frames (N·T, 1, 28, 28), as for `tvae.fit`); the last squared error."""
    order, draws = generator(seed, "shuffle"), generator(seed, "triplets")
    adam = torch.optim.Adam(meta.parameters(), lr=rate)
    loss = torch.zeros(())
    for step in range(steps):
        for group in adam.param_groups:
            group["lr"] = rate * 0.5 ** (step // halve_every)
        index = torch.randint(len(images), (batch,), generator=order)
        rows = to_floats(images[index], torch.float32)
        x0, x1, x2, _ = views.among(images, index)(rows, draws)
        ahead = torch.cat((meta(x2, x0), meta(x1, x0)))  # on and back, as the T-VAE has it
        loss = squared_error(ahead, torch.cat((x1, x2))).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
    meta.eval()
    return float(loss.detach())


# --- what was trained ----------------------------------------------------------------------------


def store(path: AnyPath, model: VAE | MetaSequential, note: str) -> None:
    """The weights in half precision, with what rebuilds the model and a `note` on its training."""
    half = {k: v.detach().half().contiguous() for k, v in model.state_dict().items()}
    said = {"settings": json.dumps(model.settings), "note": note}
    atomic_write(path, dump_tensors(half, metadata=said))


def stored(path: AnyPath) -> tuple[Any, str]:
    """The model that `store` wrote, in evaluation mode, and the note on its training."""
    with reading(f"{Path(path).name} holds no stored model"):
        with safe_open(path, framework="pt") as file:
            said = file.metadata()
            weights = {key: file.get_tensor(key).float() for key in file.keys()}  # noqa: SIM118
        settings = json.loads(said["settings"])
        if settings["model"] == "meta":
            draws = generator(0, "overwritten")
            model: Any = MetaSequential(settings["d"], settings["rows"], draws)
        else:
            model = build(settings)
        model.load_state_dict(weights)
    return model.eval().requires_grad_(False), said["note"]


def film_model(name: str) -> tuple[Any, str]:
    """A model of the chapter by name, "E", "hand-made", "VAE" or "meta-sequential", and its note."""
    with resources.as_file(resources.files("tvae.experiments") / "films") as folder:
        known = sorted(path.stem for path in folder.glob("*.safetensors"))
        if name not in known:
            raise ValueError(f"There is no model {name!r} of films; there are {', '.join(known)}.")
        return stored(folder / f"{name}.safetensors")


# --- measures -----------------------------------------------------------------------------------


def readable(tau: Tensor, velocity: Tensor, test_tau: Tensor, test_velocity: Tensor) -> Tensor:
    """R² of each velocity (N, m), read off τ (N, k) by a linear map without a constant: (m,).

    The map is fitted on the first two and judged on the last two. No constant: at rest τ is zero.
    """
    fitted = torch.linalg.lstsq(tau.double(), velocity.double()).solution
    rest = (test_velocity - test_tau.double() @ fitted).square().sum(0)
    return 1 - rest / (test_velocity.double() - test_velocity.double().mean(0)).square().sum(0)


def other_solids(angles: Tensor, draws: torch.Generator) -> Tensor:
    """Frames (N, T, 1, 28, 28) of solids drawn anew, at given angles (N, T, 2) of table and light."""
    names = list(solids.FAMILIES)[:-1]
    which = torch.randint(len(names), (len(angles),), generator=draws)
    frames = torch.empty(*angles.shape[:2], 1, solids.SIDE, solids.SIDE)
    for k, name in enumerate(names):
        rows = (which == k).nonzero()[:, 0]
        solid = solids.FAMILIES[name](torch.rand(len(rows), 6, generator=draws))
        for t in range(angles.shape[1]):
            turn, light = angles[rows, t].unbind(1)
            frames[rows, t] = solids.render(solid, turn, light)
    return frames


def swapped_errors(
    model: TVAE | MetaSequential, frames: Tensor, lenders: Tensor
) -> dict[str, float]:
    """Mean squared errors of the third of `frames` (N, 3, C, H, W) by the first two.

    With the film's own transition, with that of the same motion of other solids, `lenders`
    (N, 2, C, H, W), and with none.
    """
    now, true = frames[:, 1], frames[:, 2]
    ends: dict[str, Tensor] = {}
    for whose, two in (("own", frames), ("swapped", lenders)):
        if isinstance(model, TVAE):
            tau = half_step(model, two[:, 0], two[:, 1])
            ends[whose], ends["none"] = go_on(model, now, tau), go_on(model, now, 0 * tau)
        else:
            with torch.no_grad():
                before, z = model.codes(two[:, 0]), model.codes(two[:, 1])
                moved = model.transition(before, z) @ model.codes(now)
                ends[whose] = model.decoder(moved.flatten(1))
                ends["none"] = model.decoder(model.codes(now).flatten(1))
    return {how: float(squared_error(x.clamp(0, 1), true).mean()) for how, x in ends.items()}
