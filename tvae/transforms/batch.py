"""What every source of triplets returns."""

from typing import Any, NamedTuple

from torch import Tensor


class TripletBatch(NamedTuple):
    """`x0`, `x1` = f(x0), `x2` = f⁻¹(x0), each (N, C, H, W), and the parameters of f."""

    x0: Tensor
    x1: Tensor
    x2: Tensor
    parameters: Any
