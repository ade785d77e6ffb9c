"""`train`: a whole run with checkpoints, from its configuration.

    config = RunConfig.from_preset("mnist", action="A", preset="book")
    run = tvae.train(config, train_data, test_data, folder="runs/mnist-A-25")

A run that was interrupted, by whatever, is continued by calling `train` again with the same folder,
and ends with the same weights to the last bit. The environment variable TVAE_MAX_STEPS limits the
steps of every call, for trials.
"""

import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from safetensors.torch import load_file
from safetensors.torch import save as dump_tensors

from tvae import models
from tvae.data import Dataset, entry, names, pixels_of
from tvae.files import AnyPath, atomic_write
from tvae.models import TVAE, VAE
from tvae.seeding import generator
from tvae.training import checkpoints
from tvae.training.checkpoints import Checkpoint, CheckpointError, SaveError
from tvae.training.configuration import RunConfig
from tvae.training.devices import make_fabric
from tvae.training.fitting import check_batch, progress_bar, step_limit
from tvae.training.history import History
from tvae.training.loop import Loop, NotFinite, Schedule

#: Called after every epoch, once its checkpoint is on the disk, with the model and the history.
Callback = Callable[["VAE | TVAE", History], None]


@dataclass(frozen=True)
class Run:
    """A finished training run; `folder` is None if nothing was saved."""

    model: VAE | TVAE
    history: History
    folder: Path | None


def train(
    config: RunConfig,
    train_data: Dataset,
    test_data: Dataset | None = None,
    *,
    folder: AnyPath | None = None,
    resume: bool = True,
    device: str | torch.device = "auto",
    precision: Any = "32-true",
    devices: int = 1,
    strategy: Any = "auto",
    max_steps: int | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
) -> Run:
    """Make the run that `config` describes; after every epoch a checkpoint goes into `folder`.

    If `folder` already holds checkpoints of this run, it continues from the newest one that is
    intact (`resume=False` makes that an error instead: nothing is ever overwritten). The result is
    the same, bit for bit, as without the interruption. More epochs than before continue a finished
    run.

    Args:
        test_data: Measured after every epoch (`test_nllx0`, `test_kl0` in the history).
        precision, devices, strategy: Passed on to Lightning Fabric. With several devices the batch
            is shared between them: the result is that of one device, but for rounding.
        max_steps: End after so many steps, for trials; see also TVAE_MAX_STEPS.
        callbacks: Called after every epoch with the model and the history so far.
        progress: Whether to show a progress bar; None means on a terminal only.
    """
    pixels_of(train_data, name="train_data")
    shape = (train_data.images.shape[1], train_data.images.shape[2], train_data.images.shape[3])
    if test_data is not None:
        pixels_of(test_data, shape, "test_data")
    check_batch(config.batch_size, len(train_data))
    task = _Task(
        config=config,
        train_data=train_data,
        test_data=test_data,
        folder=None if folder is None else Path(folder),
        resume=resume,
        limit=step_limit(max_steps),
        callbacks=tuple(callbacks),
        progress=progress,
    )
    fabric = make_fabric(device, devices=devices, strategy=strategy, precision=precision)
    if fabric.world_size == 1:
        model, history = _run(fabric, task)
    else:
        # Fabric may train in processes that are gone afterwards: what they made comes as files
        with tempfile.TemporaryDirectory(prefix="tvae-") as place:
            fabric.launch(partial(_run_apart, task=task, place=Path(place)))
            left = json.loads((Path(place) / "left.json").read_text())
            model, history = models.build(left["settings"]), History(left["history"])
            model.load_state_dict(load_file(Path(place) / "left.safetensors"))
    model.triplets = config.own_triplets()
    return Run(model.to(fabric.device).eval(), history, task.folder)


@dataclass(frozen=True)
class _Task:
    """The arguments of `train`, checked, in a form that can be sent to other processes."""

    config: RunConfig
    train_data: Dataset
    test_data: Dataset | None
    folder: Path | None
    resume: bool
    limit: int | None
    callbacks: tuple[Callback, ...]
    progress: bool | None


def _run_apart(fabric: Fabric, task: _Task, place: Path) -> None:
    """The run in one of several processes; each leaves the same result (they rename it into place)."""
    model, history = _run(fabric, task)
    left = {"settings": model.settings, "history": list(history)}
    atomic_write(place / "left.json", json.dumps(left))
    atomic_write(place / "left.safetensors", dump_tensors(checkpoints.dense(model.state_dict())))


def _run(fabric: Fabric, task: _Task) -> tuple[VAE | TVAE, History]:
    """The run itself, from the first checkpoint found to the last epoch."""
    config, history = task.config, History()
    model = build_model(config, task.train_data)
    with ExitStack() as stack:
        if task.folder is not None and fabric.is_global_zero:
            stack.enter_context(checkpoints.exclusive(task.folder))
        fabric.barrier()
        found = None if task.folder is None else checkpoints.latest(task.folder)
        if found is not None:
            _check_same_run(found, task, fabric)
            _load_weights(model, found)
            history.extend(found.history)
        loop = Loop(
            fabric,
            model,
            task.train_data.images,
            Schedule(
                config.epochs,
                config.learning_rate,
                config.halve_every,
                config.batch_size,
                limit=task.limit,
            ),
            seed=config.seed,
            triplets=config.drawn_triplets(),
            analytic=config.analytic,
            further=config.further,
            weights=config.weights,
            test=None if task.test_data is None else task.test_data.images,
        )
        if found is not None:
            loop.restore(found.epoch, found.step, found.training, found.extra)
        bar = stack.enter_context(
            progress_bar(loop, task.progress if fabric.is_global_zero else False)
        )
        while not loop.finished:
            try:
                history.append(loop.run_epoch(bar))
            except NotFinite as error:
                raise NotFinite(f"{error} {_last_good(task)}", error.step, error.term) from None
            _publish(fabric, task, loop, history)
            for callback in task.callbacks:
                callback(model, history)
    return model, history


