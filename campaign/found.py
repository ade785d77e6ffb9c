"""What a part of the campaign brings back."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Found:
    """How often what was done, and what was wrong; `left_out` names what this machine cannot do."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def add(self, what: str, faults: list[str], where: object = "") -> None:
        """Count one case, and its faults, each with the name of the case."""
        self.counts[what] += 1
        self.faults += [f"{what} {where}: {fault}" for fault in faults]


def times(often: int, scale: float) -> int:
    """How often a case comes at this scale: at least once."""
    return max(1, round(often * scale))
