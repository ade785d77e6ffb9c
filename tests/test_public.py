"""The names that others rely on: a change of this list is always deliberate."""

import inspect
import subprocess
import sys
from types import ModuleType

import pytest
import torch

import tvae

MODULES = {
    "actions",
    "data",
    "evaluation",
    "experiments",
    "layers",
    "models",
    "networks",
    "objective",
    "paper",
    "runs",
    "seeding",
    "training",
    "transforms",
}
CLASSES = {"RunConfig", "TVAE", "TVAEEmbedding", "Triplets", "VAE"}
FUNCTIONS = {"evaluate", "fit", "generator", "load", "pretrained", "train"}
METHODS = {
    "VAE": {"as_vae": False, "decode": True, "decode_logits": True, "encode": True},
    "TVAE": {
        "act": True,
        "act_inverse": True,
        "as_vae": True,
        "decode": True,
        "decode_logits": True,
        "encode": True,
        "infer": True,
    },
    "Triplets": {"__call__": True, "from_callables": True, "replay": True, "settings": True},
}


def test_the_public_surface():
    assert set(tvae.__all__) == MODULES | CLASSES | FUNCTIONS
    assert set(dir(tvae)) == set(tvae.__all__)


@pytest.mark.parametrize("name", sorted(MODULES | CLASSES | FUNCTIONS))
def test_every_name_resolves_and_is_documented(name):
    value = getattr(tvae, name)
    kind = ModuleType if name in MODULES else type if name in CLASSES else None
    assert kind is None or isinstance(value, kind)
    assert kind is not None or inspect.isfunction(value)
    assert inspect.getdoc(value), f"tvae.{name} has no docstring"


@pytest.mark.parametrize("name", sorted(METHODS))
def test_methods_exist_are_documented_and_typed(name):
    cls = getattr(tvae, name)
    for method, expected in METHODS[name].items():
        assert hasattr(cls, method) == expected, f"{name}.{method}"
        if expected:
            function = getattr(cls, method)
            assert inspect.getdoc(function), f"{name}.{method} has no docstring"
            signature = inspect.signature(function)
            assert signature.return_annotation is not inspect.Signature.empty


def test_what_the_methods_give_back():
    model = tvae.TVAE(4).eval()
    x = torch.rand(3, 1, 28, 28, generator=tvae.generator(0, "images"))
    triplet = tvae.Triplets()(x, tvae.generator(0, "triplets"))
    mean, logvar = model.encode(triplet.x0)
    z, tau = model.infer(triplet.x1, triplet.x2)
    assert mean.shape == logvar.shape == z.shape == tau.shape == (3, 4)
    assert model.decode(model.act(z, tau)).shape == (3, 1, 28, 28)
    assert model.decode(model.act_inverse(z, tau)).shape == (3, 1, 28, 28)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="No tvae attribute nonsense"):
        tvae.nonsense  # noqa: B018


def test_importing_loads_nothing_heavy():
    """`import tvae` reads one small stub; each name brings what it needs on first use."""
    code = "import sys, tvae; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    brought = set(result.stdout.split()) - sys.stdlib_module_names
    heavy = {"torch", "numpy", "pandas", "sklearn", "matplotlib", "pydantic", "rich", "yaml"}
    assert "tvae" in brought and not brought & heavy
