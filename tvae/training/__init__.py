"""Training: the configuration of a run, `fit` and `train`, checkpoints, devices, histories."""

from tvae.training.configuration import PRESETS, Preset, RunConfig, get_preset
from tvae.training.devices import pick_device
from tvae.training.fitting import fit
from tvae.training.history import History
from tvae.training.loop import NotFinite
from tvae.training.run import Run, train

__all__ = [
    "PRESETS",
    "History",
    "NotFinite",
    "Preset",
    "Run",
    "RunConfig",
    "fit",
    "get_preset",
    "pick_device",
    "train",
]
