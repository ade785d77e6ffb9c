"""How fast training is: against the machine's matrix products, against pythae, and as it grows.

    python benchmarks/training.py [--repeats 7] [--threads N] [--no-growth] [--busy]

1. One step of a T-VAE (A, d = 25, batches of 100), everything included: gathering the images, making
   the triplets, forward and backward pass, Adam. The limit is the time in which this machine's SGEMM
   (a product of two large square matrices, same number of threads) does as many multiply-adds.
   Counted are those of the convolutions and linear layers that meet a pixel and not padding: once
   for the forward pass, once for the gradient of the weights, and once for that of the input where
   there is one. Everything else (the warps, activations, losses, Adam's 2.5 million updates) is not
   in the limit.
2. One epoch of a VAE, ours against pythae's trainer: the same images, batch size, optimiser, weights
   at the start (so the same architecture, which is checked), PyTorch's own layers on their side.
3. Time of a step and memory, as d, the batch and the number of images grow.

The contenders take turns. A figure is the median over the turns, a ratio the median of the ratios
within a turn.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from _peers import add_timing, pythae_vae, set_timing
from torch import nn

from tvae import data
from tvae.models import TVAE, VAE
from tvae.seeding import generator
from tvae.training.devices import make_fabric
from tvae.training.loop import Loop, Schedule
from tvae.transforms import Triplets

D, BATCH, RATE = 25, 100, 1e-3


def make_loop(model: VAE | TVAE, images: torch.Tensor, batch: int = BATCH, **options: Any) -> Loop:
    """A training loop of our own, on the CPU, that never ends by itself."""
    triplets = Triplets() if isinstance(model, TVAE) else None
    schedule = Schedule(10**6, RATE, batch_size=batch)
    return Loop(make_fabric("cpu"), model, images, schedule, seed=0, triplets=triplets, **options)


clock = time.perf_counter


def seconds(work: Callable[[], object]) -> float:
    start = clock()
    work()
    return clock() - start


# --- multiply-adds ---------------------------------------------------------------------------------


def multiply_adds(loop: Loop) -> int:
    """Multiply-adds of one step, forward and backward, counted from the shapes that pass through."""
    total = 0

    def count(layer: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        nonlocal total
        x = inputs[0]
        if isinstance(layer, nn.Linear):
            once = x.numel() * layer.out_features
        else:
            assert isinstance(layer, nn.Conv2d | nn.ConvTranspose2d)
            convolve: Any = F.conv2d if isinstance(layer, nn.Conv2d) else F.conv_transpose2d
            # how often a tap of the kernel meets a pixel, found by convolving ones with ones
            ones = torch.ones(1, 1, *x.shape[2:], dtype=torch.float64)
            kernel = torch.ones(1, 1, *layer.kernel_size, dtype=torch.float64)
            taps = convolve(ones, kernel, stride=layer.stride, padding=layer.padding).sum()
            once = x.shape[0] * layer.in_channels * layer.out_channels * int(taps)
        # the output, the gradient of the weights, and that of the input if anyone asks for it
        total += once * (3 if x.requires_grad else 2)

    layers = (nn.Linear, nn.Conv2d, nn.ConvTranspose2d)
    hooks = [m.register_forward_hook(count) for m in loop.model.modules() if isinstance(m, layers)]
    loop.module(loop.batch(torch.arange(loop.schedule.batch_size)))
    for hook in hooks:
        hook.remove()
    return total


def step_against_sgemm(images: torch.Tensor, repeats: int, steps: int = 10) -> dict[str, Any]:
    loop = make_loop(TVAE(D, action="A", generator=generator(0, "init")), images[: steps * BATCH])
    work = multiply_adds(loop)
    size = 2048
    a, b = (torch.randn(size, size, generator=generator(0, name)) for name in ("a", "b"))
    torch.mm(a, b)
    loop.run_epoch()
    ours, limit, ratios = [], [], []
    for _ in range(repeats):
        step = seconds(loop.run_epoch) / steps
        product = min(seconds(lambda: torch.mm(a, b)) for _ in range(3)) / size**3 * work
        ours.append(step)
        limit.append(product)
        ratios.append(step / product)
    return {
        "what": f"T-VAE step (A, d = {D}, batch {BATCH}; {work / 1e9:.2f} G multiply-adds), ms",
        "ours": 1e3 * statistics.median(ours),
        "other": 1e3 * statistics.median(limit),
        "ratio": statistics.median(ratios),
        "target": "≤ 1.5 × SGEMM",
        "met": statistics.median(ratios) <= 1.5,
    }


# --- pythae ----------------------------------------------------------------------------------------


def pythae_trainer(images: torch.Tensor, folder: str) -> tuple[Any, VAE]:
    """pythae's trainer, ready for an epoch, and a VAE of ours with the same weights."""
    from pythae.data.datasets import BaseDataset
    from pythae.trainers import BaseTrainer, BaseTrainerConfig

    logging.getLogger("pythae").setLevel(logging.ERROR)
    ours = VAE(D, generator=generator(0, "init"))
    model = pythae_vae(ours)
    z = torch.randn(8, D, generator=generator(0, "z"))
    x = images[:8].float() / 255
    with torch.no_grad():  # the same functions, or the comparison is worth nothing
        theirs = model.encoder(x).embedding, model.decoder(z).reconstruction
        torch.testing.assert_close(theirs, (ours.encode(x)[0], ours.decode(z)))
    trainer = BaseTrainer(
        model,
        BaseDataset(images.float() / 255, torch.zeros(len(images))),
        training_config=BaseTrainerConfig(
            output_dir=folder,
            num_epochs=1,
            per_device_train_batch_size=BATCH,
            learning_rate=RATE,
            optimizer_cls="Adam",
            no_cuda=True,
        ),
        callbacks=[],
    )
    trainer.prepare_training()
    # its own bar and console logs are not training: take them out, to their advantage
    trainer.callback_handler.callbacks = []
    return trainer, ours


