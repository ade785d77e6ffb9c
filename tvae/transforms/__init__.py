"""Transformations of pictures: families of homographies, one batched warp, triplets, films."""

from tvae.transforms.batch import TripletBatch
from tvae.transforms.callables import CallableTriplets
from tvae.transforms.families import (
    Family,
    affine_about_centre,
    families,
    get_family,
    homographies,
    register,
)
from tvae.transforms.moved import Moved
from tvae.transforms.sequences import Sequences, windows
from tvae.transforms.triplets import Parameters, Triplets
from tvae.transforms.warp import warp

__all__ = [
    "CallableTriplets",
    "Family",
    "Moved",
    "Parameters",
    "Sequences",
    "TripletBatch",
    "Triplets",
    "affine_about_centre",
    "families",
    "get_family",
    "homographies",
    "register",
    "warp",
    "windows",
]
