"""The script behind `results/out_of_sample.csv`: its distance, its halves, and the table it made."""

from __future__ import annotations

import math
from pathlib import Path

import out_of_sample
import pytest
import torch
from one_shot import OneShot


def test_the_modified_hausdorff_distance_finds_the_same_shape_elsewhere() -> None:
    """Two shapes, the same two shifted: by hand the distance to the own one is 0."""
    bar, square = torch.zeros(2, 1, 12, 12, dtype=torch.uint8)
    bar[0, 2:9, 3], square[0, 3:6, 3:6] = 255, 255
    training = torch.stack((bar, square))[None]
    test = torch.stack((square.roll(4, 2), bar.roll(5, 2)))[None]
    task = OneShot(training, test, torch.tensor([[1, 0]]))
    assert out_of_sample.modified_hausdorff(task) == 1.0
    wrong = OneShot(training, test, torch.tensor([[0, 1]]))
    assert out_of_sample.modified_hausdorff(wrong) == 0.0


def test_the_table_holds_what_the_script_says(root: Path) -> None:
    path = root / "results" / "out_of_sample.csv"
    if not path.is_file():
        pytest.skip("not measured yet")
    rows = out_of_sample.read(path)
    keys = [(row["name"], row["set"], row["anchors"]) for row in rows]
    assert len(set(keys)) == len(keys)
    for row in rows:
        assert 0 < float(row["accuracy"]) < 1 and math.isfinite(float(row["error"]))
    found = {row["name"]: float(row["accuracy"]) for row in rows if row["name"] == "hausdorff"}
    assert found == {"hausdorff": pytest.approx(1 - 0.3875)}  # as published: 38.8 % wrong
