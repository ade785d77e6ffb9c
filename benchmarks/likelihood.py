"""How fast log p(x) is estimated: importance sampling, ours against pythae's `get_nll`.

    python benchmarks/likelihood.py [--images 4] [--repeats 5] [--threads N] [--busy]

The same VAE (the networks of appendix E, d = 25, trained for a moment), the same images, 1000 draws for
each. pythae has PyTorch's own layers with the same weights, and gradients switched off, which its
method by itself leaves on; its draws go in batches of 100, its default, and in batches of 1000. Both
estimates have to agree before anything is timed.

The contenders take turns. A figure is the median over the turns, a ratio the median of the ratios
within a turn.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable

import torch
from _peers import add_timing, pythae_vae, set_timing

from tvae import data
from tvae.evaluation import log_likelihood
from tvae.models import VAE
from tvae.seeding import generator
from tvae.training import fit

D, SAMPLES, TARGET = 25, 1000, 3.0
CHUNKS = (100, 250, 500, 1000, 2000)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=int, default=4, help="images in a turn")
    add_timing(parser, repeats=5)
    options = parser.parse_args()
    clock = set_timing(options)

    train = data.load("mnist", "train", source="embedded")
    x = data.load("mnist", "test", source="embedded").take(options.images).floats()
    ours = VAE(D, generator=generator(0, "init"))
    fit(ours, train, steps=60, device="cpu", progress=False)
    theirs = pythae_vae(ours).eval()

    @torch.no_grad()
    def pythae(batch: int) -> float:
        return float(theirs.get_nll(x, n_samples=SAMPLES, batch_size=batch))

    found = log_likelihood(ours, x, SAMPLES, generator(0, "draws"))
    torch.manual_seed(0)  # pythae draws from the global stream
    other = pythae(100)
    error = 2**0.5 * found.monte_carlo_error  # of the difference
    assert abs(found.mean - other) < 4 * error, f"{found}, but pythae gives {other:.2f}"

    contenders: dict[str, Callable[[], object]] = {
        "ours": lambda: log_likelihood(ours, x, SAMPLES, generator(0, "draws")),
        "pythae": lambda: pythae(100),
        "pythae, batches of 1000": lambda: pythae(SAMPLES),
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(options.repeats):
        for name, work in contenders.items():
            start = clock()
            work()
            times[name].append((clock() - start) / len(x))

    print(
        f"log p(x), {options.threads} thread(s), median of {options.repeats} turns; "
        f"{found.mean:.2f} ± {found.monte_carlo_error:.2f} nats, pythae {other:.2f}"
    )
    print(f"{'what':<56}{'ours':>8}{'peer':>8}{'ratio':>7}  target")
    for name in list(contenders)[1:]:
        ratio = statistics.median(
            theirs / mine for theirs, mine in zip(times[name], times["ours"], strict=True)
        )
        verdict = "met" if ratio >= TARGET else "NOT MET"
        what = f"{SAMPLES} draws for an image, ms, against {name}"
        mine, peer = (1e3 * statistics.median(times[key]) for key in ("ours", name))
        print(f"{what:<56}{mine:>8.1f}{peer:>8.1f}{ratio:>7.2f}  ≥ {TARGET:g}: {verdict}")

    print("\nby chunk size, ms an image")
    by_chunk: dict[int, list[float]] = {chunk: [] for chunk in CHUNKS}
    for _ in range(options.repeats):
        for chunk in CHUNKS:
            start = clock()
            log_likelihood(ours, x, SAMPLES, generator(0, "draws"), chunk=chunk)
            by_chunk[chunk].append((clock() - start) / len(x))
    print("".join(f"{chunk:>9}" for chunk in CHUNKS))
    print("".join(f"{1e3 * statistics.median(by_chunk[chunk]):>9.1f}" for chunk in CHUNKS))


if __name__ == "__main__":
    main()
