"""The chapters on model and bound: a linear-Gaussian T-VAE, of which everything is known exactly.

With the additive action, Gaussian priors, a Gaussian `r_chi` of positive width and a linear decoder,
the T-VAE is one large Gaussian: `log p(x0, x1, x2)`, the exact posterior and the best approximate
posterior of any given structure are linear algebra. The book uses it as the oracle for the bound.

Everything here is a *network* of Gaussian factors, `p` (the model) and `q` (an approximate posterior
joined to the distribution of the data) alike: each block of variables is a linear map of earlier
blocks plus Gaussian noise. All means are zero. Numbers are float64, and shapes are given for a
latent dimension d and D observed dimensions.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

DATA = ("x0", "x1", "x2")
LATENTS = ("z0", "z1", "z2", "z", "tau")


@dataclass(frozen=True)
class Factor:
    """One conditional: `target` given its parents is N(sum of weights[parent] @ parent, covariance).

    Each weight has shape (size of target, size of parent); `covariance` is square and symmetric.
    """

    target: str
    weights: Mapping[str, Tensor]
    covariance: Tensor

    @property
    def size(self) -> int:
        return self.covariance.shape[0]

    def mean(self, values: Mapping[str, Tensor]) -> Tensor:
        """The conditional mean, (N, size), or (1, size) of zeros if there are no parents."""
        if not self.weights:
            return self.covariance.new_zeros(1, self.size)
        return sum((values[name] @ w.T for name, w in self.weights.items()), torch.zeros(()))

    def log_density(self, values: Mapping[str, Tensor]) -> Tensor:
        """log N(target; mean, covariance), shape (N,); `values` maps block names to (N, size)."""
        return MultivariateNormal(self.mean(values), self.covariance).log_prob(values[self.target])

    def sample(self, values: Mapping[str, Tensor], n: int, generator: torch.Generator) -> Tensor:
        """Draw the target, (n, size), given the parents in `values` ((n, ·) or (1, ·) each)."""
        noise = torch.randn(n, self.size, generator=generator, dtype=torch.float64)
        return self.mean(values) + noise @ torch.linalg.cholesky(self.covariance).T


class Network:
    """Gaussian factors in an order in which every block comes after its parents."""

    def __init__(self, factors: Sequence[Factor]) -> None:
        self.factors = tuple(factors)
        self.slices: dict[str, slice] = {}
        start = 0
        for factor in self.factors:
            missing = [name for name in factor.weights if name not in self.slices]
            if missing or factor.target in self.slices:
                raise ValueError(
                    f"The factor of {factor.target!r} must come once, after its parents; "
                    f"it comes twice or before {missing}."
                )
            self.slices[factor.target] = slice(start, start + factor.size)
            start += factor.size
        self.size = start

    def __getitem__(self, target: str) -> Factor:
        return next(factor for factor in self.factors if factor.target == target)

    def rows(self, names: Sequence[str]) -> Tensor:
        """The positions of the named blocks among all variables, in the order of `names`."""
        spans = (self.slices[name] for name in names)
        return torch.cat([torch.arange(span.start, span.stop) for span in spans])

    def effects(self) -> Tensor:
        """(I - G)^-1 for the weights G: column j is what one unit of noise j does to every variable."""
        g = torch.zeros(self.size, self.size, dtype=torch.float64)
        for factor in self.factors:
            for name, weight in factor.weights.items():
                g[self.slices[factor.target], self.slices[name]] = weight
        eye = torch.eye(self.size, dtype=torch.float64)
        return torch.linalg.solve_triangular(eye - g, eye, upper=False, unitriangular=True)

    def covariance(self, names: Sequence[str] | None = None) -> Tensor:
        """The joint covariance of the named blocks (of all blocks, in factor order, by default)."""
        effects = self.effects()
        noise = torch.block_diag(*(factor.covariance for factor in self.factors))
        full = effects @ noise @ effects.T
        if names is None:
            return full
        rows = self.rows(names)
        return full[rows][:, rows]

    def log_marginal(self, values: Mapping[str, Tensor], names: Sequence[str] = DATA) -> Tensor:
        """The exact log-density of the named blocks alone, (N,), all others integrated out."""
        joint = torch.cat([values[name] for name in names], dim=1)
        return MultivariateNormal(torch.zeros_like(joint[0]), self.covariance(names)).log_prob(
            joint
        )

    def sample(
        self, n: int, generator: torch.Generator, given: Mapping[str, Tensor] | None = None
    ) -> dict[str, Tensor]:
        """Draw all blocks, (n, size) each, in factor order; blocks in `given` are kept as they are."""
        values = dict(given or {})
        for factor in self.factors:
            if factor.target not in values:
                values[factor.target] = factor.sample(values, n, generator)
        return values

    def conditional(self, names: Sequence[str], given: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Exact conditional of `names` given `given`: the regression matrix and the covariance."""
        n = sum(self[name].size for name in names)
        c = self.covariance([*names, *given])
        if not given:
            return c.new_zeros(n, 0), c
        weights = torch.linalg.solve(c[n:, n:], c[n:, :n]).T
        return weights, c[:n, :n] - weights @ c[n:, :n]


