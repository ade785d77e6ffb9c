"""The name of a run: the one place where names are written and read.

    name = RunName("mnist", "tvae", "M", residual=True, d=26)
    name.label                 # 'M^R', as the tables write the model
    str(name)                  # 'mnist-MR-26', as files are called
    name.entry("book", 0)      # 'mnist-MR-26_book_seed0', its file in the ledger and its run folder
    RunName.parse("mnist-MR-26") == name

An R after the letter of an action means its residual form. `actions.register` admits no letter that
could be mistaken for another one's residual form, so that every name has one meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tvae import actions

#: Rows of the kNN tables that are no trained model, and how the tables write them.
BASELINES = {"pca": "PCA", "untrained": "untrained", "pixels": "pixels"}
_WITHOUT_ACTION = {"vae+": "VAE+", "vae": "VAE", **BASELINES}


def fold(label: str) -> str:
    """A label as it is compared: `M^R`, `MR` and `mr` are the same."""
    return label.replace("^", "").lower()


@dataclass(frozen=True)
class RunName:
    """Data set, model and dimension of a run; `d` is None for raw pixels, which have none to choose."""

    dataset: str
    model: str
    action: str | None = None
    residual: bool = False
    d: int | None = 25

    @classmethod
    def of(cls, run: Any) -> RunName:
        """The name of whatever has these five values: a configuration, a job, a row of a table."""
        read = run.__getitem__ if isinstance(run, Mapping) else partial(getattr, run)
        d = None if read("model") == "pixels" else int(read("d"))
        return cls(
            read("dataset"), read("model"), read("action") or None, bool(read("residual")), d
        )

    @classmethod
    def parse(cls, text: str) -> RunName:
        """The inverse of `str`; the label may also be written as in the tables, in any case."""
        match = re.fullmatch(r"(?P<dataset>.+)-(?:(?P<label>[^-]+)-(?P<d>\d+)|pixels)", text)
        if match is None:
            raise ValueError(
                f"{text!r} does not name a run; the form is data set, model, dimension: mnist-A-25."
            )
        if match["d"] is None:
            return cls(match["dataset"], "pixels", d=None)
        return cls.of_label(match["dataset"], match["label"], int(match["d"]))

    @classmethod
    def of_label(cls, dataset: str, label: str, d: int) -> RunName:
        """The run of the model that the tables call `label`: `A`, `M^R` (or `MR`), `VAE+`, `PCA`."""
        model, action, residual = _read(label)
        return cls(dataset, model, action, residual, d)

    @property
    def label(self) -> str:
        """The model as the tables write it: `A`, `M^R`, `VAE+`, `PCA`."""
        if self.action is None:
            return _WITHOUT_ACTION[self.model]
        return f"{self.action}^R" if self.residual else self.action

    def nearest(self) -> RunName:
        """The run at the dimension that its action takes: M at 26 for M at a nominal 25."""
        d = None if self.d is None else actions.nearest_dimension(self.action, self.d)
        return replace(self, d=d)

    def __str__(self) -> str:
        name = f"{self.dataset}-{self.label.replace('^', '')}"
        return name if self.d is None else f"{name}-{self.d}"

    def entry(self, preset: str, seed: int, tag: str = "") -> str:
        """The name with preset and seed; runs with a tag lie in a folder of that name."""
        name = f"{self}_{preset}_seed{seed}"
        return f"{tag}/{name}" if tag else name


def _read(label: str) -> tuple[str, str | None, bool]:
    """Model, action and whether it is the residual form."""
    known: dict[str, tuple[str, str | None, bool]] = {
        written: (model, None, False) for model, written in _WITHOUT_ACTION.items()
    }
    for letter in actions.letters():
        known[letter] = ("tvae", letter, False)
        if actions.find(letter).has_residual:
            known[f"{letter}^R"] = ("tvae", letter, True)
    del known["pixels"]  # they have no dimension in their name
    for written, meaning in known.items():
        if fold(written) == fold(label):
            return meaning
    raise ValueError(f"There is no model {label!r}; the names have one of {', '.join(known)}.")
