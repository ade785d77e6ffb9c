"""Measure accuracy against the number of anchors at the paper's scale, for Figures 4 and 6.

    TVAE_DATA=... python scripts/sample_efficiency.py [--runs runs] [--only mnist-A-25 ...]

For each representation the accuracy of 5 nearest neighbours on 20,000 AffNIST test images among up to
320,000 labelled AffNIST training images (a fifth of all), over 20 nested subsamples of the anchors, the
same for all representations. Weights are the released ones, or those of a run folder under --runs. The
result is `sample_efficiency.csv` in the ledger's folder: a row for each representation, number of
anchors and subsample. What the file already holds is not measured again, and each representation is
written as soon as it is done.
"""

from __future__ import annotations

import argparse
import csv
import io
import time
from pathlib import Path
from typing import Any

import torch

import tvae
from tvae.evaluation import PCA, Pixels, embed
from tvae.evaluation.sample_efficiency import Ranked, subsamples
from tvae.files import atomic_write
from tvae.runs import ledger

ANCHORS, QUERIES, SUBSAMPLES, SEED = 320_000, 20_000, 20, 0
SIZES = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 320_000)
DEPTH = 400  # of the neighbour lists; smaller subsamples are searched by themselves
MODELS = [
    f"{dataset}-{model}"
    for dataset in ("mnist", "fashion-mnist")
    for model in ("A-25", "M-26", "NR-25", "VAE+-25", "VAE-25", "PCA-25")
]
COLUMNS = ("name", "anchors", "subsample", "accuracy")


def embedding(name: str, runs: Path) -> Any:
    """The representation `name`: pixels, PCA fitted on a data set, or a trained encoder."""
    if name == "pixels":
        return Pixels()
    dataset, model, d = name.rsplit("-", 2)
    if model == "PCA":
        return PCA(tvae.data.load(dataset, "train"), int(d))
    folder = runs / f"{name}_book_seed0"
    return tvae.load(folder if folder.is_dir() else name)


def read(path: Path) -> list[dict[str, str]]:
    """The rows that the file holds."""
    if not path.is_file():
        return []
    lines = [line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def write(path: Path, rows: list[dict[str, str]], notes: list[str]) -> None:
    """All rows, with what they rest on in lines of comment above them."""
    text = io.StringIO()
    for note in notes:
        text.write(f"# {note}\n")
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    atomic_write(path, text.getvalue())


def main() -> None:
    """Measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where run folders lie")
    parser.add_argument("--only", nargs="+", default=["pixels", *MODELS], help="representations")
    arguments = parser.parse_args()
    path = ledger.folder() / "sample_efficiency.csv"
    rows = read(path)
    missing = [name for name in arguments.only if name not in {row["name"] for row in rows}]
    if not missing:
        print(f"{path.name} holds all of them.")
        return
    anchors = tvae.data.load("affnist", "train", source="regenerated", count=ANCHORS)
    queries = tvae.data.load("affnist", "test", source="regenerated", count=QUERIES)
    orders = subsamples(ANCHORS, SUBSAMPLES, tvae.generator(SEED, "sample efficiency"))
    versions = ledger.versions()
    notes = [
        f"anchors: {anchors.provenance}",
        f"queries: {queries.provenance}",
        f"seed {SEED}, commit {ledger.commit()}, torch {versions['torch']}, tvae {versions['tvae']}",
    ]
    for name in missing:
        start = time.process_time()
        model = embedding(name, arguments.runs)
        ranked = Ranked(
            embed(model, anchors),
            anchors.labels,
            embed(model, queries),
            queries.labels,
            depth=DEPTH if name != "pixels" else 100,
        )
        curve = ranked.curve(SIZES, orders)
        for subsample, values in enumerate(curve.accuracy.tolist()):
            rows += [
                dict(zip(COLUMNS, map(str, (name, size, subsample, value)), strict=True))
                for size, value in zip(SIZES, values, strict=True)
            ]
        write(path, rows, notes)
        print(
            f"{name}: {float(curve.mean[-1]):.3f} with {ANCHORS:,} anchors, "
            f"{time.process_time() - start:.0f} s of the processor",
            flush=True,
        )


if __name__ == "__main__":
    with torch.inference_mode():
        main()
