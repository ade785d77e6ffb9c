"""What a sweep shows: lines outside a terminal, a redrawn table inside one."""

from __future__ import annotations

import io
import re

import pytest

from tvae.runs.progress import Board, duration


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (99, "99 s"), (120, "2 min"), (7500, "2 h 05 min"), (400_000, "4 d 15 h")],
)
def test_duration(seconds, text):
    assert duration(seconds) == text


def test_lines_outside_a_terminal():
    stream, clock = io.StringIO(), Clock()
    board = Board({"a": 1.0, "b": 1.0}, stream, clock=clock)
    board.event("a", {"event": "start"})
    clock.now = 10
    board.event("a", {"event": "epoch", "epoch": 1, "epochs": 4, "loss": 12.345})
    clock.now = 20
    board.event("a", {"event": "epoch", "epoch": 2, "epochs": 4, "loss": 11.0})
    board.event("a", {"event": "evaluating"})
    board.event("a", {"event": "ok", "summary": "mll 90"})
    board.event("b", {"event": "failed", "reason": "ValueError: no"})
    board.close()
    lines = [line.split(" ", 1)[1] for line in stream.getvalue().splitlines()]
    assert lines[0] == "a: started"
    assert lines[1] == "a: epoch 1 of 4, loss 12.35"
    assert lines[2] == "a: epoch 2 of 4, loss 11.00, 20 s to go"
    assert lines[-2] == "b: failed: ValueError: no"
    assert stream.getvalue().splitlines()[-1].startswith("1 ok, 1 failed")
    assert "\x1b" not in stream.getvalue()


def test_many_short_epochs_do_not_flood_a_log():
    stream = io.StringIO()
    board = Board({"a": 1.0}, stream, clock=Clock())
    for epoch in range(1, 401):
        board.event("a", {"event": "epoch", "epoch": epoch, "epochs": 400})
    assert len(stream.getvalue().splitlines()) == 20


def test_time_to_go_counts_costs_and_knows_what_was_done_before():
    clock = Clock()
    board = Board({"a": 4.0, "b": 1.0, "c": 3.0}, io.StringIO(), clock=clock)
    assert board.left() is None
    board.event("a", {"event": "start"})
    clock.now = 40
    board.event("a", {"event": "ok"})
    assert board.left() == pytest.approx(40)  # 4 units took 40 s, 4 are left
    board.event("b", {"event": "start"})
    board.event("b", {"event": "epoch", "epoch": 5, "epochs": 10})  # resumed: five were there
    clock.now = 45
    board.event("b", {"event": "epoch", "epoch": 10, "epochs": 10})
    assert board.left() == pytest.approx(45 / 4.5 * 3)


def test_a_terminal_gets_one_table_that_is_redrawn(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stream, clock = Terminal(), Clock()
    board = Board({"a": 1.0, "b": 1.0}, stream, clock=clock)
    board.event("a", {"event": "start"})
    clock.now = 2
    board.event("a", {"event": "epoch", "epoch": 1, "epochs": 4, "loss": 12.345})
    assert "started" not in stream.getvalue()  # the table says so
    drawn = re.split(r"\x1b\[2K", stream.getvalue())[-1]  # after the lines drawn before are erased
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn).splitlines()
    assert lines[0].startswith("0 ok, 0 failed, 1 running, 1 waiting")
    assert lines[1].split() == ["run", "state", "epoch", "loss", "running", "to", "go"]
    assert lines[2].split()[:4] == ["a", "training", "1/4", "12.35"]
    board.event("a", {"event": "failed", "reason": "[bold]no[/bold] " + 30 * "long "})
    board.close()
    assert "a: failed after 2 s: [bold]no[/bold] " + 30 * "long " in stream.getvalue()
    assert stream.getvalue().endswith("0 ok, 1 failed\n")


def test_a_lost_worker_goes_back_to_the_queue():
    board = Board({"a": 1.0}, io.StringIO(), clock=Clock())
    board.event("a", {"event": "start"})
    assert board.waiting == []
    board.event("a", {"event": "again", "reason": "The worker was killed by signal 9."})
    assert board.waiting == ["a"] and not board.running
