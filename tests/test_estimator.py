"""scikit-learn's own checks of an estimator, and what a user of pipelines relies on."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from tvae import data
from tvae.estimator import TVAEEmbedding
from tvae.evaluation import embed
from tvae.models import TVAE, VAE
from tvae.networks import Encoder28
from tvae.training import fit
from tvae.transforms import Moved, Triplets

pytestmark = pytest.mark.usefixtures("one_thread")


# The checks make up tables of any number of features, so they are run on single rows of pixels; a
# plain VAE and a T-VAE. All apply and none is expected to fail.
CHECKED = [
    TVAEEmbedding(2, action=None, image_shape="row", epochs=1),
    TVAEEmbedding(2, image_shape="row", epochs=1),
]


@parametrize_with_checks(CHECKED)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_no_check_fails_and_none_is_left_out():
    """`check_estimator` itself; the array API needs SCIPY_ARRAY_API set before scipy is imported."""
    found = check_estimator(clone(CHECKED[0]), on_skip=None, on_fail=None)
    kinds = {outcome["check_name"]: outcome["status"] for outcome in found}
    assert {name for name, kind in kinds.items() if kind != "passed"} <= {"check_array_api_input"}
    assert len(found) > 40


@pytest.fixture(scope="module")
def digits():
    """scikit-learn's digits, 8×8, values 0 to 16."""
    return train_test_split(*load_digits(return_X_y=True), test_size=400, random_state=0)


@pytest.fixture(scope="module")
def fitted(digits):
    """A plain VAE, which trains in a second; what is tested here is the same for a T-VAE."""
    return TVAEEmbedding(8, action=None, epochs=25, halve_every=20, device="cpu").fit(digits[0])


def quick(**changes):
    return TVAEEmbedding(**{"d": 4, "epochs": 1, "device": "cpu", **changes})


def test_codes_classify_digits(digits, fitted):
    train, test, train_labels, test_labels = digits
    nearest = KNeighborsClassifier(5).fit(fitted.transform(train), train_labels)
    trained = nearest.score(fitted.transform(test), test_labels)
    # A code of 8 dimensions that has learnt something; chance is 0.1, raw pixels reach about 0.98.
    assert trained > 0.75
    assert len(fitted.history_) == 25
    assert fitted.history_[-1]["nllx0"] < fitted.history_[0]["nllx0"]


def test_decoding_the_codes_comes_close_to_the_images(digits, fitted):
    test = digits[1]
    again = fitted.inverse_transform(fitted.transform(test))
    assert again.shape == test.shape and again.min() >= 0 and again.max() <= 16
    error = np.square(again - test).mean()
    assert error < 0.8 * np.square(test - digits[0].mean(0)).mean()


def test_works_in_a_pipeline_and_a_grid_search(digits):
    train, _, labels, _ = digits
    pipeline = make_pipeline(quick(), KNeighborsClassifier(3))
    search = GridSearchCV(pipeline, {"tvaeembedding__d": np.array([2, 6])}, cv=2)
    search.fit(train[:300], labels[:300])
    assert search.best_params_["tvaeembedding__d"] in (2, 6)
    assert 0 < search.best_score_ <= 1


def test_is_the_same_as_fitting_the_model_by_hand(digits):
    pixels = digits[0][:250].astype(np.float32)
    ours = quick(random_state=3, action=None).fit(pixels)
    seed = int(np.random.RandomState(3).randint(2**31 - 1))
    images = torch.from_numpy(pixels / 16).view(-1, 1, 8, 8)
    model = ours._model(4, seed)
    fit(model, images, epochs=1, halve_every=2, batch_size=100, seed=seed, device="cpu")
    np.testing.assert_allclose(ours.transform(pixels), embed(model, images), atol=1e-6)


def test_same_random_state_same_codes_and_another_gives_others(digits):
    x = digits[0][:200]
    one, two, other = (quick(random_state=s).fit_transform(x) for s in (1, 1, 2))
    assert np.array_equal(one, two) and not np.allclose(one, other)


def test_cloned_pickled_and_printed(digits, fitted):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params() and not hasattr(copy, "model_")
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.transform(digits[1]), fitted.transform(digits[1]))
    assert repr(TVAEEmbedding(epochs=3)) == "TVAEEmbedding(epochs=3)"


def test_names_and_data_frames(digits, fitted):
    assert fitted.get_feature_names_out().tolist() == [f"tvaeembedding{i}" for i in range(8)]
    frame = clone(fitted).set_params(epochs=1).set_output(transform="pandas")
    frame = frame.fit_transform(digits[0][:100])
    assert list(frame.columns)[-1] == "tvaeembedding7" and frame.shape == (100, 8)


