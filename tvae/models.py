"""The graphical models: the VAE, and the transformation-aware VAE (T-VAE) of section 2.

    VAE     z ~ π(z),  x ~ p_θ(x|z);  inferred by q_φ(z|x)
    T-VAE   z ~ π(z),  z₁ = r_χ(z, τ),  z₂ = r_χ(z, τ⁻¹),  z₀ = z,  xᵢ ~ p_θ(xᵢ|zᵢ);
            inferred by q_φ(zᵢ|xᵢ), q_ψ(z|z₁, z₂) and τ = f_ξ(z₁, z₂)

VAE+ is no model of its own: it is a `VAE` trained on single images drawn from the augmented set.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import nn

from tvae import actions
from tvae import motions as motions  # registers the actions E, L, W and G
from tvae import pose as pose  # registers the actions P and AP
from tvae.checks import check_dimension, check_images, check_whole, to_floats
from tvae.networks import HIDDEN, default_networks, initialise, mlp

LIKELIHOODS = ("bernoulli", "gaussian")
Shape = tuple[int, int, int]
Noise = Callable[[torch.Tensor], torch.Tensor]


class Views(Protocol):
    """A source of triplets: `tvae.Triplets`, or one made of functions of your own."""

    def __call__(self, x0: torch.Tensor, generator: torch.Generator, *, check: bool = True) -> Any:
        """x0, x1, x2 (N, C, H, W) and the parameters of the transformations, for images x0."""
        ...


def reparameterise(
    mean: torch.Tensor, logvar: torch.Tensor, generator: torch.Generator | Noise | None
) -> torch.Tensor:
    """A sample of N(mean, exp(logvar)) that gradients pass through; without a generator, the mean.

    The noise is drawn on the generator's device and moved, so that a generator on the CPU gives the
    same noise wherever the model runs. A function in place of the generator is called with `mean`
    and returns the noise itself.
    """
    if generator is None:
        return mean
    if isinstance(generator, torch.Generator):
        noise = torch.randn(
            mean.shape, generator=generator, device=generator.device, dtype=mean.dtype
        )
    else:
        noise = generator(mean)
    noise = noise.to(mean.device)
    return torch.addcmul(mean, torch.exp(0.5 * logvar), noise)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode and no gradients while the block runs; every module's mode is put back.

    It is not torch's inference mode: what a network keeps from such a pass it can still train with.
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training


class VAE(nn.Module):
    """A variational autoencoder with a standard normal prior and a diagonal Gaussian posterior.

    Args:
        d: the latent dimension.
        shape: the images' (C, H, W). Built-in networks exist for 28×28 and 64×64.
        likelihood: "bernoulli" (the decoder gives logits; targets in [0, 1]) or "gaussian" (the
            decoder gives the mean; the standard deviation is `sigma`).
        sigma: the fixed standard deviation of the Gaussian observation model.
        width: channels of the first layer of the built-in networks for 64×64 images, 32 if None.
        encoder: a module (N, C, H, W) → (N, 2d) in place of the built-in one.
        decoder: a module (N, d) → (N, C, H, W) in place of the built-in one.
        generator: if given, the built-in networks' weights are drawn from it; otherwise PyTorch
            initialises them as it does any module.

    `triplets` are the views that the model was trained on, where it was loaded or trained by this
    package: what `tvae.evaluate` measures it on. None if there were none or nobody knows.
    """

    def __init__(
        self,
        d: int,
        shape: Shape = (1, 28, 28),
        *,
        likelihood: str = "bernoulli",
        sigma: float = 0.1,
        width: int | None = None,
        encoder: nn.Module | None = None,
        decoder: nn.Module | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.d = check_dimension(d)
        self.shape = _check_shape(shape)
        if likelihood not in LIKELIHOODS:
            raise ValueError(f"likelihood must be 'bernoulli' or 'gaussian', not {likelihood!r}.")
        if not sigma > 0:
            raise ValueError(f"sigma must be positive, not {sigma!r}.")
        self.likelihood = likelihood
        self.sigma = float(sigma)
        self.width = width
        self.triplets: Views | None = None
        if encoder is None or decoder is None:
            built_in = default_networks(d, self.shape, width)
            if likelihood == "bernoulli" and isinstance(built_in[1][-1], nn.Sigmoid):  # type: ignore[index]
                raise ValueError(
                    "The built-in 64×64 decoder gives the mean of a Gaussian: "
                    "use likelihood='gaussian', or pass a decoder that gives logits."
                )
            if generator is not None:
                for network, custom in zip(built_in, (encoder, decoder), strict=True):
                    if custom is None:
                        initialise(network, generator)
        self._custom = encoder is not None or decoder is not None
        self.encoder = built_in[0] if encoder is None else encoder
        self.decoder = built_in[1] if decoder is None else decoder
        if self._custom:
            self._check_networks()

    def _check_networks(self) -> None:
        """Pass one blank image and one zero code through, and say at once if a shape is off."""
        with evaluating(self):
            parameter = next(self.parameters(), torch.zeros(()))
            moments = self.encoder(parameter.new_zeros((1, *self.shape)))
            if tuple(moments.shape) != (1, 2 * self.d):
                raise ValueError(
                    f"The encoder must map (N, {', '.join(map(str, self.shape))}) to "
                    f"(N, {2 * self.d}), mean and log-variance, but gives {tuple(moments.shape)}."
                )
            raw = self.decoder(parameter.new_zeros((1, self.d)))
            if tuple(raw.shape) != (1, *self.shape):
                raise ValueError(
                    f"The decoder must map (N, {self.d}) to (N, "
                    f"{', '.join(map(str, self.shape))}), but gives {tuple(raw.shape)}."
                )

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor's arguments as plain values: `build(settings)` makes an equal model."""
        settings = {
            "model": "vae",
            "d": self.d,
            "shape": list(self.shape),
            "likelihood": self.likelihood,
            "sigma": self.sigma,
            "custom_networks": self._custom,
        }
        return settings if self.width is None else {**settings, "width": self.width}

    def moments(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """`encode` without its checks and conversions, for inner loops: float images in [0, 1]."""
        mean, logvar = self.encoder(x).chunk(2, -1)
        return mean, logvar

    def encode(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """q_φ(z|x): images (N, C, H, W), uint8 or in [0, 1], to mean and log-variance, (N, d) each."""
        check_images(x, self.shape, name="x")
        reference = next(self.parameters(), None)
        if reference is None:
            return self.moments(to_floats(x))
        return self.moments(to_floats(x.to(reference.device), reference.dtype))

    @property
    def content_size(self) -> int:
        """How many numbers of a code, the first ones, represent what is seen: all of a VAE's."""
        return self.d

    def decode_logits(self, z: torch.Tensor) -> torch.Tensor:
        """The decoder's raw output for codes (N, d): Bernoulli logits or Gaussian means, (N, C, H, W)."""
        return self.decoder(z)

    def decode(self, z: torch.Tensor) -> torch.Tensor:
        """p_θ(x|z)'s mean for codes (N, d): pixel probabilities of shape (N, C, H, W)."""
        if z.ndim != 2 or z.shape[1] != self.d:
            raise ValueError(f"z must have shape (N, {self.d}), not {tuple(z.shape)}.")
        raw = self.decode_logits(z)
        return torch.sigmoid(raw) if self.likelihood == "bernoulli" else raw

    def nll(self, raw: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """−log p_θ(x|z) per sample, (N,), from the decoder's raw output and images in [0, 1].

        Bernoulli: the cross-entropy, also for grey targets. Gaussian: with its constant.
        """
        if self.likelihood == "bernoulli":
            pixels = F.binary_cross_entropy_with_logits(raw, x, reduction="none")
            return pixels.flatten(1).sum(1)
        constant = 0.5 * math.prod(self.shape) * math.log(2 * math.pi * self.sigma**2)
        return (raw - x).square().flatten(1).sum(1) / (2 * self.sigma**2) + constant

    def sample(self, n: int, generator: torch.Generator) -> torch.Tensor:
        """`n` images from the model: z from the prior, then the decoder's mean, (n, C, H, W)."""
        reference = next(self.parameters())
        z = torch.randn((n, self.d), generator=generator, device=generator.device)
        return self.decode(z.to(reference))

    def forward(
        self, x: torch.Tensor, generator: torch.Generator | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Raw reconstruction (N, C, H, W), mean and log-variance (N, d) of float images `x`."""
        mean, logvar = self.moments(x)
        return self.decode_logits(reparameterise(mean, logvar, generator)), mean, logvar


class TVAE(VAE):
    """The transformation-aware VAE: a VAE with a latent transformation τ and its action r_χ.

    Args:
        d: the latent dimension; even for the actions M and MA.
        action: the letter of a latent action (A, M, MA, T, N; E, L, W, G of `tvae.motions`;
            P, AP of `tvae.pose`; or one of your own), or an `actions.Action` made for the same d.
        residual: whether the action acts in its residual form, z + r(z, τ).
        action_options: further arguments of the action, such as {"inverse": "true"} for MA or
            {"k": 6} for E.
        tau_width: the standard deviation s of q_ξ(τ|z₁, z₂) = N(f_ξ(z₁, z₂), s²). In the paper it is
            zero: τ = f_ξ(z₁, z₂). With a width, τ is drawn in training and has the prior N(0, 1).
        hidden: the width of the networks behind q_ψ and f_ξ; None for the paper's 1000.

    The other arguments are those of `VAE`.
    """

    def __init__(
        self,
        d: int,
        shape: Shape = (1, 28, 28),
        *,
        action: str | actions.Action = "A",
        residual: bool = False,
        action_options: Mapping[str, Any] | None = None,
        tau_width: float = 0.0,
        hidden: int | None = None,
        likelihood: str = "bernoulli",
        sigma: float = 0.1,
        width: int | None = None,
        encoder: nn.Module | None = None,
        decoder: nn.Module | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        if isinstance(action, str):
            # before anything else is built: an odd d or an unknown letter should fail at once
            action = actions.build(action, check_dimension(d), residual, **(action_options or {}))
        elif action.d != d:
            raise ValueError(f"The action was made for d = {action.d}, the model has d = {d}.")
        own = None
        if encoder is None and decoder is None:
            own = action.networks(_check_shape(shape), width)
        if own is not None:
            encoder, decoder = own
            if generator is not None:
                initialise(encoder, generator)
                initialise(decoder, generator)
        super().__init__(
            d,
            shape,
            likelihood=likelihood,
            sigma=sigma,
            width=width,
            encoder=encoder,
            decoder=decoder,
            generator=generator,
        )
        if own is not None:
            self._custom = False  # the action makes them again
        self.action = action
        self.action_options = dict(action_options or {})
        self.tau_width = check_width(tau_width)
        self.hidden = hidden
        wide = HIDDEN if hidden is None else check_whole(hidden, "The width of q_ψ and f_ξ")
        # q_ψ(z|z₁, z₂), mean and log-variance, and τ = f_ξ(z₁, z₂)
        self.psi: nn.Module = nn.Identity() if action.infers else mlp(2 * d, 2 * d, wide)
        self.xi: nn.Module = nn.Identity() if action.infers else mlp(2 * d, action.tau_size, wide)
        if generator is not None:
            for network in (self.psi, self.xi, self.action):
                initialise(network, generator)
            if isinstance(action, motions.SharedAction):
                action.draw(generator)

    @property
    def settings(self) -> dict[str, Any]:
        letter, residual = self.action.letter, isinstance(self.action, actions.Residual)
        settings = super().settings | {
            "model": "tvae",
            "action": letter.removesuffix("^R"),
            "residual": residual,
            "action_options": self.action_options,
        }
        settings |= {"tau_width": self.tau_width} if self.tau_width else {}
        return settings if self.hidden is None else {**settings, "hidden": self.hidden}

    @property
    def content_size(self) -> int:
        return self.action.content_size

    def posterior(
        self, z1: torch.Tensor, z2: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """From the codes of the two views, (N, d) each: mean and log-variance of q_ψ(z|z₁, z₂),
        (N, d) each, and τ = f_ξ(z₁, z₂), (N, tau_size), or its mean where τ has a width."""
        if self.action.infers:
            return self.action.infer(z1, z2)
        both = torch.cat((z1, z2), -1)
        mean, logvar = self.psi(both).chunk(2, -1)
        return mean, logvar, self.xi(both)

    def infer(
        self, x1: torch.Tensor, x2: torch.Tensor, generator: torch.Generator | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Infer z (N, d) and τ (N, tau_size) from the two views x₁ = f(x₀) and x₂ ≈ f⁻¹(x₀).

        Without a generator every Gaussian gives its mean, and the result is deterministic; with one,
        z₁, z₂ and z (and a τ with a width) are sampled as in training.
        """
        if x1.shape != x2.shape:
            raise ValueError(
                f"x1 and x2 must have the same shape, not {tuple(x1.shape)} and {tuple(x2.shape)}."
            )
        z1 = reparameterise(*self.encode(x1), generator)
        z2 = reparameterise(*self.encode(x2), generator)
        mean, logvar, tau = self.posterior(z1, z2)
        return reparameterise(mean, logvar, generator), self.draw_tau(tau, generator)

    def draw_tau(self, mean: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
        """A sample of q_ξ(τ|z₁, z₂) around its `mean` (N, tau_size): the mean itself without a width."""
        if not self.tau_width:
            return mean
        return reparameterise(mean, mean.new_full((), 2 * math.log(self.tau_width)), generator)

    def act(self, z: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        """r_χ(z, τ): codes (N, d), transformations (N, tau_size) or (1, tau_size) → (N, d)."""
        self._check_act(z, tau)
        return self.action.act(z, tau.expand(z.shape[0], -1))

    def act_inverse(self, z: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        """r_χ(z, τ⁻¹); shapes as in `act`."""
        self._check_act(z, tau)
        return self.action.act_inverse(z, tau.expand(z.shape[0], -1))

    def _check_act(self, z: torch.Tensor, tau: torch.Tensor) -> None:
        size = self.action.tau_size
        if z.ndim != 2 or z.shape[1] != self.d:
            raise ValueError(f"z must have shape (N, {self.d}), not {tuple(z.shape)}.")
        if tau.ndim != 2 or tau.shape[1] != size or tau.shape[0] not in (1, z.shape[0]):
            raise ValueError(
                f"tau must have shape ({z.shape[0]}, {size}) or (1, {size}), "
                f"not {tuple(tau.shape)}."
            )

    def as_vae(self) -> VAE:
        """The encoder and decoder as an ordinary `VAE` that shares this model's weights."""
        vae = VAE(
            self.d,
            self.shape,
            likelihood=self.likelihood,
            sigma=self.sigma,
            encoder=self.encoder,
            decoder=self.decoder,
        )
        vae._custom, vae.width, vae.triplets = self._custom, self.width, self.triplets
        if not self._custom and self.action.networks(self.shape, self.width) is not None:
            vae._custom = True  # a VAE does not know how to make them
        vae.train(self.training)
        return vae


def build(
    settings: Mapping[str, Any],
    *,
    encoder: nn.Module | None = None,
    decoder: nn.Module | None = None,
    generator: torch.Generator | None = None,
) -> VAE | TVAE:
    """The model that `settings` (the property of a `VAE` or `TVAE`) describes.

    A model with networks of the user's own needs them passed in again.
    """
    options = dict(settings)
    kind = options.pop("model", None)
    if kind not in ("vae", "tvae"):
        raise ValueError(f"settings['model'] must be 'vae' or 'tvae', not {kind!r}.")
    if options.pop("custom_networks", False) and (encoder is None and decoder is None):
        raise ValueError(
            "This model was built with an encoder or decoder of its own: pass encoder= or decoder=."
        )
    options["shape"] = tuple(options.get("shape", (1, 28, 28)))
    cls = TVAE if kind == "tvae" else VAE
    return cls(**options, encoder=encoder, decoder=decoder, generator=generator)


def check_width(value: float) -> float:
    """The width of τ as a float, if it can be one."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not known or not 0 <= value < math.inf:
        raise ValueError(f"The width of τ must be a number from 0 on, not {value!r}.")
    return float(value)


def _check_shape(shape: Shape) -> Shape:
    values = tuple(shape)
    if len(values) != 3 or not all(isinstance(v, int) and v > 0 for v in values):
        raise ValueError(
            f"shape must be (channels, height, width), three positive ints, not {shape!r}."
        )
    return values  # type: ignore[return-value]
