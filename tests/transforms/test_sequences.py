"""Triplets out of films: which frames they are, for whom, and what is refused."""

import pytest
import torch

from tvae.seeding import generator
from tvae.transforms import Sequences, windows

FILMS, FRAMES = 7, 5


def numbered(dtype=torch.uint8):
    """Frames whose only grey value is their row: frame t of film n is 5 n + t."""
    rows = torch.arange(FILMS * FRAMES)[:, None, None, None].expand(-1, 1, 3, 3)
    return rows.to(dtype) if dtype == torch.uint8 else rows.to(dtype) / 255


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("strides", [(1,), (2,), (1, 2)])
def test_three_frames_of_one_film_at_one_distance(dtype, strides):
    images, index = numbered(dtype), torch.arange(FILMS * FRAMES).repeat(20)
    rows = (images[index] / 255) if dtype == torch.uint8 else images[index]
    source = Sequences(FRAMES, strides).among(images, index)
    x0, x1, x2, drawn = source(rows, generator(0, "views"))
    assert all(x.dtype == torch.float32 for x in (x0, x1, x2))
    middle, after, before = ((255 * x[:, 0, 0, 0]).round().long() for x in (x0, x1, x2))
    assert torch.equal(after - middle, middle - before)
    assert set((after - middle).tolist()) == set(strides)
    for frame in (middle, after, before):
        assert torch.equal(frame // FRAMES, index // FRAMES)  # no film runs into the next
    assert torch.equal(drawn, torch.stack((middle % FRAMES, after - middle), 1))
    for s in strides:  # every moment that has neighbours comes up
        found = set((middle % FRAMES)[after - middle == s].tolist())
        assert found == set(range(s, FRAMES - s))


def test_pairs_are_two_moments_of_one_film():
    views, index = (
        Sequences(FRAMES, (1, 2), pairs=True),
        torch.randperm(34, generator=generator(0, "p")),
    )
    film, moment, stride = views.draw(index, generator(1, "views"))
    assert torch.equal(film[::2], index[::2] // FRAMES) and torch.equal(film[::2], film[1::2])
    assert torch.equal(stride[::2], stride[1::2])
    assert not torch.equal(moment[::2], moment[1::2])
    with pytest.raises(ValueError, match="even number of images, not 3"):
        views.draw(torch.arange(3), generator(1, "views"))


def test_called_as_any_source_it_takes_whole_films():
    images = numbered(torch.float32)
    x0, x1, x2, _ = Sequences(FRAMES)(images, generator(0, "views"))
    assert x0.shape == images.shape
    assert torch.allclose(x1 - x0, x0 - x2, atol=1e-6)
    again = Sequences(FRAMES)(images, generator(0, "views"))
    assert torch.equal(again.x0, x0)


def test_windows_are_all_runs_of_frames():
    films = torch.arange(2 * 6).view(2, 6)
    assert windows(films, 3).tolist()[0] == [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]]
    assert windows(films, 4).shape == (2, 3, 4)
    assert windows(films, 3, stride=2).tolist()[1] == [[6, 8, 10], [7, 9, 11]]


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: Sequences(2), "films of 3 frames or more, not 2"),
        (lambda: Sequences(4, (2,)), "films of 5 frames or more, not 4"),
        (lambda: Sequences(5, ()), "frames or more"),
        (lambda: Sequences(3, (0,)), "positive whole number, not 0"),
        (lambda: Sequences(4).among(numbered(), torch.arange(2)), "35 images are no whole number"),
        (lambda: windows(numbered().unflatten(0, (-1, 5)), 6), "no window of 6 frames"),
    ],
)
def test_errors_speak(call, words):
    with pytest.raises(ValueError, match=words):
        call()
