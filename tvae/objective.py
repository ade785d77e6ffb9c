"""The training loss, term by term (section 3.2, appendices A and B), to be minimised.

    L = NLL(x₀|z₀) + NLL(x₁|z₁) + NLL(x₂|z₂) + NLL(x₀|z) + C₁ + C₂ + KL₀ + DIV

    C₁ = ‖z₁ − r_χ(z, τ)‖²,  C₂ = ‖z₂ − r_χ(z, τ⁻¹)‖²
    KL₀ = KL[q_φ(z₀|x₀) ‖ N(0, 1)],  DIV = KL[q_ψ(z|z₁, z₂) ‖ N(0, 1)]

Every term is a sum over pixels or latent dimensions and is kept per sample, shape (B,); the loss is
the mean of their sum over the batch, with all weights one.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields

import torch

from tvae.models import TVAE, VAE, reparameterise

TERMS = ("nllx0", "nllx1", "nllx2", "nll", "c1", "c2", "kl0", "div")
#: Terms that the paper's loss does not have, by the switch that adds them.
FURTHER = {
    "view_kl": ("kl1", "kl2"),  # KL of q(z₁|x₁) and q(z₂|x₂) from N(0, 1)
    "tie": ("tie",),  # ‖z − μ₀‖², of the original bound
    # of pairs of images that share their transformation: τ is the other one's
    "borrowed_constraint": ("borrowed_c1", "borrowed_c2"),
    "borrowed_likelihood": ("borrowed_nllx1", "borrowed_nllx2"),
    # no term of its own: every constraint compares means, so that none presses on a posterior's width
    "means": (),
}
#: KL[q_ξ(τ|z₁, z₂) ‖ N(0, 1)], of models whose τ has a width.
KL_TAU = "kl_tau"
_ALL = (*TERMS, KL_TAU, *(name for names in FURTHER.values() for name in names))


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
    kl_tau: torch.Tensor | None = None
    kl1: torch.Tensor | None = None
    kl2: torch.Tensor | None = None
    tie: torch.Tensor | None = None
    borrowed_c1: torch.Tensor | None = None
    borrowed_c2: torch.Tensor | None = None
    borrowed_nllx1: torch.Tensor | None = None
    borrowed_nllx2: torch.Tensor | None = None

    def items(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Pairs (name, tensor (B,)) of the terms that exist, those of `TERMS` first."""
        present = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in _ALL:
            if present[name] is not None:
                yield name, present[name]

    def __getitem__(self, name: str) -> torch.Tensor:
        value = getattr(self, name) if name in _ALL else None
        if value is None:
            raise KeyError(
                f"No term {name!r} here; there are {', '.join(n for n, _ in self.items())}."
            )
        return value

    def total(self, weights: Mapping[str, float] | None = None) -> torch.Tensor:
        """The sum of all terms, (B,); `weights` overrides the weight one of the terms it names."""
        weights = weights or {}
        if unknown := set(weights) - set(_ALL):
            raise ValueError(f"Unknown loss terms {sorted(unknown)}; known are {', '.join(_ALL)}.")
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


def swap_pairs(rows: torch.Tensor) -> torch.Tensor:
    """Rows 0 and 1, 2 and 3, ... exchanged: (N, k) → (N, k), N even."""
    if len(rows) % 2:
        raise ValueError(f"Pairs need an even number of images, not {len(rows)}.")
    return rows.unflatten(0, (-1, 2)).flip(1).flatten(0, 1)


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
    further: Collection[str] = (),
) -> Terms:
    """All terms of the T-VAE's loss for triplets of float images (B, C, H, W) in [0, 1].

    The three views pass through the encoder, and z₀, z₁, z₂, z through the decoder, as one batch
    each. `generator` draws the noise of all four codes; None puts means in the place of samples.
    With `analytic`, C uses E_q[z₁] = μ₁ and E_q[z₂] = μ₂ where the default uses the samples. `further`
    names switches of `FURTHER`; the borrowed terms take images 0 and 1, 2 and 3, ... as pairs that
    share their transformation, and give each the τ of the other.
    """
    mean, logvar = model.moments(torch.cat((x0, x1, x2)))
    codes = reparameterise(mean, logvar, generator)
    _, z1, z2 = codes.chunk(3)  # z₀ is only decoded, with the others
    mean0, mean1, mean2 = mean.chunk(3)

    mean_z, logvar_z, mean_tau = model.posterior(z1, z2)
    z = reparameterise(mean_z, logvar_z, generator)
    tau = model.draw_tau(mean_tau, generator)
    # what the constraints compare: samples of z₁, z₂ and z, or means of all that is Gaussian
    at1, at2, at, by = z1, z2, z, tau
    if "means" in further:
        at1, at2 = mean1, mean2
        at, _, by = model.posterior(mean1, mean2)
    z1_from_z = model.action.act(at, by)
    z2_from_z = model.action.act_inverse(at, by)

    decoded, targets = [codes, z], [x0, x1, x2, x0]
    extra: dict[str, torch.Tensor] = {}
    if model.tau_width:
        logvar_tau = mean_tau.new_full((), 2 * math.log(model.tau_width))
        extra[KL_TAU] = kl_standard_normal(mean_tau, logvar_tau)
    if "view_kl" in further:
        extra["kl1"], extra["kl2"] = kl_standard_normal(mean, logvar).chunk(3)[1:]
    if "tie" in further:
        extra["tie"] = mmd_linear(at, mean0)
    borrowed = {"borrowed_constraint", "borrowed_likelihood"} & set(further)
    if borrowed:
        lent = swap_pairs(tau)
        z1_lent, z2_lent = model.action.act(z, lent), model.action.act_inverse(z, lent)
        if "borrowed_constraint" in borrowed:
            held = z1_lent, z2_lent
            if "means" in further:
                lent = swap_pairs(by)
                held = model.action.act(at, lent), model.action.act_inverse(at, lent)
            extra["borrowed_c1"] = mmd_linear(at1, held[0])
            extra["borrowed_c2"] = mmd_linear(at2, held[1])
        if "borrowed_likelihood" in borrowed:
            decoded += [z1_lent, z2_lent]
            targets += [x1, x2]

    raw = model.decode_logits(torch.cat(decoded))
    nllx0, nllx1, nllx2, nll, *lent_nll = model.nll(raw, torch.cat(targets)).chunk(len(targets))
    if lent_nll:
        extra["borrowed_nllx1"], extra["borrowed_nllx2"] = lent_nll
    return Terms(
        nllx0=nllx0,
        nllx1=nllx1,
        nllx2=nllx2,
        nll=nll,
        c1=mmd_linear(mean1 if analytic else at1, z1_from_z),
        c2=mmd_linear(mean2 if analytic else at2, z2_from_z),
        kl0=kl_standard_normal(mean0, logvar.chunk(3)[0]),
        div=kl_standard_normal(mean_z, logvar_z),
        **extra,
    )
