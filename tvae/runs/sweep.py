"""Sweeps: a small YAML file that stands for many runs.

    preset: book            # defaults for all blocks
    seeds: [0]
    runs:                   # each block is one product; earlier blocks run first
      - datasets: [mnist, fashion-mnist]
        models: [tvae]
        actions: [A, M, N]
        residual: [false, true]
        d: [10, 25]
      - datasets: [mnist]
        models: [vae, vae+, pca]
        d: [25]

A file without `runs` is a single block. Lists may be written as single values. What a block means:

- `actions` and `residual` concern `tvae` alone. A has no residual form, so `residual: [false, true]`
  gives the plain A once.
- M and MA rotate pairs of coordinates and need an even d: `d: [25]` means 26 for them, as in the
  paper.
- `models` may contain the baselines of the kNN columns: `pixels`, `pca`, `untrained`.
- `epochs`, `learning_rate`, `halve_every`, `batch_size`, `source`, `analytic`, `families`,
  `geometry` and `interpolation` replace what the preset says about training.
- `anchors`, `queries`, `likelihood_samples`, `likelihood_images` and `likelihood_error` (the standard
  error in nats that the log-likelihood has to reach) replace what it says about measuring.
- `epoch_images: 60000` makes the schedule count in passes of that many images instead of passes
  through the data set: a smaller set gets more epochs, so that the number of steps is the same.
- `max_steps` ends training after so many steps (for trials), `tag` names an experiment that must not
  be mixed with others of the same configuration.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tvae import data
from tvae.runs import ledger
from tvae.training import configuration
from tvae.training.configuration import RunConfig

__all__ = ["Job", "SweepError", "even", "expand", "load"]


class SweepError(ValueError):
    """A sweep file that cannot be understood."""


_AXES = ("datasets", "models", "actions", "residual", "d", "seeds", "preset")
_TRAINING = (
    "source",
    "epochs",
    "learning_rate",
    "halve_every",
    "batch_size",
    "analytic",
    "families",
    "geometry",
    "interpolation",
)
_MEASURING = (
    "anchors",
    "queries",
    "likelihood_samples",
    "likelihood_images",
    "likelihood_error",
)
_OTHER = ("epoch_images", "max_steps", "tag")
_KEYS = (*_AXES, *_TRAINING, *_MEASURING, *_OTHER)


def even(action: str | None, d: int) -> int:
    """The dimension at which the paper runs this action for a nominal `d`: 26 for M and MA at 25."""
    return d + d % 2 if action in ("M", "MA") else d


@dataclass(frozen=True)
class Job:
    """One run to be made: a model to train and measure, or a baseline to measure.

    `training` and `measuring` hold what replaces the preset's values, as sorted pairs.
    """

    dataset: str
    model: str
    action: str | None = None
    residual: bool = False
    d: int = 25
    seed: int = 0
    preset: str = "quick"
    training: tuple[tuple[str, Any], ...] = ()
    measuring: tuple[tuple[str, Any], ...] = ()
    epoch_images: int | None = None
    max_steps: int | None = None
    tag: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9-]*", self.tag):
            raise SweepError(
                f"A tag consists of letters, digits and dashes; {self.tag!r} does not."
            )
        for name in ("epoch_images", "max_steps"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value <= 0):
                raise SweepError(f"{name} must be a positive whole number, not {value!r}.")
        self.config()  # raises what is wrong with the rest

    @property
    def trained(self) -> bool:
        """Whether this is a model that is trained, not a baseline."""
        return self.model not in ledger.BASELINES

    def config(self) -> RunConfig:
        """The nominal run configuration (an untrained encoder is that of a VAE)."""
        return RunConfig.from_preset(
            self.dataset,
            model=self.model if self.trained else "vae",
            action=self.action,
            residual=self.residual,
            d=self.d,
            seed=self.seed,
            preset=self.preset,
            **dict(self.training),
        )

    def measures(self) -> dict[str, Any]:
        """How thoroughly the run is measured."""
        preset = configuration.get_preset(self.preset)
        values = {
            "anchors": preset.anchors,
            "queries": preset.queries,
            "likelihood_samples": preset.likelihood_samples,
            "likelihood_images": preset.likelihood_images,
            # the paper preset measures every test image, so there is no error to aim at
            "likelihood_error": 0.5 if preset.name == "book" else None,
        }
        return {**values, **dict(self.measuring)}

    def configuration(self) -> dict[str, Any]:
        """All settings as the ledger keeps them: two runs are the same if these are equal."""
        config = self.config().to_dict()
        config.update(model=self.model, action=self.action)
        measures = self.measures()
        if not self.trained:
            for name in ("epochs", "learning_rate", "halve_every", "batch_size", "analytic"):
                del config[name]
            del config["families"], config["geometry"], config["interpolation"]
            measures = {name: measures[name] for name in ("anchors", "queries")}
        config.update(measures)
        config["epoch_images"] = self.epoch_images if self.trained else None
        config["max_steps"] = self.max_steps if self.trained else None
        config["tag"] = self.tag
        return config

    @property
    def name(self) -> str:
        """The name of the run, seed and preset included: `mnist-A-25_book_seed0`."""
        name = ledger.entry_name(self.configuration())
        return f"{self.tag}/{name}" if self.tag else name

    def schedule(self, images: int) -> RunConfig:
        """The configuration to train with on a data set of so many `images`.

        With `epoch_images` the epochs and the halving are stretched, so that the number of steps and
        the place of every halving stay what they are on a set of `epoch_images` images.
        """
        config = self.config()
        if self.epoch_images is None:
            return config
        nominal = max(self.epoch_images // config.batch_size, 1)
        own = max(images // config.batch_size, 1)
        return dataclasses.replace(
            config,
            epochs=max(round(config.epochs * nominal / own), 1),
            halve_every=max(round(config.halve_every * nominal / own), 1),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `from_dict` gives the job back."""
        values = dataclasses.asdict(self)
        return {**values, "training": dict(self.training), "measuring": dict(self.measuring)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Job:
        """The inverse of `to_dict`."""
        pairs = {
            name: tuple(
                (key, tuple(value) if isinstance(value, list) else value)
                for key, value in sorted(values[name].items())
            )
            for name in ("training", "measuring")
        }
        return cls(**{**values, **pairs})


def _listed(block: Mapping[str, Any], key: str, default: Any) -> list[Any]:
    value = block.get(key, default)
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    if not values:
        raise SweepError(f"{key} is empty: a sweep needs at least one value for it.")
    return values


def _checked(values: list[Any], key: str, kind: type) -> list[Any]:
    for value in values:
        if type(value) is not kind:  # bool is an int for isinstance
            words = {int: "whole numbers", bool: "true or false", str: "names"}[kind]
            raise SweepError(f"{key} must hold {words}, not {value!r}.")
    return values


def _block(block: Mapping[str, Any]) -> Iterable[Job]:
    if unknown := sorted(set(block) - set(_KEYS)):
        raise SweepError(
            f"A sweep has no setting {', '.join(map(str, unknown))}; the settings are "
            f"runs, {', '.join(_KEYS)}."
        )
    if "datasets" not in block:
        raise SweepError("A sweep must say which datasets to use, such as `datasets: [mnist]`.")
    datasets = _checked(_listed(block, "datasets", None), "datasets", str)
    models = _checked(_listed(block, "models", "tvae"), "models", str)
    actions = _checked(_listed(block, "actions", "A"), "actions", str)
    residual = _checked(_listed(block, "residual", False), "residual", bool)
    dimensions = _checked(_listed(block, "d", 25), "d", int)
    seeds = _checked(_listed(block, "seeds", 0), "seeds", int)
    levels = _checked(_listed(block, "preset", "quick"), "preset", str)
    known = (*configuration.MODELS, *ledger.BASELINES)
    for model in models:
        if model not in known:
            raise SweepError(f"There is no model {model!r}; choose from {', '.join(known)}.")

    def pairs(names: tuple[str, ...]) -> tuple[tuple[str, Any], ...]:
        return tuple(
            (name, tuple(block[name]) if isinstance(block[name], list) else block[name])
            for name in sorted(names)
            if name in block
        )

    common: dict[str, Any] = {
        "training": pairs(_TRAINING),
        "measuring": pairs(_MEASURING),
        **{name: block[name] for name in _OTHER if name in block},
    }
    for preset, dataset, d, model in itertools.product(levels, datasets, dimensions, models):
        if model == "tvae":
            kinds = [(a, r) for a in actions for r in residual if not (a == "A" and r)]
            if not kinds:
                raise SweepError(
                    "The action A has no residual form: write `residual: [false]` for it."
                )
        else:
            kinds = [(None, False)]
        for (action, rest), seed in itertools.product(kinds, seeds):
            size = math.prod(data.entry(dataset).shape) if model == "pixels" else even(action, d)
            # nothing is drawn for raw pixels and PCA, so they have no second seed
            own = seed if model not in ("pixels", "pca") else 0
            yield Job(dataset, model, action, rest, size, own, preset, **common)


def expand(sweep: Mapping[str, Any]) -> list[Job]:
    """All runs of a sweep in the order in which they are to be made, each once."""
    if not isinstance(sweep, Mapping):
        raise SweepError("A sweep is a mapping with keys such as `datasets` and `models`.")
    defaults = {key: value for key, value in sweep.items() if key != "runs"}
    blocks = sweep.get("runs", [{}])
    if not isinstance(blocks, list) or not all(isinstance(block, Mapping) for block in blocks):
        raise SweepError("`runs` must be a list of blocks, each with keys such as `datasets`.")
    jobs: dict[str, Job] = {}
    for block in blocks:
        for job in _block({**defaults, **block}):
            if jobs.setdefault(job.name, job) != job:
                raise SweepError(
                    f"The sweep has two different runs of the name {job.name}: give one of the "
                    "blocks a `tag`."
                )
    return list(jobs.values())


def load(path: str | os.PathLike[str]) -> list[Job]:
    """Read a sweep file and expand it."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SweepError(f"There is no sweep file {path}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SweepError(f"The sweep file {path} cannot be read: {error}.") from None
    try:
        sweep = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SweepError(f"The sweep file {path} is not YAML: {error}.") from None
    try:
        return expand(sweep)
    except SweepError:
        raise
    except (TypeError, ValueError) as error:
        raise SweepError(f"The sweep file {path} asks for a run that cannot be: {error}") from None
