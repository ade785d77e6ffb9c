"""Trains a small run in one process or in two; `test_ddp.py` runs this file as a program.

Usage: python sharing.py FOLDER PROCESSES MODEL STRATEGY
"""

import json
import sys
from pathlib import Path

import torch

from tvae.data.dataset import describe
from tvae.seeding import generator
from tvae.training import train
from tvae.training.configuration import RunConfig


def main(folder: Path, processes: int, model: str, strategy: str) -> None:
    torch.set_num_threads(1)
    images = torch.rand(64, 1, 28, 28, generator=generator(0, "pictures")).square().mul(255).byte()
    data = describe("mnist", "test", "train", images, torch.arange(64) % 10)
    config = RunConfig.from_preset("mnist", model=model, d=4, epochs=2, batch_size=20)
    run = train(
        config,
        data,
        data,
        folder=folder / f"{model}-{processes}",
        device="cpu",
        devices=processes,
        strategy=strategy,
        progress=False,
    )
    # with the strategy `ddp` every process comes here; the file says which of them saw what
    rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
    seen = [{k: v for k, v in row.items() if not k.endswith("seconds")} for row in run.history]
    (folder / f"{model}-{processes}.{rank}.json").write_text(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])
