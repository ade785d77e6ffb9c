"""Settings that hold for the tests and for the chapters, from whatever folder pytest is started."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent

# Before torch is imported, here or in a kernel: workers side by side share the cores. Only in the
# workers, for they inherit what the process that starts them sets; threads that wait for a core
# they do not get make everything many times slower.
if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    _workers = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(_name, str(max(1, (os.cpu_count() or 1) // _workers)))


def pytest_configure(config: pytest.Config) -> None:
    """Let a bare `pytest --nbval book` do what `make test` does."""
    if getattr(config.option, "nbval", False):
        config.option.nbval_current_env = True
        if config.option.nbval_sanitize_with is None:
            config.option.nbval_sanitize_with = str(ROOT / "tests" / "nbval.cfg")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """How tests are shared out among workers, where pytest-xdist runs them side by side.

    A file stays on one worker: cells need their order, and a module's fixtures are made once. Tests
    that execute a whole chapter take long and need no company, so each of them may go anywhere.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduler(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file, _, name = nodeid.partition("::")
            return nodeid if name.startswith("test_chapter_") else file

    return Scheduler(config, log)


def pytest_collectstart(collector: Any) -> None:
    """Do not compare what a cell writes to stderr.

    A warning of another release of torch is no change of a result. That the stored outputs hold
    no warning is checked in `tests/book/test_notebooks.py`.
    """
    if isinstance(getattr(collector, "skip_compare", None), tuple):
        collector.skip_compare += ("stderr",)
