"""Films, three seeds of every model: `results/sequences.csv`, and COIL-20 and Frey faces beside it.

    python scripts/sequence_trials.py                    # every row that the table does not hold
    python scripts/sequence_trials.py "E, films"         # only these models
    python scripts/sequence_trials.py --photographed     # the two photographed films, if they are there
    python scripts/sequence_trials.py --store            # the weights that the chapter brings along

A row is one model, one seed and one set of films it has not seen: squared errors of the predicted
frame after two others, and R² of the velocities read off τ. Trained weights stay in the folder `runs`,
from where a stopped model is taken up again; a row that is written is not measured twice. Of the
photographed films nothing but these numbers is kept.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

import tvae
from tvae.data import photographed, solids
from tvae.experiments import sequences
from tvae.files import atomic_write
from tvae.models import TVAE, VAE
from tvae.transforms import Sequences, Triplets, windows

RESULTS = Path(__file__).parents[1] / "results"
RUNS = Path(os.environ.get("TVAE_RUNS") or "runs") / "sequences"
SEEDS = (0, 1, 2)
D, HIDDEN, SIGMA, FRAMES = 32, 256, 0.1, solids.FRAMES
PREDICTS = ("tie", "predicted_constraint", "predicted_likelihood", "view_kl")
LENDS = ("tie", "borrowed_constraint", "borrowed_likelihood", "view_kl")
FOUR = ("rotation", "shear", "scale", "translation")
#: Models by name: what they are, the loss they have, what they are trained on.
MODELS: dict[str, dict[str, Any]] = {
    "VAE": {"kind": "vae"},
    "E, films": {"action": "E", "further": (*PREDICTS, *LENDS[1:3]), "pairs": True},
    "E, films of light": {
        "action": "E",
        "further": (*PREDICTS, *LENDS[1:3]),
        "pairs": True,
        "motion": 1,
    },
    "E, films, no lending": {"action": "E", "further": PREDICTS},
    "E, films, no prediction": {"action": "E", "further": ("tie", "view_kl")},
    "A, films": {"action": "A", "further": PREDICTS},
    "E, hand-made": {"action": "E", "further": LENDS, "views": Triplets(FOUR, "exact", pairs=True)},
    "meta-sequential": {"kind": "meta"},
}
#: What the chapter loads, by its name there.
STORED = {
    "VAE": "VAE",
    "E, films": "E",
    "E, hand-made": "hand-made",
    "meta-sequential": "meta-sequential",
}
FILMS = Path(sequences.__file__).parent / "films"
#: Steps and batch of every kind, and of a model after the VAE from which its networks start.
LENGTH = {"vae": (2100, 100, 2e-3), "tvae": (900, 50, 2e-3), "meta": (3000, 50, 2e-3)}


def networks_of(model: torch.nn.Module) -> dict[str, dict[str, Tensor]]:
    return {part: getattr(model, part).state_dict() for part in ("encoder", "decoder")}


def kept(path: Path, model: Any, fit: Callable[[Any], object]) -> Any:
    """The model with the weights at `path`, or fitted now and its weights kept there."""
    if path.is_file():
        model.load_state_dict(torch.load(path, weights_only=True))
    else:
        fit(model)
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(model.state_dict(), path.with_suffix(".part"))
        path.with_suffix(".part").rename(path)
    return model.eval().requires_grad_(False)


def schedule(kind: str, count: int, scale: float) -> dict[str, Any]:
    """Steps, batch and rate; the rate is halved twice on the way."""
    steps, batch, rate = LENGTH[kind]
    steps = max(int(steps * scale), 1)
    return {
        "steps": steps,
        "batch_size": batch,
        "learning_rate": rate,
        "halve_every": max(round(steps / (count // batch) / 3), 1),
    }


def make(name: str, seed: int, frames: Tensor, place: Path, scale: float = 1.0) -> Any:
    """The model `name`, trained on films given as frames (N·T, 1, 28, 28)."""
    settings = dict(MODELS[name])
    kind, _ = settings.pop("kind", "tvae"), settings.pop("motion", None)
    path, length = place / f"{name}, seed {seed}.pt", schedule(kind, len(frames), scale)
    draws = tvae.generator(seed, "init")
    common: dict[str, Any] = {"seed": seed, "device": "cpu"}
    if kind == "vae":
        vae = VAE(D, likelihood="gaussian", sigma=SIGMA, generator=draws)
        return kept(path, vae, lambda model: tvae.fit(model, frames, **length, **common))
    if kind == "meta":
        steps, batch, rate = (length[n] for n in ("steps", "batch_size", "learning_rate"))
        every = length["halve_every"] * (len(frames) // batch)
        return kept(
            path,
            sequences.MetaSequential(128, 8, draws),
            lambda model: sequences.fit_meta(
                model, frames, Sequences(FRAMES), steps=steps, rate=rate, halve_every=every,
                batch=batch, seed=seed,
            ),
        )  # fmt: skip
    options: dict[str, Any] = {"likelihood": "gaussian", "sigma": SIGMA, "hidden": HIDDEN}
    model = TVAE(D, action=settings.pop("action"), generator=draws, **options)
    # all seeds start from the networks of one VAE, which have seen every frame but no order
    for part, weights in networks_of(make("VAE", 0, frames, place, scale)).items():
        getattr(model, part).load_state_dict(weights)
    views = settings.pop("views", None) or Sequences(FRAMES, pairs=settings.pop("pairs", False))
    return kept(
        path,
        model,
        lambda model: tvae.fit(model, frames, triplets=views, **settings, **length, **common),
    )


def measure(
    model: Any, films: Tensor, velocity: Tensor | None, known: Any = None
) -> dict[str, float]:
    """Errors of the third frame by the first two, over all films (N, T, 1, 28, 28) of bytes.

    `known` are films and velocities on which the linear read-out of velocities is fitted.
    """
    three = windows(films.float() / 255, 3)
    before, now, after = (three[:, :, i].flatten(0, 1) for i in range(3))
    guesses: dict[str, Tensor] = {"repeat": now}
    if isinstance(model, sequences.MetaSequential):
        guesses["predicted"] = model.predict(before, now)
    else:
        guesses["straight line"] = sequences.extrapolate(model, before, now)
        guesses["reconstructed"] = model.decode(model.encode(after)[0])
    if isinstance(model, TVAE):
        guesses["predicted"] = sequences.predict(model, before, now)
    row: dict[str, float] = {}
    if isinstance(model, VAE) and known is not None:
        ways: dict[str, Callable[..., Tensor]] = {"straight line": sequences.extrapolate}
        if isinstance(model, TVAE):
            ways["predicted"] = sequences.predict
        for name, way in ways.items():
            first, second, third = (known[0][:, i].float() / 255 for i in (1, 2, 3))
            share = sequences.best_share(model, second, way(model, first, second), third)
            row[f"share carried, {name}"] = share
            guesses[f"{name}, carried"] = sequences.carried(model, now, guesses[name], share)
    turning = None
    if velocity is not None and velocity.shape[1] == 2:
        turning = (velocity[:, 0] != 0).repeat_interleave(three.shape[1])
    for name, guess in guesses.items():
        error = sequences.squared_error(guess.clamp(0, 1), after)
        row[name] = float(error.mean())
        if turning is not None:
            row[f"{name}, turntable"] = float(error[turning].mean())
            row[f"{name}, light"] = float(error[~turning].mean())
    if type(model) is not VAE and velocity is not None and known is not None:
        meta = isinstance(model, sequences.MetaSequential)
        read = model.read if meta else partial(sequences.half_step, model)
        taus = [read(*pair_of(x)) for x in (known[0], films)]
        found = sequences.readable(taus[0], known[1], taus[1], velocity)
        names = zip(("R² of turning", "R² of light"), found.tolist(), strict=False)
        row |= {name: value for name, value in names if math.isfinite(value)}
        for i, motion in enumerate(("turning", "light")[: velocity.shape[1]]):
            # fitted and judged on the films of this motion alone
            some, films_of_it = known[1][:, i] != 0, velocity[:, i] != 0
            if bool(some.any()) and bool(films_of_it.any()):
                parts = taus[0][some], known[1][some], taus[1][films_of_it], velocity[films_of_it]
                found = sequences.readable(*parts)[i]
                row[f"R² of {motion}, its own films"] = float(found)
    return row


def pair_of(films: Tensor) -> tuple[Tensor, Tensor]:
    """The second and the third frame of films of bytes, as floats."""
    return films[:, 1].float() / 255, films[:, 2].float() / 255


class Table:
    """Rows by model, seed and films, written as soon as they are there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = pd.read_csv(path) if path.is_file() else pd.DataFrame()

    def has(self, **key: Any) -> bool:
        if self.rows.empty:
            return False
        return bool((self.rows[list(key)] == pd.Series(key)).all(axis=1).any())

    def add(self, row: dict[str, Any]) -> None:
        self.rows = pd.concat([self.rows, pd.DataFrame([row])], ignore_index=True)
        atomic_write(self.path, self.rows.round(4).to_csv(index=False))
        print({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}, flush=True)


