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

- `actions` and `residual` concern `tvae` alone. An action without a residual form, such as A, comes
  once, plain, under `residual: [false, true]`.
- An action that does not take the d asked for gets the next that it takes: M and MA rotate pairs of
  coordinates, so that `d: [25]` means 26 for them, as in the paper.
- `models` may contain the baselines of the kNN columns: `pixels`, `pca`, `untrained`.
- `epochs`, `learning_rate`, `halve_every`, `batch_size`, `source`, `analytic`, `families`,
  `geometry` and `interpolation` replace what the preset says about training; `pairs`, `further`,
  `weights`, `k`, `tau_width`, `moved` and `parts` go beyond the paper, see `RunConfig`.
- `anchors`, `queries`, `likelihood_samples`, `likelihood_images` and `likelihood_error` (the standard
  error in nats that the log-likelihood has to reach) replace what it says about measuring.
- `epoch_images: 60000` makes the schedule count in passes of that many images instead of passes
  through the data set: a smaller set gets more epochs, so that the number of steps is the same.
  Omniglot has it at every preset but quick; `epoch_images: null` means passes through the set.
- `max_steps` ends training after so many steps (for trials), `tag` names an experiment that must not
  be mixed with others of the same configuration.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    ValidationError,
)

from tvae import actions, data
from tvae.files import AnyPath, reading
from tvae.runs.name import BASELINES, RunName
from tvae.training import configuration
from tvae.training.configuration import Measuring, RunConfig


class SweepError(ValueError):
    """A sweep file that cannot be understood."""


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, (list, tuple)) else [value]


_Text = Annotated[list[str], BeforeValidator(_listed), Field(min_length=1)]
_Whole = Annotated[list[int], BeforeValidator(_listed), Field(min_length=1)]
_Yes = Annotated[list[bool], BeforeValidator(_listed), Field(min_length=1)]
#: Of a setting that the file does not make: the preset decides.
_UNSAID: Any = None


