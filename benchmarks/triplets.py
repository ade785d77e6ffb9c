"""Triplets per second: ours, Augmentor's, kornia's and torchvision v2's, on the same pictures.

    python benchmarks/triplets.py [--batches 15] [--repeats 15] [--threads 1] [--busy]

One triplet is two views, by parameters drawn per picture and by their inverse. What each does:

- ours: `Triplets(interpolation="bilinear")(x0, generator)`, everything included: input check, draws,
  matrices, the warp. Bilinear because that is what kornia's warps do; the package's own default is
  bicubic;
- Augmentor: its operations on PIL pictures that are ready, with parameters that are ready, and
  without turning the results back into tensors;
- kornia, three times: the same triplets, our draws and matrices but its `warp_perspective`; that warp
  alone, by matrices that are ready; and its own `RandomAffine`, which draws a rotation and a shear
  in one and is run again with the parameters it drew for the second view;
- torchvision v2: `functional.perspective` picture by picture (it takes one matrix per call), with
  coefficients that are ready.

So the peers are spared work that ours does, all but the first of kornia's. One thread by default:
Pillow has only one, and per-core figures are steadier. The contenders take turns; a figure is the median over the repeats, a ratio the
median of the ratios of neighbouring turns.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import kornia
import torch
from _peers import add_timing, set_timing
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as vision

from tvae.data import load
from tvae.seeding import generator
from tvae.transforms import Triplets, get_family
from tvae.transforms.augmentor import operation

BATCH = 100


def contenders(x0: torch.Tensor) -> dict[str, Callable[[], object]]:
    """Name -> a function that makes the triplets of one batch."""
    n, _, height, width = x0.shape
    triplets, draws = Triplets(interpolation="bilinear"), generator(0, "triplets")
    reference = triplets(x0, generator(1, "triplets"))
    both = torch.cat(triplets.matrices(reference.parameters, height, width))
    expected = torch.cat((reference.x1, reference.x2))

    # kornia's matrices map input to output and count pixel centres from 0
    half = torch.tensor([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]], dtype=torch.float64)
    unshift = torch.linalg.inv(half)
    indices = torch.linalg.inv(unshift @ both @ half).float()
    affine = kornia.augmentation.RandomAffine(degrees=25.0, shear=25.0, p=1.0)

    coefficients = (both / both[:, 2:, 2:]).flatten(1)[:, :8].tolist()

    faithful = Triplets(geometry="augmentor").draw(n, height, width, generator(2, "triplets"))
    pictures = [Image.fromarray((x[0] * 255).round().to(torch.uint8).numpy()) for x in x0]
    work = []
    for picture, kind, values in zip(pictures, faithful.family, faithful.values, strict=True):
        family = get_family(faithful.families[int(kind)])
        forward = values[None, : len(family.parameters)]
        for given in (forward, family.inverse(forward)):
            work.append((operation(family.name, *given[0].tolist()), picture))

    def ours() -> object:
        return triplets(x0, draws)

    def by_augmentor() -> object:
        return [op.perform_operation([picture])[0] for op, picture in work]

    def by_kornia() -> torch.Tensor:
        return kornia.geometry.transform.warp_perspective(
            x0.repeat(2, 1, 1, 1), indices, (height, width), align_corners=True
        )

    def by_kornia_with_draws() -> torch.Tensor:
        _, drawn = triplets._draw(n, height, width, draws)
        forward = torch.linalg.inv(unshift @ drawn @ half).float()
        return kornia.geometry.transform.warp_perspective(
            x0.repeat(2, 1, 1, 1), forward, (height, width), align_corners=True
        )

    def by_kornia_affine() -> object:
        first = affine(x0)
        return first, affine(x0, params=affine._params)

    def by_torchvision() -> torch.Tensor:
        views = [
            vision.perspective(
                x0[k % n : k % n + 1],
                None,
                None,
                interpolation=InterpolationMode.BILINEAR,
                coefficients=coefficients[k],
            )
            for k in range(2 * n)
        ]
        return torch.cat(views)

    # the same work, or the comparison would be idle
    for other in (by_kornia, by_torchvision):
        off = (other() - expected).abs()
        assert off.mean() < 1e-3, f"{other.__name__} makes other pictures: {off.mean():.2g} apart"
    return {
        "ours": ours,
        "Augmentor": by_augmentor,
        "kornia, the same triplets": by_kornia_with_draws,
        "kornia, its warp alone": by_kornia,
        "kornia, its RandomAffine": by_kornia_affine,
        "torchvision v2, picture by picture": by_torchvision,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=15, help="batches of ours per turn")
    add_timing(parser, repeats=15)
    parser.set_defaults(threads=1)
    arguments = parser.parse_args()
    clock = set_timing(arguments)

    data = load("mnist", "test", source="embedded").take(BATCH)
    makers = contenders(data.floats())
    seconds: dict[str, list[float]] = {name: [] for name in makers}
    for make in makers.values():
        make()
    for _ in range(arguments.repeats):
        for name, make in makers.items():
            batches = arguments.batches if name == "ours" or "kornia" in name else 2
            start = clock()
            for _ in range(batches):
                make()
            seconds[name].append((clock() - start) / batches)

    print(data.provenance)
    print(f"batches of {BATCH}, {arguments.threads} thread(s), triplets per second")
    rates = {name: BATCH / statistics.median(times) for name, times in seconds.items()}
    targets = {
        "Augmentor": 5.0,
        "kornia, the same triplets": 2.5,
        "kornia, its RandomAffine": 2.0,
    }
    print(f"{'what':<56} {'ours':>10} {'peer':>10} {'ratio':>7} {'target':>8}")
    for name, times in seconds.items():
        if name == "ours":
            continue
        ratio = statistics.median(t / o for t, o in zip(times, seconds["ours"], strict=True))
        target = f">= {targets[name]:g}" if name in targets else "-"
        what = f"triplets/s against {name}"
        print(f"{what:<56} {rates['ours']:>10,.0f} {rates[name]:>10,.0f} {ratio:>7.1f} {target:>8}")


if __name__ == "__main__":
    main()
