"""`tvae data`: list, fetch, check."""

from __future__ import annotations

from typing import Any

__all__ = ["add"]


def add(commands: Any) -> None:
    """Register the commands."""