class Block(BaseModel):
    """One block of a sweep file, as it is written; values may stand for lists of one."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    datasets: _Text
    models: _Text = ["tvae"]
    actions: _Text = ["A"]
    residual: _Yes = [False]
    d: _Whole = [25]
    seeds: _Whole = [0]
    preset: _Text = ["quick"]
    # in the place of what the preset says about training
    source: str = _UNSAID
    epochs: int = _UNSAID
    learning_rate: float = _UNSAID
    halve_every: int = _UNSAID
    batch_size: int = _UNSAID
    analytic: bool = _UNSAID
    families: _Text = _UNSAID
    geometry: str = _UNSAID
    interpolation: str = _UNSAID
    further: _Text = _UNSAID
    weights: dict[str, float] = _UNSAID
    pairs: bool = _UNSAID
    k: PositiveInt = _UNSAID
    moved: bool = _UNSAID
    parts: Annotated[list[str], BeforeValidator(_listed)] = _UNSAID  # may be empty
    tau_width: float = _UNSAID
    # and about measuring
    anchors: PositiveInt = _UNSAID
    queries: PositiveInt = _UNSAID
    likelihood_samples: PositiveInt = _UNSAID
    likelihood_images: PositiveInt | None = _UNSAID
    likelihood_error: PositiveFloat | None = _UNSAID
    # settings of the job itself
    epoch_images: int | None = None
    max_steps: int | None = None
    tag: str = ""

    def given(self, kind: type) -> dict[str, Any]:
        """What the file itself says about the fields of the dataclass `kind`."""
        names = self.model_fields_set & {field.name for field in dataclasses.fields(kind)}
        values = {name: getattr(self, name) for name in sorted(names - {"d", "residual", "preset"})}
        return {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}


def _read(block: Mapping[str, Any]) -> Block:
    try:
        return Block.model_validate(block)
    except ValidationError as error:
        problem = error.errors()[0]
    key, kind, value = str(problem["loc"][0]), problem["type"], problem["input"]
    if kind in ("extra_forbidden", "invalid_key"):
        known = ", ".join(Block.model_fields)
        raise SweepError(f"A sweep has no setting {key}; the settings are runs, {known}.")
    if kind == "missing":
        raise SweepError("A sweep must say which datasets to use, such as `datasets: [mnist]`.")
    if kind == "too_short":
        raise SweepError(f"{key} is empty: a sweep needs at least one value for it.")
    words = {"int_type": "whole numbers", "bool_type": "true or false", "string_type": "names"}
    words |= {"float_type": "numbers", "greater_than": "positive numbers"}
    words |= {"dict_type": "terms of the loss with their weights"}
    # shortened: a few aliases of YAML make a billion values
    raise SweepError(
        f"{key} must hold {words.get(kind, 'other values')}, not {reprlib.repr(value)}."
    )


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
        return self.model not in BASELINES

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

    def measures(self) -> Measuring:
        """How thoroughly the run is measured."""
        measuring = configuration.get_preset(self.preset).measuring
        return dataclasses.replace(measuring, **dict(self.measuring))

    def configuration(self) -> dict[str, Any]:
        """All settings as the ledger keeps them: two runs are the same if these are equal."""
        config = self.config().to_dict()
        config.update(model=self.model, action=self.action)
        measures = dataclasses.asdict(self.measures())
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
        return RunName.of(self).entry(self.preset, self.seed, self.tag)

    def schedule(self, images: int) -> RunConfig:
        """The configuration to train with on a data set of so many `images`."""
        return self.config().stretched(images, self.epoch_images)

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


def _jobs(block: Block) -> Iterable[Job]:
    known = (*configuration.MODELS, *BASELINES)
    for model in block.models:
        if model not in known:
            raise SweepError(f"There is no model {model!r}; choose from {', '.join(known)}.")
    kinds = [
        (letter, residual)
        for letter in block.actions
        for residual in block.residual
        if not residual or actions.find(letter).has_residual
    ]
    if "tvae" in block.models and not kinds:
        raise SweepError(
            f"There is no residual form of {', '.join(block.actions)}: write `residual: [false]`."
        )
    common: dict[str, Any] = {
        "training": tuple(block.given(RunConfig).items()),
        "measuring": tuple(block.given(Measuring).items()),
        "max_steps": block.max_steps,
        "tag": block.tag,
    }
    axes = itertools.product(block.preset, block.datasets, block.d, block.models)
    for preset, dataset, d, model in axes:
        for (action, residual), seed in itertools.product(
            kinds if model == "tvae" else [(None, False)], block.seeds
        ):
            size = actions.nearest_dimension(action, d)
            if model == "pixels":
                size = math.prod(data.entry(dataset).shape)
            # nothing is drawn for raw pixels and PCA, so they have no second seed
            own = seed if model not in ("pixels", "pca") else 0
            images = block.epoch_images
            if "epoch_images" not in block.model_fields_set:
                images = configuration.usual_epoch_images(dataset, preset)
            yield Job(
                dataset, model, action, residual, size, own, preset, epoch_images=images, **common
            )


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
        for job in _jobs(_read({**defaults, **block})):
            if jobs.setdefault(job.name, job) != job:
                raise SweepError(
                    f"The sweep has two different runs of the name {job.name}: give one of the "
                    "blocks a `tag`."
                )
    return list(jobs.values())


def load(path: AnyPath) -> list[Job]:
    """Read a sweep file and expand it."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SweepError(f"There is no sweep file {path}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SweepError(f"The sweep file {path} cannot be read: {error}.") from None
    with reading(f"The sweep file {path} is not YAML", SweepError):
        sweep = yaml.safe_load(text)
    try:
        return expand(sweep)
    except SweepError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise SweepError(f"The sweep file {path} asks for a run that cannot be: {error}") from None
