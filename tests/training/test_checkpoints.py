"""Checkpoints: what goes in comes out, damage is noticed, failures lose nothing."""

import errno
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from tvae.training import checkpoints
from tvae.training.checkpoints import Checkpoint, CheckpointError, CheckpointWarning, SaveError


def make(epoch: int = 1, size: int = 8) -> Checkpoint:
    stream = torch.Generator().manual_seed(epoch)
    return Checkpoint(
        epoch=epoch,
        step=60 * epoch,
        settings={"kind": "vae", "d": 2},
        weights={"a": torch.randn(size, 3, generator=stream), "n": torch.tensor(epoch)},
        config={"dataset": "mnist"},
        history=[{"epoch": 1, "total": 0.1}],
        training={"adam/a/step": torch.tensor(3.0), "generator/noise": stream.get_state()},
        extra={"scaler": {}},
    )


def assert_same(left: Checkpoint, right: Checkpoint) -> None:
    for name in ("epoch", "step", "settings", "config", "history", "extra"):
        assert getattr(left, name) == getattr(right, name)
    for mine, other in ((left.weights, right.weights), (left.training, right.training)):
        assert mine.keys() == other.keys()
        for name in mine:
            assert mine[name].dtype == other[name].dtype
            assert torch.equal(mine[name], other[name])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_saved_is_read_back(tmp_path):
    path = checkpoints.save(tmp_path / "run", make())
    assert path == tmp_path / "run" / "epoch-00001"
    assert_same(checkpoints.read(path), make())
    assert names(path) == sorted((*checkpoints._FILES, "manifest.json"))


def test_tensors_in_any_layout_and_sharing_memory_are_saved(tmp_path):
    base = torch.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)
    weights = {
        "last": base.to(memory_format=torch.channels_last),
        "transposed": base[0, 0].T,
        "shared": base[0],
        "again": base[0],
    }
    path = checkpoints.save(tmp_path, Checkpoint(1, 1, {}, weights))
    read = checkpoints.read(path).weights
    assert all(torch.equal(read[name], weights[name]) for name in weights)


def test_the_newest_two_are_kept(tmp_path):
    for epoch in range(1, 6):
        checkpoints.save(tmp_path, make(epoch))
    assert names(tmp_path) == ["epoch-00004", "epoch-00005"]
    newest = checkpoints.latest(tmp_path)
    assert newest is not None
    assert_same(newest, make(5))


def test_epochs_are_ordered_as_numbers(tmp_path):
    checkpoints.save(tmp_path, make(99_999))
    checkpoints.save(tmp_path, make(100_000))
    newest = checkpoints.latest(tmp_path)
    assert newest is not None and newest.epoch == 100_000


def test_no_checkpoint_is_none(tmp_path):
    assert checkpoints.latest(tmp_path) is None
    assert checkpoints.latest(tmp_path / "nowhere") is None


