"""Short trials: only what the table lacks is made, and an unknown one is named."""

from __future__ import annotations

import sys

import pandas as pd
import trials

TRIALS = {"first": 1, "second": 2}


def test_only_what_is_missing_is_made(tmp_path, monkeypatch, capsys):
    made = []

    def trial(name):
        made.append(name)
        return {"value": TRIALS[name] / 3}

    path = tmp_path / "table.csv"
    monkeypatch.setattr(trials.torch, "set_num_threads", lambda count: None)
    monkeypatch.setattr(sys, "argv", ["trials", "second"])
    assert trials.make(TRIALS, trial, path, 2) == 0
    monkeypatch.setattr(sys, "argv", ["trials"])
    assert trials.make(TRIALS, trial, path, 2) == 0
    assert made == ["second", "first"]
    assert pd.read_csv(path, index_col=0)["value"].to_dict() == {"second": 0.67, "first": 0.33}
    monkeypatch.setattr(sys, "argv", ["trials", "third"])
    assert trials.make(TRIALS, trial, path, 2) == 1
    assert "no trial third; there are: first; second" in capsys.readouterr().out
