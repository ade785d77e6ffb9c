"""Ours beside the paper's: the ledger and the printed tables, row by row.

    import tvae.paper.report
    print(tvae.paper.report.report(dataset="mnist", d=25))

Every number comes from a file of the ledger or from the package's copy of the paper's tables. A run
whose file is deleted has no row.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import pandas as pd

from tvae import actions, data, paper, text
from tvae.files import AnyPath
from tvae.paper import METRICS
from tvae.runs import ledger
from tvae.runs.name import BASELINES, RunName, fold

FORMATS = ("text", "markdown", "latex")

#: The eleven kinds of model in the paper's tables.
LABELS = ("A", "M", "M^R", "MA", "MA^R", "T", "T^R", "N", "N^R", "VAE+", "VAE")


def compare(
    results: AnyPath | None = None,
    *,
    dataset: str | None = None,
    action: str | Sequence[str] | None = None,
    d: int | None = None,
    preset: str | None = None,
    tag: str | None = "",
) -> pd.DataFrame:
    """One row a run: the columns of `ledger.table`, its label, and what the paper prints.

    For each of the twelve metrics there are `<metric>` (ours), `<metric>_se` (its standard error) and
    `<metric>_paper`, NaN where there is none; labels are written `A`, `M^R`, `VAE+`, `PCA`, ... `d` =
    25 includes M and MA at 26, and raw pixels, which have no d to choose. `tag=None` means every tag.
    """
    table = ledger.table(results)
    table["label"] = [RunName.of(row).label for _, row in table.iterrows()]
    for column, wanted in (("dataset", dataset), ("preset", preset), ("tag", tag)):
        if wanted is not None:
            table = table[table[column] == wanted]
    if action is not None:
        labels = {fold(name) for name in ([action] if isinstance(action, str) else action)}
        table = table[[fold(label) in labels for label in table["label"]]]
    if d is not None:
        keep = [
            row["model"] == "pixels" or row["d"] == actions.nearest_dimension(row["action"], d)
            for _, row in table.iterrows()
        ]
        table = table[keep]
    keys = table[["dataset", "model", "action", "residual", "d"]].itertuples(index=False)
    printed = [paper.row(*key) or {} for key in keys]
    columns = {f"{m}_paper": [row.get(m) for row in printed] for m in METRICS}
    return table.assign(**columns).astype(dict.fromkeys(columns, float))


def number(value: float, metric: str, sign: bool = False) -> str:
    """A value with the digits that suit its metric, with its sign if asked for; "" for NaN."""
    if pd.isna(value):
        return ""
    digits = 3 if metric.startswith("knn") else 2
    text = f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"
    return text.replace("-", "−")


def cells(run: pd.Series, metrics: Sequence[str] = METRICS) -> dict[str, list[str]]:
    """A run beside the paper's: its four lines of numbers as text, by what they are."""
    return {
        "ours": [number(run[m], m) for m in metrics],
        "± s.e.": [number(run[f"{m}_se"], m) for m in metrics],
        "paper": [number(run[f"{m}_paper"], m) for m in metrics],
        "ours − paper": [number(run[m] - run[f"{m}_paper"], m, sign=True) for m in metrics],
    }


def _position(value: str, known: Sequence[str]) -> int:
    return list(known).index(value) if value in known else len(known)


def _section(run: pd.Series) -> tuple[str, str, str]:
    return run["dataset"], run["preset"], run["tag"]


def _order(run: pd.Series) -> tuple[Any, ...]:
    """Trained models first, by falling d as in the paper (25 and 26 are one block), then baselines."""
    label, d = run["label"], run["d"]
    trained = label in LABELS
    block = -(d + d % 2) if trained else 0
    place = _position(label, (*LABELS, *BASELINES.values()))
    section = (_position(run["dataset"], data.names()), *_section(run))
    return *section, not trained, block, place, d, run["seed"]


def _sections(found: pd.DataFrame) -> list[tuple[str, list[list[str]]]]:
    """A title and the lines of cells for each data set and preset."""
    sections = []
    runs = sorted((run for _, run in found.iterrows()), key=_order)
    for (dataset, preset, tag), group in itertools.groupby(runs, _section):
        lines = []
        for run in group:
            for what, numbers in cells(run).items():
                if what == "ours":
                    lines.append([run["label"], str(run["d"]), str(run["seed"]), what, *numbers])
                elif any(numbers):
                    lines.append(["", "", "", what, *numbers])
        sections.append((f"{dataset}, preset {preset}" + (f", {tag}" if tag else ""), lines))
    return sections


_HEAD = ["model", "d", "seed", "", *METRICS]
_LEFT = (0, 3)  # columns of words


def _text(title: str, lines: list[list[str]]) -> str:
    apart = [
        row for n, line in enumerate(lines) for row in ([[], line] if n and line[0] else [line])
    ]
    return "\n".join([title, "=" * len(title), text.table(_HEAD, apart, left=_LEFT)])


def _markdown(title: str, lines: list[list[str]]) -> str:
    return f"### {title}\n\n{text.table(_HEAD, lines, left=_LEFT, markdown=True)}"


def _latex(title: str, lines: list[list[str]]) -> str:
    def tex(cell: str) -> str:
        cell = cell.replace("_", r"\_").replace("± s.e.", r"$\pm$ s.e.").replace("^R", r"$^R$")
        return cell.replace("−", "$-$")

    table = pd.DataFrame(lines, columns=_HEAD).map(tex).rename(columns=tex)
    columns = "".join("l" if i in _LEFT else "r" for i in range(len(_HEAD)))
    written = table.to_latex(index=False, escape=False, column_format=columns, caption=tex(title))
    return "% needs \\usepackage{booktabs}\n" + written.rstrip()


def report(
    results: AnyPath | None = None, *, tag: str | None = None, format: str = "text", **which: Any
) -> str:
    """The comparison as a text, Markdown or LaTeX table, one section per data set and preset.

    `which` runs: by `dataset`, `action`, `d` and `preset`, as in `compare`. Runs with a tag (experiments of their own) are counted at the end, and shown if `tag` names them.
    """
    if format not in FORMATS:
        raise ValueError(f"There is no format {format!r}; choose one of {', '.join(FORMATS)}.")
    sections = _sections(compare(results, tag=tag or "", **which))
    write = {"text": _text, "markdown": _markdown, "latex": _latex}[format]
    blocks = [write(title, lines) for title, lines in sections]
    notes = []
    everything = ledger.table(results, failed=True)
    if not tag:
        for name in sorted(set(everything["tag"]) - {""}):
            runs = everything[everything["tag"] == name]
            good = int((runs["status"] == "ok").sum())
            notes.append(f"{name}: {len(runs)} runs, {good} ok (tvae report --tag {name}).")
    chosen = everything[everything["tag"] == (tag or "")]
    for _, run in chosen[chosen["status"] != "ok"].iterrows():
        notes.append(f"{run['name']}, preset {run['preset']}, seed {run['seed']}: failed.")
    if format == "latex":
        notes = [f"% {note}" for note in notes]
    if not sections:
        notes.insert(0, ("% " if format == "latex" else "") + "The ledger holds no such run.")
    return "\n\n".join([*blocks, "\n".join(notes)] if notes else blocks)
