"""Disks and networks that fail: what is said, what is left, and how it goes on.

A full disk and a read-only one are small file systems in memory, which only root can mount; without
that right these cases are counted as left out. Downloads from a server that misbehaves are tested one
by one in `tests/data/test_download.py`; here the same faults come at random, many times.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import tiny
from found import Case, Found, try_cases
from kills import state

from tvae.data.download import DownloadError, download
from tvae.runs import execution, ledger, sweep
from tvae.training import checkpoints, train
from tvae.training.checkpoints import SaveError
from tvae.training.configuration import RunConfig


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """A file system of its own, of so many bytes."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def _can_mount() -> bool:
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    with tempfile.TemporaryDirectory(prefix="disks-") as place:
        try:
            with small_disk(Path(place) / "disk", "1m"):
                return True
        except subprocess.CalledProcessError:  # root in a container that may not mount
            return False


def _close(place: Path) -> None:
    """Make the folder read-only for whoever opens something in it from now on."""
    subprocess.run(["mount", "--bind", str(place), str(place)], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", str(place)], check=True)


def _open(place: Path) -> None:
    """The contrary of `_close`."""
    subprocess.run(["umount", "-l", str(place)], check=True)


def _config(epochs: int = 3) -> RunConfig:
    return RunConfig.from_preset("tiny", model="vae", d=2, epochs=epochs, batch_size=10, seed=1)


def _one_sentence(error: BaseException, *names: str) -> list[str]:
    told = str(error)
    problems = [] if "\n" not in told and told.endswith(".") else [f"not one sentence: {told!r}"]
    return problems + [f"{name} is not named: {told!r}" for name in names if name not in told]


def full_disk(place: Path, draw: random.Random) -> list[str]:
    """The disk is full in the middle of a run; with room again, the same call ends it."""
    images, faults = tiny.tiny("train"), []
    whole = place / "whole"
    train(_config(), images, folder=whole, device="cpu", progress=False)
    size = sum(path.stat().st_size for path in whole.rglob("*") if path.is_file()) // 2
    room = int(draw.uniform(0.2, 2.8) * size)  # for none, one or two checkpoints, and a part
    with small_disk(place / "disk", str(room)) as disk:
        try:
            train(_config(), images, folder=disk / "run", device="cpu", progress=False)
            faults.append("a run of three checkpoints ended on a disk that is too small")
        except SaveError as error:
            faults += _one_sentence(error, "run")
        held = checkpoints.checkpoint_folders(disk / "run")
        for path in held:
            checkpoints.read(path)  # raises if it is not whole
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        train(_config(), images, folder=disk / "run", device="cpu", progress=False)
        if state(disk / "run") != state(whole):
            faults.append("another result after a full disk than without")
    return faults


def read_only(place: Path, draw: random.Random) -> list[str]:
    """The folder cannot be written to, from the beginning or from some epoch on."""
    images, faults, after = tiny.tiny("train"), [], draw.randint(0, 2)
    with small_disk(place / "disk", "64m") as disk:
        (disk / "run").mkdir()

        def turn(_: Any, history: Any) -> None:
            if len(history) == after:
                _close(disk)

        if after == 0:
            _close(disk)
        try:
            train(
                _config(),
                images,
                folder=disk / "run",
                device="cpu",
                progress=False,
                callbacks=(turn,),
            )
            faults.append("a run ended although its folder could not be written to")
        except OSError as error:
            faults += _one_sentence(error, "run")
        _open(disk)
        done = train(_config(), images, folder=disk / "run", device="cpu", progress=False)
        if len(done.history) != 3:
            faults.append("a run did not go on once its folder could be written to again")
        job = sweep.expand(
            {"datasets": ["tiny"], "models": ["vae"], "epochs": 1, "d": 2, "batch_size": 10,
             "anchors": 50, "queries": 10, "likelihood_samples": 2, "likelihood_images": 2}
        )[0]  # fmt: skip
        (disk / "results").mkdir()
        _close(disk)
        try:
            execution.execute(job, results=disk / "results", runs=place / "runs", device="cpu")
            faults.append("an entry was written into a ledger that cannot be written to")
        except OSError:
            pass
        _open(disk)
        execution.execute(job, results=disk / "results", runs=place / "runs", device="cpu")
        if len(ledger.entries(disk / "results")) != 1:
            faults.append("an entry was lost with a read-only ledger")
    return faults


def vanishing(place: Path, draw: random.Random) -> list[str]:
    """The run folder is deleted while the run goes on: it is made again, or the run says so."""
    images, gone = tiny.tiny("train"), draw.randint(1, 2)
    alone, run = place / "alone", place / "run"
    train(_config(), images, folder=alone, device="cpu", progress=False)

    def vanish(_: Any, history: Any) -> None:
        if len(history) == gone:
            shutil.rmtree(run)

    try:
        train(_config(), images, folder=run, device="cpu", progress=False, callbacks=(vanish,))
    except OSError as error:
        return _one_sentence(error, "run")
    return [] if state(alone) == state(run) else ["another result after the folder vanished"]


class _Server(ThreadingHTTPServer):
    """Serves one file, and misbehaves at random."""

    daemon_threads = True

    def __init__(self, content: bytes, draw: random.Random) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content, self.draw, self.pause = content, draw, threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/file.zip"


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        draw, content = self.server.draw, self.server.content
        kind = draw.choice(
            ("good", "short", "stall", "other", "page", "error", "redirect", "ignore")
        )
        begin = int((self.headers.get("Range") or "bytes=0-")[6:-1])
        if kind == "redirect":
            self.send_response(draw.choice((301, 302, 307)))
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            return
        if kind == "error" or begin > len(content):
            self.send_error(416 if begin > len(content) else draw.choice((403, 404, 500, 503)))
            return
        if kind == "other":
            content = draw.randbytes(len(content))
        if kind == "ignore":
            begin = 0
        body = content[begin:] if kind != "page" else b"<html>not now</html>"
        self.send_response(206 if begin else 200)
        self.send_header("Content-Type", "text/html" if kind == "page" else "application/zip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut = draw.randrange(len(body)) if kind in ("short", "stall") and body else len(body)
        self.wfile.write(body[:cut])
        if kind == "stall":
            self.wfile.flush()
            self.server.pause.wait(0.3)

    def log_message(self, *_: Any) -> None:
        pass

    def handle(self) -> None:
        with suppress(ConnectionError):  # the other side has given up
            super().handle()


def downloads(place: Path, draw: random.Random) -> list[str]:
    """Fetched again and again from a server that misbehaves, until it is there."""
    content = draw.randbytes(draw.choice((1, 5000, 300_000)))
    expected = hashlib.sha256(content).hexdigest()
    server, target, faults = _Server(content, draw), place / "file.zip", []
    try:
        for _ in range(200):
            try:
                download(server.url, target, expected, tries=1, timeout=0.1)
            except DownloadError as error:
                faults += _one_sentence(error, "file.zip")
                if target.exists():
                    faults.append("a download failed, and a file of its name is there")
                continue
            break
        else:
            faults.append("two hundred tries did not bring a file")
        if not target.is_file() or target.read_bytes() != content:
            faults.append("not the published file")
    finally:
        server.pause.set()
        server.shutdown()
        server.server_close()
    return faults


def disks(seed: int, scale: float) -> Found:
    """Disks that are full, folders that cannot be written to or vanish."""
    mounted: dict[str, tuple[Case, int]] = {
        "full disks": (full_disk, 20),
        "read-only folders": (read_only, 20),
    }
    vanishing_folders: dict[str, tuple[Case, int]] = {"vanishing folders": (vanishing, 20)}
    if _can_mount():
        return try_cases(mounted | vanishing_folders, "disks-", seed, scale)
    found = try_cases(vanishing_folders, "disks-", seed, scale)
    found.left_out += [f"{name} (only root can mount)" for name in mounted]
    return found


def networks(seed: int, scale: float) -> Found:
    """Downloads from a server that misbehaves."""
    return try_cases({"failing downloads": (downloads, 120)}, "disks-", seed, scale)


PARTS: dict[str, Callable[[int, float], Found]] = {"disks": disks, "networks": networks}
