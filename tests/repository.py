"""The files of the project, for tests that look at all of them."""

from __future__ import annotations

import subprocess
from pathlib import Path


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
