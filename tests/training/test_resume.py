"""A run killed at any moment and resumed ends with the weights of an uninterrupted one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tvae.training import checkpoints

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL"),
]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory) -> tuple[dict, Path]:
    folder = tmp_path_factory.mktemp("runs")
    program = Path(__file__).with_name("killing.py")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), folder


def test_every_chosen_kill_happened(outcome):
    results, _ = outcome
    chosen = {name: result for name, result in results.items() if "places" in result}
    assert len(chosen) >= 10
    for name, result in chosen.items():
        assert result["kills"] == result["places"], name


def test_some_arbitrary_kill_happened(outcome):
    assert outcome[0]["at arbitrary moments"]["kills"] >= 4


def test_the_weights_are_identical_to_the_last_bit(outcome):
    results, _ = outcome
    for name, result in results.items():
        assert result["digest"] == results[f"{result['model']} uninterrupted"]["digest"], name
    assert results["vae+ uninterrupted"]["digest"] != results["tvae uninterrupted"]["digest"]


def test_nothing_is_left_behind(outcome):
    results, folder = outcome
    runs = [path for path in folder.iterdir() if path.is_dir()]
    assert len(runs) == len(results)
    for run in runs:
        names = sorted(path.name for path in run.iterdir())
        # what the last kill left was swept away when the run was resumed
        assert [name for name in names if name.endswith(".part")] == [], run.name
        assert "epoch-00003" in names and checkpoints.latest(run).epoch == 3
