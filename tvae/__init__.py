"""The transformation-aware variational autoencoder (T-VAE): models, triplets, training, evaluation.

    import tvae

    images = tvae.data.load("mnist", source="embedded")
    model = tvae.TVAE(d=25, action="A")
    tvae.fit(model, images, triplets=tvae.Triplets(), epochs=8)

Names are looked up on first use, so that `import tvae` costs next to nothing; `dir(tvae)` lists them,
and `__init__.pyi` says where each is defined.
"""

import lazy_loader

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
