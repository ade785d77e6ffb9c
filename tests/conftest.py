"""Settings and fixtures of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import hypothesis
import matplotlib
import pytest
import torch

# No window, whatever the machine offers. Not by MPLBACKEND: the chapters' kernels would inherit it,
# and their figures would vanish.
matplotlib.use("agg")

# No deadline: a test may never depend on how busy the machine is.
hypothesis.settings.register_profile(
    "project", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("project")


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the project."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """For a module of small arrays: a second thread gains nothing, and on a busy machine loses much."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
