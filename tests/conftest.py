"""Settings and fixtures of the tests."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import pytest

# No deadline: a test may never depend on how busy the machine is.
hypothesis.settings.register_profile(
    "project", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("project")


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the project."""
    return Path(__file__).resolve().parent.parent
