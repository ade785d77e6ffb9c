"""Checkpoints: the state of a run after an epoch, on disk in full or not at all.

A run folder holds one folder per kept epoch:

    epoch-00012/
        model.safetensors      the weights
        training.safetensors   the optimiser's tensors and the states of the random generators
        config.json            the run's configuration and the settings that rebuild the model
        history.json           the mean of every loss term, epoch by epoch
        manifest.json          epoch, step, format and the SHA-256 of the four files above

Nothing is pickled, so nothing can run when a checkpoint is opened. A checkpoint is written into a
hidden folder, flushed to the disk and then renamed: whoever kills the process, at whatever moment,
leaves the earlier checkpoints and perhaps a hidden folder that the next run sweeps away. The two
newest checkpoints are kept, so that there is one to go back to if the newest turns out damaged.
"""

import hashlib
import json
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as dump_tensors

from tvae.files import AnyPath, Busy, locked

FORMAT = "tvae checkpoint"
VERSION = 1
KEEP = 2
_MANIFEST = "manifest.json"
_FILES = ("model.safetensors", "training.safetensors", "config.json", "history.json")
_NAME = re.compile(r"epoch-\d{5,}")


class CheckpointError(ValueError):
    """A checkpoint that cannot be used: damaged, or of something else."""


class CheckpointWarning(UserWarning):
    """The newest checkpoint could not be used, and an older one was taken in its place."""


class SaveError(OSError):
    """A checkpoint that could not be written; the earlier ones are untouched."""


@dataclass(frozen=True)
class Checkpoint:
    """A run after `epoch` completed epochs and `step` optimiser steps."""

    epoch: int
    step: int
    settings: dict[str, Any]  # rebuilds the model: tvae.models.build(settings)
    weights: dict[str, torch.Tensor]
    config: dict[str, Any] = field(default_factory=dict)  # the RunConfig
    history: list[dict[str, Any]] = field(default_factory=list)
    training: dict[str, torch.Tensor] = field(default_factory=dict)  # optimiser and generators
    extra: dict[str, Any] = field(default_factory=dict)  # further plain values of the training loop
    path: Path | None = None  # where it was read from


def checkpoint_folders(folder: AnyPath) -> list[Path]:
    """The checkpoint folders in a run folder, oldest first, whether or not they are intact."""
    folder = Path(folder)
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if path.is_dir() and _NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: int(path.name.removeprefix("epoch-")))


def save(folder: AnyPath, checkpoint: Checkpoint) -> Path:
    """Publish `checkpoint` as `folder`/epoch-NNNNN and drop all but the newest two.

    If that fails, by a full disk or a folder that cannot be written to, a `SaveError` says so in
    one sentence and everything saved before is still there.
    """
    folder = Path(folder)
    target = folder / f"epoch-{checkpoint.epoch:05d}"
    earlier = [path for path in checkpoint_folders(folder) if path != target]
    temporary: Path | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".part", dir=folder))
        _write_files(temporary, checkpoint)
        _readable_by_all(temporary)
        if target.exists():  # a damaged one that this run has gone past: rename cannot replace it
            _remove(target)
        os.rename(temporary, target)
        _flush(folder)
    except OSError as error:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        kept = f"the last good one is {earlier[-1]}" if earlier else "there is no earlier one"
        text = (
            f"The checkpoint of epoch {checkpoint.epoch} could not be written to {folder} "
            f"({error.strerror or error}); {kept}."
        )
        raise _save_error(text, error) from error
    for path in earlier[: len(earlier) + 1 - KEEP]:
        with suppress(OSError):  # one checkpoint too many does no harm
            _remove(path)
    return target


def _save_error(text: str, cause: OSError) -> SaveError:
    error = SaveError(text)  # with one argument, so that str() is the sentence alone
    error.errno = cause.errno
    return error