def tvae_network(
    decoder: Tensor, *, s0: float, s1: float, s2: float | None = None, sigma: float
) -> Network:
    """The T-VAE with additive action, Gaussian r_chi and the linear decoder x_i = W z_i + noise.

    `decoder` is W, shape (D, d). z and tau are N(0, I); z0 is N(z, s0² I); z1 is N(z + tau, s1² I);
    z2 is N(z - tau, s2² I), where s2 = s1 unless given; x_i is N(W z_i, sigma² I).
    """
    s2 = s1 if s2 is None else s2
    for name, value in {"s0": s0, "s1": s1, "s2": s2, "sigma": sigma}.items():
        if not value > 0:
            raise ValueError(f"The standard deviation {name} must be positive, not {value}.")
    w = decoder.to(torch.float64)
    big, eye = (torch.eye(n, dtype=torch.float64) for n in w.shape)
    factors = [Factor("z", {}, eye), Factor("tau", {}, eye)]
    # tau_id, tau and its inverse
    for i, (width, sign) in enumerate(((s0, 0.0), (s1, 1.0), (s2, -1.0))):
        weights = {"z": eye} if sign == 0 else {"z": eye, "tau": sign * eye}
        factors.append(Factor(f"z{i}", weights, width**2 * eye))
    factors += [Factor(f"x{i}", {f"z{i}": w}, sigma**2 * big) for i in range(3)]
    return Network(factors)


def kl(q: Network, p: Network) -> Tensor:
    """KL[q || p] of two networks over the same blocks, in nats.

    If both have the same marginal of the data, this is the average gap between log p and the bound.
    """
    names = [factor.target for factor in p.factors]
    a, b = q.covariance(names), p.covariance(names)
    whitened = torch.linalg.solve(b, a)
    return 0.5 * (whitened.trace() - p.size - torch.logdet(a) + torch.logdet(b))


@dataclass(frozen=True)
class Group:
    """Factors of q that share one weight and one covariance: their targets, and each one's parents.

    A single factor is a group of one. With `diagonal`, the covariance has to be diagonal.
    """

    targets: tuple[str, ...]
    parents: tuple[tuple[str, ...], ...]
    diagonal: bool = False


def structure(
    *,
    own: bool = False,
    z: bool = False,
    tau: bool = False,
    diagonal: bool = False,
    shared: bool = False,
) -> list[Group]:
    """The factors of an approximate posterior of the T-VAE, with the restrictions that are on.

    Args:
        own: z_i sees its own x_i, not all observations and the other z_j.
        z: z sees z1 and z2, not all three z_i.
        tau: tau sees z1 and z2, not z and all three z_i.
        diagonal: every covariance is diagonal.
        shared: one encoder for the three z_i; implies `own`.
    """
    codes, views = ("z0", "z1", "z2"), ("z1", "z2")

    def single(target: str, *parents: str) -> Group:
        return Group((target,), (parents,), diagonal)

    if shared:
        first = [Group(codes, tuple((x,) for x in DATA), diagonal)]
    elif own:
        first = [single(f"z{i}", f"x{i}") for i in range(3)]
    else:
        first = [single("z1", *DATA), single("z2", *DATA, "z1"), single("z0", *DATA, *views)]
    above_views = single("z", *(views if z else codes))
    return [*first, above_views, single("tau", *(views if tau else ("z", *codes)))]


def closest(
    p: Network,
    groups: Sequence[Group],
    *,
    data: Sequence[str] = DATA,
    sweeps: int = 20_000,
) -> Network:
    """The network p(data) q(latents | data) of the given structure with the smallest KL[q || p].

    One group after another is set to its exact optimum given the others, until a whole sweep lowers
    the divergence by less than 1e-13. In the weight of one group the divergence is a convex
    quadratic: write v for all variables, v0 for their value with the group's targets held at zero
    and R_i for the effect of target i on v. Then v = v0 + sum_i R_i (K pa_i + noise_i), and with the
    precision J of p the stationary point solves
    sum_ij R_i' J R_j K Cov(pa_j, pa_i) = - sum_i R_i' J Cov(v0, pa_i).
    The covariance's optimum is the inverse of the average of R_i' J R_i (of its diagonal).
    """
    factors = _start(p, groups, data)
    order = list(factors)
    precision = torch.linalg.inv(p.covariance(order))
    before = math.inf
    for _ in range(sweeps):
        for group in groups:
            _update(factors, group, precision)
        q = Network(list(factors.values()))
        now = float(kl(q, p))
        gain, before = before - now, now
        if gain < 1e-13:
            return q
    raise RuntimeError(f"No convergence in {sweeps} sweeps: the last one still gained {gain:.3g}.")


