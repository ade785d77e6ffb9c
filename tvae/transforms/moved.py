"""Triplets of images that were moved first, so that no image is always centred and of one size.

    Moved(Triplets(("affine",), "exact"))

Photographs of handwriting do not come centred. Here x0 itself is an image of the data set at a random
place, smaller or larger, leaning a little: moved by a map of the family "affine". The views x1 and x2 are
then those of the moved image; all three are looked up in the original, so that nothing is blurred twice.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tvae.transforms.batch import TripletBatch
from tvae.transforms.families import get_family
from tvae.transforms.triplets import Triplets
from tvae.transforms.warp import warp

#: From and to, in the units of the family "affine"; mostly smaller, so that there is room to move.
RANGES = {
    "right": (-1.0, 1.0),
    "down": (-1.0, 1.0),
    "turn": (-0.6, 0.6),
    "grow": (-2.5, 0.5),
    "stretch": (-0.5, 0.5),
    "slant": (-0.5, 0.5),
}


@dataclass(frozen=True)
class Moved:
    """Draws a place for each picture, then its triplet by `triplets`; a source of views like these."""

    triplets: Triplets

    def settings(self) -> dict[str, Any]:
        """All settings as JSON-able values."""
        return {"moved": True, **self.triplets.settings()}

    def places(self, n: int, height: int, width: int, generator: torch.Generator) -> Tensor:
        """Matrices (n, 3, 3), output to input, that move n pictures of that size at random."""
        dtype = torch.float32 if generator.device.type == "mps" else torch.float64
        shape = (n, len(RANGES))
        uniform = torch.rand(shape, generator=generator, device=generator.device, dtype=dtype)
        low, high = uniform.new_tensor(list(RANGES.values())).unbind(1)
        return get_family("affine").matrices(low + (high - low) * uniform, height, width)

    def __call__(
        self, x0: Tensor, generator: torch.Generator, *, check: bool = True
    ) -> TripletBatch:
        """The moved picture of each of `x0` (N, C, H, W), and its two views; see `Triplets`."""
        n, _, height, width = x0.shape
        places = self.places(n, height, width, generator)
        if check:  # with the errors of the triplets themselves
            self.triplets(x0[:1], torch.Generator().manual_seed(0))
        parameters = self.triplets.draw(n, height, width, generator)
        first, second = self.triplets.matrices(parameters, height, width)
        matrices = torch.cat((places, places @ first, places @ second))
        views = warp(x0.repeat(3, 1, 1, 1), matrices, self.triplets.interpolation)
        moved, x1, x2 = views.chunk(3)
        return TripletBatch(moved, x1, x2, parameters)
