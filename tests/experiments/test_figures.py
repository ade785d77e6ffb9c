"""The figure style: distinct colours, grids that show what they are given, clear errors."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_rgb

from tvae import actions
from tvae.evaluation.statistics import Estimate
from tvae.experiments import figures


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    with mpl.rc_context():
        figures.use_style()
        yield
        plt.close("all")


def test_every_model_has_a_colour_and_a_mark_of_its_own() -> None:
    colours, marks = map(set, zip(*figures.LOOKS.values(), strict=True))
    assert len(colours) == len(marks) == len(figures.LOOKS)
    assert colours <= set(figures.PALETTE.values())


def test_residual_forms_look_like_their_plain_forms() -> None:
    for letter in ("M", "MA", "T", "N"):
        assert figures.colour(f"{letter}^R") == figures.colour(f"{letter}R")
        assert figures.colour(f"{letter}^R") == figures.colour(letter)
        assert figures.marker(f"{letter}^R") == figures.marker(letter)
    with pytest.raises(ValueError, match="'Q' has no colour; the names are A, M"):
        figures.colour("Q")


def test_every_built_in_action_has_a_colour() -> None:
    for letter in ("A", "M", "MA", "T", "N"):
        assert actions.build(letter, 4) is not None
        figures.colour(letter)


def test_lines_can_be_told_apart_without_colour() -> None:
    labels = [*figures.LOOKS, "pixels", "PCA", "untrained"]
    looks = [figures.look(label) for label in labels]
    assert len({s["marker"] for s in looks}) == len({s["color"] for s in looks}) == len(labels)


def test_a_curve_is_a_mean_with_its_interval() -> None:
    ax = plt.figure().add_subplot()
    values = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    figures.curve(ax, torch.arange(4), values, "A")
    (line,), (band,) = ax.lines, ax.collections
    np.testing.assert_allclose(line.get_ydata(), values.mean(0), rtol=1e-5)
    assert (line.get_label(), line.get_color()) == ("A", figures.colour("A"))
    ends = [Estimate.of(column) for column in values.T]
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.max() == pytest.approx(max(e.mean + e.half for e in ends), rel=1e-5)
    assert heights.min() == pytest.approx(min(e.mean - e.half for e in ends), rel=1e-5)
    figures.intervals(ax, range(4), ends, "pixels")
    means = np.asarray(ax.lines[1].get_ydata(), dtype=float)
    np.testing.assert_allclose(means, values.mean(0).numpy(), rtol=1e-5)


def _lightness(colour: str) -> float:
    """Relative luminance, as the guidelines for readable web pages define it."""
    channels = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return float(np.dot(channels, [0.2126, 0.7152, 0.0722]))


def test_lines_are_visible_on_the_white_ground() -> None:
    for colour in mpl.rcParams["axes.prop_cycle"].by_key()["color"]:
        contrast = 1.05 / (_lightness(colour) + 0.05)
        assert contrast > 2, colour
    assert to_rgb(mpl.rcParams["figure.facecolor"]) == (1, 1, 1)
    assert mpl.rcParams["savefig.transparent"] is False


def _distance(one: str, two: str) -> float:
    """How far apart two colours are, as seen by an eye that cannot tell red from green."""
    # Brettel's projection for deuteranopes, in linear light (Viénot, Brettel and Mollon 1999)
    seen = np.array([[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]])
    light = [np.array(to_rgb(c)) ** 2.2 for c in (one, two)]
    return float(np.linalg.norm(seen @ light[0] - seen @ light[1]))


def test_what_is_compared_most_is_far_apart() -> None:
    """A and VAE+ stand in one figure in most chapters."""
    plain = np.linalg.norm(np.subtract(*(to_rgb(figures.colour(k)) for k in ("A", "VAE+"))))
    assert plain > 0.9  # of the root of 3, from black to white; blue and sky are 0.47 apart
    assert _distance(figures.colour("A"), figures.colour("VAE+")) > 0.4


def test_use_style_twice_changes_nothing() -> None:
    before = dict(mpl.rcParams)
    figures.use_style()
    assert dict(mpl.rcParams) == before


@given(
    number=st.integers(1, 12),
    columns=st.integers(1, 6),
    channels=st.sampled_from([1, 3]),
    pad=st.integers(0, 3),
)
def test_mosaic_puts_every_image_in_its_place(
    number: int, columns: int, channels: int, pad: int
) -> None:
    height, width = 4, 5
    images = np.random.default_rng(number).random((number, channels, height, width))
    canvas = figures.mosaic(images, columns, pad=pad)
    covered = np.zeros(canvas.shape[:2], dtype=bool)
    for k in range(number):
        row, column = divmod(k, columns)
        top, left = row * (height + pad), column * (width + pad)
        part = canvas[top : top + height, left : left + width]
        expected = np.broadcast_to(images[k].transpose(1, 2, 0), (height, width, 3))
        np.testing.assert_array_equal(part, expected)
        covered[top : top + height, left : left + width] = True
    assert (canvas[~covered] == 1).all()


def test_mosaic_reads_bytes_and_tensors_alike() -> None:
    bytes_ = torch.arange(2 * 9, dtype=torch.uint8).reshape(2, 1, 3, 3) * 14
    np.testing.assert_allclose(
        figures.mosaic(bytes_, 2), figures.mosaic((bytes_ / 255).double().numpy(), 2)
    )


@pytest.mark.parametrize("shape", [(2, 3, 3), (0, 1, 3, 3), (1, 2, 3, 3)])
def test_mosaic_refuses_what_is_no_picture(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"a grid needs \(N, C, H, W\)"):
        figures.mosaic(torch.zeros(shape), 2)


def test_mosaic_refuses_what_is_not_finite() -> None:
    with pytest.raises(ValueError, match="not finite"):
        figures.mosaic(torch.full((1, 1, 2, 2), float("nan")), 1)
    with pytest.raises(ValueError, match="columns is 0"):
        figures.mosaic(torch.zeros(1, 1, 2, 2), 0)


def test_image_grid_labels_rows_and_columns() -> None:
    images = torch.rand(2, 3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    ax = figures.image_grid(images, row_labels=["a", "b"], column_labels=["x", "y", "z"])
    ax.figure.canvas.draw()
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["x", "y", "z"]
    np.testing.assert_array_equal(
        ax.images[0].get_array(), figures.mosaic(images.reshape(6, 1, 8, 8), 3)
    )
    # every label stands at the middle of its row
    assert list(ax.get_yticks()) == [3.5, 12.5]


def test_image_grid_refuses_wrong_labels() -> None:
    with pytest.raises(ValueError, match="1 row labels for 2 rows"):
        figures.image_grid(torch.zeros(4, 1, 3, 3), columns=2, row_labels=["only one"])
    with pytest.raises(ValueError, match="leave columns out"):
        figures.image_grid(torch.zeros(2, 2, 1, 3, 3), columns=3)


def test_graphical_model_draws_every_node_and_edge() -> None:
    ax = plt.figure().add_subplot()
    figures.graphical_model(
        {"z": (0, 1), "x": (0, 0), "tau": (1, 1)},
        [("z", "x"), ("tau", "x")],
        dashed=[("x", "z")],
        observed=["x"],
        deterministic=["tau"],
        labels={"tau": r"$\tau$"},
        ax=ax,
    )
    ax.figure.canvas.draw()
    assert {t.get_text() for t in ax.texts} == {"$z$", "$x$", r"$\tau$"}
    arrows = [p for p in ax.patches if type(p).__name__ == "FancyArrowPatch"]
    assert len(arrows) == 3
    with pytest.raises(ValueError, match="'y' is not a node; the nodes are z"):
        figures.graphical_model({"z": (0, 0)}, [("z", "y")], ax=ax)
