"""log p(x) of a VAE by importance sampling (the paper's mll, with the sign turned).

    log p(x) ≈ log 1/S Σ_s w_s,   log w_s = log p(x|z_s) + log π(z_s) − log q(z_s|x),   z_s ~ q(z|x)

Every image is encoded once. Its S codes pass through the decoder in chunks, and what is kept of them
is a running log-sum-exp in float64 of w and of w², so memory does not grow with S. p(x|z) is
evaluated from the decoder's raw output: for Bernoulli logits ℓ and targets x in [0, 1] it is
Σ x ℓ − log(1 + exp ℓ), which never takes the logarithm of a rounded probability.

The noise is drawn in blocks whose sizes depend on S alone. A generator in a given state therefore
gives the same codes for every chunk size, and the results differ by no more than the decoder's own
rounding does from batch to batch: about 1e-7 relative in float32, 1e-15 in float64.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from tvae.checks import check_whole
from tvae.data import Dataset, pixels_of
from tvae.evaluation.inference import batches
from tvae.evaluation.statistics import Estimate
from tvae.models import VAE, evaluating
from tvae.seeding import generator as named_generator

BLOCK = 1024  # draws of one image between two updates of its sums
GROUP = 8192  # draws of all images whose noise is made at once
CPU_PIXELS = 2**19  # pixels decoded at once: more gains nothing, see benchmarks/likelihood.py
GPU_PIXELS = 2**23


@dataclass(frozen=True)
class LogLikelihood:
    """Estimates of log p(x), in nats.

    - `mean`: over the images;
    - `standard_error`: of that mean as an estimate for all images of the kind, from the spread over
      the images (NaN for a single one);
    - `monte_carlo_error`: of that mean as an estimate for these very images, from the spread of the
      weights: the variance of log p̂ is about 1/ESS − 1/S;
    - `per_image`, `sizes`: (N,) float64, log p̂(x) and effective sample size (Σ w)² / Σ w² of each;
    - `effective_sample_size`, `least_effective_sample_size`: mean and minimum of `sizes`. An image
      with a size of one or two is explained by a single draw: its estimate is then too low, by
      several nats perhaps, and no error bar shows it.
    """

    mean: float
    standard_error: float
    monte_carlo_error: float
    effective_sample_size: float
    least_effective_sample_size: float
    samples: int
    per_image: torch.Tensor
    sizes: torch.Tensor

    def __str__(self) -> str:
        return (
            f"log p(x) = {self.mean:.2f} ± {self.standard_error:.2f} nats "
            f"({len(self.per_image):,} images, {self.samples:,} samples each, effective sample "
            f"size {self.effective_sample_size:.1f}, at least "
            f"{self.least_effective_sample_size:.1f})"
        )


def log_likelihood(
    vae: VAE,
    x: torch.Tensor | Dataset,
    samples: int = 1000,
    generator: torch.Generator | None = None,
    chunk: int | None = None,
) -> LogLikelihood:
    """Estimate log p(x) of images x (N, C, H, W), uint8 or in [0, 1], with draws from q(z|x).

    For grey targets a Bernoulli's log p is the negative cross-entropy, as in the paper: there is no
    normalising constant. A Gaussian's is a density with its constant.

    Args:
        vae: a `VAE` or `TVAE`.
        samples: S, the number of draws per image.
        generator: of the noise; None stands for the stream "likelihood" of seed 0.
        chunk: codes decoded at once; None is chosen by the size of the images.
    """
    images = pixels_of(x, vae.shape, "x")
    check_whole(samples, "samples")
    if generator is None:
        generator = named_generator(0, "likelihood")
    if chunk is not None:
        check_whole(chunk, "chunk")
    else:
        on_cpu = next(vae.parameters(), images).device.type == "cpu"
        chunk = max(1, (CPU_PIXELS if on_cpu else GPU_PIXELS) // math.prod(vae.shape))

    together = max(1, GROUP // min(samples, BLOCK))  # images whose draws are made together
    found: list[torch.Tensor] = []
    with evaluating(vae):
        for part in batches(images, vae, together):
            found.append(_group(vae, part, samples, generator, chunk))
    per_image, sizes = torch.cat(found, 1).cpu()
    if not bool(torch.isfinite(per_image).all()):
        first = int((~torch.isfinite(per_image)).nonzero()[0])
        raise ValueError(
            f"log p(x) of image {first} is not finite: the networks' output overflows, so the model "
            "has diverged or was not made for such images."
        )
    mean, standard_error = Estimate.of(per_image)
    noise = (1 / sizes - 1 / samples).clamp_min(0)  # variance of log p̂ by the delta method
    return LogLikelihood(
        mean=mean,
        standard_error=standard_error,
        monte_carlo_error=float(noise.sum().sqrt()) / len(per_image),
        effective_sample_size=float(sizes.mean()),
        least_effective_sample_size=float(sizes.min()),
        samples=samples,
        per_image=per_image,
        sizes=sizes,
    )


def _group(
    vae: VAE, x: torch.Tensor, samples: int, generator: torch.Generator, chunk: int
) -> torch.Tensor:
    """For float images x (G, C, H, W): rows log p̂ and effective sample size, (2, G) float64."""
    mean, logvar = vae.moments(x)
    std = torch.exp(0.5 * logvar)
    half_logvar = 0.5 * logvar.double().sum(1, keepdim=True)
    # log Σ w, log Σ w² over the blocks so far
    first = torch.full((len(x),), -math.inf, dtype=torch.float64, device=x.device)
    second = first.clone()
    for start in range(0, samples, BLOCK):
        count = min(BLOCK, samples - start)
        noise = torch.randn(
            (len(x), count, vae.d), generator=generator, device=generator.device, dtype=mean.dtype
        ).to(mean.device)
        z = torch.addcmul(mean[:, None], std[:, None], noise)
        # log π(z) − log q(z|x): the constants cancel
        log_w = 0.5 * (noise.double().square() - z.double().square()).sum(-1) + half_logvar
        log_w += _log_p(vae, x, z, chunk)
        first = torch.logaddexp(first, log_w.logsumexp(1))
        second = torch.logaddexp(second, (2 * log_w).logsumexp(1))
    return torch.stack((first - math.log(samples), torch.exp(2 * first - second)))


def _log_p(vae: VAE, x: torch.Tensor, z: torch.Tensor, chunk: int) -> torch.Tensor:
    """log p(x|z) of images x (G, C, H, W) for codes z (G, S, d): (G, S) float64."""
    images, draws = z.shape[:2]
    codes = z.flatten(0, 1)
    out = torch.empty(len(codes), dtype=torch.float64, device=x.device)
    for start in range(0, len(codes), chunk):
        end = min(start + chunk, len(codes))
        raw = vae.decode_logits(codes[start:end])
        if vae.likelihood == "bernoulli":
            raw = raw.flatten(1)
            # Σ x ℓ − log(1 + eˡ) = Σ log σ(ℓ) + (x − 1) ℓ
            out[start:end] = F.logsigmoid(raw).sum(1)
        # a chunk may end in the middle of an image's draws and hold those of several
        for i in range(start // draws, (end - 1) // draws + 1):
            here = slice(max(i * draws, start), min((i + 1) * draws, end))
            own = raw[here.start - start : here.stop - start]
            if vae.likelihood == "bernoulli":
                out[here] += own @ (x[i].flatten() - 1)
            else:
                out[here] = -vae.nll(own, x[i])
    return out.view(images, draws)
