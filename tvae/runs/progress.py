"""What a sweep shows while it runs: a table that is redrawn in a terminal, else a line per event."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

__all__ = ["Board", "duration"]


def duration(seconds: float) -> str:
    """A length of time for people: `42 s`, `7 min`, `3 h 05 min`, `12 d 4 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    if hours < 100:
        return f"{hours} h {rest:02d} min"
    return f"{hours // 24} d {hours % 24} h"


@dataclass
class _Running:
    started: float
    phase: str = "starting"
    epoch: int = 0
    epochs: int = 0
    first: int = 0  # the epoch at which this process took over
    clock: float = 0.0  # when the first epoch of this process began
    value: float | None = None

    def left(self, now: float) -> float | None:
        """Seconds until training ends, from the epochs this process has made itself."""
        done = self.epoch - self.first
        if self.phase != "training" or done <= 0:
            return None
        return (now - self.clock) / done * (self.epochs - self.epoch)


class Board:
    """Follows the events of the runs and shows them on `stream`.

    Args:
        costs: the relative cost of each run by name, from which the time to go is estimated.
        stream: where to write; a terminal gets a table that is redrawn in place.
        side_by_side: how many runs are made at the same time.
        clock: seconds since some fixed moment (replaced in tests).
    """

    def __init__(
        self,
        costs: Mapping[str, float],
        stream: TextIO,
        side_by_side: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.costs = dict(costs)
        self.stream = stream
        self.side_by_side = side_by_side
        self.clock = clock
        self.began = clock()
        self.running: dict[str, _Running] = {}
        self.waiting = list(costs)
        self.ended: dict[str, str] = {}
        self._terminal = stream.isatty()
        self._drawn = 0
        self._last = 0.0

    # --- events ---------------------------------------------------------------------------------

    def event(self, name: str, event: Mapping[str, Any]) -> None:
        """Take note of what the run `name` reports."""
        kind = event["event"]
        if kind == "start":
            if name in self.waiting:
                self.waiting.remove(name)
            self.running[name] = _Running(self.clock())
            self._say(f"{name}: started")
        elif kind == "epoch":
            self._epoch(name, event)
        elif kind == "evaluating":
            self.running.setdefault(name, _Running(self.clock())).phase = "measuring"
            self._say(f"{name}: trained, measuring")
        elif kind in ("ok", "failed", "elsewhere", "again"):
            run = self.running.pop(name, None)
            if kind == "again":
                self.waiting.insert(0, name)
            else:
                self.ended[name] = kind
                if name in self.waiting:
                    self.waiting.remove(name)
            took = f" after {duration(self.clock() - run.started)}" if run else ""
            words = {"ok": "ok", "failed": "failed", "elsewhere": "another process has it"}
            words["again"] = "worker lost, again"
            reason = f": {event['reason']}" if event.get("reason") else ""
            summary = f" ({event['summary']})" if event.get("summary") else ""
            self._say(f"{name}: {words[kind]}{took}{summary}{reason}")
        self.refresh()

    def _epoch(self, name: str, event: Mapping[str, Any]) -> None:
        run = self.running.setdefault(name, _Running(self.clock()))
        if run.phase != "training":
            run.phase, run.first, run.clock = "training", event["epoch"], self.clock()
        run.epoch, run.epochs = event["epoch"], event["epochs"]
        run.value = event.get("loss")
        left = run.left(self.clock())
        loss = "" if run.value is None else f", loss {run.value:.2f}"
        rest = "" if left is None else f", {duration(left)} to go"
        # many short epochs would flood a log: one line in twenty is enough then
        if run.epoch % max(run.epochs // 20, 1) == 0 or run.epoch == run.epochs:
            self._say(f"{name}: epoch {run.epoch} of {run.epochs}{loss}{rest}")

    def _say(self, line: str) -> None:
        stamp = time.strftime("%H:%M:%S")
        if self._terminal:
            self._erase()
        if not self._terminal or ": ok" in line or "failed" in line or "lost" in line:
            self.stream.write(f"{stamp} {line}\n")
            self.stream.flush()

    # --- time to go -----------------------------------------------------------------------------

    def left(self) -> float | None:
        """Seconds until the whole sweep ends, or None while nothing is known."""
        now = self.clock()
        spent = 0.0
        done = sum(self.costs.get(name, 0.0) for name, kind in self.ended.items() if kind == "ok")
        for name, run in self.running.items():
            part = (run.epoch - run.first) / run.epochs if run.epochs else 0.0
            if run.phase == "measuring":
                part = 0.9
            done += part * self.costs.get(name, 0.0)
        spent = now - self.began
        if done <= 0 or spent <= 0:
            return None
        open_runs = sum(self.costs.get(name, 0.0) for name in [*self.waiting, *self.running])
        begun = sum(
            (run.epoch / run.epochs if run.epochs else 0.0) * self.costs.get(name, 0.0)
            for name, run in self.running.items()
        )
        return spent / done * max(open_runs - begun, 0.0)

    # --- the table ------------------------------------------------------------------------------

    def lines(self) -> list[str]:
        """The table as it stands, one string a line."""
        now = self.clock()
        counts = {kind: list(self.ended.values()).count(kind) for kind in ("ok", "failed")}
        left = self.left()
        head = (
            f"{counts['ok']} ok, {counts['failed']} failed, {len(self.running)} running, "
            f"{len(self.waiting)} waiting; {duration(now - self.began)} so far"
        )
        head += "" if left is None else f", about {duration(left)} to go"
        rows: list[Sequence[str]] = [("run", "state", "epoch", "loss", "running", "to go")]
        for name, run in self.running.items():
            rest = run.left(now)
            rows.append(
                (
                    name,
                    run.phase,
                    f"{run.epoch}/{run.epochs}" if run.epochs else "",
                    "" if run.value is None else f"{run.value:.2f}",
                    duration(now - run.started),
                    "" if rest is None else duration(rest),
                )
            )
        widths = [max(len(row[i]) for row in rows) for i in range(6)]
        body = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return [head, *body] if self.running else [head]

    def refresh(self, every: float = 0.5) -> None:
        """Redraw the table, at most once in `every` seconds; outside a terminal do nothing."""
        if not self._terminal or self.clock() - self._last < every:
            return
        self._last = self.clock()
        self._erase()
        width = shutil.get_terminal_size().columns
        lines = [line[: width - 1] for line in self.lines()]
        self.stream.write("".join(f"{line}\n" for line in lines))
        self.stream.flush()
        self._drawn = len(lines)

    def _erase(self) -> None:
        if self._drawn:
            self.stream.write(f"\x1b[{self._drawn}A\x1b[J")  # up, then clear to the end
            self._drawn = 0

    def close(self) -> None:
        """Leave the final count behind."""
        if self._terminal:
            self._erase()
        self.running.clear()
        self.stream.write(self.lines()[0].split(", 0 running")[0] + "\n")
        self.stream.flush()
