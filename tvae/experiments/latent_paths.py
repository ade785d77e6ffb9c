"""The chapter on the latent space: the path of a code while its image is turned, in numbers.

    path = LatentPath.of(Probe(model), images, steps=[4, 8, 12, 16, 20])
    path.angles                                   # -20, -16, ..., 0, ..., 20
    numbers = path.numbers(tvae.generator(0, "samples"))
    numbers["R²"].mean()

The images are turned as in the triplets: cropped and enlarged so that they fill the frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from tvae.evaluation.inference import Probe
from tvae.transforms import Parameters, Triplets

#: What `LatentPath.numbers` gives, in the order of a table.
NUMBERS = (
    "sampled",
    "step",
    "of another",
    "of the noise",
    "slope",
    "R²",
    "spread",
    "growing",
    "odd",
)


def rotations(images: torch.Tensor, steps: Sequence[float]) -> torch.Tensor:
    """The images (N, C, H, W) at the angles −steps, 0, +steps: (2·steps + 1, N, C, H, W).

    `steps` are degrees, positive and growing; the order is that of growing angles.
    """
    if not len(steps) or any(b <= a for a, b in zip((0.0, *steps), steps, strict=False)):
        raise ValueError(f"steps must be positive and growing angles, not {list(steps)}.")
    pairs = [
        Triplets().replay(images, Parameters.of("rotation", [float(angle)] * len(images)))
        for angle in steps
    ]
    return torch.stack([p.x2 for p in reversed(pairs)] + [images] + [p.x1 for p in pairs])


@dataclass(frozen=True, eq=False)
class LatentPath:
    """Codes of N images at an odd number of angles, the middle one 0.

    Args:
        angles: (A,) degrees.
        mean: (A, N, d) posterior means.
        logvar: (A, N, d) log-variances; None for points without noise, such as raw pixels.
    """

    angles: torch.Tensor
    mean: torch.Tensor
    logvar: torch.Tensor | None = None

    @classmethod
    def of(cls, probe: Probe | None, images: torch.Tensor, steps: Sequence[float]) -> LatentPath:
        """The path of the posterior of a model; without one (None), that of the pixels."""
        views = rotations(images, steps)
        angles = torch.tensor([*(-a for a in reversed(list(steps))), 0.0, *steps])
        if probe is None:
            return cls(angles, views.flatten(2))
        mean, logvar = probe.encode(views.flatten(0, 1))
        shape = views.shape[:2]
        return cls(angles, mean.unflatten(0, shape), logvar.unflatten(0, shape))

    @property
    def middle(self) -> int:
        """The index of the angle 0."""
        return len(self.angles) // 2

    def only(self, dimensions: torch.Tensor) -> LatentPath:
        """The same path in some of its dimensions; `dimensions` is a mask (d,) or indices."""
        logvar = None if self.logvar is None else self.logvar[..., dimensions]
        return replace(self, mean=self.mean[..., dimensions], logvar=logvar)

    def distances(self) -> torch.Tensor:
        """‖μ_α − μ_0‖, (A, N)."""
        return (self.mean - self.mean[self.middle]).norm(dim=-1)

    def sampled(self, generator: torch.Generator, samples: int = 10) -> torch.Tensor:
        """‖z − μ_0‖ for so many posterior samples z at each angle, (A, samples, N)."""
        if self.logvar is None:
            raise ValueError("A path without log-variances has nothing to sample from.")
        shape = (len(self.mean), samples, *self.mean.shape[1:])
        z = torch.randn(shape, generator=generator) * (0.5 * self.logvar[:, None]).exp()
        return (z + self.mean[:, None] - self.mean[self.middle]).norm(dim=-1)

    def parts(self) -> tuple[torch.Tensor, torch.Tensor]:
        """‖o‖² and ‖e‖² at the largest angle, (N,) each: the odd and the even part of the step."""
        first, centre, last = self.mean[0], self.mean[self.middle], self.mean[-1]
        odd, even = (last - first) / 2, (last + first) / 2 - centre
        return odd.square().sum(-1), even.square().sum(-1)

    def to_others(self, reference: int = 1000) -> torch.Tensor:
        """The mean distance of each image's code to the first `reference` other ones, (N,)."""
        points = self.mean[self.middle]
        count = min(reference, len(points))
        itself = (torch.arange(len(points)) < reference).to(points)  # met at distance 0
        return torch.cdist(points, points[:reference]).sum(1) / (count - itself)

    def numbers(self, generator: torch.Generator | None = None) -> dict[str, torch.Tensor]:
        """Numbers of the path of every image, (N,) each; `a` is the largest angle.

        - `step`: the mean of ‖μ_a − μ_0‖ and ‖μ_−a − μ_0‖;
        - `of another`: the step in units of the mean distance to other images;
        - `growing`: the part of the steps outwards in which ‖μ_α − μ_0‖ grows;
        - `odd`: ‖o‖² / (‖o‖² + ‖e‖²), 1 for a straight line through μ_0;
        - `slope` and `R²` of the least squares line of the distances on |α|.

        With log-variances the last two are those of sampled distances, and there are also

        - `sampled`: the mean sampled distance over all angles;
        - `of the noise`: the step in units of √tr Σ_0;
        - `spread`: the standard deviation of the sampled distances at one angle, mean over the
          angles, in units of the step.
        """
        d, m = self.distances(), self.middle
        step = (d[0] + d[-1]) / 2
        outwards = torch.cat((d[m:].diff(dim=0), d[: m + 1].flip(0).diff(dim=0)))
        odd, even = self.parts()
        found = {
            "step": step,
            "of another": step / self.to_others(),
            "growing": (outwards > 0).float().mean(0),
            "odd": odd / (odd + even),
        }
        y = d[:, None]
        if self.logvar is not None:
            if generator is None:
                raise ValueError("A path with log-variances needs a generator to sample with.")
            y = self.sampled(generator)
            found["sampled"] = y.mean((0, 1))
            found["of the noise"] = step / self.logvar[m].exp().sum(-1).sqrt()
            found["spread"] = y.std(1).mean(0) / step
        x = self.angles.abs().to(d)[:, None, None].expand(-1, y.shape[1], -1)
        x, y = (x - x.mean()).flatten(0, 1), (y - y.mean((0, 1))).flatten(0, 1)
        slope = (x * y).sum(0) / x.square().sum(0)
        found["slope"] = slope
        found["R²"] = slope.square() * x.square().sum(0) / y.square().sum(0)
        return {name: found[name] for name in NUMBERS if name in found}
