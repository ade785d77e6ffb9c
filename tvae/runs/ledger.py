"""The ledger: one JSON file for every run, with all that is needed to judge its numbers.

An entry holds the configuration and the seed, where the data came from and its checksums, versions,
commit and hardware, the time taken, the twelve metrics (with standard errors where they are
estimates) and the curve per epoch. The schema `ledger_schema.json` beside this module is checked
whenever an entry is written or read, so a file that was damaged or edited into nonsense is refused
and never becomes a row of a table.

    import tvae.runs.ledger
    tvae.runs.ledger.table()            # every run as one row of a pandas table
    tvae.runs.ledger.curves()           # every epoch of every run as one row
"""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from functools import lru_cache
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import jsonschema
import pandas as pd

from tvae.evaluation import METRICS
from tvae.files import atomic_write
from tvae.runs.name import RunName

__all__ = [
    "LedgerError",
    "commit",
    "curves",
    "entries",
    "find",
    "folder",
    "hardware",
    "now",
    "read",
    "table",
    "validate",
    "versions",
    "write",
]

Entry = dict[str, Any]


class LedgerError(ValueError):
    """An entry of the ledger that is not what the schema asks for."""


# --- names and places ---------------------------------------------------------------------------


def _entry_name(configuration: Mapping[str, Any]) -> str:
    preset, seed, tag = (configuration[key] for key in ("preset", "seed", "tag"))
    return RunName.of(configuration).entry(preset, seed, tag)


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


@lru_cache(maxsize=1)
def _validator() -> Any:
    text = (resources.files("tvae.runs") / "ledger_schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


def _not_finite(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Mapping):
        return any(_not_finite(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(_not_finite(item) for item in value)
    return False


def validate(entry: Mapping[str, Any], where: str = "the entry") -> None:
    """Raise `LedgerError` with one sentence if `entry` does not follow the schema."""
    problem = jsonschema.exceptions.best_match(_validator().iter_errors(entry))
    if problem is not None:
        place = ".".join(str(part) for part in problem.absolute_path) or "the top level"
        raise LedgerError(f"{where} is not a ledger entry: at {place}, {problem.message}.")
    if _not_finite(entry):
        raise LedgerError(f"{where} is not a ledger entry: it holds a number that is not finite.")
    name = str(RunName.of(entry["configuration"]))
    if entry["name"] != name:
        raise LedgerError(
            f"{where} is not a ledger entry: its name is {entry['name']!r}, but its configuration "
            f"is that of {name!r}."
        )


def read(path: str | os.PathLike[str]) -> Entry:
    """Read and check one entry."""
    path = Path(path)
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise LedgerError(f"{path.name} is not a ledger entry: it is not JSON ({error}).") from None
    validate(entry, path.name)
    name = _entry_name({**entry["configuration"], "tag": ""})
    if path.stem != name:
        raise LedgerError(
            f"{path.name} holds the run {name!r}: a ledger file must bear the name of its run."
        )
    return entry


def write(entry: Mapping[str, Any], results: str | os.PathLike[str]) -> Path:
    """Check `entry` and write it, in full or not at all; return the path."""
    validate(entry)
    path = Path(results) / f"{_entry_name(entry['configuration'])}.json"
    atomic_write(path, json.dumps(entry, indent=1, allow_nan=False) + "\n")
    return path


def entries(results: str | os.PathLike[str] | None = None) -> list[Entry]:
    """All entries of the ledger, sorted by path, failed runs included."""
    place = folder() if results is None else Path(results)
    return [read(path) for path in sorted(place.rglob("*.json"))]


def find(
    configuration: Mapping[str, Any], results: str | os.PathLike[str] | None = None
) -> Entry | None:
    """The entry of exactly this configuration, or None if there is none.

    An entry of the same name whose settings differ (another number of epochs, say) does not count:
    it belongs to another experiment.
    """
    place = folder() if results is None else Path(results)
    path = place / f"{_entry_name(configuration)}.json"
    if not path.is_file():
        return None
    entry = read(path)
    return entry if entry["configuration"] == json.loads(json.dumps(dict(configuration))) else None


# --- tables -------------------------------------------------------------------------------------

_KEYS = ["dataset", "model", "action", "residual", "d", "preset", "seed", "tag"]


def _keys(entry: Entry) -> dict[str, Any]:
    keys = {key: entry["configuration"][key] for key in _KEYS}
    return {"name": entry["name"], **keys, "action": keys["action"] or ""}


def table(results: str | os.PathLike[str] | None = None, *, failed: bool = False) -> pd.DataFrame:
    """One row a run: name, configuration, the twelve metrics, their standard errors, the times.

    Columns: name, dataset, model, action ("" where there is none), residual, d, preset, seed, tag,
    status, epochs, the twelve metrics, `<metric>_se`, training_seconds, evaluation_seconds. Failed
    runs only on request.
    """
    rows = []
    for entry in entries(results):
        if entry["status"] != "ok" and not failed:
            continue
        row = _keys(entry)
        row["status"] = entry["status"]
        row["epochs"] = entry["training"].get("epochs")
        row.update({key: entry["metrics"][key] for key in METRICS})
        row.update({f"{key}_se": entry["standard_errors"].get(key) for key in METRICS})
        row.update({f"{key}_seconds": value for key, value in entry["seconds"].items()})
        rows.append(row)
    columns = ["name", *_KEYS, "status", "epochs", *METRICS, *[f"{key}_se" for key in METRICS]]
    columns += ["training_seconds", "evaluation_seconds"]
    numbers = dict.fromkeys(columns[columns.index("epochs") :], float)
    return pd.DataFrame(rows, columns=columns).astype(numbers)


def curves(
    results: str | os.PathLike[str] | None = None, names: Iterable[str] | None = None
) -> pd.DataFrame:
    """One row an epoch: name, configuration, epoch and every quantity recorded for that epoch."""
    wanted = None if names is None else set(names)
    rows = []
    for entry in entries(results):
        if entry["status"] != "ok" or (wanted is not None and entry["name"] not in wanted):
            continue
        rows += [{**_keys(entry), **epoch} for epoch in entry["curve"]]
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


def hardware(device: str = "cpu", threads: int | None = None) -> dict[str, Any]:
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
        "threads": threads or torch.get_num_threads(),
        "memory_gib": None if memory is None else round(memory, 1),
        "device": name,
    }
