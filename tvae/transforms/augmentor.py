"""The Augmentor library itself, with given instead of drawn parameters.

Augmentor's operations draw their parameters inside `perform_operation`, from Python's `random`. The
subclasses here run that very code, but let it draw from a script that answers with given numbers, so
that a view and the view by the inverse parameters can be made with the library that the paper used.
Nothing of its geometry is written again here; `tvae.transforms.augmentor_geometry` is that, and
`recorded_matrix` reads off what reaches Pillow, so that the two can be compared.

    from tvae.transforms.augmentor import Shear

    view, = Shear(angle=12, axis=0).perform_operation([image])       # a PIL image
    inverse, = Shear(angle=-12, axis=0).perform_operation([image])
"""

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from Augmentor import Operations
from PIL import Image
from torch import Tensor

from tvae.checks import check_images
from tvae.transforms.batch import TripletBatch
from tvae.transforms.families import get_family
from tvae.transforms.triplets import Parameters, Triplets

# The script stands in for a module's global while an operation runs: one at a time.
_LOCK = threading.RLock()


class _Script:
    """Stands in for the module `random`: answers in order, and only what could have been drawn."""

    def __init__(self, answers: list[Any]) -> None:
        self._answers = list(answers)

    def _next(self, question: str) -> Any:
        if not self._answers:
            raise RuntimeError(f"Augmentor asked for {question}, for which there is no answer.")
        return self._answers.pop(0)

    def randint(self, low: int, high: int) -> int:
        answer = self._next(f"randint({low}, {high})")
        if not low <= answer <= high:
            raise ValueError(f"Augmentor draws whole numbers from {low} to {high}, not {answer}.")
        return answer

    def uniform(self, low: float, high: float) -> float:
        answer = self._next(f"uniform({low}, {high})")
        if not low <= answer <= high:
            raise ValueError(f"Augmentor draws numbers from {low} to {high}, not {answer}.")
        return answer

    def choice(self, options: list[Any]) -> Any:
        return options[self._next(f"choice({options})")]


@contextmanager
def _answering(answers: list[Any]) -> Iterator[None]:
    with _LOCK, warnings.catch_warnings():
        # Augmentor solves for the perspective with np.matrix, which NumPy advises against
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        script = _Script(answers)
        with patch.object(Operations, "random", script):
            yield
        if script._answers:
            raise RuntimeError(f"Augmentor did not ask for {script._answers}.")


def _whole(name: str, value: float) -> int:
    if value != int(value):
        raise ValueError(f"Augmentor takes a whole number as {name}, not {value}.")
    return int(value)


class _Scripted:
    """Before one of Augmentor's operations: lets it draw `answers`."""

    answers: list[Any]

    def perform_operation(self, images: list[Image.Image]) -> list[Image.Image]:
        with _answering(self.answers):
            return super().perform_operation(images)  # type: ignore[misc]


class Rotate(_Scripted, Operations.RotateRange):
    """`RotateRange` by `angle` whole degrees, counter-clockwise if positive."""

    def __init__(self, angle: float) -> None:
        angle = _whole("angle", angle)
        super().__init__(1, abs(angle), abs(angle))
        self.answers = [min(angle, 0), max(angle, 0), 0 if angle < 0 else 1]


class Tilt(_Scripted, Operations.Skew):
    """`Skew` of type TILT: `amount` pixels, axis 0 (left, or right if negative) or 1."""

    def __init__(self, amount: float, axis: float) -> None:
        super().__init__(1, "TILT", 1)
        amount, axis = _whole("amount", amount), _whole("axis", axis)
        self.answers = [abs(amount), 2 * axis + (0 if amount > 0 else 1)]


class Shear(_Scripted, Operations.Shear):
    """`Shear` by `angle` whole degrees along axis 0 (x) or 1 (y)."""

    def __init__(self, angle: float, axis: float) -> None:
        angle, axis = _whole("angle", angle), _whole("axis", axis)
        if angle == 0:
            raise ValueError("Augmentor never shears by 0°.")
        super().__init__(1, abs(angle), abs(angle))
        # Augmentor adds one to what it draws, unless that is −1
        self.answers = [angle if angle == -1 else angle - 1, axis]


_OPERATIONS: dict[str, Callable[..., Any]] = {"rotation": Rotate, "tilt": Tilt, "shear": Shear}


