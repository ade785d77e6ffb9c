"""Processes that are begun, killed and waited for, and commands of `tvae` in a process of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import torch


def begin(work: Callable[[], object]) -> int:
    """Do the work in a process of its own, forked from this one; returns its identity at once."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        torch.set_num_threads(1)
        work()
        status = 0
    finally:
        os._exit(status)


def was_killed(child: int) -> bool:
    """Wait for a process; whether it was killed. Any other failure is an error here."""
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return True
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError("a run failed by itself")
    return False


def kill_itself() -> NoReturn:
    """SIGKILL to this process, which it cannot catch."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def at_call(
    owner: Any, name: str, count: int, work: Callable[[], object], *, after: bool = False
) -> Callable[[], object]:
    """The work, with the process killing itself at the `count`-th call of `owner.name`."""

    def prepared() -> object:
        real, calls = getattr(owner, name), 0

        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == count and not after:
                kill_itself()
            result = real(*arguments, **options)
            if calls == count:
                kill_itself()
            return result

        setattr(owner, name, call)
        return work()

    return prepared


def environment(changes: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """The environment of a command: one thread, the tiny data set, the package of this checkout."""
    here = Path(__file__).resolve().parent
    values: dict[str, str | None] = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(here.parent), str(here)]),
        "TVAE_PLUGINS": "tiny",
        "TVAE_DEBUG": None,
        **(changes or {}),
    }
    return {name: value for name, value in values.items() if value is not None}


def command(*words: object, **options: Any) -> subprocess.Popen[str]:
    """`tvae WORDS` begun in a process of its own, with its output kept unless the options say else."""
    usual: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    line = [sys.executable, "-m", "tvae.cli", *map(str, words)]
    return subprocess.Popen(line, text=True, **usual | {"env": environment()} | options)
