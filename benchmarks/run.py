"""Run all benchmarks, one after another, or those that are named.

    python benchmarks/run.py [triplets ...]

Each is a script of its own beside this file and prints its own table; they run in turn, never side
by side, so that none disturbs another. One that fails does not stop the rest; the end names it.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def available() -> dict[str, Path]:
    """The benchmarks by name; what begins with an underscore only helps them."""
    return {p.stem: p for p in sorted(FOLDER.glob("[!_]*.py")) if p != Path(__file__).resolve()}


def main(arguments: list[str] | None = None) -> int:
    scripts = available()
    parser = argparse.ArgumentParser(description="Run the benchmarks.")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(scripts)}; default: all")
    names = parser.parse_args(arguments).names or list(scripts)
    for name in names:
        if name not in scripts:
            parser.error(f"there is no benchmark {name}; there are {', '.join(scripts)}")
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"torch {version('torch')}",
        flush=True,
    )
    failed = []
    for name in names:
        print(f"\n== {name}", flush=True)
        begin = time.perf_counter()
        if subprocess.call([sys.executable, str(scripts[name])]) != 0:
            failed.append(name)
        print(f"({time.perf_counter() - begin:.0f} s)", flush=True)
    if failed:
        print(f"\nFailed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
