"""`load`: a trained model, from a run folder or by the name it was released under.

    model = tvae.load("runs/mnist-A-25_book_seed0")
    model = tvae.load("mnist-A-25")

`find` gives what is known of the run as well: its configuration and its history.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tvae.files import AnyPath
from tvae.models import TVAE, VAE
from tvae.runs import released
from tvae.runs.name import RunName
from tvae.training import RunConfig, pick_device
from tvae.training.run import load_run


@dataclass(frozen=True)
class Trained:
    """A trained model in evaluation mode, and what is known of its run."""

    name: str
    model: VAE | TVAE
    config: RunConfig
    history: list[dict[str, Any]]
    folder: Path | None  # None: released with the package


def find(run: AnyPath, device: str | torch.device = "cpu") -> Trained:
    """The trained run in the folder `run`, or the released model of that name.

    A single checkpoint folder such as `runs/mnist-A-25/epoch-00012` is accepted as well.
    """
    place, folder = pick_device(device), Path(run)
    if folder.is_dir():
        model, kept = load_run(folder)
        config = RunConfig.from_dict(kept.config)
        return Trained(str(RunName.of(config)), model.to(place), config, kept.history, folder)
    try:
        name = released.resolve(os.fspath(run))
    except released.ReleaseError:
        known = ", ".join(released.names()) or "none in this installation"
        raise ValueError(
            f"There is no run folder {run}, nor released weights of that name ({known})."
        ) from None
    entry = released.entry(name)
    model = released.pretrained(name).to(place)
    return Trained(name, model, released.configuration(entry), entry.curve, None)


def load(run: AnyPath, device: str | torch.device = "cpu") -> VAE | TVAE:
    """The trained model of a run folder, or the released one of that name, in evaluation mode.

    It carries the triplets that it was trained on (`model.triplets`), which `evaluate` uses.
    """
    return find(run, device).model
