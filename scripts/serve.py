"""The site on localhost, rendered again when a page, its style or its settings change.

python scripts/serve.py [--port 8000]
"""

from __future__ import annotations

import argparse
import functools
import http.server
import sys
import threading
import time
from pathlib import Path

import project
import render

WATCHED = ("*.md", "*.ipynb", "*.css", "*.js", "*.svg", "*.bib", "*.yml", "*.py")


def changes(root: Path) -> dict[Path, int]:
    """When each source of the site was written last."""
    places = [*(root / "book").rglob("*"), *root.glob("*.yml")]
    made = root / "book" / "api"  # written by rendering itself
    return {
        path: path.stat().st_mtime_ns
        for path in places
        if path.is_file() and made not in path.parents and any(map(path.match, WATCHED))
    }


def watch(root: Path, every: float = 1.0) -> None:
    """Render now, and after every change."""
    seen: dict[Path, int] = {}
    while True:
        now = changes(root)
        if now != seen:
            status = render.main([])
            print("rendered" if status == 0 else "not rendered: see above", flush=True)
            seen = now
        time.sleep(every)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Serve the site on localhost.")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args(arguments)
    folder = project.BUILD / "html"
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", options.port), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)", flush=True)
        try:
            watch(project.ROOT)
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
