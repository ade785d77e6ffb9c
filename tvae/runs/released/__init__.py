"""Trained weights, those that come with the package and those of its release page.

    import tvae
    tvae.pretrained()                    # a table of what there is, with its metrics
    model = tvae.pretrained("mnist-A-25")

Each model is two files beside this module: the weights in half precision (safetensors) and a JSON
file with the settings that rebuild the model, the run's entry in the ledger and the checksum of the
weights, as `scripts/release_weights.py` writes them. Both are checked on loading; a file that does not
match is refused.

A checkout of the repository has all weights. The wheel leaves out those that few need (pyproject.toml
names them): they are fetched from the release page on first use, into the folder that `TVAE_WEIGHTS`
names, else into a cache of the user's. `TVAE_RELEASES` names another page, such as a mirror.

Half precision keeps eleven significant bits. The metrics of the rounded weights agree with those in
the ledger to the digits the tables print.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any, overload
from urllib.parse import quote

import pandas as pd
import torch
from platformdirs import user_cache_path
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors

from tvae import __version__, models, text
from tvae.data.download import DownloadError, download
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
        for key in ("settings", "sha256", "bytes"):
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


def _address(file: str) -> str:
    """Where the release page of this version has a file."""
    page = os.environ.get("TVAE_RELEASES")
    if not page:
        lines = metadata.metadata("tvae-book").get_all("Project-URL") or []
        (repository,) = (line.split(", ", 1)[1] for line in lines if line.startswith("Repository"))
        page = f"{repository}/releases/download/v{__version__}"
    return f"{page}/{quote(file)}"


def fetch(name: str) -> Path:
    """The weights of a released model as a file on this machine, fetched if they are not there."""
    name = resolve(name)
    file = f"{name}.safetensors"
    beside = home(None) / file
    if beside.is_file():
        return beside
    checksum = _description(name, home(None))["sha256"]
    named = os.environ.get("TVAE_WEIGHTS")
    own = user_cache_path("tvae", appauthor=False, opinion=False) / "weights"
    place = Path(named).expanduser() if named else own
    if (place / file).is_file():  # put there by hand, under the name that the release page has
        return place / file
    # a later version may release other weights under the same name
    path = place / f"{name}.{checksum[:12]}.safetensors"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return download(_address(file), path, checksum)
    except (DownloadError, OSError, metadata.PackageNotFoundError) as error:
        raise ReleaseError(
            f"The weights {file} do not come with the package and could not be fetched "
            f"({' '.join(str(error).split())}): put the file of the release page into {place}."
        ) from None


def _load(name: str, folder: Path) -> torch.nn.Module:
    description = _description(name, folder)
    path = fetch(name) if folder == home(None) else folder / f"{name}.safetensors"
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
        description = _description(name, folder)
        entry = description["entry"]
        rows.append(
            {
                "name": name,
                "preset": entry.configuration.preset,
                "epochs": entry.training.get("epochs"),
                **entry.metrics,
                "megabytes": round(description["bytes"] / 2**20, 2),
            }
        )
    columns = ["name", "preset", "epochs", *METRICS, "megabytes"]
    return _Table(pd.DataFrame(rows, columns=columns).set_index("name"))


@overload
def pretrained(name: None = None, *, folder: AnyPath | None = None) -> pd.DataFrame: ...
@overload
def pretrained(name: str, *, folder: AnyPath | None = None) -> Any: ...


def pretrained(name: str | None = None, *, folder: AnyPath | None = None) -> Any:
    """A trained model by name: `mnist-A-25`, `fashion-mnist-VAE+-25`, `omniglot-T-25`.

    Returns a `VAE` or `TVAE` in evaluation mode with float32 weights. Without a name: a table of all
    released models with their metrics as the ledger has them, of which the most important columns
    are printed. `folder` is where the files lie; by default inside the package, and what does not
    come with it is fetched (`fetch`).
    """
    place = home(folder)
    return _table(place) if name is None else _load(resolve(name, place), place)
