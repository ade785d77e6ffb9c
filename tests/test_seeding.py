"""Named random streams: repeatable, and independent of each other."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tvae.seeding import derive, generator


@given(st.integers(0, 2**40), st.text(max_size=12))
def test_same_seed_and_name_give_the_same_stream(seed, name):
    a = torch.rand(4, generator=generator(seed, name))
    b = torch.rand(4, generator=generator(seed, name))
    assert torch.equal(a, b)


def test_names_and_seeds_separate_streams():
    keys = [(seed, name) for seed in range(50) for name in ("weights", "noise", "shuffle")]
    assert len({derive(*key) for key in keys}) == len(keys)
    draws = torch.stack([torch.randn(2000, generator=generator(*key)) for key in keys[:20]])
    correlation = torch.corrcoef(draws) - torch.eye(20)
    assert correlation.abs().max() < 5 / 2000**0.5  # five standard errors


def test_the_global_generator_is_left_alone():
    state = torch.random.get_rng_state()
    torch.rand(3, generator=generator(0, "x"))
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize("seed", [0, 1, 2**62])
def test_derived_seeds_fit_torch(seed):
    assert 0 <= derive(seed, "x") < 2**63
