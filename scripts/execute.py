"""Execute chapters with papermill: in place, or into the build folder.

    python scripts/execute.py                         refresh the stored outputs of every chapter
    python scripts/execute.py book/04_bound.ipynb     of one
    python scripts/execute.py --into _build/executed --preset paper

In place, chapters run with the parameters they are stored with, and what a run leaves behind
(times, papermill's notes) is removed, so that the difference to the last run stays small. With
`--into`, tracked files are not touched. Chapters run side by side where there are cores, each in
an empty folder, with the threads shared out among them. One that fails does not stop the others;
the end names the cell that failed, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import importlib.metadata
import json
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import project

from tvae.files import atomic_write, locked, reading

KEPT_CELL_METADATA = ("tags", "mystnb", "jupyter", "colab")
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Result:
    """How the execution of one chapter went; `failure` is empty when it went well."""

    chapter: str
    seconds: float
    preset: str
    failure: str = ""
    threads: int = 1


def parameters(notebook: nbformat.NotebookNode) -> dict[str, Any]:
    """Return the literals that the cell tagged `parameters` assigns."""
    cells = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
    if len(cells) != 1:
        raise ValueError(f"{len(cells)} cells are tagged parameters; a chapter has exactly one.")
    values = {}
    for statement in ast.parse(cells[0].source).body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            raise ValueError("The parameters cell may hold assignments to names only.")
        values[statement.targets[0].id] = ast.literal_eval(statement.value)
    return values


def read_parameters(path: Path) -> dict[str, Any]:
    """The parameters of the chapter in this file."""
    with reading(f"{path.name} is not a chapter"):
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        return parameters(notebook)


def clean(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Remove, in place, what changes from run to run without meaning anything."""
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {
                "display_name": "Python 3",
                "language": "python",
                "name": "python3",
            },
            "language_info": {"name": "python", "pygments_lexer": "ipython3"},
        }
    )
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for cell in notebook.cells:
        kept = {k: v for k, v in cell.metadata.items() if k in KEPT_CELL_METADATA}
        if not kept.get("tags", True):
            del kept["tags"]
        cell.metadata = nbformat.from_dict(kept)
        if cell.cell_type == "code":
            cell.outputs = _merge_streams(cell.outputs)
    return notebook


def _merge_streams(outputs: list[Any]) -> list[Any]:
    """Join neighbouring pieces of the same stream: where a stream breaks is a matter of timing."""
    merged: list[Any] = []
    for output in outputs:
        last = merged[-1] if merged else None
        if last and output.output_type == "stream" == last.output_type and last.name == output.name:
            last.text += output.text
        else:
            merged.append(output)
    return merged


def execute(source: Path, target: Path, given: Mapping[str, Any], cells: Any = None) -> Result:
    """Execute the chapter `source` with the parameters `given` and write the result to `target`.

    An exception in a cell becomes `Result.failure`, with the cell's number. `target` is then the
    notebook as far as it came, unless it is `source` itself, which a failure leaves unchanged.
    `cells` is a queue that gets one item for each cell that was executed.
    """
    import papermill
    from papermill.exceptions import PapermillExecutionError

    def done(**_: Any) -> None:
        if cells is not None:
            cells.put(source.stem)

    preset = str({**read_parameters(source), **given}.get("preset", ""))
    failure = ""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="tvae-chapter-") as folder:
        output, empty = Path(folder) / source.name, Path(folder) / "empty"
        empty.mkdir()
        try:
            papermill.execute_notebook(
                str(source),
                str(output),
                parameters=dict(given),
                kernel_name="python3",
                language="python",
                progress_bar=False,
                cwd=str(empty),
                on_cell_executed=done,
                # ipykernel warns at every start that its sockets are not encrypted, and calls it an
                # error when papermill ends it; what goes wrong in a cell comes another way
                extra_arguments=["--IPKernelApp.log_level=50"],
            )
        except PapermillExecutionError as error:
            first = error.source.strip().splitlines()[0] if error.source.strip() else ""
            failure = (
                f"cell {error.cell_index + 1} (In [{error.exec_count}], {first!r}) raised "
                f"{error.ename}: {error.evalue}"
            )
        except Exception as error:
            failure = (
                f"the run broke off: {''.join(traceback.format_exception_only(error)).strip()}"
            )
        seconds = time.perf_counter() - begin
        if output.exists() and not (failure and target == source):
            result = clean(nbformat.read(output, as_version=4))
            atomic_write(target, nbformat.writes(result) + "\n")
    threads = int(os.environ.get(THREADS[0]) or os.cpu_count() or 1)
    return Result(source.stem, seconds, preset, failure, threads)


