"""Move the repository's public address.

    make address URL=https://github.com/name/repository

`pyproject.toml` is the one place that decides it. The set-up cell of each chapter, the README and
the citation file cannot read it from there, so this script rewrites them; the site and the Colab
buttons read it when the site is built. The site's own address, on GitHub Pages, follows from it.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

import project
import setup_cell

COPIES = ("README.md", "CITATION.cff")


def check(address: str) -> str:
    """Return `address` without a slash or `.git` at its end if Colab can open it, else say why."""
    address = address.strip().rstrip("/").removesuffix(".git")
    if not re.fullmatch(r"https://github\.com/[A-Za-z0-9-]+/[A-Za-z0-9._-]+", address):
        raise ValueError(
            f"{address!r} is no address of a repository that Colab can open: it should look like "
            "https://github.com/name/repository."
        )
    return address


def pages(address: str) -> str:
    """Return where GitHub Pages publishes the site of the repository at `address`."""
    owner, repository = address.removeprefix("https://github.com/").split("/")
    return f"https://{owner.lower()}.github.io/{repository}/"


def _replace(path: Path, old: str, new: str) -> bool:
    text = path.read_text(encoding="utf-8")
    # Also as "name/repository" within the links of Colab and of the badges.
    short = [a.removeprefix("https://github.com/") for a in (old, new)]
    changed = text.replace(pages(old), pages(new)).replace(old, new)
    changed = changed.replace(f"/{short[0]}/", f"/{short[1]}/")
    if changed == text:
        return False
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(changed, encoding="utf-8")
    os.replace(temporary, path)
    return True


def move(new: str) -> list[Path]:
    """Move the address to `new` everywhere; return the files that changed."""
    new = check(new)
    old = project.address()
    changed = []
    for path in (project.ROOT / "pyproject.toml", *(project.ROOT / name for name in COPIES)):
        if _replace(path, old, new):
            changed.append(path)
    for path in project.chapters():
        if setup_cell.write(path, setup_cell.text(address=new)):
            changed.append(path)
    return changed


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Move the repository's public address.")
    parser.add_argument("address", help="https://github.com/name/repository")
    options = parser.parse_args(arguments)
    try:
        changed = move(options.address)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    for path in changed:
        print(f"changed {path.relative_to(project.ROOT)}")
    if not changed:
        print("Nothing to change: that is the address already.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
