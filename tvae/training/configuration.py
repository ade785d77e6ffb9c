"""How much work a run does: three presets, and the full configuration of one run.

A `Preset` says how long to train and, in its `Measuring`, how thoroughly to measure. A `RunConfig` is
everything one training run depends on besides the images themselves: what is written beside the
weights, and what makes two runs the same run.

    config = RunConfig.from_preset("mnist", action="M", d=26, preset="quick")
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tvae import actions, data
from tvae.checks import check_dimension, check_whole
from tvae.models import check_width
from tvae.motions import SharedAction
from tvae.objective import FURTHER, KL_TAU, TERMS
from tvae.pose import Pose
from tvae.transforms import Moved, Sequences, Triplets

MODELS = ("tvae", "vae", "vae+")
#: What a run with pairs is unless it says otherwise: true inverses, and the recipe of lending, which
#: the chapter on it derives.
LENDING: dict[str, Any] = {
    "families": ("rotation", "shear", "scale", "translation"),
    "geometry": "exact",
    "further": ("tie", "borrowed_constraint", "borrowed_likelihood", "view_kl"),
    "weights": dict.fromkeys(("c1", "c2", "borrowed_c1", "borrowed_c2"), 0.5),
    "tau_width": 0.05,
}
#: What a run on films is unless it says otherwise: its views are frames, and it predicts.
FILMS: dict[str, Any] = {
    "families": ("sequence",),
    "further": ("tie", "predicted_constraint", "predicted_likelihood", "view_kl"),
}
#: And one whose images are moved first.
MOVED: dict[str, Any] = {"families": ("affine",), "geometry": "exact"}


@dataclass(frozen=True)
class Measuring:
    """How thoroughly a trained model is measured."""

    anchors: int = 100_000  # labelled AffNIST images among which kNN looks for neighbours
    queries: int = 320_000  # AffNIST test images to be classified; 320,000 are all of them
    likelihood_samples: int = 1000  # importance samples per image for log p(x)
    likelihood_images: int | None = None  # test images for log p(x); None means all of them
    # The standard error in nats that log p(x) over all test images has to reach, on as many of them
    # as that takes; None means the plain mean over `likelihood_images`.
    likelihood_error: float | None = None


@dataclass(frozen=True)
class Preset:
    """An amount of work: how long to train, on what, and how thoroughly to measure."""

    name: str
    source: str  # where the images come from: "embedded" or "full"
    epochs: int
    learning_rate: float  # of Adam, at the start
    halve_every: int  # epochs after which the learning rate is halved, again and again
    batch_size: int = 100  # as in the paper
    measuring: Measuring = Measuring()


PRESETS: dict[str, Preset] = {
    # Minutes on two cores, on the images that ship with the package.
    "quick": Preset(
        name="quick",
        source="embedded",
        epochs=8,
        learning_rate=1e-3,
        halve_every=2,
        measuring=Measuring(5_000, 2_000, likelihood_samples=200, likelihood_images=200),
    ),
    # The paper's schedule ten times shorter with ten times the rate, on the full data: about an
    # hour on two cores.
    "book": Preset(
        name="book",
        source="full",
        epochs=20,
        learning_rate=1e-3,
        halve_every=5,
        measuring=Measuring(likelihood_images=4_000, likelihood_error=0.5),
    ),
    # As printed in the paper's Appendix E; wants a GPU.
    "paper": Preset(name="paper", source="full", epochs=200, learning_rate=1e-4, halve_every=50),
}


def get_preset(name: str) -> Preset:
    """The preset of this name: `quick`, `book` or `paper`."""
    if name not in PRESETS:
        known = ", ".join(PRESETS)
        raise ValueError(f"There is no preset {name!r}; choose one of {known}.")
    return PRESETS[name]


def usual_epoch_images(dataset: str, preset: str) -> int | None:
    """As on how many images a run makes its steps unless told otherwise; None: on its own."""
    return None if preset == "quick" else data.entry(dataset).epoch_images


@dataclass(frozen=True)
class RunConfig:
    """Everything one training run depends on, besides the images themselves.

    Usually made by `RunConfig.from_preset`. `action` is None for the baselines, which have none.
    """

    dataset: str
    model: str  # "tvae", "vae", or "vae+" (a VAE on the augmented images)
    action: str | None
    residual: bool
    d: int
    seed: int
    preset: str
    source: str
    epochs: int
    learning_rate: float
    halve_every: int
    batch_size: int
    analytic: bool = False  # C1 and C2 from the posterior means instead of from samples
    families: tuple[str, ...] = ("rotation", "tilt", "shear")  # transformations of the triplets
    geometry: str = "clean"  # how the triplets are warped: "clean", "augmentor" or "exact"
    interpolation: str = "bicubic"
    # beyond the paper; `to_dict` leaves these out where they are as here
    further: tuple[str, ...] = ()  # terms of the loss, by the switches of `objective.FURTHER`
    weights: Mapping[str, float] = field(default_factory=dict)  # of loss terms, where not 1
    pairs: bool = False  # whether every transformation is that of two images
    k: int | None = None  # numbers in τ, for the actions of `tvae.motions`
    moved: bool = False  # whether images are moved at random first, see `transforms.Moved`
    parts: tuple[str, ...] | None = None  # what P learns of the way to the pose; None: all of it
    tau_width: float = 0.0  # standard deviation of q(τ|z₁, z₂); the paper's τ has none

    def __post_init__(self) -> None:
        object.__setattr__(self, "families", tuple(self.families))
        data.entry(self.dataset)  # refuses a data set that there is not
        if self.model not in MODELS:
            raise ValueError(
                f"There is no model {self.model!r}; choose one of {', '.join(MODELS)}."
            )
        get_preset(self.preset)
        object.__setattr__(self, "d", check_dimension(self.d))
        if self.model == "tvae":
            self._check_action()
        elif self.action is not None or self.residual:
            raise ValueError(
                f"The model {self.model!r} has no latent action: leave `action` and `residual` "
                "out, or choose the model 'tvae'."
            )
        for name in ("epochs", "halve_every", "batch_size"):
            check_whole(getattr(self, name), name)
        check_whole(self.seed, "The seed", least=0)
        rate = self.learning_rate
        if not isinstance(rate, (int, float)) or not math.isfinite(rate) or rate <= 0:
            raise ValueError(f"The learning rate must be a positive number, not {rate!r}.")
        self.triplets()  # refuses families, a geometry or an interpolation that there is not
        self._check_further()

    def _check_action(self) -> None:
        if self.action is None:
            raise ValueError(
                f"A T-VAE needs a latent action; choose one of {', '.join(actions.letters())}."
            )
        actions.tau_size(self.action, self.d)  # refuses an unknown letter and a d that does not fit
        if self.residual and not actions.find(self.action).has_residual:
            raise ValueError(f"The action {self.action} has no residual form.")

    def _check_further(self) -> None:
        object.__setattr__(self, "further", tuple(self.further))
        object.__setattr__(self, "weights", {n: float(w) for n, w in dict(self.weights).items()})
        object.__setattr__(self, "tau_width", check_width(self.tau_width))
        own = (self.further, self.pairs, self.k is not None, self.tau_width)
        if self.model != "tvae" and any(own):
            raise ValueError(
                f"The model {self.model!r} has no latent action, and so no use for `further`, `pairs`, "
                "`k` or `tau_width`: leave them out."
            )
        if unknown := sorted(set(self.further) - set(FURTHER)):
            raise ValueError(
                f"There are no further terms {', '.join(unknown)}; there are {', '.join(FURTHER)}."
            )
        terms = {*TERMS, *(name for switch in self.further for name in FURTHER[switch])}
        terms |= {KL_TAU} if self.tau_width else set()
        for name, weight in self.weights.items():
            if name not in terms or not 0 <= weight < math.inf:
                raise ValueError(
                    f"The weight {weight!r} of {name!r} cannot be: weights are numbers from 0 on, of "
                    f"the terms {', '.join(sorted(terms))}."
                )
        if not self.pairs and any(name.startswith("borrowed") for name in self.further):
            raise ValueError("Borrowed terms are those of pairs: set `pairs` as well.")
        if self.pairs and self.batch_size % 2:
            raise ValueError(f"Pairs need an even batch size, not {self.batch_size}.")
        if self.k is not None and not issubclass(actions.find(self.action or ""), SharedAction):
            raise ValueError(f"The size of τ is fixed for the action {self.action}: leave `k` out.")
        if not isinstance(self.moved, bool):
            raise ValueError(f"`moved` must be true or false, not {self.moved!r}.")
        if self.moved and self.model == "vae":
            raise ValueError("A plain VAE sees no views: leave `moved` out, or choose 'vae+'.")
        if self.parts is not None:
            if self.model != "tvae" or not issubclass(actions.find(self.action or ""), Pose):
                raise ValueError("Only the action P learns a way to the pose: leave `parts` out.")
            object.__setattr__(self, "parts", tuple(self.parts))
            actions.build(self.action or "", self.d, parts=self.parts)  # refuses unknown parts

    @classmethod
    def from_preset(
        cls,
        dataset: str,
        model: str = "tvae",
        action: str | None = None,
        residual: bool = False,
        d: int = 25,
        seed: int = 0,
        preset: str = "quick",
        **overrides: Any,
    ) -> RunConfig:
        """The configuration of a run with the schedule of a preset, single fields overridden.

        Without `action` a T-VAE gets the additive one, `A`. Any other field of `RunConfig` can be
        given by name, for instance `epochs=3`. With `pairs` the run follows the recipe `LENDING`,
        with `moved` its transformations are affine maps, unless told otherwise. On a data set of films
        the views are frames of them, and a T-VAE's loss has the terms of prediction.
        """
        chosen = get_preset(preset)
        if model == "tvae" and action is None:
            action = "A"
        own: dict[str, Any] = {"dataset": dataset, "model": model, "d": d, "seed": seed}
        own |= {"action": action, "residual": residual, "preset": preset}
        schedule = ("source", "epochs", "learning_rate", "halve_every", "batch_size")
        usual = {name: getattr(chosen, name) for name in schedule}
        usual |= LENDING if overrides.get("pairs") else {}
        if data.entry(dataset).frames is not None:
            usual["families"] = FILMS["families"]
            if model == "tvae":
                terms = (*FILMS["further"], *usual.get("further", ()))
                usual["further"] = tuple(dict.fromkeys(terms))
        usual |= MOVED if overrides.get("moved") and not overrides.get("pairs") else {}
        return cls.from_dict(usual | overrides | own)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RunConfig:
        """The inverse of `to_dict`; unknown and missing fields are errors that name them."""
        fields = dataclasses.fields(cls)
        known = {field.name for field in fields}
        required = {
            field.name
            for field in fields
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        }
        if unknown := sorted(set(values) - known):
            raise ValueError(
                f"A run has no setting {', '.join(unknown)}; the settings are "
                f"{', '.join(field.name for field in fields)}."
            )
        if missing := sorted(required - set(values)):
            raise ValueError(f"The configuration of the run lacks {', '.join(missing)}.")
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values that JSON can hold; `from_dict` gives the run back."""
        values = dataclasses.asdict(self)
        values |= {"families": list(self.families), "further": list(self.further)}
        values["parts"] = None if self.parts is None else list(self.parts)
        unset: dict[str, Any] = {"further": [], "weights": {}, "pairs": False, "k": None}
        unset |= {"tau_width": 0.0, "moved": False, "parts": None}
        return {k: v for k, v in values.items() if k not in unset or v != unset[k]}

    def stretched(self, images: int, epoch_images: int | None) -> RunConfig:
        """This run with its schedule counted in passes of `epoch_images`, on so many `images`.

        The number of steps and the place of every halving are then what they would be on a set of
        `epoch_images` images; None leaves the schedule as it is.
        """
        if epoch_images is None:
            return self
        there, here = (max(count // self.batch_size, 1) for count in (epoch_images, images))
        epochs, halving = (max(round(n * there / here), 1) for n in (self.epochs, self.halve_every))
        return dataclasses.replace(self, epochs=epochs, halve_every=halving)

    def triplets(self, pairs: bool = False) -> Triplets | Moved | Sequences:
        """The sampler of the views that this run is trained and measured on."""
        if "sequence" in self.families:
            frames = data.entry(self.dataset).frames
            if frames is None or len(self.families) > 1:
                raise ValueError(
                    "The family 'sequence' stands alone and needs a data set of films; "
                    f"{self.dataset} has {'none' if frames is None else 'films'}, and the families "
                    f"are {', '.join(self.families)}."
                )
            if self.moved:
                raise ValueError("The frames of a film are not moved first: leave `moved` out.")
            return Sequences(frames, pairs=pairs)
        views = Triplets(
            self.families, self.geometry, interpolation=self.interpolation, pairs=pairs
        )
        return Moved(views) if self.moved else views

    def drawn_triplets(self) -> Triplets | Moved | Sequences | None:
        """The sampler that training draws from: `own_triplets`, in pairs if that is asked for."""
        return None if self.model == "vae" else self.triplets(self.pairs)

    def own_triplets(self) -> Triplets | Moved | Sequences | None:
        """The sampler of the views that the model is trained on; a plain VAE sees none."""
        return None if self.model == "vae" else self.triplets()
