"""What a part of the campaign brings back."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

#: Does something in a folder, with draws of its own, and returns what was wrong.
Case = Callable[[Path, random.Random], list[str]]


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


def try_cases(cases: dict[str, tuple[Case, int]], prefix: str, seed: int, scale: float) -> Found:
    """Every case as often as it says, each time in a new folder whose name begins with `prefix`."""
    found = Found()
    for name, (case, often) in cases.items():
        for number in range(times(often, scale)):
            with tempfile.TemporaryDirectory(prefix=prefix) as place:
                draw = random.Random(f"{seed}/{name}/{number}")
                found.add(name, case(Path(place), draw), number)
    return found
