"""Bring your own: triplets from a pair of functions that undo each other, exactly or nearly.

A function is called as `f(x)` or, if it has an argument named `generator`, as
`f(x, generator=...)`, with pictures (N, C, H, W), and returns pictures of the same shape.

**Randomness and replay.** For each batch (or each picture, with `per_image=True`) one seed is drawn
from the caller's generator, and *both* functions run from that same seed. So a random pair draws the
same parameters twice: `f` draws an angle and turns by it, `f_inverse` draws the same angle and turns
back. The seeds are the parameters that come with the triplets; replaying them repeats the draws.
Functions that take a generator get a fresh one with this seed. All others, such as the random
classes of torchvision v2, draw from torch's global generator: it is set to the seed for the call and
put back afterwards, so the rest of the program does not notice. Draws from Python's `random` or from
NumPy are out of reach: a function that makes such draws cannot be replayed.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from tvae.checks import check_images
from tvae.transforms.batch import TripletBatch


@dataclass(frozen=True, eq=False)
class Seeds:
    """The seeds from which a pair of functions ran: (1,) for a batch, (N,) for single pictures."""

    seeds: Tensor

    def __len__(self) -> int:
        return self.seeds.shape[0]


def _takes_generator(function: Callable[..., Tensor]) -> bool:
    try:
        return "generator" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # builtins without a signature
        return False


def _name(function: Callable[..., Tensor]) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)


class CallableTriplets:
    """Triplets from the user's own pair; called and replayed like `Triplets`.

    Args:
        f: Makes x1 from x0.
        f_inverse: Makes x2 from x0; the inverse of `f` for the same seed.
        per_image: Call the functions picture by picture, each with a seed of its own. Slower, but
            functions that draw once per call then draw once per picture.
    """

    def __init__(
        self,
        f: Callable[..., Tensor],
        f_inverse: Callable[..., Tensor],
        *,
        per_image: bool = False,
    ) -> None:
        for name, function in (("f", f), ("f_inverse", f_inverse)):
            if not callable(function):
                raise TypeError(f"{name} must be callable, not {type(function).__name__}.")
        self.f, self.f_inverse, self.per_image = f, f_inverse, bool(per_image)

    def __repr__(self) -> str:
        return f"CallableTriplets({_name(self.f)}, {_name(self.f_inverse)})"

    def __call__(
        self, x0: Tensor, generator: torch.Generator, *, check: bool = True
    ) -> TripletBatch:
        """Draw seeds from `generator` and return a `TripletBatch` with them as parameters."""
        count = x0.shape[0] if self.per_image else 1
        seeds = torch.randint(0, 2**62, (count,), generator=generator, device=generator.device)
        return self.replay(x0, Seeds(seeds.cpu()), check=check)

    def replay(self, x0: Tensor, parameters: Seeds, *, check: bool = True) -> TripletBatch:
        """The triplets of `x0` by the seeds of an earlier call."""
        if check:
            check_images(x0, name="x0")
        if not isinstance(parameters, Seeds):
            raise TypeError(
                "parameters must be the Seeds that came with a batch of triplets, "
                f"not {type(parameters).__name__}."
            )
        count = x0.shape[0] if self.per_image else 1
        if len(parameters) != count:
            raise ValueError(f"There must be {count} seed(s), not {len(parameters)}.")
        views = []
        for name, function in (("f", self.f), ("f_inverse", self.f_inverse)):
            parts = x0.split(1) if self.per_image else (x0,)
            made = [
                self._run(name, function, part, int(seed))
                for part, seed in zip(parts, parameters.seeds, strict=True)
            ]
            view = torch.cat(made) if self.per_image else made[0]
            if check:
                check_images(view, name=f"{name}(x0)")
            views.append(view)
        return TripletBatch(x0, views[0], views[1], parameters)

    @staticmethod
    def _run(name: str, function: Callable[..., Tensor], x: Tensor, seed: int) -> Tensor:
        if _takes_generator(function):
            out = function(x, generator=torch.Generator(device=x.device).manual_seed(seed))
        else:
            devices = [x.device] if x.device.type == "cuda" else []
            with torch.random.fork_rng(devices=devices):
                torch.random.default_generator.manual_seed(seed)
                if devices:
                    with torch.cuda.device(x.device):
                        torch.cuda.manual_seed(seed)
                out = function(x)
        if not isinstance(out, Tensor) or out.shape != x.shape or not out.is_floating_point():
            got = f"{out.dtype} {tuple(out.shape)}" if isinstance(out, Tensor) else type(out)
            raise ValueError(
                f"{name} must return floating point pictures of shape {tuple(x.shape)}, not {got}."
            )
        return out