def test_size_decides_the_networks():
    rng = np.random.default_rng(0)
    built_in = quick(batch_size=10).fit(rng.random((10, 784)))
    assert isinstance(built_in.model_, TVAE) and isinstance(built_in.model_.encoder, Encoder28)
    assert built_in.model_.likelihood == "bernoulli"
    colour = quick(image_shape=(3, 64, 64), action=None, batch_size=2)
    colour.fit(rng.random((2, 3 * 64 * 64)))
    assert colour.model_.likelihood == "gaussian" and type(colour.model_) is VAE
    other = quick(image_shape=(4, 6)).fit(rng.random((10, 24)))
    assert other.image_shape_ == (1, 4, 6)


def test_rows_are_images_channel_by_channel():
    """A batch (n, C, H, W) flattened by numpy comes back as it was."""
    rng = np.random.default_rng(1)
    images = rng.random((6, 2, 3, 5)).astype(np.float32)
    images[0, 0, 0, :2] = 0, 1
    estimator = quick(image_shape=(2, 3, 5)).fit(images.reshape(6, -1))
    assert torch.equal(estimator._images(images.reshape(6, -1)), torch.from_numpy(images))


def test_actions_and_triplets_are_passed_on():
    x = np.random.default_rng(2).random((20, 64))
    assert quick(action="M", residual=True).fit(x).model_.settings["residual"] is True
    with pytest.raises(ValueError, match="even"):
        quick(d=5, action="M").fit(x)
    flips = Triplets.from_callables(lambda v: v.flip(-1), lambda v: v.flip(-1))
    plain, plus = (quick(action=None, triplets=t).fit_transform(x) for t in (None, flips))
    assert not np.allclose(plain, plus)
    assert set(quick(triplets=flips).fit(x).history_[0]) >= {"c1", "c2", "div"}


def test_range_is_learnt_and_new_values_are_clipped():
    x = np.random.default_rng(3).uniform(-3, 5, (30, 16))
    estimator = quick().fit(x)
    assert estimator.value_range_ == (x.min(), x.max())
    outside = np.where(x > 0, x + 100, x)
    clipped = np.where(x > 0, x.max(), x)
    assert np.array_equal(estimator.transform(outside), estimator.transform(clipped))
    constant = quick().fit(np.full((5, 16), 7.0))
    assert np.isfinite(constant.transform(np.full((5, 16), 7.0))).all()


def test_bytes_are_welcome():
    x = np.random.default_rng(4).integers(0, 256, (20, 64)).astype(np.uint8)
    estimator = quick(value_range=(0, 255)).fit(x)
    codes = estimator.transform(x)
    assert codes.dtype == np.float64
    np.testing.assert_allclose(codes, estimator.transform(x.astype(np.float64)), atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "columns", "message"),
    [
        ({}, 10, "10 features are not a square grey image: pass image_shape"),
        ({"image_shape": (3, 3)}, 10, r"10 features, which image_shape=\(3, 3\) does not account"),
        ({"image_shape": "column"}, 10, "or 'row', not 'column'"),
        ({"value_range": (0, 0.5)}, 16, r"X must lie in value_range=\(0, 0.5\)"),
        ({"value_range": (1, 0)}, 16, "black < white"),
        ({"d": 0}, 16, "d must be a positive whole number, not 0"),
        ({"d": 2.5}, 16, "d must be a positive whole number"),
        ({"action": "Q"}, 16, "Q"),
        ({"epochs": 0}, 16, "epochs must be positive"),
        ({"batch_size": 0}, 16, "batch size must be positive"),
    ],
)
def test_mistakes_are_told_in_one_sentence(changes, columns, message):
    x = np.random.default_rng(5).random((12, columns))
    with pytest.raises(ValueError, match=message):
        quick(**changes).fit(x)


def test_codes_of_another_width_are_refused(fitted):
    with pytest.raises(ValueError, match=r"shape \(n_samples, 8\), not \(3, 7\)"):
        fitted.inverse_transform(np.zeros((3, 7)))


def test_global_random_state_does_not_matter(digits):
    codes = []
    state = torch.get_rng_state()
    for seed in (99, 100):
        torch.manual_seed(seed)
        codes.append(quick().fit(digits[0][:100]).transform(digits[1][:5]))
    torch.set_rng_state(state)
    assert np.array_equal(*codes)


def test_where_the_pose_is_apart_the_embedding_is_the_content():
    images = data.load("mnist", source="embedded").take(40).images.flatten(1).numpy()
    views = Moved(Triplets(("affine",), "exact"))
    fitted = TVAEEmbedding(d=9, action="P", epochs=1, triplets=views, device="cpu").fit(images)
    codes = fitted.transform(images)
    assert codes.shape == (40, 3) and len(fitted.get_feature_names_out()) == 3
    drawn = fitted.inverse_transform(codes)  # upright: all six numbers of the pose are 0
    assert drawn.shape == images.shape
    with pytest.raises(ValueError, match=r"\(n_samples, 3\)"):
        fitted.inverse_transform(np.zeros((2, 9)))
