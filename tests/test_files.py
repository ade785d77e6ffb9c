"""Files are either there in full or not at all."""

import os
import stat
import subprocess
import sys

import pytest

from tvae.files import Busy, atomic_path, atomic_write, locked


def test_writes_text_and_bytes(tmp_path):
    atomic_write(tmp_path / "new" / "a.txt", "τ")
    assert (tmp_path / "new" / "a.txt").read_text(encoding="utf-8") == "τ"
    atomic_write(tmp_path / "b", b"\x00\x01")
    assert (tmp_path / "b").read_bytes() == b"\x00\x01"


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "a"
    atomic_write(target, "old")
    with pytest.raises(RuntimeError, match="half way"), atomic_path(target) as temporary:
        temporary.write_text("new, but only ha")
        assert target.read_text() == "old"
        raise RuntimeError("half way")
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_the_mode_is_that_of_an_ordinary_file(tmp_path):
    (tmp_path / "plain").write_text("x")
    atomic_write(tmp_path / "ours", "x")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "ours")]
    assert modes[0] == modes[1]


HOLD = """
import sys, time
from tvae.files import Busy, atomic_path, atomic_write, locked
try:
    with locked(sys.argv[1]):
        print("in", flush=True)
        time.sleep(float(sys.argv[2]))
except Busy as error:
    print(error)
"""


def test_a_lock_ends_with_its_process_however_that_ends(tmp_path):
    path = tmp_path / "deep" / "one.lock"
    holder = [sys.executable, "-c", HOLD, str(path), "60"]
    first = subprocess.Popen(holder, stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout.readline() == "in\n"
        second = subprocess.run(holder, capture_output=True, text=True, check=True)
        assert second.stdout == "Another process holds one.lock.\n"
        with pytest.raises(Busy), locked(path):
            pass
    finally:
        first.kill()
        first.communicate()
    with locked(path), pytest.raises(Busy), locked(path):  # no second time in this process either
        pass
    with locked(path, wait=True):
        pass