def films_of(split: str) -> tuple[Tensor, Tensor]:
    """Films (N, T, 1, 28, 28) of solids and their velocities (N, 2); drawn once, then kept."""
    path = RUNS / f"solids-{split}.pt"
    if not path.is_file():
        data = tvae.data.load("solids", split)
        films = data.images.unflatten(0, (-1, FRAMES)), data.extras["velocity"][::FRAMES]
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save([part.clone() for part in films], path)
    films, velocity = torch.load(path, weights_only=True)
    return films, velocity


def drawn(names: list[str], seeds: Sequence[int], scale: float) -> None:
    """The films of solids."""
    table = Table(RESULTS / "sequences.csv")
    images, velocity = films_of("train")
    known = images[:1000], velocity[:1000]
    held = {split: films_of(split) for split in ("test", "unseen")}
    angles = tvae.data.load("solids", "test").extras["angles"].unflatten(0, (-1, FRAMES))
    lenders = sequences.other_solids(angles[:, :2], tvae.generator(0, "lenders"))
    for seed in seeds:
        for name in names:
            if table.has(model=name, seed=seed) or (name == "VAE" and seed):
                continue
            start = time.process_time()
            motion = MODELS[name].get("motion")  # of one motion alone, in training and in testing
            chosen = slice(None) if motion is None else velocity[:, motion] != 0
            if name != "VAE" and motion is not None:
                make("VAE", 0, images.flatten(0, 1), RUNS, scale)  # of all films, as for the others
            model = make(name, seed, images[chosen].flatten(0, 1), RUNS, scale)
            seconds = round(time.process_time() - start) or None  # none if the weights were there
            for split, (films, true) in held.items():
                row = {"model": name, "seed": seed, "films": split, "seconds": seconds}
                fitted = known
                if motion is not None:
                    films, true = (part[true[:, motion] != 0] for part in (films, true))
                    rows = known[1][:, motion] != 0
                    fitted = known[0][rows], known[1][rows]
                row |= measure(model, films, true, fitted)
                if split == "test" and type(model) is not VAE and motion is None:
                    found = sequences.swapped_errors(model, films[:, :3].float() / 255, lenders)
                    row |= {f"lent, {whose}": error for whose, error in found.items()}
                table.add(row)


