"""Files that are either there in full or not there at all, and locks that one process holds."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

AnyPath = str | os.PathLike[str]


@contextmanager
def atomic_path(path: AnyPath) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success rename it to `path`, on error remove it.

    The temporary file lies in the same folder, so that the rename stays within one file system and
    is atomic. Its content is flushed to the disk before the rename: after a power cut there is the
    old file or the new one, never a part of either.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        # mkstemp makes private files; give the result the mode an ordinary open() would have given
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def atomic_write(path: AnyPath, content: bytes | str) -> None:
    """Write `content` (text as UTF-8) to `path` so that no reader ever sees a part of it."""
    data = content.encode() if isinstance(content, str) else content
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def digest(file: Any, algorithm: str) -> str:
    """The checksum of an open file, in hexadecimal."""
    found = hashlib.new(algorithm)
    while block := file.read(1 << 20):
        found.update(block)
    return found.hexdigest()


@contextmanager
def reading(sentence: str, kind: type[ValueError] = ValueError) -> Iterator[None]:
    """Whatever goes wrong in the block becomes an error of this kind: the `sentence`, and the reason.

    For files from outside. What a library raises on a damaged one is its own affair and cannot be
    listed; that the file is not there is left as it is.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise kind(f"{sentence}: {reason}.") from error


class Busy(RuntimeError):
    """Another process holds the lock."""


@contextmanager
def locked(path: AnyPath, *, wait: bool = False) -> Iterator[None]:
    """Hold the lock `path` while the block runs; if another process has it, wait or raise `Busy`.

    The lock belongs to the process and ends with it, however it ends: nothing has to be cleaned up
    after a crash, and a file that is left behind holds nobody up.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path, timeout=-1 if wait else 0)
    try:
        held = lock.acquire()
    except Timeout:
        raise Busy(f"Another process holds {path.name}.") from None
    with held:
        yield
