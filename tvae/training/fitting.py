"""`fit`: train a model in hand.

    model = tvae.TVAE(d=25, action="A")
    history = tvae.fit(model, data, triplets=tvae.Triplets(), epochs=8, learning_rate=1e-3)

`tvae.train` makes a whole run of it, with checkpoints; both go through the same loop
(`tvae.training.loop`). The environment variable TVAE_MAX_STEPS limits the steps of every call, for
trials.
"""

import sys
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from tvae.data import Dataset, pixels_of
from tvae.models import TVAE, VAE, Views
from tvae.training.devices import make_fabric
from tvae.training.history import History
from tvae.training.loop import Loop, Schedule, max_steps_from_environment


def fit(
    model: VAE | TVAE,
    images: Tensor | Dataset,
    *,
    triplets: Views | None = None,
    epochs: int | None = None,
    steps: int | None = None,
    learning_rate: float = 1e-3,
    halve_every: int | None = None,
    batch_size: int = 100,
    seed: int = 0,
    device: str | torch.device = "auto",
    precision: Any = "32-true",
    analytic: bool = False,
    further: Collection[str] = (),
    weights: Mapping[str, float] | None = None,
    test: Tensor | Dataset | None = None,
    progress: bool | None = None,
) -> History:
    """Train `model` in place and return the mean of every loss term, epoch by epoch.

    Args:
        model: A `TVAE` needs `triplets`; a `VAE` with `triplets` becomes a VAE+, trained on one
            image of every triplet, each of the three with probability 1/3.
        images: (N, C, H, W), uint8 or floats in [0, 1], or a data set.
        epochs, steps: How long; one of the two. The images that are left over after the last full
            batch of an epoch are dropped from that epoch.
        learning_rate, halve_every: Adam's rate, halved every so many epochs (None: never).
        seed: Of everything drawn in training. (The weights at the start were drawn by whoever made
            the model.)
        device: "auto", "cpu", "cuda", ...; the model stays there afterwards.
        precision: Lightning Fabric's name of it, such as "32-true" or "bf16-mixed".
        analytic: Whether C1 and C2 use posterior means instead of samples.
        further: Terms beyond the paper's loss, by the switches of `tvae.objective.FURTHER`; the borrowed
            ones need triplets with `pairs=True`.
        weights: Of single loss terms in the sum, such as {"nll": 0}; 1 where not given.
        test: Images on which reconstruction and KL0 are measured after every epoch.
        progress: Whether to show a progress bar; None means on a terminal only.

    The model is left in evaluation mode. A loss that stops being finite is a `NotFinite` error.
    """
    pixels = pixels_of(images, model.shape)
    held_out = None if test is None else pixels_of(test, model.shape, "test")
    if isinstance(model, TVAE) and triplets is None:
        raise ValueError("A TVAE is trained on triplets: pass triplets=tvae.Triplets().")
    if (epochs is None) == (steps is None):
        raise ValueError("Say how long to train: either epochs or steps, one of the two.")
    for name, value in (("epochs", epochs), ("steps", steps), ("halve_every", halve_every)):
        if value is not None and value <= 0:
            raise ValueError(f"{name} must be positive, not {value}.")
    check_batch(batch_size, len(pixels))
    if epochs is None:
        assert steps is not None
        epochs = -(-steps // (len(pixels) // batch_size))
    limit = max_steps_from_environment()
    schedule = Schedule(epochs, learning_rate, halve_every, batch_size, steps, limit)
    loop = Loop(
        make_fabric(device, precision=precision),
        model,
        pixels,
        schedule,
        seed=seed,
        triplets=triplets,
        analytic=analytic,
        further=further,
        weights=weights,
        test=held_out,
    )
    history = History()
    with progress_bar(loop, progress) as bar:
        while not loop.finished:
            history.append(loop.run_epoch(bar))
    model.eval()
    return history


def check_batch(batch_size: int, count: int) -> None:
    if batch_size <= 0:
        raise ValueError(f"The batch size must be positive, not {batch_size}.")
    if batch_size > count:
        raise ValueError(
            f"A batch of {batch_size} is larger than the data, {count} images: "
            f"choose a batch size of at most {count}."
        )


def step_limit(steps: int | None) -> int | None:
    """The smaller of the limit asked for and the one in the environment."""
    if steps is not None and steps <= 0:
        raise ValueError(f"max_steps must be positive, not {steps}.")
    limits = [limit for limit in (steps, max_steps_from_environment()) if limit is not None]
    return min(limits) if limits else None


def progress_bar(loop: Loop, progress: bool | None) -> Any:
    """A bar over the steps of the run with the loss terms; silent when nobody watches."""
    if progress is None:
        progress = sys.stderr.isatty()
    total = loop.last_step
    return tqdm(total=total, initial=loop.step, disable=not progress, unit="step")
