"""What a sweep would cost on this machine, from a few timed steps of each kind of run."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from tvae import data, evaluation
from tvae.data import Dataset, Provenance
from tvae.models import VAE
from tvae.runs.sweep import Job
from tvae.seeding import generator
from tvae.training import loop
from tvae.training.devices import make_fabric
from tvae.training.run import build_model


@dataclass(frozen=True)
class Cost:
    """The estimated cost of one run; times in seconds."""

    epochs: int
    steps: int
    seconds_per_step: float
    training: float
    measuring: float


def images_of(job: Job) -> tuple[int, int]:
    """How many training and test images the run's data set has, without loading the full ones."""
    source = job.config().source
    if source != "embedded":
        return data.entry(job.dataset).counts
    train, test = (data.load(job.dataset, split, source=source) for split in ("train", "test"))
    return len(train), len(test)


def _timed(function: Callable[[], object], repeats: int) -> float:
    """The shortest of `repeats` timings in seconds, after one that does not count."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def _noise_images(count: int, dataset: str) -> Dataset:
    draw = generator(0, "calibration")
    images = torch.randint(
        0, 256, (count, *data.entry(dataset).shape), generator=draw, dtype=torch.uint8
    )
    labels = torch.randint(0, 10, (count,), generator=draw)
    return Dataset(images, labels, Provenance("noise", "drawn", "none", count, "0" * 64))


def _step(job: Job, steps: int) -> float:
    """Seconds of one training step of this kind of run."""
    config = job.config()
    noise = _noise_images(config.batch_size, job.dataset)
    trained = loop.Loop(
        make_fabric("auto"),
        build_model(config, noise),
        noise.images,
        loop.Schedule(steps + 1, config.learning_rate, None, config.batch_size),
        seed=0,
        triplets=None if job.model == "vae" else config.triplets(),
    )
    return _timed(trained.run_epoch, steps)  # an epoch of one batch is one step


@torch.no_grad()
def _rates(dataset: str, d: int) -> tuple[float, float, float]:
    """Seconds to encode an image, to weigh one importance sample, to compare one pair for kNN."""
    known = data.entry(dataset)
    vae = VAE(d, known.shape, likelihood=known.likelihood).eval()
    x = _noise_images(500, dataset).floats()
    encode = _timed(lambda: vae.encode(x), 2) / len(x)
    samples = 100
    weigh = _timed(
        lambda: evaluation.log_likelihood(
            vae, x[:5], samples=samples, generator=generator(0, "calibration")
        ),
        2,
    )
    points = torch.randn(4000, d, generator=generator(0, "calibration"))
    labels = torch.zeros(len(points), dtype=torch.int64)
    compare = _timed(lambda: evaluation.knn_accuracy(points, labels, points[:500], labels[:500]), 1)
    return encode, weigh / (5 * samples), compare / (500 * len(points))


def estimate(jobs: Sequence[Job], side_by_side: int = 1, steps: int = 3) -> list[Cost]:
    """The cost of each run when `side_by_side` of them share the cores of this machine.

    Every kind of run (model, action, dimension, size of the images) is timed once for a few steps on
    drawn images; data sets do not matter for the time of a step.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(max((os.cpu_count() or 1) // side_by_side, 1))
    step_times: dict[tuple[object, ...], float] = {}
    rates: dict[tuple[object, ...], tuple[float, float, float]] = {}
    costs = []
    try:
        for job in jobs:
            shape = data.entry(job.dataset).shape
            config, measures = job.config(), job.measures()
            if (shape, job.d) not in rates:
                rates[shape, job.d] = _rates(job.dataset, job.d)
            train, test = images_of(job)
            encode, weigh, compare = rates[shape, job.d]
            outside = measures.anchors + measures.queries if shape[0] == 1 else 0
            pairs = measures.anchors * measures.queries if shape[0] == 1 else 0
            measuring = (train + test + outside) * encode + (train * test + pairs) * compare
            if not job.trained:
                costs.append(Cost(0, 0, 0.0, 0.0, measuring))
                continue
            key = (shape, job.model, job.action, job.residual, job.d, config.batch_size)
            if key not in step_times:
                step_times[key] = _step(job, steps)
            schedule = job.schedule(train)
            count = schedule.epochs * (train // config.batch_size)
            if job.max_steps is not None:
                count = min(count, job.max_steps)
            images = measures.likelihood_images or test
            if measures.likelihood_error is not None:
                images = min(images, 400)
            measuring += images * measures.likelihood_samples * weigh
            seconds = step_times[key]
            costs.append(Cost(schedule.epochs, count, seconds, count * seconds, measuring))
    finally:
        torch.set_num_threads(threads)
    return costs
