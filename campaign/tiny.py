"""A data set of a few images, so that a run takes a second; workers import it by TVAE_PLUGINS."""

from __future__ import annotations

import torch

import tvae


@tvae.data.register("tiny")
def tiny(split: str) -> tvae.data.Dataset:
    """Forty digits of the embedded sample to train on, twenty to test."""
    return tvae.data.load("mnist", split, source="embedded").take(
        torch.arange(0, 400, 10) if split == "train" else torch.arange(0, 1000, 50)
    )