def operation(name: str, *values: float) -> Any:
    """Augmentor's operation for the family `name` at these values."""
    if name not in _OPERATIONS:
        raise ValueError(f"Augmentor's operations here are {', '.join(_OPERATIONS)}, not {name!r}.")
    return _OPERATIONS[name](*values)


def recorded_matrix(op: Any, height: int, width: int) -> np.ndarray:
    """The matrix (3, 3), output to input, that `op` really applies to pictures of this size.

    The operation runs on a blank picture while every call of `Image.transform`, `Image.crop` and
    `Image.resize` is recorded; the matrix is their product, scaled so that its last entry is 1.
    """
    total = np.eye(3)
    originals = {name: getattr(Image.Image, name) for name in ("transform", "crop", "resize")}

    def transform(self: Any, size: Any, method: Any, data: Any = None, *rest: Any, **named: Any):
        nonlocal total
        row = [*np.asarray(data, dtype=float), 0, 0, 1][:9]
        if len(data) == 8:
            row = [*np.asarray(data, dtype=float), 1]
        total = total @ np.reshape(row, (3, 3))
        return originals["transform"](self, size, method, data, *rest, **named)

    def crop(self: Any, box: Any = None):
        nonlocal total
        left, top = round(box[0]), round(box[1])  # Pillow rounds the box
        total = total @ [[1, 0, left], [0, 1, top], [0, 0, 1]]
        return originals["crop"](self, box)

    def resize(self: Any, size: Any, *rest: Any, **named: Any):
        nonlocal total
        total = total @ np.diag([self.width / size[0], self.height / size[1], 1])
        return originals["resize"](self, size, *rest, **named)

    with _LOCK, patch.multiple(Image.Image, transform=transform, crop=crop, resize=resize):
        op.perform_operation([Image.new("L", (width, height))])
    return total / total[2, 2]


def _to_pil(image: Tensor) -> Image.Image:
    array = (image * 255).round().to(torch.uint8).permute(1, 2, 0).cpu().numpy()
    return Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)


def _from_pil(image: Image.Image, like: Tensor) -> Tensor:
    array = np.asarray(image)
    array = array[:, :, None] if array.ndim == 2 else array
    return (torch.from_numpy(array.copy()).permute(2, 0, 1).to(like) / 255).to(like)


class AugmentorTriplets:
    """Triplets made by the library, one picture at a time; same interface as `Triplets`.

    The parameters are drawn as by `Triplets(geometry="augmentor")`: the same generator gives the
    same transformations, so that two batches can be compared picture by picture.

    Args:
        families: Any of rotation, tilt and shear.
    """

    def __init__(self, families: tuple[str, ...] = ("rotation", "tilt", "shear")) -> None:
        self.closed_form = Triplets(families, geometry="augmentor")

    def __call__(
        self, x0: Tensor, generator: torch.Generator, *, check: bool = True
    ) -> TripletBatch:
        """Draw parameters from `generator` and let Augmentor make the views of `x0` (N, C, H, W)."""
        n, _, height, width = x0.shape
        parameters = self.closed_form.draw(n, height, width, generator)
        return self.replay(x0, parameters, check=check)

    def replay(self, x0: Tensor, parameters: Parameters, *, check: bool = True) -> TripletBatch:
        """Augmentor's views of `x0` by given parameters."""
        if check:
            check_images(x0, name="x0")
        if x0.shape[1] not in (1, 3):
            raise ValueError(f"Augmentor needs 1 or 3 channels, not {x0.shape[1]}.")
        if len(parameters) != x0.shape[0]:
            raise ValueError(
                f"There are {x0.shape[0]} images but parameters for {len(parameters)}."
            )
        views: tuple[list[Tensor], list[Tensor]] = ([], [])
        kinds = parameters.family.tolist()
        for image, kind, values in zip(x0, kinds, parameters.values, strict=True):
            family = get_family(parameters.families[kind])
            forward = values[None, : len(family.parameters)]
            picture = _to_pil(image)
            for view, given in zip(views, (forward, family.inverse(forward)), strict=True):
                made = operation(family.name, *given[0].tolist()).perform_operation([picture])
                view.append(_from_pil(made[0], image))
        return TripletBatch(x0, torch.stack(views[0]), torch.stack(views[1]), parameters)
