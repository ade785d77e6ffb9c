"""The training loop: one epoch after another over images that stay on the device.

The images are moved to the device once, as they are (uint8 costs a quarter of float32), and every
batch is gathered and converted there. What a batch needs at random is drawn from three named
generators: `shuffle` (the order of the images), `triplets` (the transformations) and `noise` (the
posterior samples). Loss terms are kept on the device too, one row per step, and looked at now and
then, so that the loop never waits for the device just to know a number.

With several processes each one draws for the whole batch and computes its share of it: the processes
together do what one would have done.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from tvae import objective
from tvae.checks import to_floats
from tvae.models import TVAE, VAE, Views
from tvae.seeding import generator
from tvae.transforms import Sequences, Triplets, warp

#: Steps between two looks at whether the loss is still finite.
CHECK_EVERY = 100
_TEST_CHUNK = 1000


class NotFinite(FloatingPointError):
    """The loss or the weights stopped being finite; `step` and `term` say when and which."""

    def __init__(self, message: str, step: int, term: str) -> None:
        super().__init__(message)
        self.step = step
        self.term = term


@dataclass(frozen=True)
class Schedule:
    """How long, how fast, in which portions.

    An epoch is `len(images) // batch_size` steps. What is left over after the last full batch, fewer
    images than a batch, is dropped from the epoch; since every epoch has an order of its own, no
    image is left out for good, and every step averages over the same number of images.
    """

    epochs: int
    learning_rate: float
    halve_every: int | None = None  # None: the rate stays as it is
    batch_size: int = 100
    steps: int | None = None  # end after so many steps even if no epoch ends there
    limit: int | None = None  # the same, but as an interruption: the history will say `capped`

    def rate(self, epoch: int) -> float:
        """The learning rate of an epoch, the first being 0."""
        halvings = 0 if self.halve_every is None else epoch // self.halve_every
        return self.learning_rate * 0.5**halvings


def max_steps_from_environment() -> int | None:
    """The limit on the steps of every run that TVAE_MAX_STEPS sets, None if it is not set.

    It exists so that a configuration of hours can be tried in seconds; a history that it cut short
    says so.
    """
    text = os.environ.get("TVAE_MAX_STEPS", "")
    if not text:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise ValueError(f"TVAE_MAX_STEPS must be a positive whole number, not {text!r}.")
    return int(text)


class Loss(nn.Module):
    """The batch means of all loss terms as one tensor (K,), computed in one `forward`.

    Data-parallel training and mixed precision act on the `forward` of a module; this gives them one
    around everything that has a gradient.
    """

    def __init__(self, model: VAE | TVAE, analytic: bool, further: Collection[str] = ()) -> None:
        super().__init__()
        self.model = model
        self.analytic, self.further = analytic, frozenset(further)
        self.names: tuple[str, ...] = ()  # of the terms, known after the first forward

    def forward(self, batch: Batch) -> Tensor:
        dtype = next(self.model.parameters()).dtype
        views = tuple(view.to(dtype) for view in batch.views)
        if len(views) == 1:
            terms = objective.vae_terms(self.model, views[0], batch.noise)
        else:
            assert isinstance(self.model, TVAE)
            x0, x1, x2 = views
            terms = objective.tvae_terms(
                self.model, x0, x1, x2, batch.noise, self.analytic, self.further
            )
        self.names = tuple(name for name, _ in terms.items())
        return torch.stack([value for _, value in terms.items()]).mean(1)


class Batch:
    """One view or three of a batch of images, (B, C, H, W) each, and the source of their noise.

    Not a tuple: mixed precision would round tensors in a tuple on the way into a module, and the
    images are also the targets.
    """

    def __init__(self, views: tuple[Tensor, ...], noise: Any) -> None:
        self.views = views
        self.noise = noise


class Loop:
    """A model in training: its optimiser, its generators, and how far it has come.

    Args:
        fabric: Device, precision and number of processes.
        model: Trained in place.
        images: (N, C, H, W), uint8 or floats in [0, 1].
        schedule: Epochs, learning rate, batch size.
        seed: Of the three generators.
        triplets: For a `TVAE` the source of its views. With a `VAE` they make it a VAE+: of every
            triplet one image is used, each of the three with probability 1/3.
        analytic: Whether C1 and C2 are taken from posterior means instead of samples.
        further: Terms beyond the paper's loss, see `objective.FURTHER`.
        weights: Of single loss terms in the sum, by name; 1 where not given.
        test: Images on which the reconstruction is measured after every epoch, None for none.
    """

    def __init__(
        self,
        fabric: Fabric,
        model: VAE | TVAE,
        images: Tensor,
        schedule: Schedule,
        *,
        seed: int,
        triplets: Views | None = None,
        analytic: bool = False,
        further: Collection[str] = (),
        weights: Mapping[str, float] | None = None,
        test: Tensor | None = None,
    ) -> None:
        self.fabric, self.model, self.schedule, self.seed = fabric, model, schedule, seed
        self.triplets, self.weights = triplets, dict(weights or {})
        self.device = fabric.device
        self.images = images.to(self.device)
        self.test = None if test is None else test.to(self.device)
        self.steps_per_epoch = len(images) // schedule.batch_size
        self.share = _share(schedule.batch_size, fabric)
        self.generators = {
            "shuffle": generator(seed, "shuffle"),
            "triplets": generator(seed, "triplets"),
            "noise": generator(seed, "noise", self.device),
        }
        self.epoch = 0
        self.step = 0
        model.to(self.device)
        optimizer = adam(model, schedule.learning_rate)
        self.loss = Loss(model, analytic, further)
        self.module, self.optimizer = fabric.setup(self.loss, optimizer)
        self._adam = optimizer

    @property
    def intended_steps(self) -> int:
        """The steps of the whole run, as the schedule has it, without a limit."""
        every = self.schedule.epochs * self.steps_per_epoch
        return every if self.schedule.steps is None else min(every, self.schedule.steps)

    @property
    def last_step(self) -> int:
        """The step after which the run ends, be it by the schedule or by a limit."""
        limit = self.schedule.limit
        return self.intended_steps if limit is None else min(limit, self.intended_steps)

    @property
    def finished(self) -> bool:
        """Whether the last step is done."""
        return self.step >= self.last_step

    def run_epoch(self, bar: Any = None) -> dict[str, Any]:
        """Train for one epoch (or up to the limit on the steps) and return its row of history."""
        start, worked = time.perf_counter(), time.process_time()
        size, rate = self.schedule.batch_size, self.schedule.rate(self.epoch)
        for group in self._adam.param_groups:
            group["lr"] = rate
        steps = min(self.steps_per_epoch, self.last_step - self.step)
        order = torch.randperm(len(self.images), generator=self.generators["shuffle"])
        order = order.to(self.device)
        record = torch.empty(0)
        self.model.train()
        with _reproducible(self.device), _quiet(self.fabric.world_size):
            for i in range(steps):
                batch = self.batch(order[i * size : (i + 1) * size])
                terms = self.module(batch)
                if i == 0:
                    factors = self._factors()
                    record = torch.empty(steps, len(terms), device=self.device, dtype=terms.dtype)
                self.fabric.backward(terms @ factors)
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=True)
                record[i] = terms.detach()
                self.step += 1
                if bar is not None:
                    bar.update()
                if self.step % CHECK_EVERY == 0 or i == steps - 1:
                    means = self._check(record[: i + 1])
                    if bar is not None:
                        bar.set_postfix({k: f"{v:.1f}" for k, v in means.items()}, refresh=False)
            self._check_weights()
        self.epoch += 1
        row = {"epoch": self.epoch, "step": self.step, "learning_rate": rate, **means}
        row["seconds"] = time.perf_counter() - start
        row["process_seconds"] = time.process_time() - worked
        if self.test is not None:
            row.update(self.measure(self.test))
        row["capped"] = self.finished and self.step < self.intended_steps
        return row

    def batch(self, index: Tensor) -> Batch:
        """This process's share of the images at `index`, as floats, with their views."""
        noise: Any = self.generators["noise"]
        if self.fabric.world_size > 1:
            noise = SharedNoise(noise, self.share, self.schedule.batch_size)
        if self.triplets is None:
            return Batch((to_floats(self.images[index[self.share]], torch.float32),), noise)
        three = isinstance(self.model, TVAE)
        make = three_views if three else one_view
        images = to_floats(self.images[index], torch.float32)
        draws = self.generators["triplets"]
        source = self.triplets
        if isinstance(source, Sequences):
            # the views are other frames, which only the loop can reach
            source = source.among(self.images, index)
        return Batch(make(source, images, draws, self.share), noise)

    @torch.no_grad()
    def measure(self, images: Tensor) -> dict[str, float]:
        """Mean NLL of x0 and KL0 on test images, with the same posterior noise every time."""
        noise = generator(self.seed, "test", self.device)
        self.model.eval()
        sums: Tensor | None = None
        for chunk in images.split(_TEST_CHUNK):
            terms = self.module(
                Batch((to_floats(chunk, torch.float32),), noise)
            ).cpu().double() * len(chunk)
            sums = terms if sums is None else sums + terms
        assert sums is not None
        means = dict(zip(self.loss.names, (sums / len(images)).tolist(), strict=True))
        for name, value in means.items():
            if not math.isfinite(value):
                raise NotFinite(
                    f"{name} of the test images is {value} after step {self.step}.", self.step, name
                )
        return {f"test_{name}": value for name, value in means.items()}

    def _factors(self) -> Tensor:
        if unknown := sorted(set(self.weights) - set(self.loss.names)):
            raise ValueError(
                f"There is no loss term {', '.join(unknown)}; the terms of this model are "
                f"{', '.join(self.loss.names)}."
            )
        return torch.tensor([self.weights.get(n, 1.0) for n in self.loss.names], device=self.device)

    def _check(self, record: Tensor) -> dict[str, float]:
        """Means of the recorded steps (n, K); an error that names step and term if not finite."""
        if self.fabric.world_size > 1:  # so that all processes see the same and stop together
            reduced = self.fabric.all_reduce(record.clone(), reduce_op="mean")
            assert isinstance(reduced, Tensor)
            record = reduced
        record = record.cpu().double()  # in this order: Apple's GPUs have no double precision
        bad = (~torch.isfinite(record)).nonzero()
        if len(bad):
            row, column = bad[0].tolist()
            step = self.step - len(record) + row + 1
            name, value = self.loss.names[column], float(record[row, column])
            raise NotFinite(f"The loss term {name} became {value} at step {step}.", step, name)
        values = record.mean(0).tolist()
        total = sum(
            self.weights.get(n, 1.0) * v for n, v in zip(self.loss.names, values, strict=True)
        )
        return {"total": total, **dict(zip(self.loss.names, values, strict=True))}

    def _check_weights(self) -> None:
        """A step can leave finite losses and broken weights; never let these be saved as good."""
        finite = torch.stack([torch.isfinite(p).all() for p in self.model.parameters()])
        if not bool(finite.all()):
            name = [n for n, _ in self.model.named_parameters()][int((~finite).nonzero()[0])]
            raise NotFinite(
                f"The weights {name} are no longer finite after step {self.step}.", self.step, name
            )

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything but the weights that continuing needs: tensors by name, and plain values."""
        names = [name for name, _ in self.model.named_parameters()]
        tensors = {f"generator/{k}": g.get_state() for k, g in self.generators.items()}
        for index, values in self._adam.state_dict()["state"].items():
            for key, value in values.items():
                tensors[f"adam/{names[index]}/{key}"] = value
        plain = {"scaler": self.fabric.strategy.precision.state_dict()}
        return tensors, plain

    def restore(
        self, epoch: int, step: int, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]
    ) -> None:
        """Continue from a `state()` taken after so many epochs and steps."""
        for name, stream in self.generators.items():
            stream.set_state(tensors[f"generator/{name}"])
        parameters = dict(self.model.named_parameters())
        names = list(parameters)
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            if key.startswith("adam/"):
                _, name, field = key.split("/")
                if value.shape == parameters[name].shape:
                    # in the weights' own memory layout, which the fused kernel runs through as it is
                    value = torch.empty_like(parameters[name].detach()).copy_(value)
                state.setdefault(names.index(name), {})[field] = value
        self._adam.load_state_dict(
            {"state": state, "param_groups": self._adam.state_dict()["param_groups"]}
        )
        self.fabric.strategy.precision.load_state_dict(dict(plain["scaler"]))
        self.epoch, self.step = epoch, step


def three_views(
    triplets: Views, x0: Tensor, draws: torch.Generator, share: slice
) -> tuple[Tensor, ...]:
    """x0, x1, x2 of some images of a batch (B, C, H, W), drawn as for the whole batch."""
    whole = share == slice(0, len(x0))
    if whole or not isinstance(triplets, Triplets):
        return tuple(view[share] for view in triplets(x0, draws, check=False)[:3])
    parameters = triplets.draw(len(x0), x0.shape[2], x0.shape[3], draws)
    return triplets.replay(x0[share], parameters[share], check=False)[:3]


def one_view(
    triplets: Views, x0: Tensor, draws: torch.Generator, share: slice
) -> tuple[Tensor, ...]:
    """Of the triplet of each image one picture: x0, x1 or x2, with probability 1/3 each.

    Only that one picture is computed, where the triplets are a warp: the matrices of all three are
    cheap, and among them is the identity, which leaves an image as it is.
    """
    choice = torch.randint(3, (len(x0),), generator=draws)
    rows = torch.arange(len(x0))
    if not isinstance(triplets, Triplets):
        views = torch.stack(triplets(x0, draws, check=False)[:3])
        return (views[choice.to(x0.device), rows.to(x0.device)][share],)
    height, width = x0.shape[2:]
    parameters = triplets.draw(len(x0), height, width, draws)
    x1, x2 = triplets.matrices(parameters, height, width)
    matrices = torch.stack((torch.eye(3, dtype=x1.dtype).expand_as(x1), x1, x2))[choice, rows]
    return (warp(x0[share], matrices[share], triplets.interpolation),)


class SharedNoise:
    """Noise for this process's share of a batch, drawn as for the whole batch.

    Codes come as (k·b, d): k blocks (the views), each of the b images of the share. The noise is
    drawn as (k·B, d) for all B images, and the share's rows of each block are used.
    """

    def __init__(self, stream: torch.Generator, share: slice, batch_size: int) -> None:
        self.stream, self.share, self.batch_size = stream, share, batch_size

    def __call__(self, like: Tensor) -> Tensor:
        blocks = len(like) // (self.share.stop - self.share.start)
        noise = torch.randn(
            (blocks * self.batch_size, *like.shape[1:]),
            generator=self.stream,
            device=self.stream.device,
            dtype=like.dtype,
        )
        rows = noise.view(blocks, self.batch_size, *like.shape[1:])[:, self.share]
        return rows.reshape(like.shape)


def adam(model: nn.Module, learning_rate: float) -> torch.optim.Adam:
    """Adam with the update of all weights in one kernel where torch has it for the device."""
    try:
        return torch.optim.Adam(model.parameters(), lr=learning_rate, fused=True)
    except RuntimeError:  # torch says so for devices (and old releases) without the fused kernel
        return torch.optim.Adam(model.parameters(), lr=learning_rate)


def _share(batch_size: int, fabric: Fabric) -> slice:
    """Which images of a batch this process works on."""
    if batch_size % fabric.world_size:
        raise ValueError(
            f"A batch of {batch_size} cannot be shared equally by {fabric.world_size} processes; "
            f"choose a multiple of {fabric.world_size}."
        )
    size = batch_size // fabric.world_size
    return slice(fabric.global_rank * size, (fabric.global_rank + 1) * size)


@contextmanager
def _quiet(processes: int) -> Iterator[None]:
    """Without a warning of data-parallel training that has no consequence here.

    It compares the strides of weights and gradients, and these differ in the first layer: in a
    dimension of size one, where a stride means nothing.
    """
    with warnings.catch_warnings():
        if processes > 1:
            warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides")
        yield


def _reproducible(device: torch.device) -> AbstractContextManager[Any]:
    """On a GPU: only algorithms that give the same bits every time. CPU kernels always do."""
    if device.type != "cuda":
        return nullcontext()
    return torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True)
