"""Every representation of the book on images that none was trained on: `results/out_of_sample.csv`.

    TVAE_DATA=... python scripts/out_of_sample.py                      # what the table does not hold
    python scripts/out_of_sample.py --only mnist-A-25 --runs runs      # these alone

- AffNIST: 5 nearest neighbours of 20,000 test images among 1,000 and 5,000 labelled training images
  (the ledger has 100,000), as they are, centred by mass (`affnist-centred`), and with size and slant undone as well
  (`affnist-moments`). The standard error counts digits, not their views.
- Kuzushiji-MNIST and notMNIST: the test sets, one half among the other, 5,000 each.
- Omniglot's official one-shot task: 20 runs of 20 characters, the nearest of 20 drawings.

A name is that of released weights, of a folder under --runs, `pixels`, `PCA-mnist`, `PCA-fashion-mnist` or
`hausdorff` (the one-shot task alone, on the drawings of 105×105). Each name is written as soon as it is
done, and what the file already holds is not measured again.
"""

from __future__ import annotations

import argparse
import csv
import io
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
from one_shot import OneShot, accuracy, one_shot

import tvae
from tvae.data import Dataset, digits
from tvae.data.affnist import originals
from tvae.evaluation import PCA, Pixels, embed, normalisation
from tvae.evaluation.knn import Neighbours, vote
from tvae.evaluation.statistics import Estimate
from tvae.files import atomic_write
from tvae.runs import ledger

SIZES, QUERIES = (1_000, 5_000), 20_000
COLUMNS = ("name", "set", "anchors", "accuracy", "error")
#: What is measured on AffNIST; on the other sets it is every encoder of the book.
ON_AFFNIST = (
    *("mnist-A-25", "mnist-VAE+-25", "mnist-VAE-25", "fashion-mnist-A-25", "fashion-mnist-VAE+-25"),
    *("PCA-mnist", "PCA-fashion-mnist", "pixels"),
)


@cache
def affnist(kind: str) -> tuple[Dataset, Dataset]:
    """Anchors and queries, as they are ("") or normalised."""
    if kind:
        size = normalisation.mean_size(originals("train"))
        near, far = (normalisation.normalised(part, kind, size) for part in affnist(""))
        return near, far
    return (
        tvae.data.load("affnist", "train", source="regenerated", count=max(SIZES)),
        tvae.data.load("affnist", "test", source="regenerated", count=QUERIES),
    )


def representation(name: str, runs: Path) -> Any:
    """The representation of this name: pixels, PCA fitted on a data set, or a trained encoder."""
    if name == "pixels":
        return Pixels()
    if name.startswith("PCA-"):
        return PCA(tvae.data.load(name.removeprefix("PCA-"), "train"), 25)
    return tvae.load(runs / name if (runs / name).is_dir() else name)


def share(model: Any, anchors: Dataset, queries: Dataset, sizes: tuple[int, ...]) -> Iterator[Any]:
    """The kNN accuracy among the first so many anchors, for each size."""
    near, far = embed(model, anchors), embed(model, queries)
    for size in sizes:
        index = Neighbours(near[:size], 5)
        found = torch.cat([vote(anchors.labels[index(part).indices]) for part in far.split(5000)])
        right = (found == queries.labels).double()
        yield size, Estimate.of(right, queries.extras.get("original"))


def modified_hausdorff(task: OneShot) -> float:
    """The accuracy of the task's own demo: ink as points about their mean, the modified distance.

    Of two sets of points it is the larger of the two mean distances to the nearest point of the other.
    """

    def points(image: torch.Tensor) -> torch.Tensor:
        ink = image[0].nonzero().float()
        return ink - ink.mean(0)

    right = 0
    for training, test, answers in zip(task.training, task.test, task.answers, strict=True):
        known = [points(image) for image in training]
        for image, answer in zip(test, answers, strict=True):
            asked = points(image)
            tables = [torch.cdist(asked, each) for each in known]
            far = [max(t.amin(0).mean(), t.amin(1).mean()) for t in tables]
            right += int(torch.stack(far).argmin() == answer)
    return right / task.answers.numel()


def measured(name: str, runs: Path) -> Iterator[tuple[str, int, Estimate]]:
    """Set, number of anchors and accuracy, one after the other."""
    if name == "hausdorff":
        yield "omniglot-one-shot", 20, Estimate(modified_hausdorff(one_shot(size=105)), 0.0)
        return
    model = representation(name, runs)
    yield "omniglot-one-shot", 20, Estimate(accuracy(model, one_shot()), 0.0)
    for letters in ("kmnist", "notmnist"):
        test = digits.full(letters, "test")
        order = torch.randperm(len(test), generator=tvae.generator(0, f"halves/{letters}"))
        halves = test.take(order[:5000]), test.take(order[5000:])
        for size, found in share(model, *halves, (5000,)):
            yield letters, size, found
    if name in ON_AFFNIST or "-P-" in name:
        for kind in ("", *normalisation.KINDS):
            if kind and "-P-" in name:
                continue  # it finds the pose by itself
            for size, found in share(model, *affnist(kind), SIZES):
                yield "affnist" + (f"-{kind}" if kind else ""), size, found


def read(path: Path) -> list[dict[str, str]]:
    """The rows that the file holds."""
    if not path.is_file():
        return []
    lines = [line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def write(path: Path, rows: list[dict[str, str]]) -> None:
    """All rows; a line of comment above them says when the last came, others may be older."""
    text = io.StringIO()
    last = f"commit {ledger.commit()}, torch {ledger.versions()['torch']}"
    text.write(f"# last rows at {last}; others may be older; see its script\n")
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    atomic_write(path, text.getvalue())


def main() -> None:
    """Measure what is missing."""
    grey = [name for name in tvae.pretrained().index if not name.startswith("portraits")]
    usual = ["hausdorff", "PCA-mnist", "PCA-fashion-mnist", *grey, "pixels"]
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where run folders lie")
    parser.add_argument("--only", nargs="+", default=usual, help="representations")
    arguments = parser.parse_args()
    path = ledger.folder() / "out_of_sample.csv"
    rows = read(path)
    for name in arguments.only:
        if name in {row["name"] for row in rows}:
            continue
        start = time.process_time()
        for of, size, found in measured(name, arguments.runs):
            values = (name, of, size, f"{found.mean:.4f}", f"{found.standard_error:.4f}")
            rows.append(dict(zip(COLUMNS, map(str, values), strict=True)))
        write(path, rows)
        print(f"{name}: {time.process_time() - start:.0f} s of the processor", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with torch.inference_mode():
        main()
