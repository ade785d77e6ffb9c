"""Names of runs: what is written is read back, for every letter that can be registered."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tvae import actions
from tvae.runs.name import BASELINES, RunName


@pytest.mark.parametrize(
    ("name", "label", "text"),
    [
        (RunName("mnist", "tvae", "A"), "A", "mnist-A-25"),
        (RunName("mnist", "tvae", "M", True, 26), "M^R", "mnist-MR-26"),
        (RunName("fashion-mnist", "tvae", "MA", True, 26), "MA^R", "fashion-mnist-MAR-26"),
        (RunName("mnist", "vae+", d=10), "VAE+", "mnist-VAE+-10"),
        (RunName("mnist", "vae"), "VAE", "mnist-VAE-25"),
        (RunName("mnist", "pixels", d=None), "pixels", "mnist-pixels"),
        (RunName("mnist", "pca"), "PCA", "mnist-PCA-25"),
        (RunName("mnist", "untrained"), "untrained", "mnist-untrained-25"),
    ],
)
def test_the_papers_names_are_what_they_were(name, label, text):
    assert (name.label, str(name)) == (label, text)
    assert RunName.parse(text) == name
    assert RunName.of(SimpleNamespace(**{**vars(name), "action": name.action or ""})) == name
    assert name.entry("book", 3) == f"{text}_book_seed3"
    assert name.entry("book", 3, "smoke") == f"smoke/{text}_book_seed3"


@pytest.mark.parametrize("text", ["mnist-M^R-26", "mnist-mr-26", "mnist-MR-26"])
def test_a_label_may_be_written_as_in_the_tables_and_in_any_case(text):
    assert RunName.parse(text) == RunName("mnist", "tvae", "M", True, 26)


@pytest.mark.parametrize("text", ["mnist", "mnist-A", "mnist-A-x", "mnist-pixels-784", "-A-25"])
def test_what_names_no_run(text):
    with pytest.raises(ValueError):
        RunName.parse(text)


def test_an_unknown_model_is_told_which_there_are():
    with pytest.raises(ValueError, match=r"no model 'AR'; .* PCA, untrained, A, M, M\^R, MA"):
        RunName.parse("mnist-AR-25")


letter = st.from_regex(r"[A-Za-z0-9_]{1,4}", fullmatch=True)


@given(
    wanted=st.lists(
        st.tuples(letter | st.sampled_from(["SR", "s2", "X_1"]), st.booleans()), max_size=6
    ),
    dataset=st.from_regex(r"[a-z0-9]{1,5}(-[a-z0-9]{1,5}){0,2}", fullmatch=True),
    d=st.integers(1, 10**6),
)
def test_every_letter_that_is_registered_survives(wanted, dataset, d):
    """Whatever was let in, in whatever order: no two names alike, not even apart from case."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(actions, "_REGISTRY", dict(actions._REGISTRY))
        for number, (letter, has_residual) in enumerate(wanted):
            kind = type(f"Own{number}", (actions.Action,), {"has_residual": has_residual})
            try:
                actions.register(letter)(kind)
            except ValueError:
                continue
        runs = [RunName(dataset, model, d=d) for model in ("vae", "vae+", *BASELINES)]
        runs[-1] = RunName(dataset, "pixels", d=None)
        for known in actions.letters():
            runs.append(RunName(dataset, "tvae", known, False, d))
            if actions.find(known).has_residual:
                runs.append(RunName(dataset, "tvae", known, True, d))
        for run in runs:
            assert RunName.parse(str(run)) == run
            if run.d is not None:
                assert RunName.of_label(dataset, run.label, d) == run
        assert len({str(run).lower() for run in runs}) == len(runs)


@given(letter)
def test_a_letter_alone_can_always_be_registered(letter):
    """What is refused is refused for a reason: a clash with a letter or a model that is there."""
    taken = {"a", "m", "mr", "ma", "mar", "t", "tr", "n", "nr", "e", "l", "w", "g"}
    taken |= {"p", "ap", "vae", "pca"}
    assume(letter.lower() not in taken and f"{letter}r".lower() not in taken)
    assume(letter.strip("_"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(actions, "_REGISTRY", dict(actions._REGISTRY))
        actions.register(letter)(type("Own", (actions.Action,), {}))
        assert letter in actions.letters()


def _own(letter, **values):
    actions.register(letter)(type(f"Own{letter}", (actions.Action,), values))


def test_letters_that_names_would_mix_up_are_refused(monkeypatch):
    monkeypatch.setattr(actions, "_REGISTRY", dict(actions._REGISTRY))
    for letter in ("MR", "mr", "a", "VAE", "pca", "Pixels", "ß", "", "__", "M^R", "a b"):
        with pytest.raises(ValueError) as caught:
            _own(letter)
        assert "\n" not in str(caught.value)
    _own("AR")  # A has no residual form, so that this one means nothing else
    _own("SR")
    with pytest.raises(ValueError, match=r"'SR' already names OwnSR.*R for the residual form"):
        _own("S")
    _own("S", has_residual=False)
    assert RunName.parse("mnist-SR-25") == RunName("mnist", "tvae", "SR")
