"""The campaign: many random faults against what the package promises, counted.

    python campaign/main.py --seed 1                       all parts, two side by side
    python campaign/main.py --seed 1 --scale 0.05          a trial
    python campaign/main.py --seed 1 "kills, training"     one part alone

A part is a process of its own, and what it does depends on the seed and its name alone (when a kill
comes, on the machine as well). At scale 1 the figures go into `book/campaign.json`, which the status
page shows; a trial's go into `_build/campaign.json`. The exit code is 1 if there was any fault.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import resource
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

import disks  # noqa: E402
import kills  # noqa: E402
import odd_users  # noqa: E402
import project  # noqa: E402
import readers  # noqa: E402
import together  # noqa: E402

from tvae import text  # noqa: E402
from tvae.files import atomic_write  # noqa: E402
from tvae.runs import ledger  # noqa: E402

# The longest first, so that the two sides end at about the same time.
PARTS = kills.PARTS | odd_users.PARTS | readers.PARTS | together.PARTS | disks.PARTS
KEPT = 6  # campaigns in the record
SIDE_BY_SIDE = 2


def _processor(whose: int) -> float:
    used = resource.getrusage(whose)
    return used.ru_utime + used.ru_stime


def run_part(name: str, seed: int, scale: float, to: Path) -> int:
    """One part in this process; its figures go into a file."""
    start = time.monotonic()
    found = PARTS[name](seed, scale)
    seconds = round(time.monotonic() - start, 1)
    figures = {
        "counts": dict(sorted(found.counts.items())),
        "faults": found.faults,
        "left out": found.left_out,
        "seconds": seconds,
        "processor": round(
            sum(map(_processor, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))), 1
        ),
    }
    atomic_write(to, json.dumps(figures))
    return 1 if found.faults else 0


def run_all(names: list[str], seed: int, scale: float) -> dict[str, dict[str, Any]]:
    """The parts, so many side by side; one that dies is a fault."""
    waiting, working, done = list(names), dict[str, subprocess.Popen[bytes]](), {}
    with tempfile.TemporaryDirectory(prefix="campaign-") as place:
        while waiting or working:
            while waiting and len(working) < SIDE_BY_SIDE:
                name = waiting.pop(0)
                words = ["--seed", str(seed), "--scale", str(scale), "--part-to"]
                working[name] = subprocess.Popen(
                    [sys.executable, __file__, name, *words, str(Path(place) / f"{name}.json")],
                    env={**os.environ, "OMP_NUM_THREADS": "1"},
                )
            time.sleep(0.2)
            for name in [name for name, process in working.items() if process.poll() is not None]:
                code, path = working.pop(name).returncode, Path(place) / f"{name}.json"
                if path.exists():
                    done[name] = json.loads(path.read_text())
                else:
                    why = f"{name}: the part ended with exit code {code} and no figures"
                    nothing = {"seconds": 0.0, "processor": 0.0, "left out": []}
                    done[name] = {"counts": {}, "faults": [why], **nothing}
                part = done[name]
                clock = f"{part['seconds']:.0f} s, {part['processor']:.0f} s of the processor"
                print(f"{name}: {clock}, {len(part['faults'])} faults", flush=True)
                for fault in part["faults"]:
                    print(f"    {fault}", flush=True)
    return {name: done[name] for name in names}


def summary(parts: dict[str, dict[str, Any]], seed: int, scale: float, seconds: float) -> Any:
    """What is kept of a campaign."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "commit": ledger.commit(),
        "seed": seed,
        "scale": scale,
        "seconds": round(seconds),
        "cores": os.cpu_count(),
        "counts": {what: n for part in parts.values() for what, n in part["counts"].items()},
        "faults": [fault for part in parts.values() for fault in part["faults"]],
        "left out": [what for part in parts.values() for what in part["left out"]],
        "parts": {name: part["seconds"] for name, part in parts.items()},
    }


def record(campaign: Any, path: Path) -> None:
    """Add a campaign to those in the file, the newest last."""
    earlier = json.loads(path.read_text()) if path.exists() else []
    atomic_write(path, json.dumps([*earlier, campaign][-KEPT:], indent=1) + "\n")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"of {'; '.join(PARTS)} (default: all)")
    parser.add_argument("--seed", type=int, help="of everything drawn (default: drawn)")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies all counts")
    parser.add_argument("--part-to", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    for name in chosen.parts:
        if name not in PARTS:
            parser.error(f"there is no part {name!r}; there are {', '.join(PARTS)}")
    if chosen.scale <= 0:
        parser.error(f"the scale must be positive, not {chosen.scale}")
    seed = secrets.randbelow(10**6) if chosen.seed is None else chosen.seed
    if chosen.part_to is not None:
        return run_part(chosen.parts[0], seed, chosen.scale, chosen.part_to)
    # in the background a shell has SIGINT ignored, and so would all commands that are begun here
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print(f"the campaign with seed {seed} at scale {chosen.scale:g}", flush=True)
    start = time.monotonic()
    parts = run_all(chosen.parts or list(PARTS), seed, chosen.scale)
    campaign = summary(parts, seed, chosen.scale, time.monotonic() - start)
    rows = [[what, f"{count:,}"] for what, count in campaign["counts"].items()]
    print(text.table(["what", "count"], rows, left=(0,)))
    for what in campaign["left out"]:
        print(f"left out, as this machine cannot do it: {what}")
    faults, minutes = len(campaign["faults"]), campaign["seconds"] / 60
    whole = chosen.scale >= 1 and not chosen.parts
    to = (project.BOOK if whole else project.BUILD) / project.CAMPAIGN
    record(campaign, to)
    where = to.relative_to(project.ROOT)
    print(f"{faults} faults in {minutes:.0f} minutes, seed {seed}; written to {where}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
