"""Trained weights that come with the package.

    import tvae
    tvae.pretrained()                    # a table of what there is, with its metrics
    model = tvae.pretrained("mnist-A-25")

Each model is two files beside this module: the weights in half precision (safetensors) and a JSON
file with the settings that rebuild the model, the run's entry in the ledger and the checksum of the
weights, as `scripts/release_weights.py` writes them. Both are checked on loading; a file that does not
match is refused.

Half precision keeps eleven significant bits. The metrics of the rounded weights agree with those in
the ledger to the digits the tables print.
"""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import pandas as pd
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors

from tvae import models, text
from tvae.evaluation import METRICS
from tvae.files import AnyPath, reading
from tvae.runs.ledger import Entry
from tvae.runs.name import RunName
from tvae.training import RunConfig

FORMAT = "tvae released weights"


class ReleaseError(ValueError):
    """Released weights that are not there or not what was released."""


def home(folder: AnyPath | None = None) -> Path:
    """Where released models lie: beside this module, unless in another `folder`."""
    return Path(__file__).parent if folder is None else Path(folder)


def names(folder: AnyPath | None = None) -> list[str]:
    """The names of all released models, sorted."""
    return sorted(path.stem for path in home(folder).glob("*.json"))


def resolve(name: str, folder: AnyPath | None = None) -> str:
    """The released model that `name` means.

    Besides the exact names, two of the paper's habits are understood: M and MA at a nominal d of 25
    mean 26, and the N of the paper's main text means the residual one (`NR`), if no plain N is there.
    """
    known = names(folder)
    if name in known:
        return name
    with suppress(ValueError):  # what is no name of a run is no name of a released one
        wanted = RunName.parse(name).nearest()
        for meant in (wanted, replace(wanted, residual=wanted.residual or wanted.action == "N")):
            if str(meant) in known:
                return str(meant)
    listed = ", ".join(known) if known else "none at all in this installation"
    raise ReleaseError(f"There are no released weights of the name {name!r}; there are: {listed}.")


def _description(name: str, folder: Path) -> dict[str, Any]:
    path = folder / f"{name}.json"
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
        if description["format"] != FORMAT:
            raise KeyError("format")
        held, claimed = description["entry"], description["entry_sha256"]
        for key in ("settings", "sha256"):
            description[key]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise ReleaseError(f"{path.name} does not describe released weights: refused.") from None
    entry = Entry.checked(held, path.name)
    # the checksum is that of the file, which may have been written before some fields were there
    if entry.name != name or claimed != entry_checksum(held, description["settings"]):
        raise ReleaseError(
            f"{path.name} has been changed since its release (its checksum differs): refused."
        )
    return {**description, "entry": entry}


def entry(name: str, folder: AnyPath | None = None) -> Entry:
    """The ledger entry that was released with the weights `name`."""
    place = home(folder)
    return _description(resolve(name, place), place)["entry"]


def configuration(entry: Entry) -> RunConfig:
    """The configuration of the run that a ledger `entry` records."""
    held, names = entry.configuration, RunConfig.__dataclass_fields__
    # what an entry does not name is as `RunConfig` has it
    return RunConfig.from_dict({n: getattr(held, n) for n in names if n in held.model_fields_set})


def entry_checksum(entry: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """What tells whether an entry and the settings of its model are those that were released."""
    text = json.dumps([entry, settings], sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _load(name: str, folder: Path) -> torch.nn.Module:
    description = _description(name, folder)
    path = folder / f"{name}.safetensors"
    try:
        content = path.read_bytes()
    except OSError:
        raise ReleaseError(f"The weights {path.name} are missing.") from None
    if hashlib.sha256(content).hexdigest() != description["sha256"]:
        raise ReleaseError(
            f"{path.name} has been changed since its release (its checksum differs): refused."
        )
    try:
        weights = load_tensors(content)
    except SafetensorError as error:
        raise ReleaseError(f"{path.name} is not a safetensors file: {error}.") from None
    with reading(f"{path.name} does not fit its description", ReleaseError):
        model = models.build(description["settings"])
        model.load_state_dict({key: value.float() for key, value in weights.items()})
        model.triplets = configuration(description["entry"]).own_triplets()
    return model.eval().requires_grad_(False)


class _Table(pd.DataFrame):
    """All columns, of which a terminal of 80 characters shows what tells one model from another."""

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame  # a part of it is an ordinary table

    def __repr__(self) -> str:
        """A line for each model; `trained` are preset and epochs, `MB` is the size of the weights."""
        digits = {"nllx0": 1, "kl0": 1, "mll": 1, "knn_in": 3, "knn_out": 3, "megabytes": 1}
        if not {"preset", "epochs", *digits} <= set(self.columns):
            return super().__repr__()  # somebody has made another table of it
        rows = []
        for name, row in self.iterrows():
            cells = ["–" if pd.isna(row[key]) else f"{row[key]:.{n}f}" for key, n in digits.items()]
            rows.append([str(name), f"{row['preset']} {row['epochs']}", *cells])
        return text.table(["name", "trained", *list(digits)[:-1], "MB"], rows, left=(0, 1))


def _table(folder: Path) -> pd.DataFrame:
    rows = []
    for name in names(folder):
        entry = _description(name, folder)["entry"]
        rows.append(
            {
                "name": name,
                "preset": entry.configuration.preset,
                "epochs": entry.training.get("epochs"),
                **entry.metrics,
                "megabytes": round((folder / f"{name}.safetensors").stat().st_size / 2**20, 2),
            }
        )
    columns = ["name", "preset", "epochs", *METRICS, "megabytes"]
    return _Table(pd.DataFrame(rows, columns=columns).set_index("name"))


@overload
def pretrained(name: None = None, *, folder: AnyPath | None = None) -> pd.DataFrame: ...
@overload
def pretrained(name: str, *, folder: AnyPath | None = None) -> Any: ...


def pretrained(name: str | None = None, *, folder: AnyPath | None = None) -> Any:
    """A trained model by name (`mnist-A-25`, `fashion-mnist-VAE+-25`, `omniglot-T-25`), offline.

    Returns a `VAE` or `TVAE` in evaluation mode with float32 weights. Without a name: a table of all
    released models with their metrics as the ledger has them, of which the most important columns
    are printed. `folder` is where the files lie; by
    default inside the package.
    """
    place = home(folder)
    return _table(place) if name is None else _load(resolve(name, place), place)
