"""Damage to files: bytes changed, cut, doubled, and values of JSON and YAML replaced by others."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

_NUMBERS = (
    0,
    1,
    2,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    2**63 - 1,
)
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 10**12, 10**400, 0.5, -0.0, 1e308, "", "x", "../../x", "é" * 40,
    "0" * 5000, [], {}, [[]], [None], {"": None}, {"a": {"b": {}}}, ["x"] * 50,
)  # fmt: skip
_DEEP = "<deep>"  # stands for brackets within brackets, see `damaged_text`


def _flip(data: bytearray, draw: random.Random) -> None:
    for _ in range(draw.choice((1, 1, 2, 8))):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def _overwrite(data: bytearray, draw: random.Random) -> None:
    at = draw.randrange(len(data))
    length = min(draw.choice((1, 4, 16, 200)), len(data) - at)
    data[at : at + length] = draw.randbytes(length)


def _cut_off(data: bytearray, draw: random.Random) -> None:
    del data[draw.randrange(len(data)) :]


def _remove(data: bytearray, draw: random.Random) -> None:
    at = draw.randrange(len(data))
    del data[at : at + draw.choice((1, 2, 8, 100))]


def _double(data: bytearray, draw: random.Random) -> None:
    at = draw.randrange(len(data))
    data[at:at] = data[at : at + draw.choice((1, 4, 30, 400))] * draw.choice((1, 2, 20))


def _add(data: bytearray, draw: random.Random) -> None:
    at = draw.randrange(len(data) + 1)
    data[at:at] = draw.randbytes(draw.choice((1, 2, 8, 100)))


def _number(data: bytearray, draw: random.Random) -> None:
    size = draw.choice((1, 2, 4, 8))
    # headers stand in front, and the directory of a zip archive at the end
    near = draw.choice((len(data), min(64, len(data)), min(600, len(data))))
    at = (
        draw.randrange(near)
        if draw.random() < 0.7
        else max(len(data) - 1 - draw.randrange(near), 0)
    )
    value = draw.choice(_NUMBERS) & (2 ** (8 * size) - 1)
    data[at : at + size] = value.to_bytes(size, draw.choice(("little", "big")))


_KINDS: Sequence[Callable[[bytearray, random.Random], None]] = (
    _flip, _flip, _overwrite, _cut_off, _remove, _double, _add, _number, _number,
)  # fmt: skip


def damaged(content: bytes, draw: random.Random) -> bytes:
    """`content` with one to three faults; now and then nothing of it is left, or only noise."""
    chance = draw.random()
    if chance < 0.01 or not content:
        return b"" if chance < 0.005 else draw.randbytes(draw.randrange(1, 300))
    data = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        if data:
            draw.choice(_KINDS)(data, draw)
    return bytes(data)


def damaged_json(value: Any, draw: random.Random) -> Any:
    """A copy of nested lists and dictionaries in which one to three places hold something else."""
    value = copy.deepcopy(value)
    for _ in range(draw.choice((1, 1, 2, 3))):
        places = _places(value)
        if not places:
            return copy.deepcopy(draw.choice(_VALUES))
        holder, key = draw.choice(places)
        chance = draw.random()
        if chance < 0.15:
            del holder[key]
        elif chance < 0.25 and isinstance(holder, dict):
            holder[draw.choice(("x", "", "é", str(key) + " "))] = holder.pop(key)
        elif chance < 0.35:
            other, elsewhere = draw.choice(places)
            if elsewhere in other if isinstance(other, dict) else elsewhere < len(other):
                holder[key] = copy.deepcopy(other[elsewhere])
        elif chance < 0.37:
            holder[key] = _DEEP
        else:
            holder[key] = copy.deepcopy(draw.choice(_VALUES))
    return value


def damaged_text(content: bytes, draw: random.Random) -> bytes:
    """JSON with other values in one to three places, now and then nested deeper than Python minds."""
    text = json.dumps(damaged_json(json.loads(content), draw))
    depth = draw.choice((100, 3000, 100_000))
    return text.replace(json.dumps(_DEEP), "[" * depth + "]" * depth).encode()


def _places(value: Any) -> list[tuple[Any, Any]]:
    """All places of nested lists and dictionaries: what holds something, and its key there."""
    found: list[tuple[Any, Any]] = []
    inside = [value]
    while inside:
        holder = inside.pop()
        if isinstance(holder, (dict, list)):
            pairs = holder.items() if isinstance(holder, dict) else enumerate(holder)
            for key, inner in list(pairs)[:200]:
                found.append((holder, key))
                inside.append(inner)
    return found
