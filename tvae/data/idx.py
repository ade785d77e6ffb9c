"""The IDX format of MNIST and Fashion-MNIST, plain or compressed."""

import gzip
import lzma
import math
import struct
from pathlib import Path
from typing import Any

import torch

from tvae.files import reading

_MOST = 2**28  # bytes of an unpacked file, five times the training images of MNIST
_UNSIGNED_BYTE = 8  # the only IDX element type that the two data sets use


def decode(data: bytes | bytearray, where: str = "the data") -> torch.Tensor:
    """The uint8 tensor in IDX bytes; `where` names them in errors."""
    if len(data) < 4 or data[0] or data[1] or data[2] != _UNSIGNED_BYTE:
        raise ValueError(f"{where} is not an IDX file of unsigned bytes: wrong magic number.")
    dimensions = data[3]
    start = 4 + 4 * dimensions
    if len(data) < start:
        raise ValueError(f"{where} is cut off within its header.")
    shape = struct.unpack(f">{dimensions}I", data[4:start])
    if len(data) - start != math.prod(shape):
        raise ValueError(
            f"{where} is damaged: its header promises {math.prod(shape):,} values, "
            f"but {len(data) - start:,} follow."
        )
    # a bytearray, so that the tensor owns writable memory
    body = bytearray(memoryview(data)[start:])
    if not body:
        return torch.empty(shape, dtype=torch.uint8)
    return torch.frombuffer(body, dtype=torch.uint8).reshape(shape)


def read(path: Path) -> torch.Tensor:
    """The uint8 tensor in an IDX file; `.gz` and `.xz` are unpacked on the way."""
    unpack: Any = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    with reading(f"{path} is damaged and cannot be unpacked"), unpack(path, "rb") as file:
        data = file.read(_MOST + 1)
        if len(data) > _MOST:  # a few kilobytes can promise terabytes
            raise ValueError(f"it unpacks to more than {_MOST:,} bytes")
    return decode(data, str(path))
