"""Devices, and memory that is kept."""

import platform
import subprocess
import sys

import pytest
import torch

from tvae.training.devices import make_fabric, pick_device

PROGRAM = """
import resource, torch
from tvae.training.devices import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        [torch.ones(2_000_000) for _ in range(3)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

before = faults()
kept = keep_freed_memory()
faults()
print(kept, before, faults())
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's allocator is what is set")
def test_freed_memory_is_used_again_without_page_faults():
    command = [sys.executable, "-c", PROGRAM]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    kept, before, after = out.split()
    assert kept == "True"
    assert int(after) < int(before) / 10


def test_auto_is_a_device_that_computes():
    device = pick_device("auto")
    assert torch.ones(2, device=device).sum().item() == 2


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("gpu", "There is no device 'gpu'"), ("cuda:99", "'cuda:99' is not available")],
)
def test_other_devices_get_a_sentence(name, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_fabric(name)
