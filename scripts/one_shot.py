"""Omniglot's official one-shot task: which of 20 characters is this drawing, each seen once?

    python scripts/one_shot.py                       # pixels and the released models of Omniglot
    python scripts/one_shot.py mnist-A-25 runs/...   # these, released or from run folders

The answer is the nearest training drawing by its posterior mean. `TVAE_DATA` names the data root, in
which `omniglot/one_shot_runs.zip` holds run01/ to run20/.
"""

from __future__ import annotations

import re
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import tvae
from tvae.data import data_root
from tvae.data.omniglot import ARRAYS, DRAWERS, SIDE, decode
from tvae.data.pictures import member
from tvae.data.resampling import resize
from tvae.data.roots import missing
from tvae.evaluation import Embedding, Pixels, embed
from tvae.files import reading
from tvae.models import VAE


@dataclass(frozen=True)
class OneShot:
    """The official one-shot task: in each of 20 runs, which of 20 characters is each test drawing?

    - `training`, `test`: (20, 20, 1, size, size) uint8, white ink on black: run, drawing;
    - `answers`: (20, 20) int64, for each test drawing the training drawing of its character.
    """

    training: torch.Tensor
    test: torch.Tensor
    answers: torch.Tensor


def one_shot(root: Path | None = None, *, size: int = 28) -> OneShot:
    """Read the task from `omniglot/one_shot_runs.zip`; size 105 gives the drawings as they are.

    Every run has its own characters, all of one evaluation alphabet. Chance is 1 in 20.
    """
    place = data_root(root) / ARRAYS / "one_shot_runs.zip"
    if not place.is_file():
        remedy = "put the runs of Omniglot's one-shot classification (run01/ to run20/) there"
        raise missing("omniglot's one-shot runs", [place], remedy)
    answers = torch.empty((DRAWERS, DRAWERS), dtype=torch.int64)
    drawn = np.empty((2, DRAWERS, DRAWERS, SIDE, SIDE), dtype=np.uint8)
    with reading(f"{place} does not hold the one-shot runs"), zipfile.ZipFile(place) as archive:
        for run in range(DRAWERS):
            folder = f"run{run + 1:02}"
            lines = member(archive, f"{folder}/class_labels.txt").decode("ascii")
            pairs = re.findall(r"test/item(\d+)\.png \S+training/class(\d+)\.png", lines)
            key = {int(item) - 1: int(character) - 1 for item, character in pairs}
            for item in range(DRAWERS):
                answers[run, item] = key[item]
                names = (f"training/class{item + 1:02}.png", f"test/item{item + 1:02}.png")
                for part, name in enumerate(names):
                    data = member(archive, f"{folder}/{name}")
                    drawn[part, run, item] = decode(data, name)
    if not torch.equal(answers.sort(1).values, torch.arange(DRAWERS).expand(DRAWERS, -1)):
        raise ValueError(f"{place}: the answers of a run must name each training drawing once.")
    images = resize(torch.from_numpy(drawn).reshape(-1, 1, SIDE, SIDE), size)
    training, test = images.reshape(2, DRAWERS, DRAWERS, 1, size, size)
    return OneShot(training, test, answers)


def accuracy(model: VAE | Embedding, task: OneShot) -> float:
    """The share of test drawings whose nearest training drawing is of their character."""
    shown, asked = (
        embed(model, part.flatten(0, 1)).unflatten(0, (DRAWERS, DRAWERS))
        for part in (task.training, task.test)
    )
    nearest = torch.cdist(asked.double(), shown.double()).argmin(2)
    return float((nearest == task.answers).double().mean())


def main(runs: list[str]) -> None:
    task = one_shot()
    print(f"{'pixels':20} {accuracy(Pixels(), task):.3f}")
    for run in runs or [name for name in tvae.pretrained().index if name.startswith("omniglot")]:
        print(f"{run:20} {accuracy(tvae.load(run), task):.3f}")


if __name__ == "__main__":
    main(sys.argv[1:])
