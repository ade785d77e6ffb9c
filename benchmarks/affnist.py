"""AffNIST images per second: made from MNIST, reduced to 28×28, as uint8, with checksums.

    python benchmarks/affnist.py            # 100,000 anchors and all 320,000 test images
    python benchmarks/affnist.py --quick    # a tenth of that

Timed is all that `tvae.data.affnist.regenerate` does: drawing parameters, finding the placements that
lose no ink, warping, rounding, reducing, the checksum. The full MNIST is used where
`TVAE_DATA` or the cache has it, else the sample in the package with more versions of each original.
Rates "per core" count processor time instead of time. Beside ours stand scipy's affine map, one image
at a time, and torch's own antialiased reduction for the two small matrix products.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from scipy import ndimage

from tvae.data import DataNotFound, Dataset, affnist
from tvae.data.resampling import resize

TARGET = 10_000  # images per second on two cores


def _originals(split: str) -> Dataset:
    try:
        return affnist.originals(split)
    except DataNotFound:
        return affnist.originals(split, "embedded")


def _rate(split: str, count: int) -> tuple[float, float]:
    """Images per second of time, and per second of processor time, of `count` images."""
    mnist = _originals(split)
    versions = max(affnist.VERSIONS, -(-count // len(mnist)))
    start, worked = time.perf_counter(), time.process_time()
    made = len(affnist.regenerate(mnist, count, versions=versions))
    if made != count:
        raise RuntimeError(f"{count:,} images were asked for, {made:,} came.")
    return made / (time.perf_counter() - start), made / (time.process_time() - worked)


def _scipy_rate(count: int) -> float:
    """The same maps by scipy, one image after another, at 40×40."""
    mnist = _originals("test")
    drawn = affnist.parameters(mnist.images, torch.arange(count))
    back = torch.linalg.inv(drawn.linear()).numpy()[:, ::-1, ::-1]
    shift = torch.stack([drawn.shift_y, drawn.shift_x], 1).numpy()
    sources = mnist.images[:, 0].float().numpy()
    start = time.process_time()
    for k, original in enumerate(drawn.original.tolist()):
        offset = 13.5 - back[k] @ (19.5 + shift[k])
        picture = ndimage.affine_transform(sources[original], back[k], offset, (40, 40), order=1)
        np.rint(picture).astype(np.uint8)
    return count / (time.process_time() - start)


def _reduction_rates(count: int) -> tuple[float, float]:
    """40×40 to 28×28 as bytes, block by block: two matrix products, torch's interpolate."""
    images = affnist.regenerate(_originals("test"), count, size=40).images
    rates = []
    for reduce in (
        lambda x: resize(x, 28),
        lambda x: F.interpolate(x.float(), 28, mode="bilinear", antialias=True).round_().byte(),
    ):
        reduce(images[:100])
        start = time.process_time()
        for block in images.split(256):
            reduce(block)
        rates.append(count / (time.process_time() - start))
    return rates[0], rates[1]


def main(quick: bool = False) -> list[dict[str, object]]:
    """Measure; return rows with the columns what, ours, peer or limit, ratio, target."""
    share, threads = 10 if quick else 1, torch.get_num_threads()
    rows: list[dict[str, object]] = []

    def row(what: str, ours: float, peer: float, target: str) -> None:
        rows.append(
            {
                "what": what,
                "ours": f"{ours:,.0f}/s",
                "peer or limit": f"{peer:,.0f}/s",
                "ratio": f"{ours / peer:.2f}",
                "target": target,
            }
        )

    anchors, queries = affnist.ANCHORS // share, 320_000 // share
    made, per_core = _rate("train", anchors)
    row(f"AffNIST anchors, {anchors:,} images", made, TARGET, ">= 1 (limit)")
    made, per_core = _rate("test", queries)
    row(f"AffNIST test, {queries:,} images", made, TARGET, ">= 1 (limit)")
    # per second of processor time: free of whatever else the machine is doing
    row("AffNIST test, per core", per_core, TARGET / 2, ">= 1 (limit)")
    torch.set_num_threads(1)
    row("scipy's map at 40x40, one by one, per core", per_core, _scipy_rate(5_000 // share), "-")
    row("reduction, torch's interpolate, per core", *_reduction_rates(20_000 // share), "-")
    torch.set_num_threads(threads)
    return rows


def _print(rows: list[dict[str, object]]) -> None:
    table = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    for line in table:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the images")
    parser.add_argument("--threads", type=int, default=None, help="torch's threads (default: all)")
    arguments = parser.parse_args()
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    _print(main(arguments.quick))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        2**20 if sys.platform == "darwin" else 2**10
    )
    print(f"{torch.get_num_threads()} threads, peak memory {peak:,.0f} MB")
