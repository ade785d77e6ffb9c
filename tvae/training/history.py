"""What a training run did: the mean of every loss term, epoch by epoch."""

from typing import Any

from tvae import text

# shown in this order where present; other columns follow
_COLUMNS = ("epoch", "total", "nllx0", "nllx1", "nllx2", "nll", "c1", "c2", "kl0", "div")
_HIDDEN = ("step", "learning_rate", "seconds", "process_seconds", "capped")


class History(list[dict[str, Any]]):
    """A list with one dict per epoch.

    Each holds `epoch` (the first is 1), `step` (optimiser steps so far), `learning_rate`, the mean
    over the epoch of every loss term and of their sum `total`, `seconds` on the wall and
    `process_seconds` of the process's own time on all its cores, where test images were given
    `test_nllx0` and `test_kl0` after the epoch, and `capped`: whether training stopped here because
    of TVAE_MAX_STEPS or `max_steps`, short of what its schedule wanted.
    """

    @property
    def capped(self) -> bool:
        """Whether a limit on the number of steps ended the run before its time."""
        return bool(self) and bool(self[-1].get("capped", False))

    @property
    def seconds(self) -> float:
        """Time spent in training, over all epochs, also those before a resume."""
        return float(sum(row.get("seconds", 0.0) for row in self))

    @property
    def process_seconds(self) -> float:
        """The processor's time spent in training, all threads together; it does not run in a pause."""
        return float(sum(row.get("process_seconds", 0.0) for row in self))

    def curve(self, name: str) -> list[float]:
        """One column: the values of `name`, epoch by epoch."""
        known = list(self[0]) if self else []
        if name not in known:
            raise KeyError(f"The history has no column {name!r}; it has {', '.join(known)}.")
        return [float(row[name]) for row in self]

    def table(self, every: int = 1) -> str:
        """The history as lines of text, one for each `every`-th epoch and for the last."""
        if not self:
            return "no epoch completed"
        present = list(self[0])
        columns = [name for name in _COLUMNS if name in present]
        columns += [name for name in present if name not in columns and name not in _HIDDEN]
        kept = [row for n, row in enumerate(self, 1) if n % every == 0 or n == len(self)]
        rows = [[_cell(row.get(name)) for name in columns] for row in kept]
        short = f"\ncut short after {self[-1]['step']} steps" if self.capped else ""
        return text.table(columns, rows, left=(), at_least=8) + short


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