def _write_files(folder: Path, checkpoint: Checkpoint) -> None:
    """The files of a checkpoint, each flushed to the disk; the manifest comes last."""
    config = {"run": checkpoint.config, "model": checkpoint.settings}
    contents = {
        "model.safetensors": dump_tensors(dense(checkpoint.weights)),
        "training.safetensors": dump_tensors(dense(checkpoint.training)),
        "config.json": _json(config),
        "history.json": _json(checkpoint.history),
    }
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "epoch": checkpoint.epoch,
        "step": checkpoint.step,
        "extra": checkpoint.extra,
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()},
    }
    for name, data in {**contents, _MANIFEST: _json(manifest)}.items():
        with open(folder / name, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    _flush(folder)


def dense(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Copies that own their memory in the plain layout, which safetensors asks for."""
    return {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()


def _readable_by_all(folder: Path) -> None:
    """mkdtemp makes private folders; give this one the mode an ordinary mkdir would have given."""
    umask = os.umask(0)
    os.umask(umask)
    folder.chmod(0o777 & ~umask)


def _flush(folder: Path) -> None:
    """Make names in `folder` survive a power cut, where the system can flush a folder."""
    if os.name == "nt":  # Windows cannot open a folder for this
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    """Delete a checkpoint: first its name, so that no half of it is ever taken for a whole."""
    hidden = path.with_name(f".{path.name}.{os.getpid()}.part")
    os.rename(path, hidden)
    shutil.rmtree(hidden, ignore_errors=True)


def read(path: AnyPath) -> Checkpoint:
    """The checkpoint in this folder, checked against its checksums.

    Raises `CheckpointError` with one sentence if it is not there, incomplete, damaged or not a
    checkpoint of this package.
    """
    path = Path(path)
    try:
        manifest = json.loads((path / _MANIFEST).read_bytes())
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise CheckpointError(f"{path} is not a checkpoint of this package.")
        if manifest.get("version") != VERSION:
            raise CheckpointError(
                f"{path} is a checkpoint of version {manifest.get('version')}, "
                f"this package reads version {VERSION}."
            )
        contents = {name: (path / name).read_bytes() for name in _FILES}
        for name, data in contents.items():
            if hashlib.sha256(data).hexdigest() != manifest["sha256"][name]:
                raise CheckpointError(
                    f"{path / name} is damaged: its checksum is not the one in the manifest."
                )
        config = json.loads(contents["config.json"])
        found = Checkpoint(
            epoch=manifest["epoch"],
            step=manifest["step"],
            settings=config["model"],
            weights=load_tensors(contents["model.safetensors"]),
            config=config["run"],
            history=json.loads(contents["history.json"]),
            training=load_tensors(contents["training.safetensors"]),
            extra=manifest["extra"],
            path=path,
        )
        counts, plain = (found.epoch, found.step), (found.settings, found.config, found.extra)
        rows = found.history if isinstance(found.history, list) else [None]
        if not all(type(count) is int and count >= 0 for count in counts) or not all(
            isinstance(value, dict) for value in (*plain, *rows)
        ):
            raise TypeError("values of another kind than a checkpoint has")
        return found
    except CheckpointError:
        raise
    except FileNotFoundError as error:
        missing = Path(error.filename).name
        raise CheckpointError(
            f"{path} is not a complete checkpoint: it has no {missing}."
        ) from error
    except NotADirectoryError as error:
        raise CheckpointError(f"{path} is not a folder, and a checkpoint is one.") from error
    except (
        ValueError,  # of JSON and of UTF-8
        KeyError,
        TypeError,
        RecursionError,
        SafetensorError,
    ) as error:
        raise CheckpointError(f"{path} is damaged: its files cannot be read.") from error


def latest(folder: AnyPath) -> Checkpoint | None:
    """The newest checkpoint of a run folder that can be used; None if there is none at all.

    A damaged one is passed over with a `CheckpointWarning` that names it and the one taken
    instead. If there are checkpoints but none can be used, that is a `CheckpointError`.
    """
    problems: list[str] = []
    folders = checkpoint_folders(folder)
    for path in reversed(folders):
        try:
            checkpoint = read(path)
        except CheckpointError as error:
            problems.append(str(error))
            continue
        if problems:
            text = f"{' '.join(problems)} The earlier checkpoint {path} is used instead."
            warnings.warn(text, CheckpointWarning, stacklevel=2)
        return checkpoint
    if problems and checkpoint_folders(folder) != folders:
        return latest(folder)  # the run goes on, and has dropped these since for newer ones
    if problems:
        raise CheckpointError(
            f"No checkpoint in {folder} can be used; delete the folder to begin again: "
            f"{' '.join(problems)}"
        )
    return None


@contextmanager
def exclusive(folder: AnyPath) -> Iterator[None]:
    """Keep `folder` to this process while the block runs, and sweep away what killed runs left.

    The lock ends with the process, however that ends: see `files.locked`.
    """
    folder = Path(folder)
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / ".lock"))
        except Busy:
            raise CheckpointError(
                f"Another process is training in {folder}: wait for it to end or choose another "
                "folder."
            ) from None
        except OSError as error:
            text = f"The run folder {folder} cannot be written to ({error.strerror or error})."
            raise _save_error(text, error) from error
        for path in folder.glob(".*.part"):
            shutil.rmtree(path, ignore_errors=True)
        yield