def build_model(config: RunConfig, data: Dataset) -> VAE | TVAE:
    """The untrained model of a run, its weights drawn from the run's own stream.

    Grey images have a Bernoulli likelihood, colour images a Gaussian one with fixed variance, unless
    the data set says otherwise.
    """
    channels, height, width = data.images.shape[1:]
    # a process that Fabric started need not know a registered set
    known = entry(config.dataset) if config.dataset in names() else None
    likelihood = known.known_likelihood if known is not None else None
    options: dict[str, Any] = {
        "shape": (channels, height, width),
        "likelihood": likelihood or ("bernoulli" if channels == 1 else "gaussian"),
        "width": None if known is None else known.width,
    }
    draws = generator(config.seed, "init")
    if config.action is None:
        return VAE(config.d, generator=draws, **options)
    if config.k is not None:
        options["action_options"] = {"k": config.k}
    if config.parts is not None:
        options["action_options"] = {"parts": list(config.parts)}
    return TVAE(
        config.d,
        action=config.action,
        residual=config.residual,
        tau_width=config.tau_width,
        generator=draws,
        **options,
    )


def _publish(fabric: Fabric, task: _Task, loop: Loop, history: History) -> None:
    """Save a checkpoint from the first process; if that fails, all processes learn of it."""
    problem: SaveError | None = None
    if task.folder is not None and fabric.is_global_zero:
        tensors, plain = loop.state()
        checkpoint = Checkpoint(
            epoch=loop.epoch,
            step=loop.step,
            settings=loop.model.settings,
            weights=loop.model.state_dict(),
            config=task.config.to_dict(),
            history=list(history),
            training=tensors,
            extra={**plain, **_circumstances(task, fabric)},
        )
        try:
            checkpoints.save(task.folder, checkpoint)
        except SaveError as error:
            problem = error
    problem = fabric.broadcast(problem)
    if problem is not None:
        raise problem


def _circumstances(task: _Task, fabric: Fabric) -> dict[str, Any]:
    """What, besides the configuration, must be the same for a run to continue to the same bits."""
    return {
        "data": task.train_data.provenance.checksum,
        "device": fabric.device.type,
        "precision": str(getattr(fabric.strategy.precision, "precision", "32-true")),
    }


def _check_same_run(found: Checkpoint, task: _Task, fabric: Fabric) -> None:
    """Refuse to continue a checkpoint of another run, naming what differs."""
    if not task.resume:
        raise CheckpointError(
            f"{task.folder} already holds a run; resume it, or choose another folder."
        )
    around = _circumstances(task, fabric)
    here = task.config.to_dict() | around
    there = found.config | {name: found.extra.get(name) for name in around}
    differing = sorted(
        name for name in {*here, *there} - {"epochs", "preset"} if here.get(name) != there.get(name)
    )
    if differing:
        name = differing[0]
        raise CheckpointError(
            f"{found.path} is a checkpoint of another run: its {name} is {there.get(name)!r}, "
            f"not {here.get(name)!r}; choose another folder."
        )
    if found.epoch > task.config.epochs:
        raise CheckpointError(
            f"{found.path} is {found.epoch} epochs into the run, past the {task.config.epochs} "
            "asked for; choose another folder."
        )
    complete = found.epoch * (len(task.train_data) // task.config.batch_size)
    if found.step < complete and (task.limit is None or task.limit > found.step):
        raise CheckpointError(
            f"{found.path} was cut short after {found.step} steps, in the middle of an epoch, and "
            "cannot be continued; choose another folder."
        )


def _load_weights(model: VAE | TVAE, checkpoint: Checkpoint) -> None:
    try:
        model.load_state_dict(checkpoint.weights)
    except RuntimeError as error:
        raise CheckpointError(
            f"{checkpoint.path} is a checkpoint of another model: its weights do not fit "
            f"{type(model).__name__}(d={model.settings['d']})."
        ) from error


def _last_good(task: _Task) -> str:
    found = [] if task.folder is None else checkpoints.checkpoint_folders(task.folder)
    return f"The last good checkpoint is {found[-1]}." if found else "There is no checkpoint."


def load_run(folder: AnyPath) -> tuple[VAE | TVAE, Checkpoint]:
    """The trained model of a run folder, in evaluation mode, and the checkpoint it comes from.

    That is the newest intact one; a single checkpoint folder such as `runs/mnist-A-25/epoch-00012`
    is accepted as well. The model carries the triplets that it was trained on.
    """
    folder = Path(folder)
    found = checkpoints.latest(folder)
    if found is None:
        if not (folder / "manifest.json").exists():
            raise CheckpointError(f"There is no trained run in {folder}.")
        found = checkpoints.read(folder)
    model = models.build(found.settings)
    _load_weights(model, found)
    model.triplets = RunConfig.from_dict(found.config).own_triplets()
    return model.eval(), found
