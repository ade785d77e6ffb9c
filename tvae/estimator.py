"""The T-VAE as a scikit-learn transformer: flat images in, posterior means out.

    pipeline = make_pipeline(TVAEEmbedding(d=25, epochs=8), KNeighborsClassifier(5))
    pipeline.fit(images.reshape(len(images), -1), labels).score(test_images, test_labels)

It is a thin layer over `tvae.fit` and `tvae.evaluation.embed` and follows scikit-learn's rules: nothing
happens in the constructor, what `fit` learns ends in an underscore, the same data and `random_state`
give the same result.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from tvae.checks import check_dimension
from tvae.evaluation.inference import BATCH, embed
from tvae.models import TVAE, VAE, evaluating
from tvae.networks import initialise, mlp
from tvae.seeding import generator
from tvae.training import History, fit
from tvae.transforms import CallableTriplets, Triplets

BUILT_IN = ((28, 28), (64, 64))  # sizes that have convolutional networks
HIDDEN = 256  # width of the fully connected networks for all other sizes


class TVAEEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Images to the posterior means of a T-VAE, or of a VAE, trained on them.

    X has shape (n_samples, n_features): every row is an image, flattened channel by channel, row by
    row. Images of 28×28 and 64×64 pixels get the convolutional networks of the paper, others a fully
    connected encoder and decoder with two hidden layers of 256.

    Args:
        d: the latent dimension, the number of columns that come out.
        action: the letter of the latent action (A, M, MA, T, N), or None for a plain VAE.
        residual: whether the action is in its residual form.
        image_shape: (height, width) or (channels, height, width). None means a square grey image, and
            "row" a single row of pixels, for features that are no picture at all; a plain VAE
            (action=None) is then the sensible choice.
        value_range: the values of black and white, such as (0, 255). Values outside are then an
            error. None takes the smallest and largest value seen in `fit`; `transform` clips to them.
        triplets: the transformations; None means `tvae.Triplets()`. With action=None they make the
            VAE a VAE+; None then means a VAE on the images as they are.
        epochs, learning_rate, halve_every, batch_size: as in `tvae.fit`. A batch never exceeds the
            number of images.
        random_state: seed of weights, batches, transformations and noise.
        device: "auto", "cpu", "cuda", ...

    After `fit` there are `model_` (the `TVAE` or `VAE`), `history_` (the loss terms by epoch),
    `image_shape_` (channels, height, width), `value_range_` and `n_features_in_`.
    """

    def __init__(
        self,
        d: int = 25,
        *,
        action: str | None = "A",
        residual: bool = False,
        image_shape: tuple[int, ...] | str | None = None,
        value_range: tuple[float, float] | None = None,
        triplets: Triplets | CallableTriplets | None = None,
        epochs: int = 8,
        learning_rate: float = 1e-3,
        halve_every: int | None = 2,
        batch_size: int = 100,
        random_state: int | np.random.RandomState | None = 0,
        device: str = "auto",
    ) -> None:
        self.d = d
        self.action = action
        self.residual = residual
        self.image_shape = image_shape
        self.value_range = value_range
        self.triplets = triplets
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.halve_every = halve_every
        self.batch_size = batch_size
        self.random_state = random_state
        self.device = device

    model_: VAE | TVAE
    history_: History
    image_shape_: tuple[int, int, int]
    value_range_: tuple[float, float]

    def fit(self, X: Any, y: Any = None) -> TVAEEmbedding:
        """Train on images X (n_samples, n_features); `y` is not looked at."""
        X = validate_data(self, X, dtype=(np.float64, np.float32, np.uint8))
        d = check_dimension(self.d)
        self.image_shape_ = self._shape(X.shape[1])
        self.value_range_ = self._range(X)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        model = self._model(d, seed)
        triplets = self.triplets
        if triplets is None and self.action is not None:
            triplets = Triplets()
        self.history_ = fit(
            model,
            self._images(X),
            triplets=triplets,
            epochs=self.epochs,
            learning_rate=self.learning_rate,
            halve_every=self.halve_every,
            batch_size=min(self.batch_size, len(X)),
            seed=seed,
            device=self.device,
            progress=False,
        )
        self.model_ = model
        self._n_features_out = model.content_size
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Posterior means (n_samples, d) of images X (n_samples, n_features), in X's precision."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=(np.float64, np.float32, np.uint8), reset=False)
        codes = embed(self.model_, self._images(X)).numpy()
        return codes.astype(np.float32 if X.dtype == np.float32 else np.float64, copy=False)

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Decode codes X (n_samples, d) to flat images (n_samples, n_features) in the range learnt.

        Where the pose is kept apart (`tvae.pose`), codes are contents, and they are drawn upright.
        """
        check_is_fitted(self)
        codes, size = np.asarray(X), self.model_.content_size
        if codes.ndim != 2 or codes.shape[1] != size or len(codes) == 0:
            raise ValueError(f"Codes must have shape (n_samples, {size}), not {codes.shape}.")
        codes = np.pad(codes, ((0, 0), (0, self.model_.d - size)))
        reference = next(self.model_.parameters())
        low, high = self.value_range_
        with evaluating(self.model_):
            parts = [
                self.model_.decode(torch.as_tensor(part).to(reference)).flatten(1).cpu().numpy()
                for part in np.array_split(codes, -(-len(codes) // BATCH))
            ]
        return low + (high - low) * np.concatenate(parts)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _shape(self, features: int) -> tuple[int, int, int]:
        """(C, H, W) of images with so many features."""
        given = self.image_shape
        if given is None:
            side = math.isqrt(features)
            if side * side != features:
                raise ValueError(
                    f"{features} features are not a square grey image: pass image_shape=(height, "
                    "width) or (channels, height, width), or 'row' if they are no image."
                )
            return 1, side, side
        if isinstance(given, str):
            if given != "row":
                raise ValueError(
                    f"image_shape must be (height, width), (channels, height, width), None or "
                    f"'row', not {given!r}."
                )
            return 1, 1, features
        shape = tuple(int(size) for size in given)
        shape = (1, *shape) if len(shape) == 2 else shape
        if len(shape) != 3 or min(shape) < 1 or math.prod(shape) != features:
            raise ValueError(
                f"X has {features} features, which image_shape={given!r} does not account for."
            )
        return shape

    def _range(self, X: NDArray[Any]) -> tuple[float, float]:
        """The values that become 0 and 1."""
        if self.value_range is None:
            low, high = float(X.min()), float(X.max())
            return low, high if high > low else low + 1.0  # one constant value becomes 0
        low, high = (float(value) for value in self.value_range)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError(
                f"value_range must be (black, white) with black < white, not {self.value_range!r}."
            )
        return low, high

    def _images(self, X: NDArray[Any]) -> torch.Tensor:
        """Rows of X as float32 images (n, C, H, W) in [0, 1]."""
        low, high = self.value_range_
        if self.value_range is not None and (X.min() < low or X.max() > high):
            raise ValueError(
                f"X must lie in value_range=({low:g}, {high:g}), but its values go from "
                f"{X.min():.4g} to {X.max():.4g}."
            )
        # in float64, so that white is 1 and black is 0 whatever the range
        scaled = (X.astype(np.float64) - low) / (high - low)
        images = torch.from_numpy(scaled.astype(np.float32)).clamp_(0, 1)
        return images.view(-1, *self.image_shape_)

    def _model(self, d: int, seed: int) -> VAE | TVAE:
        channels, height, width = shape = self.image_shape_
        draws = generator(seed, "init")
        options: dict[str, Any] = {"likelihood": "bernoulli", "generator": draws}
        if (height, width) in BUILT_IN:
            if channels > 1 or height == 64:
                options["likelihood"] = "gaussian"  # as everywhere in the package for such images
        else:
            pixels = math.prod(shape)
            encoder = nn.Sequential(nn.Flatten(), mlp(pixels, 2 * d, HIDDEN))
            decoder = nn.Sequential(mlp(d, pixels, HIDDEN), nn.Unflatten(1, shape))
            initialise(encoder, draws)
            initialise(decoder, draws)
            options.update(encoder=encoder, decoder=decoder)
        if self.action is None:
            return VAE(d, shape, **options)
        return TVAE(d, shape, action=self.action, residual=self.residual, **options)
