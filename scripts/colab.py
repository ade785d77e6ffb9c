"""Do the chapters run with the package versions that Colab has?

    python scripts/colab.py                                   with Colab's published list of versions
    python scripts/colab.py --versions freeze.txt             with a list of your own
    python scripts/colab.py --chapters 01_welcome 07_additive

An environment is made in which each requirement of the package has the version of the list, the way
Colab's own has; then the package is installed on top, as a chapter's first cell does it, and the chapters
are executed in an empty folder. What the list does not name is installed as pip likes.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import project

#: Where Colab publishes what its machines have installed.
PUBLISHED = "https://raw.githubusercontent.com/googlecolab/backend-info/main/pip-freeze.txt"
RUNNER = ("papermill>=2.6", "ipykernel>=6.25")


def normal(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> dict[str, str]:
    """Name to version of every `name==version` line; local parts (`+cu124`) are dropped."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;+]+)", text, re.M)
    return {normal(name): version for name, version in found}


def requirements(versions: dict[str, str]) -> list[str]:
    """What the package requires, at the versions of the list where it names them."""
    wanted = []
    for line in project.metadata()["dependencies"]:
        name = re.match(r"[A-Za-z0-9._-]+", line).group()  # type: ignore[union-attr]
        pin = versions.get(normal(name))
        wanted.append(f"{name}=={pin}" if pin else line)
    return wanted


def read(source: str) -> str:
    """The list, from a file or an address."""
    if not source.startswith("https://"):
        return Path(source).read_text(encoding="utf-8")
    with urllib.request.urlopen(source, timeout=60) as answer:
        return answer.read().decode("utf-8")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Execute the chapters as Colab would.")
    parser.add_argument("--versions", default=PUBLISHED, help="a file or an address")
    parser.add_argument("--chapters", nargs="*", help="their stems (default: all)")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be installed")
    options = parser.parse_args(arguments)
    wanted = requirements(pins(read(options.versions)))
    print("\n".join(wanted), flush=True)
    if options.dry_run:
        return 0
    chapters = [p for p in project.chapters() if not options.chapters or p.stem in options.chapters]
    failed = []
    with tempfile.TemporaryDirectory(prefix="colab-") as place:
        folder = Path(place)
        python = folder / "env" / "bin" / "python"
        install = [str(python), "-m", "pip", "install", "--quiet"]
        subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
        subprocess.run([*install, *wanted, *RUNNER], check=True)
        # as the first cell does it: the package comes last and may not replace what is there
        subprocess.run([*install, str(project.ROOT)], check=True)
        for chapter in chapters:
            empty = folder / chapter.stem
            empty.mkdir()
            command = [str(python), "-m", "papermill", "--no-progress-bar", "--kernel", "python3"]
            done = subprocess.run([*command, str(chapter), "out.ipynb"], cwd=empty)
            print(f"{chapter.stem}: {'ok' if done.returncode == 0 else 'failed'}", flush=True)
            if done.returncode != 0:
                failed.append(chapter.stem)
    if failed:
        print(f"{len(failed)} of {len(chapters)} chapters failed: {', '.join(failed)}.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
