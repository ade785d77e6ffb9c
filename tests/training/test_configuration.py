"""Presets and run configurations: the numbers of the paper, names, and refusals that explain."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvae import actions, data
from tvae.training import configuration
from tvae.training.configuration import RunConfig


def test_the_paper_preset_is_as_printed():
    paper = configuration.get_preset("paper")
    assert (paper.epochs, paper.learning_rate, paper.halve_every) == (200, 1e-4, 50)
    assert (paper.batch_size, paper.source) == (100, "full")
    assert (paper.measuring.likelihood_samples, paper.measuring.likelihood_images) == (1000, None)
    assert (paper.measuring.anchors, paper.measuring.queries) == (100_000, 320_000)
    assert paper.measuring.likelihood_error is None


def test_the_book_preset_is_the_paper_ten_times_shorter_at_ten_times_the_rate():
    book, paper = configuration.get_preset("book"), configuration.get_preset("paper")
    assert (book.epochs * 10, book.halve_every * 10) == (paper.epochs, paper.halve_every)
    assert book.learning_rate == pytest.approx(paper.learning_rate * 10)
    assert book.source == "full"


def test_the_quick_preset_needs_no_download():
    quick = configuration.get_preset("quick")
    assert (quick.source, quick.epochs, quick.halve_every) == ("embedded", 8, 2)


def test_presets_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        configuration.get_preset("quick").epochs = 1  # type: ignore[misc]


def test_an_unknown_preset_lists_the_three():
    with pytest.raises(ValueError, match=r"no preset 'fast'; choose one of quick, book, paper"):
        configuration.get_preset("fast")
    with pytest.raises(ValueError, match="quick, book, paper"):
        RunConfig.from_preset("mnist", preset="fast")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dataset": "cifar"}, "no data set 'cifar'; choose one of mnist"),
        ({"model": "gan"}, "no model 'gan'; choose one of tvae, vae, vae\\+"),
        ({"action": "X"}, "latent action 'X'; known are A, M, MA, T, N"),
        ({"action": "M", "d": 25}, "use d = 26 instead of 25"),
        ({"action": "MA", "d": 9}, "use d = 10 instead of 9"),
        ({"action": "A", "residual": True}, "A has no residual form"),
        ({"model": "vae", "action": "A"}, "has no latent action"),
        ({"model": "vae", "residual": True}, "has no latent action"),
        ({"d": 0}, "d must be a positive whole number, not 0"),
        ({"d": -3}, "d must be a positive whole number, not -3"),
        ({"d": 2.5}, "d must be a positive whole number, not 2.5"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"epochs": 0}, "epochs must be a positive whole number, not 0"),
        ({"batch_size": 0}, "batch_size must be a positive whole number"),
        ({"halve_every": True}, "halve_every must be a positive whole number"),
        ({"learning_rate": float("nan")}, "learning rate must be a positive number"),
        ({"learning_rate": 0.0}, "learning rate must be a positive number"),
        ({"epoch": 3}, "no setting epoch; the settings are dataset"),
    ],
)
def test_refusals_say_what_is_wrong(arguments, message):
    with pytest.raises(ValueError, match=message) as caught:
        RunConfig.from_preset(**{"dataset": "mnist", **arguments})
    assert "\n" not in str(caught.value)


def test_a_missing_field_is_named():
    values = RunConfig.from_preset("mnist").to_dict()
    del values["epochs"]
    with pytest.raises(ValueError, match="lacks epochs"):
        RunConfig.from_dict(values)


@given(
    dataset=st.sampled_from(data.names()),
    action=st.sampled_from(actions.letters()),
    residual=st.booleans(),
    half=st.integers(1, 60),
    seed=st.integers(0, 2**31),
    preset=st.sampled_from(sorted(configuration.PRESETS)),
    epochs=st.integers(1, 500),
)
def test_a_configuration_survives_json(dataset, action, residual, half, seed, preset, epochs):
    config = RunConfig.from_preset(
        dataset,
        action=action,
        residual=residual and actions.find(action).has_residual,
        d=actions.nearest_dimension(action, 2 * half),
        seed=seed,
        preset=preset,
        epochs=epochs,
    )
    assert RunConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
