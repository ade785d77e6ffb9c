"""Render the site with jupyter-book; every warning is an error.

    python scripts/render.py                            from the outputs stored in book/
    python scripts/render.py --executed _build/executed from chapters executed there

The result is `_build/html/index.html`. With `--executed`, a copy of the sources is put together
under `_build/source` in which the executed chapters and their status take the place of the stored
ones; nothing outside `_build` is written.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import export_explorer
import picture
import project

SOURCES = ("_config.yml", "_toc.yml", "pyproject.toml")


def stage(executed: Path, source: Path, root: Path = project.ROOT) -> None:
    """Put the book's sources, with the chapters of `executed`, together in the folder `source`."""
    missing = [p.name for p in project.chapters(root) if not (executed / p.name).is_file()]
    if missing:
        raise FileNotFoundError(f"{executed} lacks {', '.join(missing)}: execute them first.")
    # Fresh every time: what was removed from the sources may not live on in the copy.
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(root / "book", source / "book", ignore=shutil.ignore_patterns("api", ".*"))
    for name in SOURCES:
        shutil.copy2(root / name, source / name)
    for name in (*(p.name for p in project.chapters(root)), project.STATUS):
        shutil.copy2(executed / name, source / "book" / name)


def render(source: Path, output: Path) -> int:
    """Render the book in `source` to `output/_build/html`; return jupyter-book's exit status."""
    # Always from nothing: an incremental build does not see every change, and takes as long.
    shutil.rmtree(output / "_build" / "html", ignore_errors=True)
    shutil.rmtree(output / "_build" / ".doctrees", ignore_errors=True)
    # The package cannot be run as a module, and its script need not be on the path.
    start = "from jupyter_book.cli.main import main; main()"
    flags = ["-W", "-n", "--keep-going", "-q", "--path-output", str(output)]
    status = subprocess.call([sys.executable, "-c", start, "build", *flags, str(source)])
    if status == 0:
        # after the pages, since jupyter-book would load scripts of its own folder on every page
        export_explorer.export(output / "_build" / "html" / "_explorer")
        picture.write(picture.card(), output / "_build" / "html" / "_static" / "preview.png")
    return status


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Render the site.")
    parser.add_argument("--executed", type=Path, help="a folder with executed chapters")
    parser.add_argument("--output", type=Path, default=project.ROOT, help="its _build gets html/")
    options = parser.parse_args(arguments)
    source = project.ROOT
    if options.executed:
        source = project.BUILD / "source"
        stage(options.executed, source)
    status = render(source, options.output.resolve())
    if status == 0:
        print(f"The site is {options.output.resolve() / '_build' / 'html' / 'index.html'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
