"""The files of the project and the rooms of the package, for tests that look at all of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

# The rooms of the package, from the ground up. A module may import its own room and those in the
# lines before. Rooms that share a line do not know each other.
FLOORS: tuple[set[str], ...] = (
    {"seeding", "checks", "files", "text"},
    {"layers"},
    {"networks"},
    {"actions"},
    {"motions", "pose"},
    {"models"},
    {"objective"},
    {"data", "transforms"},
    {"evaluation", "training"},
    {"runs"},
    {"paper"},
    {"experiments"},
    {"cli", "estimator"},
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def tracked(root: Path) -> list[Path]:
    """All files that belong to the project; in a folder without git, all that are not built."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=root,
        capture_output=True,
    )
    if listed.returncode == 0:
        names = listed.stdout.decode().split("\0")
        return [root / n for n in names if n and (root / n).is_file()]
    hidden = {".venv", "_build", ".git", "api"}
    return [p for p in root.rglob("*") if p.is_file() and not hidden & set(p.parts)]


def texts(root: Path) -> dict[Path, str]:
    """The content of every text file of the project."""
    found = {}
    for path in tracked(root):
        try:
            found[path.relative_to(root)] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    return found
