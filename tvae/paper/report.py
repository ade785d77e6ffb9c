"""Ours beside the paper's: the ledger and the printed tables, row by row.

    import tvae.paper.report
    print(tvae.paper.report.report(dataset="mnist", d=25))

Every number comes from a file of the ledger or from the package's copy of the paper's tables. A run
whose file is deleted has no row.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    """One row per run and metric: what we measured, its standard error, what the paper prints.

    Columns: dataset, label (`A`, `M^R`, `VAE+`, `PCA`, ...), d, preset, seed, tag, epochs, metric,
    ours, se, paper, difference (ours − paper). Metrics that neither has are left out. `d` = 25
    includes M and MA at 26, and raw pixels, which have no d to choose. `tag=None` means every tag.
    """
    table = ledger.table(results)
    table["label"] = [RunName.of(row).label for _, row in table.iterrows()]
    if dataset is not None:
        table = table[table["dataset"] == dataset]
    if action is not None:
        wanted = {fold(name) for name in ([action] if isinstance(action, str) else action)}
        table = table[[fold(label) in wanted for label in table["label"]]]
    if d is not None:
        keep = [
            row["model"] == "pixels" or row["d"] == actions.nearest_dimension(row["action"], d)
            for _, row in table.iterrows()
        ]
        table = table[keep]
    if preset is not None:
        table = table[table["preset"] == preset]
    if tag is not None:
        table = table[table["tag"] == tag]
    rows = []
    for _, run in table.iterrows():
        printed = paper.row(
            run["dataset"], run["model"], run["action"], bool(run["residual"]), int(run["d"])
        )
        for metric in METRICS:
            ours = None if pd.isna(run[metric]) else float(run[metric])
            theirs = None if printed is None else printed[metric]
            if ours is None and theirs is None:
                continue
            error = run[f"{metric}_se"]
            rows.append(
                {
                    **{key: run[key] for key in ("dataset", "label", "d", "preset", "seed", "tag")},
                    "epochs": run["epochs"],
                    "metric": metric,
                    "ours": ours,
                    "se": None if pd.isna(error) else float(error),
                    "paper": theirs,
                    "difference": None if ours is None or theirs is None else ours - theirs,
                }
            )
    columns = ["dataset", "label", "d", "preset", "seed", "tag", "epochs", "metric"]
    numbers = ["ours", "se", "paper", "difference"]
    found = pd.DataFrame(rows, columns=[*columns, *numbers])
    return found.astype(dict.fromkeys(("epochs", *numbers), float))


def number(value: float, metric: str, sign: bool = False) -> str:
    """A value with the digits that suit its metric, with its sign if asked for; "" for NaN."""
    if pd.isna(value):
        return ""
    digits = 3 if metric.startswith("knn") else 2
    text = f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"
    return text.replace("-", "−")


def _position(value: str, known: Sequence[str]) -> int:
    return list(known).index(value) if value in known else len(known)


def _sections(found: pd.DataFrame) -> list[tuple[str, list[list[str]]]]:
    """A title and the lines of cells for each data set and preset."""
    sections = []
    keys = sorted(
        set(zip(found["dataset"], found["preset"], found["tag"], strict=True)),
        key=lambda key: (_position(key[0], data.names()), key),
    )
    labels = (*LABELS, *BASELINES.values())
    for dataset, preset, tag in keys:
        part = found[
            (found["dataset"] == dataset) & (found["preset"] == preset) & (found["tag"] == tag)
        ]
        title = f"{dataset}, preset {preset}" + (f", {tag}" if tag else "")
        lines = []
        # trained models first, by falling d as in the paper (25 and 26 are one block), then baselines
        runs = sorted(
            set(zip(part["label"], part["d"], part["seed"], strict=True)),
            key=lambda run: (
                run[0] not in LABELS,
                -(run[1] + run[1] % 2) if run[0] in LABELS else 0,
                _position(run[0], labels),
                run[1],
                run[2],
            ),
        )
        for label, d, seed in runs:
            run = part[(part["label"] == label) & (part["d"] == d) & (part["seed"] == seed)]
            run = run.set_index("metric").reindex(METRICS)
            for what, column in (
                ("ours", "ours"),
                ("± s.e.", "se"),
                ("paper", "paper"),
                ("ours − paper", "difference"),
            ):
                if what != "ours" and run[column].isna().all():
                    continue
                cells = [
                    number(run.loc[metric, column], metric, column == "difference")
                    for metric in METRICS
                ]
                first = what == "ours"
                lines.append([label if first else "", str(d) if first else ""])
                lines[-1] += [str(seed) if first else "", what, *cells]
        sections.append((title, lines))
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
    results: AnyPath | None = None,
    *,
    dataset: str | None = None,
    action: str | Sequence[str] | None = None,
    d: int | None = None,
    preset: str | None = None,
    tag: str | None = None,
    format: str = "text",
) -> str:
    """The comparison as a text, Markdown or LaTeX table, one section per data set and preset.

    Runs with a tag (experiments of their own) are counted at the end, and shown if `tag` names them.
    """
    if format not in FORMATS:
        raise ValueError(f"There is no format {format!r}; choose one of {', '.join(FORMATS)}.")
    found = compare(
        results, dataset=dataset, action=action, d=d, preset=preset, tag=tag if tag else ""
    )
    sections = _sections(found)
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
