"""What several commands share: arguments, printing tables."""

import argparse
import shutil
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any


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


def said(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Those of the named options that have a value, by name."""
    return {name: value for name in names if (value := getattr(arguments, name)) is not None}


def add_device(command: argparse.ArgumentParser) -> None:
    """--device and --threads."""
    command.add_argument("--device", default="auto", help="auto (default), cpu, cuda, cuda:0, mps")
    command.add_argument("--threads", type=count, help="processor threads (default: all cores)")


def set_threads(arguments: argparse.Namespace) -> None:
    """Obey --threads."""
    if arguments.threads is not None:
        import torch

        torch.set_num_threads(arguments.threads)


def show(head: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[int] = (0,)) -> None:
    """Print a table; in a terminal long cells are folded to its width."""
    from tvae import text

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else text.UNFOLDED
    print(text.table(head, rows, left=left, width=width))


def show_metrics(
    metrics: Mapping[str, float | None],
    errors: Mapping[str, float],
    printed: Mapping[str, float | None] | None,
) -> None:
    """The twelve metrics, one a line, with their standard errors and the paper's numbers."""
    import pandas as pd

    from tvae.paper import METRICS, report

    columns: dict[str, Any] = {name: metrics.get(name) for name in METRICS}
    columns |= {f"{name}_se": errors.get(name) for name in METRICS}
    columns |= {f"{name}_paper": (printed or {}).get(name) for name in METRICS}
    cells = report.cells(pd.Series(columns, dtype=float)).values()
    lines = zip(METRICS, *cells, strict=True)
    rows = [[cell or "–" for cell in line] for line in lines]
    show(["metric", "ours", "s.e.", "paper", "difference"], rows)
