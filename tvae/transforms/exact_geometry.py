"""Rotation and shear without the zoom: true inverses, at the price of black corners.

Same Convention and parameters as `tvae.transforms.families`. There the zoom that fills the frame makes
x2 the inverse view *times a zoom*; here a transformation followed by the one with the inverse
parameter is the identity, and each family is a one-parameter group: the values of two rotations add.
Translation, scale and the affine family have no zoom in the first place and are taken from there. A
tilt has no such form: opposite tilts always compose to a zoom.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from tvae.transforms.families import Family, along, linear_about_centre
from tvae.transforms.families import get_family as get_clean_family


def _rotation(values: Tensor, height: int, width: int) -> Tensor:
    """Counter-clockwise by `angle` about the centre."""
    angle = torch.deg2rad(values)
    cos, sin = angle.cos(), angle.sin()
    return linear_about_centre(torch.cat((cos, -sin, sin, cos), 1), height, width)


def _shear(values: Tensor, height: int, width: int) -> Tensor:
    """Slide rows (axis 0) or columns (axis 1) by tan(angle) per pixel, about the centre."""
    slide = along(torch.deg2rad(values[:, :1]).tan(), values[:, 1:])
    return linear_about_centre(F.pad(slide, (1, 1), value=1.0), height, width)


_WITHOUT_ZOOM = {"rotation": _rotation, "shear": _shear}


def get_family(name: str) -> Family:
    """The family of that name without a zoom."""
    family = get_clean_family(name)
    if name == "tilt":
        raise ValueError(
            "A tilt and its inverse leave a zoom behind, so it has no exact geometry; "
            "use geometry='clean', or rotation, shear, scale, translation or affine."
        )
    return replace(family, matrices=_WITHOUT_ZOOM.get(name, family.matrices))
