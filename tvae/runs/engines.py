"""The two ways to make the runs of a sweep: processes on this machine, or tasks on a Ray cluster.

Both promise the same. What the ledger holds is not made again. Each run lives in a folder of its own
and goes on from its last checkpoint. A run that fails is recorded with its reason and stops no other.
A worker that is killed is replaced, and its run goes on. Whatever ends the sweep itself, the same
command continues where it was.
"""

import json
import os
import queue
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TextIO

from tvae.files import AnyPath
from tvae.runs import ledger
from tvae.runs.progress import Board
from tvae.runs.sweep import Job

#: How often a run is started anew after its worker was killed, before it is recorded as failed.
RETRIES = 2
#: Name of a run and what it reports; None when its process has ended.
_Events = queue.Queue[tuple[str, dict[str, Any] | None]]


class Conflict(ValueError):
    """The ledger holds a finished run of the same name with other settings."""


@dataclass
class Outcome:
    """How the runs of a sweep ended, by name."""

    present: list[str] = field(default_factory=list)  # were in the ledger before
    ok: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # with the reason
    elsewhere: list[str] = field(default_factory=list)  # another process was busy with them

    def note(self, name: str, event: Mapping[str, Any]) -> None:
        """Take note of the event that says how the run `name` ended."""
        if event["event"] == "failed":
            self.failed[name] = event["reason"]
        else:
            getattr(self, event["event"]).append(name)


def open_jobs(jobs: Sequence[Job], results: AnyPath) -> tuple[list[Job], list[str]]:
    """The runs still to be made, and the names of those the ledger already holds.

    A finished run of the same name with other settings is never overwritten: that is a `Conflict`.
    """
    todo, present = [], []
    for job in jobs:
        path = Path(results) / f"{job.name}.json"
        entry = ledger.read(path) if path.is_file() else None
        if entry is None or entry.status != "ok":
            todo.append(job)
            continue
        held, wanted = entry.configuration.to_dict(), job.configuration()
        if held == wanted:
            present.append(job.name)
            continue
        differing = sorted(
            key for key in {*held, *wanted} if held.get(key, "absent") != wanted.get(key, "absent")
        )
        raise Conflict(
            f"The ledger holds {job.name} with other settings ("
            + ", ".join(f"{k} {held.get(k)!r} instead of {wanted.get(k)!r}" for k in differing)
            + "): give the sweep a `tag`, or delete that file."
        )
    return todo, present


def cost(job: Job) -> float:
    """The rough relative cost of a run, in steps of a plain VAE; only for the time to go."""
    if not job.trained:
        return 2000.0
    config = job.config()
    images = job.epoch_images or {"embedded": 5000}.get(config.source, 60000)
    steps = config.epochs * images // config.batch_size
    if job.max_steps is not None:
        steps = min(steps, job.max_steps)
    return (4.0 if job.model == "tvae" else 1.0) * steps + 500.0


def _order(job: Job, results: AnyPath, runs: AnyPath, device: str, threads: int) -> dict[str, Any]:
    """What a worker is told, as JSON can hold it."""
    places = {"results": str(results), "runs": str(runs)}
    return {"job": job.to_dict(), **places, "device": device, "threads": threads}


# --- this machine -------------------------------------------------------------------------------


