"""The ledger: one JSON file for every run, with all that is needed to judge its numbers.

An `Entry` holds the configuration and the seed, where the data came from and its checksums, versions,
commit and hardware, the time taken, the twelve metrics (with standard errors where they are
estimates) and the curve per epoch. It is checked whenever it is made, so a file that was damaged or
edited into nonsense is refused and never becomes a row of a table.

    from tvae.runs import ledger
    ledger.entries()[0].metrics["knn_out"]
    ledger.table()            # every run as one row of a pandas table
    ledger.curves()           # every epoch of every run as one row
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib import metadata, resources
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PositiveInt,
    ValidationError,
    model_validator,
)

from tvae.evaluation import METRICS
from tvae.files import AnyPath, atomic_write, reading
from tvae.runs.name import RunName


class LedgerError(ValueError):
    """An entry of the ledger that is not what an entry has to be."""


# --- the entry ----------------------------------------------------------------------------------


# In this order, a whole number stays whole, and a file is written again as it was read.
_Number = int | float
_Size = Annotated[int | float, Field(ge=0)]
_Text = Annotated[str, Field(min_length=1)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: those that were given, and no others."""
        return self.model_dump(by_alias=True, exclude_unset=True)


class Configuration(_Part):
    """What makes two runs the same run; baselines lack the settings of training (None)."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue]

    dataset: _Text
    model: Literal["tvae", "vae", "vae+", "pixels", "pca", "untrained"]
    action: str | None
    residual: bool
    d: PositiveInt
    seed: int
    preset: _Text
    source: str | None = None
    epochs: int | None = None
    learning_rate: _Number | None = None
    halve_every: int | None = None
    batch_size: int | None = None
    analytic: bool | None = None
    families: list[str] | None = None
    geometry: str | None = None
    interpolation: str | None = None
    further: list[str] | None = None
    weights: dict[str, _Number] | None = None
    pairs: bool | None = None
    k: PositiveInt | None = None
    moved: bool | None = None
    parts: list[str] | None = None
    tau_width: _Number | None = None
    anchors: int | None = None
    queries: int | None = None
    likelihood_samples: int | None = None
    likelihood_images: int | None = None
    likelihood_error: _Number | None = None
    epoch_images: int | None = None
    max_steps: int | None = None
    tag: Annotated[str, Field(pattern="^[A-Za-z0-9-]*$")]

    @property
    def entry_name(self) -> str:
        """The file of the entry in the ledger, without `.json`, and the folder of its tag."""
        return RunName.of(self).entry(self.preset, self.seed, self.tag)


class Images(_Part):
    """Where the images of one split came from, as in `tvae.data.Provenance`."""

    name: str
    source: str
    split: str
    count: PositiveInt
    checksum: Annotated[str, Field(min_length=8)]
    note: str


class Hardware(_Part):
    """What the run ran on."""

    cpu: str
    cores: PositiveInt
    threads: PositiveInt
    memory_gib: _Number | None
    device: str


class Seconds(_Part):
    """The time on the wall and, in newer entries, of the process on all its cores."""

    training: _Size
    evaluation: _Size
    training_process: _Size = 0.0
    evaluation_process: _Size = 0.0

    @property
    def total(self) -> float:
        """Training and evaluation together, on the wall."""
        return self.training + self.evaluation


class Further(_Part):
    """A measurement that the paper does not have; the error of a single digit is not known."""

    value: _Number
    standard_error: _Size | None


class Entry(_Part):
    """One run."""

    version: Literal[1] = Field(alias="schema")
    name: _Text
    status: Literal["ok", "failed"]
    reason: str | None
    configuration: Configuration
    data: dict[str, Images]
    versions: dict[str, str]
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{7,64}(\+)?$")] | None
    hardware: Hardware
    seconds: Seconds
    finished: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
    training: dict[str, _Number | None]
    metrics: dict[str, _Number | None]
    standard_errors: dict[str, _Size]
    further: dict[Annotated[str, Field(pattern="^[a-z0-9_]+$")], Further] = {}
    evaluation: dict[str, str | bool | _Number | None]
    curve: list[dict[str, _Number | None]]

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Entry:
        missing = {*METRICS} - {*self.metrics} | {"python", "torch", "numpy", "tvae"} - {
            *self.versions
        }
        if missing:
            raise ValueError(f"{', '.join(sorted(missing))} is missing")
        if unknown := {*self.metrics, *self.standard_errors} - {*METRICS}:
            raise ValueError(f"there is no metric {', '.join(sorted(unknown))}")
        for name in ("knn_in", "knn_out"):
            if not 0 <= (self.metrics[name] or 0) <= 1:
                raise ValueError(f"{name} is {self.metrics[name]}, which is not between 0 and 1")
        for epoch in (row.get("epoch") for row in self.curve):
            if not isinstance(epoch, int) or epoch < 0:
                raise ValueError(f"an epoch of the curve is {epoch}, not a whole number from 0 on")
        if (self.status == "failed") != bool(self.reason) or self.reason == "":
            raise ValueError("a failed run has a reason, and no other has")
        if self.name != (name := str(RunName.of(self.configuration))):
            raise ValueError(
                f"its name is {self.name!r}, but its configuration is that of {name!r}"
            )
        return self

    @classmethod
    def checked(cls, values: Mapping[str, Any], where: str = "the entry") -> Entry:
        """The entry of plain values, as JSON has them; a `LedgerError` says what is wrong with them."""
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            problem = error.errors()[-1]  # of several types that a value may have, the last
        place = ".".join(str(part) for part in problem["loc"]) or "the top level"
        message = problem["msg"].removeprefix("Value error, ")
        raise LedgerError(f"{where} is not a ledger entry: at {place}, {message}.")


# --- names and places ---------------------------------------------------------------------------


def folder() -> Path:
    """Where the ledger lies: `results/` of a checkout, else the copy inside the installed package.

    The environment variable `TVAE_RESULTS` names another folder.
    """
    chosen = os.environ.get("TVAE_RESULTS")
    if chosen:
        return Path(chosen)
    package = Path(str(resources.files("tvae")))
    checkout = package.parent / "results"
    # beside site-packages there may be anybody's "results": a checkout has our pyproject.toml too
    if checkout.is_dir() and (package.parent / "pyproject.toml").is_file():
        return checkout
    return package / "_results"


# --- reading and writing ------------------------------------------------------------------------


def read(path: AnyPath) -> Entry:
    """Read and check one entry."""
    path = Path(path)
    with reading(f"{path.name} is not a ledger entry: it is not JSON", LedgerError):
        values = json.loads(path.read_text(encoding="utf-8"))
    entry = Entry.checked(values, path.name)
    name = Path(entry.configuration.entry_name).name
    if path.stem != name:
        raise LedgerError(
            f"{path.name} holds the run {name!r}: a ledger file must bear the name of its run."
        )
    return entry


def write(entry: Entry, results: AnyPath) -> Path:
    """Write `entry`, in full or not at all; return the path."""
    path = Path(results) / f"{entry.configuration.entry_name}.json"
    atomic_write(path, json.dumps(entry.to_dict(), indent=1, allow_nan=False) + "\n")
    return path


def entries(results: AnyPath | None = None) -> list[Entry]:
    """All entries of the ledger, sorted by path, failed runs included."""
    place = folder() if results is None else Path(results)
    return [read(path) for path in sorted(place.rglob("*.json"))]


def find(configuration: Mapping[str, Any], results: AnyPath | None = None) -> Entry | None:
    """The entry of exactly this configuration, or None if there is none.

    An entry of the same name whose settings differ (another number of epochs, say) does not count:
    it belongs to another experiment.
    """
    wanted = Configuration.model_validate(configuration)
    path = (folder() if results is None else Path(results)) / f"{wanted.entry_name}.json"
    entry = read(path) if path.is_file() else None
    same = entry is not None and entry.configuration.to_dict() == wanted.to_dict()
    return entry if same else None


# --- tables -------------------------------------------------------------------------------------

_KEYS = ["dataset", "model", "action", "residual", "d", "preset", "seed", "tag"]


def _keys(entry: Entry) -> dict[str, Any]:
    keys = {key: getattr(entry.configuration, key) for key in _KEYS}
    return {"name": entry.name, **keys, "action": keys["action"] or ""}


def table(results: AnyPath | None = None, *, failed: bool = False) -> pd.DataFrame:
    """One row a run: name, configuration, the twelve metrics, their standard errors, the times.

    Columns: name, dataset, model, action ("" where there is none), residual, d, preset, seed, tag,
    status, epochs, the twelve metrics, `<metric>_se`, training_seconds, evaluation_seconds. Failed
    runs only on request.
    """
    rows = []
    for entry in entries(results):
        if entry.status != "ok" and not failed:
            continue
        row = _keys(entry)
        row["status"] = entry.status
        row["epochs"] = entry.training.get("epochs")
        row.update({key: entry.metrics[key] for key in METRICS})
        row.update({f"{key}_se": entry.standard_errors.get(key) for key in METRICS})
        row["training_seconds"] = entry.seconds.training
        row["evaluation_seconds"] = entry.seconds.evaluation
        rows.append(row)
    columns = ["name", *_KEYS, "status", "epochs", *METRICS, *[f"{key}_se" for key in METRICS]]
    columns += ["training_seconds", "evaluation_seconds"]
    numbers = dict.fromkeys(columns[columns.index("epochs") :], float)
    return pd.DataFrame(rows, columns=columns).astype(numbers)


def curves(results: AnyPath | None = None) -> pd.DataFrame:
    """One row an epoch: name, configuration, epoch and every quantity recorded for that epoch."""
    done = [entry for entry in entries(results) if entry.status == "ok"]
    rows = [{**_keys(entry), **epoch} for entry in done for epoch in entry.curve]
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=["name", *_KEYS, "epoch"])


# --- what a run says about where it ran ---------------------------------------------------------


def now() -> str:
    """The present moment in UTC, to the second."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    import numpy
    import torch

    import tvae

    found = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "tvae": tvae.__version__,
    }
    for package in ("torchvision", "lightning-fabric", "faiss-cpu"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def commit() -> str | None:
    """The commit of the checkout the package runs from, with a + if it has uncommitted changes."""
    package = Path(str(resources.files("tvae")))
    if not (package.parent / "pyproject.toml").is_file():
        return None

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(package.parent), *words], capture_output=True, text=True, timeout=30
        )
        if done.returncode != 0:
            raise OSError(done.stderr)
        return done.stdout.strip()

    try:
        head = git("rev-parse", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "tvae")
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("+" if changed else "")


def hardware(device: str = "cpu") -> dict[str, Any]:
    """What the run ran on: processor, cores, threads used, memory; nothing that names the host."""
    import torch

    cpu = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (AttributeError, OSError, ValueError):
        memory = None
    name = torch.cuda.get_device_name() if device.startswith("cuda") else device
    return {
        "cpu": cpu,
        "cores": os.cpu_count() or 1,
        "threads": torch.get_num_threads(),
        "memory_gib": None if memory is None else round(memory, 1),
        "device": name,
    }
