"""What several commands share: arguments, printing tables."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = [
    "add_command",
    "add_device",
    "count",
    "metrics_table",
    "set_threads",
    "table",
]


def add_command(
    commands: Any, name: str, summary: str, description: str, examples: str, run: Any
) -> argparse.ArgumentParser:
    """A subcommand with its help text and examples."""
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=run)
    return command


def count(text: str) -> int:
    """A positive whole number, for argparse."""
    try:
        value = int(text.replace("_", ""))
    except ValueError:
        value = 0
    if value <= 0:
        raise argparse.ArgumentTypeError(f"a positive whole number is wanted, not {text!r}")
    return value


def add_device(command: argparse.ArgumentParser) -> None:
    """--device and --threads."""
    command.add_argument("--device", default="auto", help="auto (default), cpu, cuda, cuda:0, mps")
    command.add_argument("--threads", type=count, help="processor threads (default: all cores)")


def set_threads(arguments: argparse.Namespace) -> None:
    """Obey --threads."""
    if arguments.threads is not None:
        import torch

        torch.set_num_threads(arguments.threads)


def table(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> str:
    """Rows of cells, the first being the head, as aligned text; columns in `left` flush left."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def metrics_table(
    metrics: Mapping[str, float | None],
    errors: Mapping[str, float],
    printed: Mapping[str, float | None] | None,
) -> str:
    """The twelve metrics, one a line, with their standard errors and the paper's numbers."""
    from tvae.paper import METRICS

    def show(value: float | None, name: str, sign: str = "") -> str:
        if value is None:
            return "–"
        return format(value, f"{sign}.{3 if name.startswith('knn') else 2}f")

    rows = [["metric", "ours", "s.e.", "paper", "difference"]]
    for name in METRICS:
        ours = metrics.get(name)
        theirs = None if printed is None else printed[name]
        gap = None if ours is None or theirs is None else ours - theirs
        error = errors.get(name)
        rows.append(
            [
                name,
                show(ours, name),
                "" if error is None else show(error, name),
                show(theirs, name),
                show(gap, name, "+"),
            ]
        )
    return table(rows)