class _Worker:
    """One process that makes one run and reports events as JSON lines."""

    def __init__(self, job: Job, order: Mapping[str, Any], log: Path, events: _Events) -> None:
        self.job, self.events = job, events
        self.last: dict[str, Any] = {}  # the event that says how the run ended
        log.parent.mkdir(parents=True, exist_ok=True)
        limits = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tvae.runs.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=os.environ | dict.fromkeys(limits, str(order["threads"])),
                start_new_session=True,  # Ctrl-C reaches the sweep alone, which ends its workers
            )
        assert self.process.stdin is not None and self.process.stdout is not None
        # The pipe stays open as long as the sweep lives: its end tells the worker to stop.
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()
        threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True).start()

    def _read(self, lines: IO[bytes]) -> None:
        for line in lines:
            with suppress(json.JSONDecodeError):
                self.events.put((self.job.name, json.loads(line)))
        self.events.put((self.job.name, None))

    def stop(self) -> None:
        """End the process; its last checkpoint stays."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def reason(self) -> str:
        """Why the process ended without a result."""
        code = self.process.wait()
        if code < 0:
            return f"The worker was killed by signal {-code}."
        return f"The worker ended with exit code {code} and no result."


def local(
    jobs: Sequence[Job],
    *,
    results: AnyPath,
    runs: AnyPath,
    side_by_side: int = 1,
    device: str = "auto",
    stream: TextIO = sys.stdout,
) -> Outcome:
    """Make the runs on this machine, so many side by side; the cores are shared out equally."""
    if side_by_side < 1:
        raise ValueError(f"The number of jobs must be at least 1, not {side_by_side}.")
    todo, present = open_jobs(jobs, results)
    outcome = Outcome(present=present)
    threads = max((os.cpu_count() or 1) // side_by_side, 1)
    events: _Events = queue.Queue()
    board = Board({job.name: cost(job) for job in todo}, stream)
    waiting = list(todo)
    attempts: Counter[str] = Counter()
    workers: dict[str, _Worker] = {}

    def start(job: Job) -> None:
        attempts[job.name] += 1
        order = _order(job, results, runs, device, threads)
        log = Path(runs) / "logs" / f"{job.name}.log"
        workers[job.name] = _Worker(job, order, log, events)
        board.event(job.name, {"event": "start"})

    def ended(worker: _Worker) -> None:
        job, reason = worker.job, "" if worker.last else worker.reason()
        worker.stop()
        if reason and attempts[job.name] <= RETRIES:
            board.event(job.name, {"event": "again", "reason": reason})
            waiting.insert(0, job)
            return
        last = worker.last or _record_failure(job, reason, results)
        outcome.note(job.name, last)
        board.event(job.name, last)

    try:
        while waiting or workers:
            while waiting and len(workers) < side_by_side:
                start(waiting.pop(0))
            try:
                name, event = events.get(timeout=1.0)
            except queue.Empty:
                board.refresh()
                continue
            if event is None:
                ended(workers.pop(name))
            elif event["event"] in ("ok", "failed", "elsewhere"):
                workers[name].last = event
            else:
                board.event(name, event)
    finally:
        for worker in workers.values():
            worker.stop()
        board.close()
    return outcome


def _record_failure(job: Job, reason: str, results: AnyPath) -> dict[str, Any]:
    from tvae.runs.execution import failure

    ledger.write(failure(job, reason), results)
    return {"event": "failed", "reason": reason}


# --- a cluster ----------------------------------------------------------------------------------


def over_ray(
    jobs: Sequence[Job],
    *,
    results: AnyPath,
    runs: AnyPath,
    address: str | None = None,
    cpus: float = 1,
    gpus: float = 0,
    device: str = "auto",
    stream: TextIO = sys.stdout,
) -> Outcome:
    """Make the runs as tasks on a Ray cluster, each with so many `cpus` and `gpus`.

    Without `address` Ray is started on this machine. `results` and `runs` must lie on storage that
    every node sees; the lock of a run and its checkpoints are there.
    """
    try:
        import ray
    except ImportError:
        raise ValueError(
            "The engine 'ray' needs Ray, which is not installed: pip install 'tvae-book[cluster]', "
            "or use --engine local."
        ) from None
    todo, present = open_jobs(jobs, results)
    outcome = Outcome(present=present)
    if not todo:
        return outcome
    results, runs = Path(results).resolve(), Path(runs).resolve()
    started = not ray.is_initialized()
    if started:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing leaves this machine
        ray.init(address=address, log_to_driver=False, include_dashboard=False)
    board = Board({job.name: cost(job) for job in todo}, stream)
    # A killed worker process is a system failure for Ray, which then starts the task again; the
    # task finds the checkpoints of its predecessor.
    task = ray.remote(max_retries=RETRIES, num_cpus=cpus, num_gpus=gpus)(_ray_task)
    try:
        places = {job.name: runs / "events" / f"{job.name}.jsonl" for job in todo}
        progress = _Progress(places)
        pending = {}
        for job in todo:
            order = _order(job, results, runs, device, max(int(cpus), 1))
            place = {"events": str(places[job.name])}
            pending[task.options(name=job.name).remote(order | place)] = job
        waiting = list(pending)
        while waiting:
            done, waiting = ray.wait(waiting, timeout=1.0)
            for name, event in progress.news():
                if name not in board.ended:
                    board.event(name, event)
            for reference in done:
                job = pending[reference]
                try:
                    event = ray.get(reference)
                except ray.exceptions.RayError as error:
                    event = _record_failure(job, " ".join(str(error).split())[:500], results)
                outcome.note(job.name, event)
                board.event(job.name, event)
            board.refresh()
    finally:
        board.close()
        if started:
            ray.shutdown()
    return outcome


def _ray_task(order: dict[str, Any]) -> dict[str, Any]:
    """What runs on the cluster: one run, which reports into a file that the sweep reads."""
    from tvae.runs.worker import make_ordered_run

    path = Path(order["events"])
    path.parent.mkdir(parents=True, exist_ok=True)

    def notify(event: Mapping[str, Any]) -> None:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")

    notify({"event": "start", "pid": os.getpid()})
    return make_ordered_run(order, notify)


class _Progress:
    """News of the runs, from the files into which they report."""

    def __init__(self, places: Mapping[str, Path]) -> None:
        self.places = places
        self.seen = {
            name: path.stat().st_size if path.exists() else 0 for name, path in places.items()
        }

    def news(self) -> list[tuple[str, dict[str, Any]]]:
        found = []
        for name, path in self.places.items():
            try:
                with open(path, "rb") as file:
                    file.seek(self.seen[name])
                    text = file.read()
            except OSError:
                continue
            whole = text[: text.rfind(b"\n") + 1]  # the last line may still be on its way
            self.seen[name] += len(whole)
            found += [(name, json.loads(line)) for line in whole.splitlines()]
        return found
