"""Random numbers by number: the n-th draw of a stream without drawing those before it.

AffNIST has two million images, and image k must look the same whether it is made alone, in a chunk
of a thousand, or on another machine. So its parameters are a function of (seed, k) alone. The
function is SplitMix64 (Steele, Lea & Flood 2014), a generator whose n-th output is a fixed mixing of
`start + n · golden ratio`; it needs nothing but 64-bit integers.
"""

import numpy as np

from tvae.seeding import derive

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def words(seed: int, name: str, numbers: np.ndarray) -> np.ndarray:
    """The outputs (uint64) at positions `numbers` (≥ 0) of the stream `name` of this seed."""
    with np.errstate(over="ignore"):  # arithmetic is modulo 2**64 on purpose
        z = np.uint64(derive(seed, name)) + (numbers.astype(np.uint64) + np.uint64(1)) * _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def uniforms(seed: int, name: str, numbers: np.ndarray, columns: int) -> np.ndarray:
    """(len(numbers), columns) float64 in [0, 1): row k belongs to number k, whatever the others."""
    positions = numbers.astype(np.uint64)[:, None] * np.uint64(columns) + np.arange(
        columns, dtype=np.uint64
    )
    # the upper 53 bits are the resolution of a float64 in [0, 1)
    return (words(seed, name, positions) >> np.uint64(11)) * 2.0**-53
