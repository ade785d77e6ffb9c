"""Representations that every kNN table has to be read against: pixels, PCA, an untrained encoder.

Each has a method `embed` from images (N, C, H, W), uint8 or in [0, 1], to vectors (N, d), and so stands
wherever a trained model does:

    tvae.evaluate(PCA(train, d=25), test, train=train, anchors=anchors, queries=queries)
"""

import torch
from sklearn.decomposition import PCA as SklearnPCA

from tvae.checks import check_dimension, check_images, to_floats
from tvae.data import Dataset, pixels_of
from tvae.evaluation.inference import BATCH, embed
from tvae.models import VAE
from tvae.seeding import derive, generator


class Pixels:
    """No representation at all: the pixels in [0, 1]."""

    def embed(self, images: torch.Tensor) -> torch.Tensor:
        """(N, C, H, W) → (N, C·H·W)."""
        return to_floats(check_images(images), torch.float32).flatten(1)


class PCA:
    """The first d principal components of the images an encoder was trained on.

    Args:
        images: the training images, (N, C, H, W) or a data set; N ≥ d.
        d: how many components.
        seed: of scikit-learn's randomised solver, which only images of many pixels need.
    """

    def __init__(self, images: torch.Tensor | Dataset, d: int, *, seed: int = 0) -> None:
        tensor = pixels_of(images)
        self.d = check_dimension(d)
        self.shape = tuple(tensor.shape[1:])
        most = min(len(tensor), tensor[0].numel())
        if d > most:
            raise ValueError(
                f"{len(tensor)} images of {tensor[0].numel()} pixels have at most {most} principal "
                f"components, not {d}."
            )
        pixels = Pixels().embed(tensor.cpu()).numpy()
        fitted = SklearnPCA(d, random_state=derive(seed, "pca") % 2**32).fit(pixels)
        self.mean = torch.from_numpy(fitted.mean_).float()
        self.components = torch.from_numpy(fitted.components_).float()  # (d, C·H·W), orthonormal
        self.explained = float(fitted.explained_variance_ratio_.sum())  # share of the variance

    def embed(self, images: torch.Tensor) -> torch.Tensor:
        """(N, C, H, W) → (N, d)."""
        check_images(images, (self.shape[0], self.shape[1], self.shape[2]))
        return (Pixels().embed(images.cpu()) - self.mean) @ self.components.T


class Untrained:
    """The posterior means of an encoder as it is before its first step of training."""

    def __init__(self, d: int, shape: tuple[int, int, int] = (1, 28, 28), *, seed: int = 0) -> None:
        # the encoder is the same for either likelihood; a Gaussian is possible at every size
        self.vae = VAE(d, shape, likelihood="gaussian", generator=generator(seed, "init")).eval()
        self.d, self.shape = d, shape

    def embed(self, images: torch.Tensor) -> torch.Tensor:
        """(N, C, H, W) → (N, d)."""
        return embed(self.vae, images, batch=BATCH)
