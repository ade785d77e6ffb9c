"""A worker process of a sweep: reads one order from standard input, makes that run, reports events.

The order is one line of JSON; the events are lines of JSON on standard output. When standard input
ends, the sweep is gone, and the worker stops at once: the last checkpoint is on the disk, and the
next sweep goes on from there.
"""

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any


def make_ordered_run(
    order: Mapping[str, Any], notify: Callable[[Mapping[str, Any]], None]
) -> dict[str, Any]:
    """Make the run that the order asks for; the last event, also returned, says how it ended."""
    import torch

    from tvae.runs import execution, plugins
    from tvae.runs.sweep import Job

    plugins.load()

    torch.set_num_threads(order["threads"])
    return execution.execute_and_record(
        Job.from_dict(order["job"]),
        results=order["results"],
        runs=order["runs"],
        device=order["device"],
        notify=notify,
    )


def main() -> int:
    """Read the order, make the run."""
    # Events get a copy of standard output; everything else that prints goes to the log.
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    order = json.loads(sys.stdin.buffer.readline())

    def watch() -> None:
        while sys.stdin.buffer.read(1):
            pass
        os._exit(3)

    threading.Thread(target=watch, daemon=True).start()

    def notify(event: Mapping[str, Any]) -> None:
        channel.write(json.dumps(event) + "\n")
        channel.flush()

    status = 1
    try:
        notify(make_ordered_run(order, notify))
        channel.close()
        status = 0
    except BaseException:
        traceback.print_exc()  # into the log of the run
    finally:
        # Not sys.exit: the watching thread is inside a read that only the sweep ends.
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
