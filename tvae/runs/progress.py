"""What a sweep shows while it runs: a table that is redrawn in a terminal, else a line per event."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table


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


_WORDS = {
    "ok": "ok",
    "failed": "failed",
    "elsewhere": "another process has it",
    "again": "worker lost, again",
}


class Board:
    """Follows the events of the runs and shows them on `stream`.

    Args:
        costs: the relative cost of each run by name, from which the time to go is estimated.
        stream: where to write; a terminal gets a table that is redrawn in place.
        clock: seconds since some fixed moment (replaced in tests).
    """

    def __init__(
        self,
        costs: Mapping[str, float],
        stream: TextIO,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.costs = dict(costs)
        self.stream = stream
        self.clock = clock
        self.began = clock()
        self.running: dict[str, _Running] = {}
        self.waiting = list(costs)
        self.ended: dict[str, str] = {}
        self._live: Live | None = None
        if stream.isatty():
            console = Console(file=stream, force_jupyter=False, highlight=False)
            self._live = Live(
                console=console,
                get_renderable=self.table,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()

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
        else:
            self._end(name, event)
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

    def _end(self, name: str, event: Mapping[str, Any]) -> None:
        kind, run = event["event"], self.running.pop(name, None)
        if name in self.waiting:
            self.waiting.remove(name)
        if kind == "again":
            self.waiting.insert(0, name)
        else:
            self.ended[name] = kind
        took = f" after {duration(self.clock() - run.started)}" if run else ""
        reason = f": {event['reason']}" if event.get("reason") else ""
        summary = f" ({event['summary']})" if event.get("summary") else ""
        self._say(f"{name}: {_WORDS[kind]}{took}{summary}{reason}", keep=True)

    def _say(self, line: str, keep: bool = False) -> None:
        """Write a line; into a terminal, where the table says the rest, only one to `keep`."""
        line = f"{time.strftime('%H:%M:%S')} {line}"
        if self._live is None:
            print(line, file=self.stream, flush=True)
        elif keep:
            self._live.console.print(line, markup=False, soft_wrap=True)

    def left(self) -> float | None:
        """Seconds until the whole sweep ends, or None while nothing is known."""
        spent = self.clock() - self.began
        done = sum(self.costs[name] for name, kind in self.ended.items() if kind == "ok")
        ahead = sum(self.costs[name] for name in self.waiting)
        for name, run in self.running.items():
            part = (run.epoch - run.first) / run.epochs if run.epochs else 0.0
            done += (0.9 if run.phase == "measuring" else part) * self.costs[name]
            begun = run.epoch / run.epochs if run.epochs else 0.0
            ahead += (1 - begun) * self.costs[name]
        return spent / done * ahead if done > 0 and spent > 0 else None

    def summary(self) -> str:
        """How many runs ended and how, how many are to come, how long it took and will take."""
        ended, left = list(self.ended.values()), self.left()
        return (
            f"{ended.count('ok')} ok, {ended.count('failed')} failed, {len(self.running)} running, "
            f"{len(self.waiting)} waiting; {duration(self.clock() - self.began)} so far"
        ) + ("" if left is None else f", about {duration(left)} to go")

    def table(self) -> Group:
        """The state of the sweep and of every run that is being made, for a terminal."""
        now = self.clock()
        table = Table("run", "state", "epoch", "loss", "running", "to go", box=None, pad_edge=False)
        for name, run in self.running.items():
            rest = run.left(now)
            table.add_row(
                name,
                run.phase,
                f"{run.epoch}/{run.epochs}" if run.epochs else "",
                "" if run.value is None else f"{run.value:.2f}",
                duration(now - run.started),
                "" if rest is None else duration(rest),
            )
        return Group(self.summary(), table) if self.running else Group(self.summary())

    def refresh(self) -> None:
        """Redraw the table; outside a terminal do nothing."""
        if self._live is not None:
            self._live.refresh()

    def close(self) -> None:
        """Leave the final count behind."""
        if self._live is not None:
            self._live.stop()
        self.running.clear()
        print(self.summary().split(", 0 running")[0], file=self.stream, flush=True)
