"""Short trials of a chapter: a table of them, of which only what is missing is made."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from tvae.files import atomic_write


def make(
    trials: Mapping[str, Any],
    trial: Callable[[str], Mapping[str, float]],
    path: Path,
    digits: int,
) -> int:
    """Make the trials that the command line names (all, if none) and the table at `path` lacks.

    Each is written at once, so that an interrupted script goes on where it stopped.
    """
    torch.set_num_threads(1)
    names = sys.argv[1:] or list(trials)
    if unknown := set(names) - set(trials):
        print(f"There is no trial {', '.join(sorted(unknown))}; there are: {'; '.join(trials)}.")
        return 1
    table = pd.read_csv(path, index_col=0) if path.is_file() else pd.DataFrame()
    for name in names:
        if name not in table.index:
            row = pd.DataFrame([dict(trial(name))], index=[name])
            table = pd.concat([table, row])
            text = io.StringIO()
            table.rename_axis("trial").round(digits).to_csv(text)
            atomic_write(path, text.getvalue())
            print(row.round(digits).to_string(), flush=True)
    return 0