def record(results: list[Result], path: Path) -> None:
    """Enter how long every chapter that went well took, and with what, into the JSON at `path`."""
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    # one process at a time, so that two of them do not lose each other's entries
    with locked(project.BUILD / "status.lock", wait=True):
        entries = json.loads(path.read_text()) if path.exists() else {}
        for result in results:
            if not result.failure:
                entries[result.chapter] = {
                    "seconds": round(result.seconds, 1),
                    "threads": result.threads,
                    "preset": result.preset,
                    "date": today,
                    "torch": importlib.metadata.version("torch").split("+")[0],
                }
        text = json.dumps(dict(sorted(entries.items())), indent=2) + "\n"
        atomic_write(path, text)


def _count_cells(path: Path) -> int:
    notebook = nbformat.read(path, as_version=4)
    return sum(c.cell_type == "code" and bool(c.source.strip()) for c in notebook.cells)


def execute_all(
    paths: list[Path], into: Path | None, given: Mapping[str, Any], jobs: int
) -> list[Result]:
    """Execute `paths`, `jobs` at a time; report progress; return the results in their order."""
    from tqdm import tqdm

    jobs = max(1, min(jobs, len(paths)))
    share = os.environ.get(THREADS[0]) or str(max(1, (os.cpu_count() or 1) // jobs))
    for name in THREADS:  # the kernels inherit these
        os.environ.setdefault(name, share)
    terminal = sys.stderr.isatty()
    context = multiprocessing.get_context("spawn")
    results: dict[str, Result] = {}
    with (
        context.Manager() as manager,
        ProcessPoolExecutor(jobs, mp_context=context) as pool,
        tqdm(
            total=sum(_count_cells(p) for p in paths),
            unit="cell",
            leave=False,
            disable=not terminal,
        ) as bar,
    ):
        cells = manager.Queue()
        futures = {
            pool.submit(execute, p, p if into is None else into / p.name, given, cells): p
            for p in paths
        }
        pending = set(futures)
        while pending:
            ready = {f for f in pending if f.done()}
            if not ready:
                time.sleep(0.2)
            while not cells.empty():
                bar.set_postfix_str(cells.get(), refresh=False)
                bar.update()
            for future in as_completed(ready):
                path = futures[future]
                try:
                    result = future.result()
                except Exception as error:
                    result = Result(path.stem, 0.0, "", f"{type(error).__name__}: {error}")
                results[path.stem] = result
                word = "FAILED" if result.failure else "done"
                tqdm.write(f"{path.name}: {word} in {result.seconds:.0f} s", file=sys.stdout)
                sys.stdout.flush()
            pending -= ready
    return [results[p.stem] for p in paths]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Execute chapters of the book.")
    parser.add_argument("chapters", nargs="*", type=Path, help="default: all of them")
    parser.add_argument("--into", type=Path, help="write here; tracked files stay as they are")
    parser.add_argument("--preset", help="quick, book or paper; only with --into")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="chapters at a time")
    options = parser.parse_args(arguments)
    if options.preset and options.into is None:
        parser.error("stored outputs are those of the default parameters; use --into with --preset")
    paths = [p.resolve() for p in options.chapters or project.chapters()]
    for path in paths:
        if not path.is_file():
            parser.error(f"there is no chapter {path}")
    into = options.into.resolve() if options.into else None
    if into is not None:
        into.mkdir(parents=True, exist_ok=True)
        if not options.chapters:  # nothing of an earlier run may pass for part of this one
            for old in [*into.glob("*.ipynb"), into / project.STATUS]:
                old.unlink(missing_ok=True)
    given = {"preset": options.preset} if options.preset else {}
    results = execute_all(paths, into, given, options.jobs)
    record(results, (project.BOOK if into is None else into) / project.STATUS)
    failed = [r for r in results if r.failure]
    for result in failed:
        print(f"{result.chapter}: {result.failure}", file=sys.stderr)
    if failed:
        print(f"{len(failed)} of {len(results)} chapters failed.", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
