"""The transformation-aware variational autoencoder."""

__version__ = "0.1.0"
