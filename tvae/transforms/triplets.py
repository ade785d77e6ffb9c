"""Triplets (x0, x1, x2): a picture, a transformed view, and the view by the inverse parameters."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tvae.checks import check_images
from tvae.transforms import augmentor_geometry, exact_geometry
from tvae.transforms.batch import TripletBatch
from tvae.transforms.callables import CallableTriplets
from tvae.transforms.families import Family, get_family
from tvae.transforms.warp import INTERPOLATIONS, warp

GEOMETRIES = ("clean", "augmentor", "exact")


@dataclass(frozen=True, eq=False)
class Parameters:
    """Which transformation made x1 of each picture; all that is needed to make it again.

    Args:
        families: The names that `family` points into.
        family: (N,) int64, an index into `families`.
        values: (N, P) floating point, the family's parameters in its own columns; columns that
            the family does not use are zero.
    """

    families: tuple[str, ...]
    family: Tensor
    values: Tensor

    def __post_init__(self) -> None:
        n = self.family.shape[0]
        if self.family.ndim != 1 or self.values.ndim != 2 or self.values.shape[0] != n:
            raise ValueError(
                "family must have shape (N,) and values (N, P), not "
                f"{tuple(self.family.shape)} and {tuple(self.values.shape)}."
            )

    @classmethod
    def of(cls, name: str, values: Any) -> Parameters:
        """Parameters of one family, from values (N, P) or, for P = 1, from N numbers."""
        values = torch.as_tensor(values, dtype=torch.float64)
        values = values.unsqueeze(1) if values.ndim == 1 else values
        return cls((name,), torch.zeros(values.shape[0], dtype=torch.int64), values)

    def __len__(self) -> int:
        return self.family.shape[0]

    def __getitem__(self, index: Any) -> Parameters:
        """The parameters of some of the pictures: a slice, a list or a tensor of indices."""
        if isinstance(index, int):
            index = [index]
        return replace(self, family=self.family[index], values=self.values[index])

    def to(self, device: torch.device | str) -> Parameters:
        """The same parameters on another device."""
        return replace(self, family=self.family.to(device), values=self.values.to(device))

    def describe(self, n: int) -> str:
        """Picture n's transformation in words, such as "shear (angle 12.5, axis 1)"."""
        family = get_family(self.families[int(self.family[n])])
        values = ", ".join(
            f"{name} {float(value):.4g}"
            for name, value in zip(family.parameters, self.values[n], strict=False)
        )
        return f"{family.name} ({values})"