@pytest.mark.parametrize("name", [*checkpoints._FILES, "manifest.json"])
@pytest.mark.parametrize("harm", ["truncate", "empty", "flip", "delete"])
def test_damage_is_noticed_and_the_previous_one_used(tmp_path, name, harm):
    checkpoints.save(tmp_path, make(1))
    bad = checkpoints.save(tmp_path, make(2))
    file = bad / name
    data = file.read_bytes()
    if harm == "truncate":
        file.write_bytes(data[: len(data) // 2])
    elif harm == "empty":
        file.write_bytes(b"")
    elif harm == "delete":
        file.unlink()
    else:
        # in the manifest: a byte inside a checksum; elsewhere any byte
        where = data.index(b'"model.safetensors": "') + 25 if name == "manifest.json" else 40
        flipped = b"0" if data[where : where + 1] != b"0" else b"1"
        file.write_bytes(data[:where] + flipped + data[where + 1 :])
    with pytest.raises(CheckpointError, match=r"damaged|not a complete checkpoint") as caught:
        checkpoints.read(bad)
    assert "epoch-00002" in str(caught.value)
    with pytest.warns(CheckpointWarning, match=r"epoch-00002.*epoch-00001 is used instead"):
        found = checkpoints.latest(tmp_path)
    assert found is not None
    assert_same(found, make(1))


def test_if_none_can_be_used_that_is_an_error_not_a_fresh_start(tmp_path):
    for epoch in (1, 2):
        (checkpoints.save(tmp_path, make(epoch)) / "model.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"No checkpoint in .* can be used") as caught:
        checkpoints.latest(tmp_path)
    assert "epoch-00001" in str(caught.value) and "epoch-00002" in str(caught.value)


def test_checkpoints_that_a_running_training_drops_meanwhile_are_no_damage(tmp_path, monkeypatch):
    checkpoints.save(tmp_path, make(1))
    checkpoints.save(tmp_path, make(2))
    real, calls = checkpoints.read, []

    def read(path):
        calls.append(path.name)
        if len(calls) == 1:  # the training has made two more epochs since the folder was listed
            checkpoints.save(tmp_path, make(3))
            checkpoints.save(tmp_path, make(4))
        return real(path)

    monkeypatch.setattr(checkpoints, "read", read)
    assert checkpoints.latest(tmp_path).epoch == 4
    assert calls == ["epoch-00002", "epoch-00001", "epoch-00004"]


def test_a_foreign_folder_is_refused(tmp_path):
    foreign = tmp_path / "epoch-00001"
    foreign.mkdir()
    with pytest.raises(CheckpointError, match=r"has no manifest\.json"):
        checkpoints.read(foreign)
    (foreign / "manifest.json").write_text('{"format": "something else"}')
    with pytest.raises(CheckpointError, match="not a checkpoint of this package"):
        checkpoints.read(foreign)
    (foreign / "manifest.json").write_text("[1, 2]")
    with pytest.raises(CheckpointError, match="not a checkpoint of this package"):
        checkpoints.read(foreign)
    (foreign / "manifest.json").write_text(json.dumps({"format": "tvae checkpoint", "version": 99}))
    with pytest.raises(CheckpointError, match="of version 99, this package reads version 1"):
        checkpoints.read(foreign)
    with pytest.raises(CheckpointError, match="not a folder"):
        checkpoints.read(foreign / "manifest.json")


def test_a_damaged_checkpoint_is_replaced_by_a_new_one_of_the_same_epoch(tmp_path):
    path = checkpoints.save(tmp_path, make(2))
    (path / "history.json").unlink()
    checkpoints.save(tmp_path, make(2))
    assert_same(checkpoints.read(path), make(2))
    assert names(tmp_path) == ["epoch-00002"]


@pytest.mark.parametrize("call", ["fsync", "rename"])
@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_full_disk_loses_nothing(tmp_path, monkeypatch, call, after):
    checkpoints.save(tmp_path, make(1))
    real, count = getattr(os, call), 0

    def fail(*arguments, **options):
        nonlocal count
        count += 1
        if count > after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments, **options)

    monkeypatch.setattr(os, call, fail)
    try:
        checkpoints.save(tmp_path, make(2))
    except SaveError as error:
        text = str(error)
        assert error.errno == errno.ENOSPC
        assert "No space left on device" in text and "epoch 2" in text
        assert text.endswith(f"the last good one is {tmp_path / 'epoch-00001'}.")
        expected = 1
    else:  # the call that fails was not reached: everything must be there
        assert count <= after
        expected = 2
    monkeypatch.undo()
    found = checkpoints.latest(tmp_path)
    # after a failed flush of the folder the new checkpoint may be there as well, and complete
    assert found is not None and found.epoch in {expected, 2 if call == "fsync" else 1}
    assert_same(found, make(found.epoch))
    assert_same(checkpoints.read(tmp_path / "epoch-00001"), make(1))
    assert not list(tmp_path.glob(".epoch-00002*"))


LIMITED = """
import resource, sys, torch
from tvae.training import checkpoints
from tvae.training.checkpoints import Checkpoint
weights = lambda n: {"a": torch.arange(float(n))}
checkpoints.save(sys.argv[1], Checkpoint(1, 1, {}, weights(10)))
resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))  # the system now refuses larger files
try:
    checkpoints.save(sys.argv[1], Checkpoint(2, 2, {}, weights(100_000)))
except checkpoints.SaveError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs limits on the size of files")
def test_a_write_the_system_refuses_loses_nothing(tmp_path):
    code = textwrap.dedent(LIMITED)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert "File too large" in done.stdout and "epoch-00001" in done.stdout
    assert done.stdout.count("\n") == 1
    assert names(tmp_path) == ["epoch-00001"]
    assert checkpoints.read(tmp_path / "epoch-00001").epoch == 1


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(SaveError, match=r"could not be written to .*; there is no earlier one"):
        checkpoints.save(tmp_path / "file" / "run", make())
    with (
        pytest.raises(SaveError, match=r"run folder .* cannot be written to \(Not a directory\)"),
        checkpoints.exclusive(tmp_path / "file" / "run"),
    ):
        pass


def test_leftovers_of_killed_runs_are_swept_away(tmp_path):
    checkpoints.save(tmp_path, make(1))
    stale = tmp_path / ".epoch-00002.abc.part"
    stale.mkdir()
    (stale / "model.safetensors").write_bytes(b"half")
    with checkpoints.exclusive(tmp_path):
        assert names(tmp_path) == [".lock", "epoch-00001"]


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs file locks")
def test_two_processes_cannot_share_a_run_folder(tmp_path):
    code = (
        "import sys\nfrom tvae.training import checkpoints\n"
        "with checkpoints.exclusive(sys.argv[1]):\n    print('in')\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with checkpoints.exclusive(tmp_path):
        second = subprocess.run(command, capture_output=True, text=True, check=False)
        assert second.returncode != 0
        assert re.search("CheckpointError: Another process is training in", second.stderr)
    third = subprocess.run(command, capture_output=True, text=True, check=False)
    assert third.stdout == "in\n"


def test_no_file_of_a_checkpoint_is_a_pickle(tmp_path):
    path = checkpoints.save(tmp_path, make())
    for file in path.iterdir():
        assert file.suffix in (".safetensors", ".json")
        assert not file.read_bytes().startswith((b"\x80", b"PK"))
