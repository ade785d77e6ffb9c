"""Two processes (gloo, on the CPU) do together what one does with the same batch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import sharing
import torch

from tvae.models import TVAE
from tvae.runs.trained import load

pytestmark = pytest.mark.slow


# `ddp` starts this program a second time, `ddp_fork` (the one for notebooks) forks it twice
@pytest.fixture(scope="module", params=[("tvae", "ddp"), ("vae+", "ddp_fork")])
def runs(request, tmp_path_factory) -> tuple[Path, str]:
    model, strategy = request.param
    folder = tmp_path_factory.mktemp("sharing")
    program = Path(sharing.__file__)
    hidden = ("TVAE_MAX_STEPS", "MASTER_PORT", "MASTER_ADDR", "LOCAL_RANK", "WORLD_SIZE")
    environment = {key: value for key, value in os.environ.items() if key not in hidden}
    threads = torch.get_num_threads()
    sharing.main(folder, 1, model, "auto")
    torch.set_num_threads(threads)
    done = subprocess.run(
        [sys.executable, str(program), str(folder), "2", model, strategy],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "Starting with 2 processes" in done.stderr
    assert "Grad strides" not in done.stderr
    return folder, model


def test_both_processes_took_part_and_saw_the_same(runs):
    folder, model = runs
    if model == "vae+":  # forked processes end inside `train`, only the first comes back
        assert not (folder / f"{model}-2.1.json").exists()
        return
    first, second = (json.loads((folder / f"{model}-2.{r}.json").read_text()) for r in (0, 1))
    assert first == second
    assert not (folder / f"{model}-1.1.json").exists()


def test_the_losses_are_those_of_one_process(runs):
    folder, model = runs
    one, two = (json.loads((folder / f"{model}-{n}.0.json").read_text()) for n in (1, 2))
    assert len(one) == len(two) == 2
    for alone, shared in zip(one, two, strict=True):
        assert alone.keys() == shared.keys()
        for name, value in alone.items():
            assert shared[name] == pytest.approx(value, rel=1e-4, abs=1e-4), name


def test_the_weights_are_those_of_one_process(runs):
    folder, model = runs
    one, two = load(folder / f"{model}-1"), load(folder / f"{model}-2")
    assert isinstance(one, TVAE) == (model == "tvae")
    for (name, alone), shared in zip(one.named_parameters(), two.parameters(), strict=True):
        # six steps of at most 1e-3 each: Adam can turn a rounded zero gradient into such a step,
        # so compare the bulk closely and every single weight loosely
        difference = (alone - shared).abs()
        assert difference.max() < 3e-3, name
        assert difference.mean() < 2e-5, name
