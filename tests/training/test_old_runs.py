"""Run folders of an earlier version: their JSON files are read and continued as they are.

`old_runs` holds the configuration, the history and the manifest of runs after two epochs, as the
version before `process_seconds` wrote them. The weights, which are large, are made here.
"""

import hashlib
import json
from pathlib import Path

import pytest

from tvae.runs.execution import own_data
from tvae.runs.trained import find
from tvae.training import checkpoints, train
from tvae.training.configuration import RunConfig

OLD = Path(__file__).parent / "old_runs"


@pytest.fixture(params=["tvae-A", "vae+"])
def old(request, tmp_path, monkeypatch):
    """A run folder with the old JSON files and weights after one step."""
    monkeypatch.delenv("TVAE_MAX_STEPS", raising=False)
    kept = OLD / request.param
    config = RunConfig.from_dict(json.loads((kept / "config.json").read_text())["run"])
    made = tmp_path / "made"
    train(config, *own_data("mnist", "embedded"), folder=made, device="cpu", max_steps=1)
    epoch = tmp_path / "run" / "epoch-00002"
    epoch.parent.mkdir()
    (made / "epoch-00001").rename(epoch)
    manifest = json.loads((kept / "manifest.json").read_text())
    for name in manifest["sha256"]:
        if name.endswith(".json"):
            (epoch / name).write_bytes((kept / name).read_bytes())
        else:
            manifest["sha256"][name] = hashlib.sha256((epoch / name).read_bytes()).hexdigest()
    (epoch / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    return kept, epoch.parent, config


def test_an_old_run_is_loaded_and_continued(old):
    kept, folder, config = old
    before = json.loads((kept / "history.json").read_text())
    found = find(folder)
    assert (found.config, found.history) == (config, before)
    assert found.model.triplets == config.own_triplets()

    longer = RunConfig.from_dict({**config.to_dict(), "epochs": 3})
    data = own_data("mnist", "embedded")  # whose checksum stands in the old manifest
    run = train(longer, *data, folder=folder, device="cpu", max_steps=122)
    assert list(run.history[:2]) == before and run.history[2]["step"] == 122
    assert run.history.seconds > sum(row["seconds"] for row in before)
    assert run.history.process_seconds == run.history[2]["process_seconds"]
    # nor is the configuration written in another way than it was
    now = (folder / "epoch-00003" / "config.json").read_text()
    assert now.replace('"epochs": 3', '"epochs": 2') == (kept / "config.json").read_text()
    assert checkpoints.latest(folder).extra["data"] == data[0].provenance.checksum