@dataclass(frozen=True)
class Triplets:
    """Draws a transformation for each picture and makes the two views.

    Per picture one of `families` is drawn, then its parameters; x1 is the view by these and x2 the
    view by the inverse parameters. All 2N views are one warp.

    Args:
        families: Names of families, see `tvae.transforms.families`; each is drawn equally often.
        geometry: "clean" (parameters are continuous, zooms isotropic and exact), "augmentor"
            (parameters and integer crops as in the Augmentor library; rotation, tilt, shear only) or
            "exact" (no zoom, so that the inverse parameters give the inverse; no tilt).
        interpolation: "bicubic", "bilinear" or "nearest".
        ranges: Strengths by family name where they should differ from the families' own: degrees
            for rotation and shear, a fraction of max(h, w) for tilt, of the size for translation,
            a factor minus one for scale.
        pairs: Whether images 0 and 1, 2 and 3, ... of a batch share their transformation: two images,
            one f, nothing else known. An even number of images is needed then.
    """

    families: tuple[str, ...] = ("rotation", "tilt", "shear")
    geometry: str = "clean"
    # bilinear warps blur: about 20 nats of an MNIST digit's cross-entropy are then the blur's alone
    interpolation: str = "bicubic"
    ranges: Mapping[str, float] = field(default_factory=dict)
    pairs: bool = False
    _members: tuple[Family, ...] = field(init=False, repr=False, compare=False)
    _columns: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.families, str):
            raise TypeError(
                f"families must be a tuple of names; for one family write ({self.families!r},)."
            )
        names = tuple(self.families)
        if not names:
            raise ValueError("families must name at least one family of transformations.")
        if len(set(names)) != len(names):
            raise ValueError(f"families must name each family once, not {', '.join(names)}.")
        if self.geometry not in GEOMETRIES:
            raise ValueError(
                f"geometry must be one of {', '.join(GEOMETRIES)}, not {self.geometry!r}."
            )
        if self.interpolation not in INTERPOLATIONS:
            raise ValueError(
                f"interpolation must be one of {', '.join(INTERPOLATIONS)}, "
                f"not {self.interpolation!r}."
            )
        lookup = {"augmentor": augmentor_geometry.get_family, "exact": exact_geometry.get_family}
        members = tuple(lookup.get(self.geometry, get_family)(name) for name in names)
        given = dict(self.ranges)
        unknown = sorted(set(given) - set(names))
        if unknown:
            raise ValueError(
                f"ranges has an entry for {', '.join(unknown)}, which is not among the families "
                f"{', '.join(names)}."
            )
        ranges = {f.name: f.check_range(given.get(f.name, f.range)) for f in members}
        object.__setattr__(self, "families", names)
        object.__setattr__(self, "ranges", ranges)
        object.__setattr__(self, "_members", members)
        object.__setattr__(self, "_columns", max(len(f.parameters) for f in members))

    def __hash__(self) -> int:
        return hash(json.dumps(self.settings(), sort_keys=True))

    def settings(self) -> dict[str, Any]:
        """All settings as JSON-able values; `Triplets(**settings)` gives an equal object."""
        return {
            "families": list(self.families),
            "geometry": self.geometry,
            "interpolation": self.interpolation,
            "ranges": dict(self.ranges),
            "pairs": self.pairs,
        }

    @staticmethod
    def from_callables(
        f: Callable[..., Tensor], f_inverse: Callable[..., Tensor], *, per_image: bool = False
    ) -> CallableTriplets:
        """Triplets from your own pair of functions, see `tvae.transforms.callables`."""
        return CallableTriplets(f, f_inverse, per_image=per_image)

    def __call__(
        self, x0: Tensor, generator: torch.Generator, *, check: bool = True
    ) -> TripletBatch:
        """Draw a transformation for each picture of `x0` (N, C, H, W) and return the triplets.

        Everything is drawn from `generator`, on its own device, which may differ from the
        pictures'; the parameters stay there, only the matrices move. `check=False` skips the look
        at every pixel (finite, in [0, 1]) for callers who have looked already.
        """
        _check_images(x0, check)
        n, _, height, width = x0.shape
        parameters, matrices = self._draw(n, height, width, generator)
        return self._views(x0, matrices, parameters)

    def draw(self, n: int, height: int, width: int, generator: torch.Generator) -> Parameters:
        """Parameters for n pictures of that size, the same that a call would draw."""
        return self._draw(n, height, width, generator)[0]

    def _draw(
        self, n: int, height: int, width: int, generator: torch.Generator
    ) -> tuple[Parameters, Tensor]:
        device = generator.device
        # Apple's GPUs have no float64
        dtype = torch.float32 if device.type == "mps" else torch.float64
        # One call draws for all families: the first number chooses, the others become parameters.
        if self.pairs and n % 2:
            raise ValueError(f"Pairs need an even number of images, not {n}.")
        drawn = n // 2 if self.pairs else n
        uniform = torch.rand(
            drawn, 1 + self._columns, generator=generator, device=device, dtype=dtype
        )
        if self.pairs:
            uniform = uniform.repeat_interleave(2, 0)
        family = (uniform[:, 0] * len(self.families)).long()

        def draw(member: Family, uniform: Tensor) -> Tensor:
            uniform = uniform[:, 1 : 1 + len(member.parameters)]
            return member.draw(uniform, self.ranges[member.name], height, width)

        values, matrices = self._by_family(family, uniform, draw, height, width)
        return Parameters(self.families, family, values), matrices

    def replay(self, x0: Tensor, parameters: Parameters, *, check: bool = True) -> TripletBatch:
        """The triplets of `x0` by given parameters, such as those an earlier call returned.

        With the pictures and the settings of that call the result is the same bit for bit.
        """
        _check_images(x0, check)
        if isinstance(parameters, Parameters) and len(parameters) != x0.shape[0]:
            raise ValueError(
                f"There are {x0.shape[0]} images but parameters for {len(parameters)}."
            )
        matrices = torch.cat(self.matrices(parameters, x0.shape[2], x0.shape[3]))
        return self._views(x0, matrices, parameters)

    def matrices(self, parameters: Parameters, height: int, width: int) -> tuple[Tensor, Tensor]:
        """The matrices of x1 and of x2, two (N, 3, 3), for pictures of that size."""
        if not isinstance(parameters, Parameters):
            raise TypeError(
                "parameters must be the Parameters that came with a batch of triplets, "
                f"not {type(parameters).__name__}."
            )
        unknown = [name for name in parameters.families if name not in self.families]
        if unknown:
            raise ValueError(
                f"The parameters are of the families {', '.join(parameters.families)}, but these "
                f"triplets know only {', '.join(self.families)}."
            )
        if not bool(torch.isfinite(parameters.values).all()):
            raise ValueError("The parameters contain values that are not finite.")
        index = parameters.family
        if len(index) and not 0 <= int(index.min()) <= int(index.max()) < len(parameters.families):
            raise ValueError(
                f"The family indices must lie between 0 and {len(parameters.families) - 1}."
            )
        own = [self.families.index(name) for name in parameters.families]
        family = torch.tensor(own, device=index.device)[index]

        def given(member: Family, values: Tensor) -> Tensor:
            p = len(member.parameters)
            if values.shape[1] < p:
                raise ValueError(
                    f"{member.name!r} needs {p} values per image "
                    f"({', '.join(member.parameters)}), not {values.shape[1]}."
                )
            if self.geometry == "augmentor":
                augmentor_geometry.check_values(member.name, values[:, :p])
            return values[:, :p]

        _, both = self._by_family(family, parameters.values, given, height, width)
        return both[: len(parameters)], both[len(parameters) :]

    def _by_family(
        self,
        family: Tensor,
        source: Tensor,
        values_of: Callable[[Family, Tensor], Tensor],
        height: int,
        width: int,
    ) -> tuple[Tensor, Tensor]:
        """Values (N, P) and matrices (2N, 3, 3), those of x1 first; the only loop is over families.

        The rows of `source` are sorted by family, so that each family works on a block of rows,
        for which `values_of` gives the values; at the end all go back to their places.
        """
        n, columns = family.shape[0], self._columns
        order = family.argsort(stable=True)
        counts = torch.bincount(family, minlength=len(self._members)).tolist()
        values, matrices = [], []
        for member, block in zip(self._members, source[order].split(counts), strict=True):
            if block.shape[0] == 0:
                continue
            forward = values_of(member, block)
            both = torch.cat((forward, member.inverse(forward)))
            matrices.append(member.matrices(both, height, width).view(2, -1, 9))
            unused = columns - forward.shape[1]
            values.append(F.pad(forward, (0, unused)) if unused else forward)
        placed = torch.empty(n, columns, device=source.device, dtype=source.dtype)
        stacked = torch.empty(2, n, 9, device=source.device, dtype=source.dtype)
        placed.index_copy_(0, order, torch.cat(values))
        stacked.index_copy_(1, order, torch.cat(matrices, 1))
        return placed, stacked.view(2 * n, 3, 3)

    def _views(self, x0: Tensor, matrices: Tensor, parameters: Parameters) -> TripletBatch:
        x1, x2 = warp(x0.repeat(2, 1, 1, 1), matrices, self.interpolation).chunk(2)
        return TripletBatch(x0, x1, x2, parameters)


def _check_images(x0: Tensor, every_pixel: bool) -> None:
    if every_pixel:
        check_images(x0, name="x0")
    if not x0.is_floating_point():
        raise TypeError(f"x0 must be floating point with values in [0, 1], not {x0.dtype}.")
    if x0.ndim != 4:
        raise ValueError(f"x0 must have shape (N, C, H, W), not {tuple(x0.shape)}.")
