"""What several commands share: arguments, finding a trained run, printing tables."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = [
    "Trained",
    "add_command",
    "add_device",
    "count",
    "find",
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


@dataclass(frozen=True)
class Trained:
    """A trained model and what is known of its run."""

    name: str
    model: Any  # VAE or TVAE
    config: Any  # RunConfig
    history: list[dict[str, Any]]
    folder: Path | None  # None: released with the package


def find(run: str, device: str = "cpu") -> Trained:
    """The trained run in a folder, or the released model of that name."""
    from tvae import checkpoints, ledger, released, training
    from tvae.presets import RunConfig

    folder = Path(run)
    if folder.is_dir():
        model = training.load(folder, device)
        kept = checkpoints.latest(folder) or checkpoints.read(folder)
        config = RunConfig.from_dict(kept.config)
        return Trained(ledger.run_name(config.to_dict()), model, config, kept.history, folder)
    known = released.names()
    try:
        name = released.resolve(run)
    except released.ReleaseError:
        listed = f" nor released weights of that name ({', '.join(known)})" if known else ""
        raise ValueError(f"There is no run folder {run}{listed}.") from None
    entry = released.entry(name)
    fields = {field: entry["configuration"][field] for field in RunConfig.__dataclass_fields__}
    model = released.pretrained(name).to(training.pick_device(device))
    return Trained(name, model, RunConfig.from_dict(fields), entry["curve"], None)


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
