"""The campaign finds what it is there to find: readers that misbehave are told from those that do not."""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the campaign needs Linux")

PICKLED = pickle.dumps(Path("somewhere"))


def _unpickles(folder: Path) -> Any:
    try:
        return pickle.loads(PICKLED)
    except Exception as error:  # a reader that swallows what stops it
        raise ValueError(f"{folder.name} is damaged.") from error


def _unpickles_below(folder: Path) -> Any:
    return pickle.Unpickler(io.BytesIO(PICKLED)).load()


def _unpickles_an_array(folder: Path) -> Any:
    np.save(folder / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    return np.load(folder / "x.npy", allow_pickle=True)


def _writes_outside(folder: Path) -> Any:
    (folder.parent / "x").write_text("x")


def _unpacks_outside(folder: Path) -> Any:
    with zipfile.ZipFile(folder / "x.zip", "w") as archive:
        archive.writestr("../x", "x")
    with zipfile.ZipFile(folder / "x.zip") as archive:
        for name in archive.namelist():
            (folder / name).write_bytes(archive.read(name))


def _reads_outside(folder: Path) -> Any:
    return Path(folder.parent, "secret").read_text()


def _follows_a_link(folder: Path) -> Any:
    os.symlink(folder.parent / "secret", folder / "link")
    return (folder / "link").read_text()


def _starts_a_program(folder: Path) -> Any:
    return subprocess.run(["true"])


def _decodes_a_bomb(folder: Path) -> Any:
    import readers
    from PIL import Image

    with Image.open(io.BytesIO(readers._png_bomb(9000))) as picture:
        return picture.load()


def _names_nothing(folder: Path) -> Any:
    raise ValueError("no")


def _leaks_an_error(folder: Path) -> Any:
    return json.loads("{")


def _fails(folder: Path) -> Any:
    raise KeyError("x")


def _asks_for_all_memory(folder: Path) -> Any:
    try:
        return bytearray(2**36)
    except MemoryError as error:
        raise ValueError(f"{folder.name} is damaged.") from error


def _takes_much_memory(folder: Path) -> Any:
    return bytearray(os.urandom(1)) * (2**30 + 2**28)


def _never_ends(folder: Path) -> Any:
    while True:
        pass


def _dies(folder: Path) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("read", "fault"),
    [
        (_unpickles, "what no reader may do: pickle.loads"),
        (_unpickles_below, "what no reader may do: pickle.find_class"),
        (_unpickles_an_array, "what no reader may do: pickle.load"),
        (_writes_outside, "what no reader may do: writes to"),
        (_unpacks_outside, "what no reader may do: writes to"),
        (_reads_outside, "what no reader may do: reads"),
        (_follows_a_link, "what no reader may do: os.symlink"),
        (_starts_a_program, "what no reader may do: subprocess.Popen"),
        (_decodes_a_bomb, "what no reader may do: makes room for an image of 9000x9000"),
        (_names_nothing, "ValueError that does not name the file"),
        (_leaks_an_error, "JSONDecodeError from below"),
        (_fails, "KeyError at test_campaign.py"),
        (_asks_for_all_memory, "asks for more than 6 GB"),
        (_takes_much_memory, "took 1"),
        (_never_ends, "longer than"),
        (_dies, "the process died"),
        (lambda folder: None, "a wrong answer"),
    ],
)
def test_a_reader_that_misbehaves_is_found(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], Any], fault: str
) -> None:
    import readers

    monkeypatch.setattr(readers, "SECONDS", 0.3)

    # the process of the inputs is a child of this one: the sound input is read here, and is sound
    def read_here(folder: Path, parent: int = os.getpid()) -> Any:
        return 1 if os.getpid() == parent else read(folder)

    reader = readers.Reader(
        "made up", {"a": b"content"}, read_here, lambda found: found is not None
    )
    found = readers.run(reader, 0, 1)
    assert found.inputs == 1 and len(found.faults) == 1
    assert found.faults[0].startswith(f"made up, input 0: {fault}"), found.faults


def test_a_reader_that_behaves_is_left_alone() -> None:
    import readers

    def read(folder: Path) -> str:
        content = (folder / "a").read_bytes()
        (folder / "copy").write_bytes(content)
        if content != b"content":
            raise ValueError(f"{folder / 'a'} is damaged.")
        return "content"

    found = readers.run(readers.Reader("good", {"a": b"content"}, read, bool), 0, 50)
    assert found.faults == [] and found.inputs == 50 == found.errors + found.answers
    assert found.errors > 40


def test_there_is_a_reader_for_every_kind_of_file_and_enough_inputs() -> None:
    import readers

    kinds = [
        "idx",
        "gz",
        "npz",
        "npy",
        "mat",
        "zip",
        "PNG",
        "JPEG",
        "safetensors",
        "checkpoint",
        "ledger",
        "sweep",
        "notebook",
    ]
    assert all(any(name.startswith(kind) for name in readers.READERS) for kind in kinds)
    assert len(readers.READERS) * readers.INPUTS >= 100_000
    assert {f"damaged files, {name}" for name in readers.READERS} == {*readers.PARTS}


def test_damage_comes_from_the_seed_alone() -> None:
    from mutations import damaged, damaged_json, damaged_text

    value = {"a": [1, {"b": None}], "c": "x"}
    text = json.dumps(value).encode()
    for change, content in ((damaged, b"0123456789"), (damaged_json, value), (damaged_text, text)):
        once = [change(content, random.Random(f"0/{k}")) for k in range(50)]
        again = [change(content, random.Random(f"0/{k}")) for k in range(50)]
        assert once == again and sum(x != content for x in once) > 40
    assert value == {"a": [1, {"b": None}], "c": "x"}


@pytest.mark.slow
def test_a_run_that_ends_otherwise_after_kills_is_found(tmp_path: Path) -> None:
    import kills
    from found import Found

    def make(folder: Path, begins: Callable[[], object]) -> None:
        begins()
        folder.mkdir(exist_ok=True)
        tries = folder / "tries"
        tries.write_text(tries.read_text() + "." if tries.exists() else ".")
        os.replace(tries, folder / "tries")

    work = kills.Work(
        "not resumable",
        make,
        lambda at: (at / "tries").read_text(),
        {"k": ((os, "replace", 1),)},
        "k",
    )
    found = Found()
    kills.harass(work, tmp_path, 3, random.Random(0), found)
    assert found.counts == {"k": 3}
    assert "not resumable: another result after kills than without" in found.faults


def test_the_record_keeps_the_last_campaigns_and_the_page_shows_them(
    tmp_path: Path, root: Path
) -> None:
    import main

    sys.path.insert(0, str(root / "book" / "_ext"))
    try:
        import tvae_site
    finally:
        sys.path.pop(0)
    path = tmp_path / "campaign.json"
    for seed in range(main.KEPT + 2):
        part = {"counts": {"kills": 200 + seed}, "faults": ["x"] * (seed % 2)}
        parts = {"a part": {**part, "left out": [], "seconds": 1.0}}
        main.record(main.summary(parts, seed, 1.0, 90.0), path)
    kept = json.loads(path.read_text())
    assert [campaign["seed"] for campaign in kept] == list(range(2, main.KEPT + 2))
    lines = tvae_site.campaign_table(kept, most=2)
    assert "| seed | 7 | 6 |" in lines and "| kills | 207 | 206 |" in lines
    assert "| **faults** | **1** | **0** |" in lines
    assert lines[0].count("|") == lines[1].count("|") == lines[-1].count("|") == 4
    shown = json.loads((root / "book" / "campaign.json").read_text())
    assert tvae_site.campaign_table(shown)
