"""A trained model by name, for whatever preset: released weights, or a run of one's own.

    model = trained("mnist-A-25", "quick")     # the weights that come with the package
    model = trained("mnist-A-25", "paper")     # trained here, on the full data, with checkpoints

This is what makes a chapter quick by default and a full experiment by changing one word.
"""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tvae.runs import execution, released
from tvae.runs.name import BASELINES, RunName
from tvae.runs.sweep import Job
from tvae.training import get_preset, pick_device, train
from tvae.training.configuration import usual_epoch_images


def job(name: str, preset: str, seed: int = 0, **settings: Any) -> Job:
    """The run that a name such as `mnist-A-25`, `mnist-NR-25` or `omniglot-VAE+-25` stands for.

    `settings` replace what the preset says about training, as in `RunConfig.from_preset`.
    """
    run = RunName.parse(name)
    if run.d is None or run.model in BASELINES:
        raise ValueError(f"{name!r} names a baseline, which is not trained; mnist-A-25 is a model.")
    images = usual_epoch_images(run.dataset, preset)
    training = tuple(sorted(settings.items()))
    return Job(**asdict(run), seed=seed, preset=preset, training=training, epoch_images=images)


def trained(
    name: str,
    preset: str = "quick",
    *,
    seed: int = 0,
    device: str = "auto",
    **settings: Any,
) -> Any:
    """The model `name` in evaluation mode: released (`quick`), or trained here (`book`, `paper`).

    `settings` say how it differs from the paper's run of that name, such as `pairs=True`.

    A training run is kept in the folder NAME of the folder that TVAE_RUNS names (else of `runs`
    where one works) and goes on from there if it was interrupted; a finished one is
    only loaded. TVAE_MAX_STEPS cuts it short, for trials.
    """
    get_preset(preset)
    place = pick_device(device)
    if preset == "quick":
        return released.pretrained(name).to(place)
    wanted = job(name, preset, seed, **settings)
    train_data, test_data = execution.own_data(wanted.dataset, wanted.config().source)
    return train(
        wanted.schedule(len(train_data)),
        train_data,
        test_data,
        folder=Path(os.environ.get("TVAE_RUNS") or "runs") / wanted.name,
        device=place,
    ).model


def origin(name: str, preset: str = "quick") -> str:
    """One line on where `trained(name, preset)` comes from: for how long it was trained, on what."""
    if preset != "quick":
        return f"{name}: trained here at the preset {preset}"
    entry = released.entry(name)
    images, settings = entry.data["train"].count, entry.configuration
    steps = entry.training["steps"] or 0
    passes = steps * (settings.batch_size or 0) / images
    return (
        f"{entry.name}: released weights, {steps:,} steps ({passes:.0f} passes through "
        f"{images:,} training images), seed {settings.seed}"
    )
