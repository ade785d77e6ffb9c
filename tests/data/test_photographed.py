"""The two photographed films: read where they are, and what is said where they are not."""

import numpy as np
import pytest
import torch

from tvae.data import DataNotFound, photographed
from tvae.seeding import generator


@pytest.fixture
def root(tmp_path):
    """Files of the right layout: object n at view t is n + t everywhere; a face that gets brighter."""
    value = (np.arange(20)[:, None] + np.arange(72)).astype(np.uint8)
    for name, images in (
        ("coil20/coil20_128", np.tile(value[..., None, None], (1, 1, 128, 128))),
        (
            "freyfaces/freyfaces_28x20",
            np.tile(np.arange(9, dtype=np.uint8)[:, None, None], (28, 20)),
        ),
    ):
        (tmp_path / name).parent.mkdir()
        np.savez(tmp_path / f"{name}.npz", images=images)
    return tmp_path


def test_objects_on_a_turntable_make_films_of_known_velocity(root):
    objects = photographed.coil20(root)
    assert objects.shape == (20, 72, 1, 28, 28) and int(objects[3, 10].float().mean()) == 13
    films, speed = photographed.coil20_films(objects[:1], 200, 4, generator(0, "films"))
    view = films[:, :, 0, 0, 0].long()  # of object 0 the grey is the view
    steps = (view.diff(dim=1) + 36) % 72 - 36
    assert torch.equal(steps * photographed.DEGREES, speed[:, None].expand_as(steps))
    assert set((speed / photographed.DEGREES).tolist()) == set(range(-6, 7))


def test_faces_are_padded_and_keep_their_order(root):
    faces = photographed.freyfaces(root)
    assert faces.shape == (9, 1, 28, 28)
    assert int(faces[5, 0, :, :4].max()) == 0 and int(faces[5, 0, 0, 4]) == 5


def test_errors_speak(tmp_path, root):
    with pytest.raises(DataNotFound, match=r"coil20 was not found.*may not bring it along"):
        photographed.coil20(tmp_path / "nowhere")
    (root / "freyfaces" / "freyfaces_28x20.npz").write_bytes(b"no archive")
    with pytest.raises(ValueError, match="is damaged"):
        photographed.freyfaces(root)
    np.savez(root / "coil20" / "coil20_128.npz", images=np.zeros((20, 71, 8, 8), np.uint8))
    with pytest.raises(ValueError, match="expected bytes of shape"):
        photographed.coil20(root)
