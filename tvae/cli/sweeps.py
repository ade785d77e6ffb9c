"""`tvae sweep` and `tvae report`."""

import argparse
import sys
from pathlib import Path
from typing import Any

from tvae.cli.common import add_command, count, said, show


def add(commands: Any) -> None:
    """Register the commands."""
    sweep = add_command(
        commands,
        "sweep",
        "make all runs of a sweep file",
        "Expand a sweep file, leave out what the ledger holds, train and measure the rest, and write "
        "each run into the ledger. Interrupted anywhere, the same command continues.",
        "  tvae sweep sweeps/paper.yaml --dry-run\n"
        "  tvae sweep sweeps/book.yaml --jobs 2\n"
        "  tvae sweep sweeps/paper.yaml --engine ray --address auto --cpus 4 --gpus 0.5\n",
        _sweep,
    )
    sweep.add_argument("file", metavar="FILE", help="the sweep, a YAML file")
    sweep.add_argument("--jobs", type=count, default=1, help="runs side by side (default: 1)")
    sweep.add_argument("--engine", choices=("local", "ray"), default="local")
    sweep.add_argument("--address", help="of the Ray cluster (default: start Ray here)")
    sweep.add_argument("--cpus", type=count, default=1, help="for each run, with Ray (default: 1)")
    sweep.add_argument("--gpus", type=float, default=0, help="for each run, with Ray (default: 0)")
    sweep.add_argument("--dry-run", action="store_true", help="print the runs and what they cost")
    sweep.add_argument("--results", type=Path, help="the ledger (default: the project's own)")
    sweep.add_argument(
        "--runs", type=Path, default=Path("runs"), help="run folders (default: runs)"
    )
    sweep.add_argument("--device", default="auto", help="auto (default), cpu, cuda, mps")

    report = add_command(
        commands,
        "report",
        "ours beside the paper's",
        "The runs of the ledger beside the numbers the paper prints, with the difference. For each "
        "data set and preset one table.",
        "  tvae report\n"
        "  tvae report --dataset mnist --d 25 --action A --action VAE+\n"
        "  tvae report --preset book --format latex > tables.tex\n",
        _report,
    )
    report.add_argument("--dataset", help="only this data set")
    report.add_argument(
        "--action", action="append", help="only this row: A, MR, VAE+, PCA, ... (repeatable)"
    )
    report.add_argument("--d", type=count, help="only this dimension (25 includes M and MA at 26)")
    report.add_argument("--preset", help="only this preset")
    report.add_argument("--tag", help="an experiment with a name, such as smoke or stability")
    report.add_argument("--format", choices=("text", "markdown", "latex"), default="text")
    report.add_argument("--results", type=Path, help="the ledger (default: the project's own)")


def _report(arguments: argparse.Namespace) -> int:
    from tvae.paper.report import report

    names = ("dataset", "action", "d", "preset", "tag", "format")
    print(report(arguments.results, **said(arguments, *names)))
    return 0


def _sweep(arguments: argparse.Namespace) -> int:
    from tvae.runs import engines, ledger
    from tvae.runs import sweep as sweeps

    jobs = sweeps.load(arguments.file)
    results = arguments.results or ledger.folder()
    if arguments.dry_run:
        return _dry_run(jobs, results, arguments.jobs)
    common = {"results": results, "stream": sys.stdout, **said(arguments, "runs", "device")}
    if arguments.engine == "ray":
        outcome = engines.over_ray(jobs, **said(arguments, "address", "cpus", "gpus"), **common)
    else:
        outcome = engines.local(jobs, side_by_side=arguments.jobs, **common)
    if outcome.present:
        print(f"{len(outcome.present)} were in the ledger already")
    if outcome.elsewhere:
        print(f"{len(outcome.elsewhere)} are being made by another process")
    for name, reason in outcome.failed.items():
        print(f"failed: {name}: {reason}")
    return 1 if outcome.failed else 0


def _dry_run(jobs: list[Any], results: Path, side_by_side: int) -> int:
    from tvae.runs import costs, engines
    from tvae.runs.progress import duration

    todo, present = engines.open_jobs(jobs, results)
    print(f"{len(jobs)} runs, {len(present)} of them in the ledger; calibrating ...", flush=True)
    estimates = costs.estimate(todo, side_by_side)
    rows = []
    for job, cost in zip(todo, estimates, strict=True):
        speed = f"{1000 * cost.seconds_per_step:.1f}"
        steps = [str(cost.epochs), f"{cost.steps:,}", speed] if job.trained else ["–"] * 3
        rows.append([job.name, *steps, duration(cost.training), duration(cost.measuring)])
    if todo:
        show(["run", "epochs", "steps", "ms/step", "training", "measuring"], rows)
    total = sum(cost.training + cost.measuring for cost in estimates)
    note = f", {side_by_side} side by side" if side_by_side > 1 else ""
    print(f"about {duration(total / side_by_side)} on this machine{note}")
    return 0
