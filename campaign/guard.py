"""Watches a reader: what it may not do is seen by Python's audit hooks, whoever calls whom.

A reader loads no pickle, writes nothing outside its folder, reads nothing outside but what belongs to
Python and the package, starts no program, connects to nobody, and makes no room for an image that is
larger than any camera's. What it did is kept, as it may have swallowed the error.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PIXELS = 2**26  # of one image
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_MOVING = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.link", "os.truncate")
_NEVER = (
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "pickle.find_class",
    "socket.bind",
    "socket.connect",
    "socket.getaddrinfo",
    "subprocess.Popen",
)
# Libraries are imported when they are first needed, and the system says what machine it is.
_OURS = tuple(
    os.path.realpath(path)
    for path in (
        sys.prefix,
        sys.base_prefix,
        *(path for path in sys.path if path),
        str(Path(__file__).parents[1]),
        "/proc",
        "/sys",
        "/dev/null",
        "/dev/urandom",
        "/etc",
    )
)


class Trespass(BaseException):
    """Something that a reader may not do; no `except Exception` catches it."""


class _Watch:
    def __init__(self) -> None:
        self.folder: str | None = None  # None: nobody is watched at this moment
        self.seen: list[str] = []

    def stop(self, what: str) -> None:
        if self.folder is not None:
            self.seen.append(what)
            raise Trespass(what)

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder is None:
            return
        if event in _NEVER:
            self.stop(f"{event} {str(arguments[:2])[:80]}")
        elif event == "open" and not isinstance(arguments[0], int):
            path, _, flags = arguments
            writing = bool(flags & _WRITING)
            if not self._within(path, () if writing else _OURS):
                self.stop(f"{'writes to' if writing else 'reads'} {os.fsdecode(path)[-80:]}")
        elif event in _MOVING or event.startswith("shutil."):
            for path in arguments:
                if isinstance(path, (str, bytes, os.PathLike)) and not self._within(path, ()):
                    self.stop(f"{event} {os.fsdecode(path)[-80:]}")

    def _within(self, path: Any, further: tuple[str, ...]) -> bool:
        place = os.path.realpath(os.fsdecode(path))
        assert self.folder is not None
        return any(f"{place}/".startswith(f"{top}/") for top in (self.folder, *further))


_WATCH = _Watch()
_INSTALLED: list[bool] = []


def _install() -> None:
    """Once for a process, as an audit hook stays until its end."""
    if _INSTALLED:
        return
    _INSTALLED.append(True)
    import torch
    from PIL import Image

    # a pickle of plain values looks up no class, so that no event tells of it
    for owner, name in ((pickle, "load"), (pickle, "loads"), (torch, "load")):
        setattr(owner, name, _refusing(getattr(owner, name), f"{owner.__name__}.{name}"))
    make = Image.core.new  # where Pillow makes room for the pixels before it decodes them

    def new(mode: str, size: tuple[int, int], *rest: Any) -> Any:
        if size[0] * size[1] > PIXELS:
            _WATCH.stop(f"makes room for an image of {size[0]}x{size[1]} pixels")
        return make(mode, size, *rest)

    Image.core.new = new
    sys.addaudithook(_WATCH.audit)


def _refusing(real: Any, what: str) -> Any:
    def call(*arguments: Any, **options: Any) -> Any:
        _WATCH.stop(what)
        return real(*arguments, **options)

    return call


@contextmanager
def watched(folder: Path) -> Iterator[list[str]]:
    """Watch what the block does; yields the list of what it did and may not do."""
    _install()
    _WATCH.folder, _WATCH.seen = os.path.realpath(folder), []
    try:
        yield _WATCH.seen
    finally:
        _WATCH.folder = None
