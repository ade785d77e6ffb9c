"""What a sweep shows: lines outside a terminal, a redrawn table inside one."""

from __future__ import annotations

import io

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


def test_a_terminal_gets_one_table_that_is_redrawn():
    stream, clock = Terminal(), Clock()
    board = Board({"a": 1.0, "b": 1.0}, stream, clock=clock)
    clock.now = 1
    board.event("a", {"event": "start"})
    clock.now = 2
    board.event("a", {"event": "epoch", "epoch": 1, "epochs": 4, "loss": 12.345})
    text = stream.getvalue()
    assert "\x1b[3A\x1b[J" in text  # the three lines drawn before are taken back
    last = text.split("\x1b[J")[-1].splitlines()
    assert last[0].startswith("0 ok, 0 failed, 1 running, 1 waiting")
    assert last[2].split()[:4] == ["a", "training", "1/4", "12.35"][:4]


def test_a_lost_worker_goes_back_to_the_queue():
    board = Board({"a": 1.0}, io.StringIO(), clock=Clock())
    board.event("a", {"event": "start"})
    assert board.waiting == []
    board.event("a", {"event": "again", "reason": "The worker was killed by signal 9."})
    assert board.waiting == ["a"] and not board.running
