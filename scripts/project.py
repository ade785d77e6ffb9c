"""What the scripts, the site and the tests ask about the project: folders, address, chapters."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "book"
BUILD = ROOT / "_build"
STATUS = "status.json"  # beside the chapters it describes
CAMPAIGN = "campaign.json"  # the figures of the last campaigns


def metadata(root: Path = ROOT) -> dict[str, Any]:
    """Return the `[project]` table of `pyproject.toml`."""
    with open(root / "pyproject.toml", "rb") as file:
        table: dict[str, Any] = tomllib.load(file)["project"]
    return table


def address(root: Path = ROOT) -> str:
    """Return the public address of the repository, which `pyproject.toml` alone decides."""
    return str(metadata(root)["urls"]["Repository"])


def site(root: Path = ROOT) -> str:
    """Return the public address of the rendered book, with a slash at its end."""
    return str(metadata(root)["urls"]["Documentation"])


def version(root: Path = ROOT) -> str:
    """Return the version of the package, without a leading v."""
    return str(metadata(root)["version"])


def left_out(root: Path = ROOT) -> set[Path]:
    """Return the files of the package that the wheel leaves out, by `pyproject.toml`."""
    with open(root / "pyproject.toml", "rb") as file:
        patterns = tomllib.load(file)["tool"]["hatch"]["build"]["exclude"]
    return {path for pattern in patterns for path in root.glob(pattern)}


def chapters(root: Path = ROOT) -> list[Path]:
    """Return the chapters in the order of their numbers."""
    return sorted((root / "book").glob("[0-9][0-9]_*.ipynb"))
