"""What the action contributes: the right runs in the right cells, and differences between them."""

from __future__ import annotations

import math

import pytest
from ledgers import values

from tvae.paper import contribution
from tvae.runs import ledger
from tvae.runs.sweep import Job

OUT = {"": 0.70, "view-kl": 0.60, "no-action": 0.65, "no-action-view-kl": 0.45}


def fill(results, tags, seeds=(0,)):
    for tag in tags:
        for seed in seeds:
            value = values(Job("mnist", "tvae", "A", preset="book", tag=tag, seed=seed))
            value["metrics"]["knn_out"] = OUT[tag] + 0.02 * seed
            value["further"] = {"knn_out_centred": {"value": 0.9, "standard_error": None}}
            ledger.write(ledger.Entry.checked(value), results)


def test_a_variant_that_was_not_run_has_no_seeds(tmp_path):
    fill(tmp_path, [""], seeds=(0, 1))
    other = Job("mnist", "tvae", "A", preset="quick", tag="view-kl")
    ledger.write(ledger.Entry.checked(values(other)), tmp_path)
    table = contribution.table("mnist", tmp_path)
    assert list(table.index) == list(contribution.VARIANTS)
    assert list(table["seeds"]) == [2, 0, 0, 0, 0, 0, 0]
    assert table["knn_out"].iloc[0] == pytest.approx(0.71)
    assert table["knn_out_centred"].iloc[0] == 0.9
    assert table["knn_out"].iloc[1:].isna().all()
    found = contribution.effects("mnist", "knn_out", tmp_path)
    assert found["difference"].isna().all()


def test_effects_are_differences_within_the_two_by_two_table(tmp_path):
    fill(tmp_path, OUT)
    fill(tmp_path, [""], seeds=(0, 1, 2))  # the spread between seeds: a standard deviation of 0.02
    found = contribution.effects("mnist", "knn_out", tmp_path)
    kept = dict(zip(found.index, found["difference"], strict=True))
    assert kept == pytest.approx(
        {
            "action, without KL on the views": 0.72 - 0.65,
            "action, with KL on the views": 0.60 - 0.45,
            "KL on the views, with the action": 0.60 - 0.72,
            "KL on the views, without the action": 0.45 - 0.65,
        }
    )
    assert found["error"].iloc[0] == pytest.approx(0.02 * math.sqrt(1 / 3 + 1))
    assert found["error"].iloc[1] == pytest.approx(0.02 * math.sqrt(2))


def test_the_square_has_each_variant_in_its_cell(tmp_path):
    fill(tmp_path, ["", "view-kl", "no-action"])
    square = contribution.square("mnist", "knn_out", tmp_path)
    assert square.loc["with the action", "no KL on the views"] == pytest.approx(OUT[""])
    assert square.loc["with the action", "KL on the views"] == pytest.approx(OUT["view-kl"])
    assert square.loc["without the action", "no KL on the views"] == pytest.approx(OUT["no-action"])
    assert math.isnan(square.loc["without the action", "KL on the views"])
    assert "no action, KL on views" in contribution.missing("mnist", tmp_path)
    assert "action, KL on views" not in contribution.missing("mnist", tmp_path)
