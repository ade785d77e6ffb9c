"""The training loss, term by term (section 3.2, appendices A and B), to be minimised.

    L = NLL(x₀|z₀) + NLL(x₁|z₁) + NLL(x₂|z₂) + NLL(x₀|z) + C₁ + C₂ + KL₀ + DIV

    C₁ = ‖z₁ − r_χ(z, τ)‖²,  C₂ = ‖z₂ − r_χ(z, τ⁻¹)‖²
    KL₀ = KL[q_φ(z₀|x₀) ‖ N(0, 1)],  DIV = KL[q_ψ(z|z₁, z₂) ‖ N(0, 1)]

Every term is a sum over pixels or latent dimensions and is kept per sample, shape (B,); the loss is
the mean of their sum over the batch, with all weights one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

import torch

from tvae.models import TVAE, VAE, reparameterise

__all__ = [
    "TERMS",
    "Terms",
    "kl_standard_normal",
    "mmd_linear",
    "tvae_terms",
    "vae_id_terms",
    "vae_terms",
]

TERMS = ("nllx0", "nllx1", "nllx2", "nll", "c1", "c2", "kl0", "div")


@dataclass(frozen=True)
class Terms:
    """The named terms of the loss, each of shape (B,); those a model does not have are None."""

    nllx0: torch.Tensor
    kl0: torch.Tensor
    nllx1: torch.Tensor | None = None
    nllx2: torch.Tensor | None = None
    nll: torch.Tensor | None = None
    c1: torch.Tensor | None = None
    c2: torch.Tensor | None = None
    div: torch.Tensor | None = None

    def items(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Pairs (name, tensor (B,)) of the terms that exist, in the order of `TERMS`."""
        present = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in TERMS:
            if present[name] is not None:
                yield name, present[name]

    def __getitem__(self, name: str) -> torch.Tensor:
        value = getattr(self, name) if name in TERMS else None
        if value is None:
            raise KeyError(
                f"No term {name!r} here; there are {', '.join(n for n, _ in self.items())}."
            )
        return value

    def total(self, weights: Mapping[str, float] | None = None) -> torch.Tensor:
        """The sum of all terms, (B,); `weights` overrides the weight one of the terms it names."""
        weights = weights or {}
        if unknown := set(weights) - set(TERMS):
            raise ValueError(f"Unknown loss terms {sorted(unknown)}; known are {', '.join(TERMS)}.")
        return torch.stack([value * weights.get(name, 1.0) for name, value in self.items()]).sum(0)

    def means(self) -> dict[str, torch.Tensor]:
        """The batch mean of each term, as scalar tensors that stay on their device."""
        return {name: value.detach().mean() for name, value in self.items()}


def kl_standard_normal(mean: torch.Tensor, logvar: torch.Tensor) -> torch.Tensor:
    """KL[N(mean, exp(logvar)) ‖ N(0, 1)] in nats, summed over the last dimension: (N, d) → (N,)."""
    return 0.5 * (mean.square() + logvar.exp() - 1 - logvar).sum(-1)


def mmd_linear(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The squared MMD with a linear kernel between distributions with means `a` and `b`.

    With k(u, v) = u·v the feature map is the identity, so the discrepancy is the squared distance of
    the means: (N, d), (N, d) → (N,). A sample in the place of a mean gives the sampled form.
    """
    return (a - b).square().sum(-1)


def vae_terms(vae: VAE, x: torch.Tensor, generator: torch.Generator | None) -> Terms:
    """The two terms of a VAE's loss for float images `x` (B, C, H, W) in [0, 1]."""
    raw, mean, logvar = vae(x, generator)
    return Terms(nllx0=vae.nll(raw, x), kl0=kl_standard_normal(mean, logvar))


def vae_id_terms(model: TVAE, x0: torch.Tensor, generator: torch.Generator | None) -> Terms:
    """The loss of VAE_id (Fig. 1b): the T-VAE with one view and τ fixed to the identity.

    z is inferred from x₀, acted on by τ_id, and decoded. The action must have an identity.
    """
    identity = model.action.identity()
    if identity is None:
        raise ValueError(
            f"The action {model.action.letter} has no identity, so there is no VAE_id."
        )
    mean, logvar = model.moments(x0)
    z = reparameterise(mean, logvar, generator)
    z0 = model.action.act(z, identity.to(z).expand(len(z), -1))
    return Terms(nllx0=model.nll(model.decode_logits(z0), x0), kl0=kl_standard_normal(mean, logvar))


def tvae_terms(
    model: TVAE,
    x0: torch.Tensor,
    x1: torch.Tensor,
    x2: torch.Tensor,
    generator: torch.Generator | None,
    analytic: bool = False,
) -> Terms:
    """All terms of the T-VAE's loss for triplets of float images (B, C, H, W) in [0, 1].

    The three views pass through the encoder, and z₀, z₁, z₂, z through the decoder, as one batch
    each. `generator` draws the noise of all four codes; None puts means in the place of samples.
    With `analytic`, C uses E_q[z₁] = μ₁ and E_q[z₂] = μ₂ where the default uses the samples.
    """
    mean, logvar = model.moments(torch.cat((x0, x1, x2)))
    codes = reparameterise(mean, logvar, generator)
    _, z1, z2 = codes.chunk(3)  # z₀ is only decoded, with the others
    mean0, mean1, mean2 = mean.chunk(3)

    mean_z, logvar_z, tau = model.posterior(z1, z2)
    z = reparameterise(mean_z, logvar_z, generator)
    z1_from_z = model.action.act(z, tau)
    z2_from_z = model.action.act_inverse(z, tau)

    raw = model.decode_logits(torch.cat((codes, z)))
    nllx0, nllx1, nllx2, nll = model.nll(raw, torch.cat((x0, x1, x2, x0))).chunk(4)
    return Terms(
        nllx0=nllx0,
        nllx1=nllx1,
        nllx2=nllx2,
        nll=nll,
        c1=mmd_linear(mean1 if analytic else z1, z1_from_z),
        c2=mmd_linear(mean2 if analytic else z2, z2_from_z),
        kl0=kl_standard_normal(mean0, logvar.chunk(3)[0]),
        div=kl_standard_normal(mean_z, logvar_z),
    )