def epoch_against_pythae(images: torch.Tensor, repeats: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        trainer, model = pythae_trainer(images, folder)
        loop = make_loop(model, images)
        first = loop.run_epoch()["total"], trainer.train_step(1)
        # the same weights at the start and the same images: the first epoch's loss must agree
        assert abs(first[0] - first[1]) < 0.05 * first[1], first
        ours, theirs, ratios = [], [], []
        for turn in range(repeats):
            mine = seconds(loop.run_epoch)
            other = seconds(lambda turn=turn: trainer.train_step(turn + 2))  # type: ignore[misc]
            ours.append(mine)
            theirs.append(other)
            ratios.append(other / mine)
    return {
        "what": f"VAE epoch ({len(images):,} images, d = {D}, batch {BATCH}), s",
        "ours": statistics.median(ours),
        "other": statistics.median(theirs),
        "ratio": statistics.median(ratios),
        "target": "≥ 1.6 × pythae",
        "met": statistics.median(ratios) >= 1.6,
    }


# --- growth ----------------------------------------------------------------------------------------


def resident(field: str) -> float | None:
    """VmRSS (memory in use) or VmHWM (its peak so far) in MB, where the system tells."""
    status = Path("/proc/self/status")
    found = re.search(rf"{field}:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return None if found is None else int(found[1]) / 1024


def measure_growth(d: int, batch: int, count: int, threads: int) -> dict[str, Any]:
    """Time of a step and memory of one setting; meant for a process of its own."""
    torch.set_num_threads(threads)
    before = resident("VmRSS")
    images = torch.randint(
        0, 256, (count, 1, 28, 28), generator=generator(0, "images"), dtype=torch.uint8
    )
    loop = make_loop(TVAE(d, action="A", generator=generator(0, "init")), images, batch)
    order = torch.randperm(count, generator=generator(0, "order"))

    def step(i: int) -> None:
        loop.fabric.backward(loop.module(loop.batch(order[i * batch : (i + 1) * batch])).sum())
        loop.optimizer.step()
        loop.optimizer.zero_grad(set_to_none=True)

    step(0)
    times = [seconds(lambda i=i: step(i)) for i in range(1, 8)]  # type: ignore[misc]
    peak = resident("VmHWM")
    memory = None if peak is None or before is None else peak - before
    return {"step": statistics.median(times), "memory": memory}


def growth(threads: int) -> list[str]:
    base = {"d": D, "batch": BATCH, "images": 10_000}
    varied: dict[str, list[int]] = {
        "d": [10, 25, 100],
        "batch": [50, 100, 200, 400],
        "images": [10_000, 60_000, 240_000],
    }
    lines = [
        f"{'':14}{'d':>5}{'batch':>7}{'images':>9}{'step, ms':>10}{'µs / image':>12}{'memory, MB':>12}"
    ]
    for name, values in varied.items():
        for value in values:
            setting = {**base, name: value}
            arguments = [str(v) for v in (*setting.values(), threads)]
            done = subprocess.run(
                [sys.executable, __file__, "--measure", *arguments],
                capture_output=True,
                text=True,
                check=True,
            )
            found = json.loads(done.stdout)
            step, memory = 1e3 * found["step"], found["memory"]
            lines.append(
                f"{'growing ' + name:14}{setting['d']:5d}{setting['batch']:7d}"
                f"{setting['images']:9,d}{step:10.1f}{1e3 * step / setting['batch']:12.1f}"
                + (f"{memory:12.0f}" if memory is not None else f"{'–':>12}")
            )
    return lines


def table(rows: list[dict[str, Any]]) -> str:
    width = max(len(row["what"]) for row in rows)
    head = f"{'what':{width}}  {'ours':>8}  {'peer/limit':>10}  {'ratio':>6}  target"
    body = [
        f"{row['what']:{width}}  {row['ours']:8.2f}  {row['other']:10.2f}  {row['ratio']:6.2f}  "
        f"{row['target']}: {'met' if row['met'] else 'NOT MET'}"
        for row in rows
    ]
    return "\n".join([head, *body])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_timing(parser, repeats=7)
    parser.add_argument("--no-growth", action="store_true", help="leave out the third part")
    parser.add_argument("--measure", type=int, nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure_growth(*options.measure)))
        return
    global clock
    clock = set_timing(options)
    images = data.load("mnist", source="embedded").images
    print(f"training, {options.threads} thread(s), median of {options.repeats} turns", flush=True)
    rows = [
        step_against_sgemm(images, options.repeats),
        epoch_against_pythae(images, options.repeats),
    ]
    print(table(rows), flush=True)
    if not options.no_growth:
        print("\nT-VAE (A), as it grows", flush=True)
        print("\n".join(growth(options.threads)))


if __name__ == "__main__":
    main()