def of_photographs(seeds: Sequence[int], scale: float) -> None:
    """COIL-20 (unseen objects) and Frey faces (later frames)."""
    table = Table(RESULTS / "sequences_photographed.csv")
    # one split for all seeds: they start from one VAE, which must not have seen the others' objects
    objects = photographed.coil20()[torch.randperm(20, generator=tvae.generator(0, "split"))]
    for seed in seeds:
        draws = tvae.generator(seed, "coil20")
        sets = {"COIL-20, unseen objects": objects[15:], "COIL-20, seen objects": objects[:15]}
        films, speed = photographed.coil20_films(objects[:15], 3000, FRAMES, draws)
        held = {k: photographed.coil20_films(v, 300, FRAMES, draws) for k, v in sets.items()}
        faces = photographed.freyfaces()
        first, last = (windows(part[None], FRAMES)[0] for part in (faces[:1565], faces[1565:]))
        for title, known, test in (
            ("coil20", (films, speed[:, None]), held),
            ("freyfaces", (first, None), {"Frey faces, last fifth": (last, None)}),
        ):
            for name in ("E, films",):
                if all(table.has(model=name, seed=seed, films=k) for k in test):
                    continue
                model = make(name, seed, known[0].flatten(0, 1), RUNS / title, scale)
                vae = make("VAE", 0, known[0].flatten(0, 1), RUNS / title, scale)
                for which, (held_out, true) in test.items():
                    row = {"model": name, "seed": seed, "films": which}
                    v = None if true is None else true[:, None]
                    row |= measure(model, held_out, v, known)
                    row["straight line, VAE"] = measure(vae, held_out, None)["straight line"]
                    table.add(row)


def store() -> None:
    """Weights of seed 0 into the package, in half precision."""
    images, _ = films_of("train")
    for name, short in STORED.items():
        kind = MODELS[name].get("kind", "tvae")
        steps, batch, _ = LENGTH[kind]
        note = f"{steps:,} steps of {batch} {'frames' if kind == 'vae' else 'triplets'}, seed 0"
        if kind == "tvae":
            note += ", from the VAE's networks"
        path = FILMS / f"{short}.safetensors"
        sequences.store(path, make(name, 0, images.flatten(0, 1), RUNS), note)
        print(f"{path.name}: {path.stat().st_size / 2**20:.2f} MB, {note}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(MODELS), help="models, as in the table")
    parser.add_argument(
        "--photographed", action="store_true", help="COIL-20 and Frey faces instead"
    )
    parser.add_argument("--seeds", type=int, nargs="*", default=SEEDS, help="only these")
    parser.add_argument("--store", action="store_true", help="write the chapter's weights instead")
    parser.add_argument("--scale", type=float, default=1.0, help="of the steps, for trials")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if unknown := [name for name in arguments.names if name not in MODELS]:
        print(f"There is no model {unknown[0]!r}; there are: {'; '.join(MODELS)}.")
        return 1
    if arguments.store:
        store()
    elif arguments.photographed:
        of_photographs(arguments.seeds, arguments.scale)
    else:
        drawn(arguments.names, arguments.seeds, arguments.scale)
    return 0


if __name__ == "__main__":
    sys.exit(main())