def _start(p: Network, groups: Sequence[Group], data: Sequence[str] = DATA) -> dict[str, Factor]:
    """The data's own distribution, as a chain, and for each latent a factor that ignores all else."""
    factors: dict[str, Factor] = {}
    for i, name in enumerate(data):
        factors[name] = _factor(p, name, data[:i], *p.conditional([name], data[:i]))
    for group in groups:
        width = sum(p[name].size for name in group.parents[0])
        n = p[group.targets[0]].size
        zeros, eye = (torch.zeros(n, width).double(), torch.eye(n).double())
        for target, parents in zip(group.targets, group.parents, strict=True):
            factors[target] = _factor(p, target, parents, zeros, eye)
    names = [factor.target for factor in p.factors]
    if set(factors) != set(names):
        raise ValueError(f"q needs one factor for each of {sorted(names)}, not {sorted(factors)}.")
    return factors


def _factor(
    blocks: Network | Mapping[str, Factor],
    target: str,
    parents: Sequence[str],
    weight: Tensor,
    covariance: Tensor,
) -> Factor:
    split = weight.split([blocks[name].size for name in parents], 1)
    return Factor(target, dict(zip(parents, split, strict=True)), covariance)


def descend(p: Network, groups: Sequence[Group], *, generator: torch.Generator) -> Network:
    """What `closest` finds, found by a general-purpose optimiser: L-BFGS on KL[q || p] itself.

    It starts from small random weights and knows nothing of the structure of the problem, so it is
    an independent check of `closest`, which is faster and more exact.
    """
    start = _start(p, groups)
    weights: list[Tensor] = []
    roots: list[Tensor] = []  # Cholesky factors, with the logarithm of the diagonal
    for group in groups:
        n, width = p[group.targets[0]].size, sum(p[name].size for name in group.parents[0])
        noise = torch.randn(n, width, generator=generator, dtype=torch.float64)
        weights.append((0.3 * noise).requires_grad_())
        roots.append(torch.zeros(n, n, dtype=torch.float64, requires_grad=True))

    def build(weights: Sequence[Tensor], roots: Sequence[Tensor]) -> Network:
        factors = [start[name] for name in DATA]
        for group, weight, root in zip(groups, weights, roots, strict=True):
            scale = torch.diag(root.diagonal().exp())
            if not group.diagonal:
                scale = scale + torch.tril(root, -1)
            for target, parents in zip(group.targets, group.parents, strict=True):
                factors.append(_factor(p, target, parents, weight, scale @ scale.T))
        return Network(factors)

    optimiser = torch.optim.LBFGS(
        [*weights, *roots],
        max_iter=5_000,
        max_eval=10_000,
        tolerance_grad=1e-7,
        tolerance_change=1e-15,
        history_size=50,
        line_search_fn="strong_wolfe",
    )

    def evaluate() -> Tensor:
        optimiser.zero_grad()
        value = kl(build(weights, roots), p)
        value.backward()
        return value

    optimiser.step(evaluate)  # type: ignore[arg-type]
    return build([w.detach() for w in weights], [r.detach() for r in roots])


def _update(factors: dict[str, Factor], group: Group, precision: Tensor) -> None:
    """Replace the group's factors, in place, by their optimum given all other factors."""
    base = {
        name: Factor(name, {}, torch.zeros_like(factor.covariance))
        if name in group.targets
        else factor
        for name, factor in factors.items()
    }
    network = Network(list(base.values()))
    effects, cov0 = network.effects(), network.covariance()
    columns = [effects[:, network.slices[target]] for target in group.targets]
    rows = [network.rows(parents) for parents in group.parents]
    inner = [[a.T @ precision @ b for b in columns] for a in columns]
    total = torch.stack([inner[i][i] for i in range(len(columns))]).mean(0)
    covariance = torch.diag(1 / total.diagonal()) if group.diagonal else torch.linalg.inv(total)
    # vec stacks columns: vec(A K B) = (B' kron A) vec(K)
    pairs = itertools.product(range(len(rows)), repeat=2)
    blocks = [torch.kron(cov0[rows[i]][:, rows[j]], inner[i][j]) for i, j in pairs]
    sides = [-c.T @ precision @ cov0[:, r] for c, r in zip(columns, rows, strict=True)]
    system, right = torch.stack(blocks).sum(0), torch.stack(sides).sum(0)
    weight = torch.linalg.solve(system, right.T.reshape(-1)).reshape(right.T.shape).T
    for target, parents in zip(group.targets, group.parents, strict=True):
        factors[target] = _factor(factors, target, parents, weight.contiguous(), covariance)
