"""Turn finished runs into the weights that come with the package.

    python scripts/release_weights.py                 # every model of the list below that is finished
    python scripts/release_weights.py mnist-A-25      # only these
    python scripts/release_weights.py --tags "" five-epochs    # else from a shorter run

Takes the trained run from the folder of runs and its entry from the ledger, writes half-precision
weights and their description into tvae/runs/released/. What is not finished is named and left out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as dump_tensors

import tvae
from tvae.files import AnyPath, atomic_write
from tvae.runs import ledger, released
from tvae.runs.name import RunName

RELEASED = (
    "mnist-A-25",
    "mnist-M-26",
    "mnist-MA-26",
    "mnist-T-25",
    "mnist-N-25",
    "mnist-NR-25",
    "mnist-VAE+-25",
    "mnist-VAE-25",
    "fashion-mnist-A-25",
    "fashion-mnist-M-26",
    "fashion-mnist-VAE+-25",
    "fashion-mnist-VAE-25",
    "omniglot-A-25",
    "omniglot-M-26",
    "omniglot-T-25",
    "omniglot-VAE+-25",
    "omniglot-VAE-25",
)
#: The weights of all released models together may take this many bytes.
LIMIT = 80 * 2**20
#: From the sweep `portraits`, which has a tag of its own.
PORTRAITS = ("portraits-A-64", "portraits-VAE+-64", "portraits-VAE-64")
#: From the sweep `pose`, or else from the short one.
POSES = ("mnist-P-31", "fashion-mnist-P-31")
#: The tags of the runs that have one, the first that is there.
TAGS = dict.fromkeys(PORTRAITS, ("portraits",)) | dict.fromkeys(
    POSES, ("pose", "pose-three", "pose-short")
)
TAGS["mnist-E-32"] = ("lending-drawn",)


def release(model: Any, entry: ledger.Entry, folder: AnyPath | None = None) -> Path:
    """Write the weights of `model` in half precision, with its ledger `entry`, into `folder`.

    The weights come first and the description last: without a description there is no model, so an
    interruption leaves nothing that could be loaded by mistake. Returns the path of the weights.
    """
    if entry.status != "ok":
        raise released.ReleaseError(f"The run {entry.name} failed; only good runs are released.")
    place = released.home(folder)
    half = {
        key: value.detach().cpu().half().contiguous() for key, value in model.state_dict().items()
    }
    if any(not bool(torch.isfinite(value).all()) for value in half.values()):
        raise released.ReleaseError(f"The weights of {entry.name} do not fit into half precision.")
    content = dump_tensors(half)
    settings = json.loads(json.dumps(model.settings))
    description = {
        "format": released.FORMAT,
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
        "settings": settings,
        "entry": entry.to_dict(),
        "entry_sha256": released.entry_checksum(entry.to_dict(), settings),
    }
    path = place / f"{entry.name}.safetensors"
    others = [other for other in place.glob("*.safetensors") if other != path]
    total = sum(other.stat().st_size for other in others) + len(content)
    if total > LIMIT:
        raise released.ReleaseError(
            f"With {entry.name} the released weights would take {total / 2**20:.1f} MB; "
            f"at most {LIMIT / 2**20:.0f} MB are allowed."
        )
    atomic_write(path, content)
    atomic_write(place / f"{entry.name}.json", json.dumps(description, indent=1) + "\n")
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", default=[*RELEASED, *TAGS], help="runs, as in the ledger"
    )
    parser.add_argument("--preset", default="book")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--tags",
        nargs="*",
        default=["", "again"],
        help="of the runs, the first that is there ('': no tag)",
    )
    parser.add_argument("--runs", default="runs", help="the folder of runs (default: runs)")
    parser.add_argument("--results", default=None, help="the ledger (default: the project's own)")
    parser.add_argument("--into", default=None, help="where to write (default: the package)")
    arguments = parser.parse_args()
    results = Path(arguments.results) if arguments.results else ledger.folder()
    missing = 0
    for name in arguments.names:
        for tag in TAGS.get(name, arguments.tags):
            entry = RunName.parse(name).entry(arguments.preset, arguments.seed, tag)
            path, run = results / f"{entry}.json", Path(arguments.runs) / entry
            if path.is_file() and run.is_dir():
                written = release(tvae.load(run), ledger.read(path), arguments.into)
                print(f"{name}: {written.stat().st_size / 2**20:.2f} MB", f"({tag})" if tag else "")
                break
        else:
            print(f"{name}: no entry in the ledger or no run folder, left out")
            missing += 1
    total = sum(path.stat().st_size for path in released.home(arguments.into).glob("*.safet*"))
    print(f"together {total / 2**20:.1f} MB of at most {LIMIT / 2**20:.0f} MB")
    return 1 if missing == len(arguments.names) else 0


if __name__ == "__main__":
    sys.exit(main())
