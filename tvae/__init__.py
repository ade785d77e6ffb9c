"""The transformation-aware variational autoencoder (T-VAE): models, triplets, training, evaluation.

    import tvae

    images = tvae.data.load("mnist", source="embedded")
    model = tvae.TVAE(d=25, action="A")
    tvae.fit(model, images, triplets=tvae.Triplets(), epochs=8)

Names are looked up on first use, so that `import tvae` costs next to nothing; `dir(tvae)` lists them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvae import (
        actions,
        data,
        evaluation,
        figures,
        ledger,
        models,
        networks,
        objective,
        paper,
        presets,
        report,
        seeding,
        training,
        transforms,
    )
    from tvae.estimator import TVAEEmbedding
    from tvae.evaluation import evaluate
    from tvae.models import TVAE, VAE
    from tvae.presets import RunConfig
    from tvae.released import pretrained
    from tvae.seeding import generator
    from tvae.training import fit, load, train
    from tvae.transforms import Triplets

__version__ = "0.1.0"

__all__ = [
    "TVAE",
    "VAE",
    "RunConfig",
    "TVAEEmbedding",
    "Triplets",
    "__version__",
    "actions",
    "data",
    "evaluate",
    "evaluation",
    "figures",
    "fit",
    "generator",
    "ledger",
    "load",
    "models",
    "networks",
    "objective",
    "paper",
    "presets",
    "pretrained",
    "report",
    "seeding",
    "train",
    "training",
    "transforms",
]

# where each name that is not a module of its own is defined
_HOME = {
    "TVAE": "models",
    "TVAEEmbedding": "estimator",
    "Triplets": "transforms",
    "VAE": "models",
    "RunConfig": "presets",
    "evaluate": "evaluation",
    "fit": "training",
    "generator": "seeding",
    "load": "training",
    "pretrained": "released",
    "train": "training",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tvae' has no attribute {name!r}")
    module = importlib.import_module(f"tvae.{_HOME.get(name, name)}")
    value = getattr(module, name) if name in _HOME else module
    globals()[name] = value  # found once, found for good
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
