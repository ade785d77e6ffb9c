"""Turn finished runs into the weights that come with the package.

    python scripts/release_weights.py                 # every model of the list below that is finished
    python scripts/release_weights.py mnist-A-25      # only these
    python scripts/release_weights.py --tags "" five-epochs    # else from a shorter run

Takes the trained run from the folder of runs and its entry from the ledger, writes half-precision
weights and their description into tvae/runs/released/. What is not finished is named and left out.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import tvae
from tvae.runs import ledger, released
from tvae.runs.name import RunName

RELEASED = (
    "mnist-A-25",
    "mnist-M-26",
    "mnist-T-25",
    "mnist-NR-25",
    "mnist-VAE+-25",
    "mnist-VAE-25",
    "fashion-mnist-A-25",
    "fashion-mnist-VAE+-25",
    "fashion-mnist-VAE-25",
    "omniglot-A-25",
    "omniglot-M-26",
    "omniglot-T-25",
    "omniglot-VAE+-25",
    "omniglot-VAE-25",
)
#: From the sweep `portraits`, which has a tag of its own.
PORTRAITS = ("portraits-A-64", "portraits-VAE+-64", "portraits-VAE-64")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", default=[*RELEASED, *PORTRAITS], help="runs, as in the ledger"
    )
    parser.add_argument("--preset", default="book")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--tags", nargs="*", default=[""], help="of the runs, the first that is there ('': no tag)"
    )
    parser.add_argument("--runs", default="runs", help="the folder of runs (default: runs)")
    parser.add_argument("--results", default=None, help="the ledger (default: the project's own)")
    parser.add_argument("--into", default=None, help="where to write (default: the package)")
    arguments = parser.parse_args()
    results = Path(arguments.results) if arguments.results else ledger.folder()
    missing = 0
    for name in arguments.names:
        for tag in ("portraits",) if name in PORTRAITS else arguments.tags:
            entry = RunName.parse(name).entry(arguments.preset, arguments.seed, tag)
            path, run = results / f"{entry}.json", Path(arguments.runs) / entry
            if path.is_file() and run.is_dir():
                written = released.release(tvae.load(run), ledger.read(path), arguments.into)
                print(f"{name}: {written.stat().st_size / 2**20:.2f} MB", f"({tag})" if tag else "")
                break
        else:
            print(f"{name}: no entry in the ledger or no run folder, left out")
            missing += 1
    total = sum(path.stat().st_size for path in released._folder(arguments.into).glob("*.safet*"))
    print(f"together {total / 2**20:.1f} MB of at most {released.LIMIT / 2**20:.0f} MB")
    return 1 if missing == len(arguments.names) else 0


if __name__ == "__main__":
    sys.exit(main())
