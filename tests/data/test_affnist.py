"""AffNIST: the regenerator, the published files, and the resizing that both use."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage
from scipy.io import savemat

from tvae.data import DataNotFound, Dataset, affnist, affnist_mat, counter_based, load
from tvae.data.dataset import describe
from tvae.data.resampling import resize, resize_matrix

FULL = os.environ.get("TVAE_DATA")


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Thousands of small steps: threads that wait for each other would only slow them down."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def mnist() -> Dataset:
    return affnist.originals("test", "embedded")


# ---------------------------------------------------------------- random numbers by number


def test_counter_is_splitmix64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter_based, "derive", lambda seed, name: 1234567)
    # the first outputs of the reference implementation for the seed 1234567
    expected = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert counter_based.words(0, "", np.arange(5)).tolist() == expected
    assert counter_based.words(0, "", np.array([4, 1])).tolist() == [expected[4], expected[1]]
    draws = counter_based.uniforms(0, "", np.array([0, 1]), 2)
    assert np.allclose(draws.ravel() * 2**64, expected[:4], rtol=1e-12)


def test_counter_numbers_are_uniform_and_uncorrelated() -> None:
    draws = counter_based.uniforms(3, "test", np.arange(50_000), 6)
    assert draws.min() >= 0 and draws.max() < 1
    # for n uniform numbers the mean has standard deviation 1 / sqrt(12 n); five of them here
    assert np.all(np.abs(draws.mean(0) - 0.5) < 5 / math.sqrt(12 * 50_000))
    correlation = np.corrcoef(np.hstack([draws[:-1], draws[1:]]).T) - np.eye(12)
    assert np.abs(correlation).max() < 5 / math.sqrt(50_000)


# ---------------------------------------------------------------- resizing


@settings(max_examples=40)
@given(st.integers(1, 110), st.integers(1, 60), st.integers(0, 2**31))
def test_resizing_equals_torchs_antialiased_bilinear(n_in: int, n_out: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    images = torch.rand((2, 1, n_in, 9), generator=draw)
    expected = F.interpolate(images, (n_out, 7), mode="bilinear", antialias=True)
    assert float((resize(images, (n_out, 7)) - expected).abs().max()) < 1e-5


def test_forty_to_twentyeight_equals_torch(mnist: Dataset) -> None:
    images = affnist.regenerate(mnist, 200, size=40).images
    expected = F.interpolate(images.float() / 255, 28, mode="bilinear", antialias=True)
    assert float((resize(images.float() / 255, 28) - expected).abs().max()) < 1e-5
    # as bytes: the same, rounded
    small = resize(images, 28)
    assert small.dtype == torch.uint8
    assert float((small.float() - expected * 255).abs().max()) <= 0.5 + 1e-3
    assert torch.allclose(resize_matrix(40, 28).sum(1), torch.ones(28, dtype=torch.float64))
    with pytest.raises(ValueError, match="positive"):
        resize_matrix(40, 0)


# ---------------------------------------------------------------- the drawn parameters


def test_parameters_lie_in_their_ranges_and_fill_them(mnist: Dataset) -> None:
    drawn = affnist.parameters(mnist.images, torch.arange(32_000))
    for values, low, high in (
        (drawn.rotation, -20, 20),
        (drawn.shear, -0.2, 0.2),
        (drawn.expand_x, 0.8, 1.2),
        (drawn.expand_y, 0.8, 1.2),
    ):
        assert low <= float(values.min()) < low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) < float(values.max()) <= high
        share = torch.histc((values - low) / (high - low), 10, 0, 1) / len(values)
        assert float((share - 0.1).abs().max()) < 0.01  # flat: five standard deviations
    assert drawn.original.tolist() == torch.arange(1000).repeat(32).tolist()


def test_linear_part_is_rotation_times_shear_times_expansion(mnist: Dataset) -> None:
    drawn = affnist.parameters(mnist.images, torch.arange(50))
    for k in range(50):
        theta = math.radians(float(drawn.rotation[k]))
        # y points down, so this turns counter-clockwise on the screen
        turn = np.array([[math.cos(theta), math.sin(theta)], [-math.sin(theta), math.cos(theta)]])
        shear = np.array([[1, float(drawn.shear[k])], [0, 1]])
        expand = np.diag([float(drawn.expand_x[k]), float(drawn.expand_y[k])])
        assert np.allclose(drawn.linear()[k].numpy(), turn @ shear @ expand, atol=1e-12)


def test_shifts_are_uniform_over_the_placements_that_keep_all_ink(mnist: Dataset) -> None:
    numbers = torch.arange(40)
    drawn = affnist.parameters(mnist.images, numbers, seed=5)
    place = counter_based.uniforms(5, "affnist/test", numbers.numpy(), 6)[:, 4:]
    for k in range(40):
        # by brute force: all four corners of the footprint of every ink pixel
        row, column = np.nonzero(mnist.images[drawn.original[k], 0].numpy())
        centres = np.stack([column + 0.5 - 14, row + 0.5 - 14], 1)
        corners = np.concatenate([centres + np.array([a, b]) for a in (-1, 1) for b in (-1, 1)])
        reached = corners @ drawn.linear()[k].numpy().T
        lowest, highest = -20.5 - reached.min(0), 20.5 - reached.max(0)
        expected = lowest + place[k] * (highest - lowest)
        found = [float(drawn.shift_x[k]), float(drawn.shift_y[k])]
        assert np.allclose(found, expected, atol=1e-5)


@st.composite
def inked(draw: st.DrawFn) -> torch.Tensor:
    """A picture with some ink anywhere in a 20×20 window, as MNIST's digits have."""
    top, left = draw(st.integers(0, 8)), draw(st.integers(0, 8))
    spots = draw(
        st.lists(
            st.tuples(st.integers(0, 19), st.integers(0, 19), st.integers(1, 255)), max_size=40
        )
    )
    image = torch.zeros((1, 1, 28, 28), dtype=torch.uint8)
    for row, column, value in spots:
        image[0, 0, top + row, left + column] = value
    return image


@settings(max_examples=100)
@given(inked(), st.integers(0, 2**31), st.integers(0, 10_000))
def test_no_ink_is_lost(image: torch.Tensor, seed: int, first: int) -> None:
    drawn = affnist.parameters(image, torch.arange(first, first + 24), seed)
    canvas = affnist.render(image, drawn)
    wide = affnist.render(image, drawn, canvas=80)
    assert torch.equal(wide[:, :, 20:60, 20:60], canvas)
    wide[:, :, 20:60, 20:60] = 0
    assert int(wide.max()) == 0


def test_no_ink_of_any_digit_is_lost(mnist: Dataset) -> None:
    drawn = affnist.parameters(mnist.images, torch.arange(0, 32_000, 8), seed=7)
    wide = affnist.render(mnist.images, drawn, canvas=64)
    inner = wide[:, :, 12:52, 12:52].clone()
    assert torch.equal(inner, affnist.render(mnist.images, drawn))
    assert int(wide.sum()) == int(inner.sum())
    # and the digits do use the room: each border is reached
    reached = (inner[:, 0] > 0).any(0)
    assert bool(reached[0].any() & reached[-1].any() & reached[:, 0].any() & reached[:, -1].any())


def test_ink_too_far_apart_is_refused() -> None:
    image = torch.full((1, 1, 28, 28), 255, dtype=torch.uint8)
    with pytest.raises(ValueError, match="too far apart"):
        affnist.parameters(image, torch.arange(200))


def test_rendering_agrees_with_scipy(mnist: Dataset) -> None:
    drawn = affnist.parameters(mnist.images, torch.arange(0, 1000, 37), seed=2)
    pictures = affnist.render(mnist.images, drawn)
    for k in range(len(drawn)):
        # scipy looks up rows first, at pixel centres counted from zero
        back = np.linalg.inv(drawn.linear()[k].numpy())[::-1, ::-1]
        shift = np.array([float(drawn.shift_y[k]), float(drawn.shift_x[k])])
        offset = 13.5 - back @ (19.5 + shift)
        source = mnist.images[drawn.original[k], 0].numpy().astype(float)
        expected = ndimage.affine_transform(
            source, back, offset, (40, 40), order=1, mode="grid-constant"
        )
        assert np.abs(pictures[k, 0].numpy() - expected).max() <= 0.5 + 1e-2


# ---------------------------------------------------------------- whole sets


def test_every_original_and_class_is_there_equally(mnist: Dataset) -> None:
    data = affnist.regenerate(mnist, versions=3)
    assert data.images.shape == (3000, 1, 28, 28) and data.images.dtype == torch.uint8
    assert data.labels.bincount().tolist() == [300] * 10
    assert data.extras["original"].bincount().tolist() == [3] * 1000
    assert torch.equal(data.labels, mnist.labels[data.extras["original"]])
    # versions of one original differ
    first = data.images[data.extras["original"] == 17].flatten(1)
    assert len(torch.unique(first, dim=0)) == 3


@pytest.mark.parametrize("block", [1, 7, 1000, 8192])
def test_block_size_changes_nothing(
    mnist: Dataset, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 40 if block == 1 else 700
    whole = affnist.regenerate(mnist, count, seed=4)
    monkeypatch.setattr(affnist, "_BLOCK", block)
    again = affnist.regenerate(mnist, count, seed=4)
    assert torch.equal(again.images, whole.images) and torch.equal(again.labels, whole.labels)
    assert again.extras.keys() == whole.extras.keys()
    for name, values in whole.extras.items():
        assert torch.equal(again.extras[name], values)


def test_number_of_threads_changes_nothing_and_stays_as_set(mnist: Dataset) -> None:
    threads = torch.get_num_threads()
    results = []
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            results.append(affnist.regenerate(mnist, 900).provenance.checksum)
            assert torch.get_num_threads() == number
    finally:
        torch.set_num_threads(threads)
    assert len(set(results)) == 1


def test_an_image_is_the_same_in_any_selection(mnist: Dataset) -> None:
    many, few = affnist.regenerate(mnist, 2000, seed=1), affnist.regenerate(mnist, 300, seed=1)
    numbers = many.extras["number"].tolist()
    assert set(few.extras["number"].tolist()) < set(numbers)
    place = [numbers.index(number) for number in few.extras["number"].tolist()]
    assert torch.equal(many.images[place], few.images)
    assert len(set(numbers)) == 2000 and numbers == sorted(numbers)


def test_seeds_and_splits_differ(mnist: Dataset) -> None:
    one = affnist.regenerate(mnist, 100)
    assert one.provenance.checksum == affnist.regenerate(mnist, 100).provenance.checksum
    assert one.provenance.checksum != affnist.regenerate(mnist, 100, seed=1).provenance.checksum
    numbers = torch.arange(10)
    train = affnist.parameters(mnist.images, numbers, split="train")
    test = affnist.parameters(mnist.images, numbers, split="test")
    assert not torch.equal(train.rotation, test.rotation)


def test_originals_are_divided_five_to_one() -> None:
    sizes = {split: len(affnist.originals(split, "embedded")) for split in affnist.SPLITS}
    assert sizes == {"train": 5000, "validation": 1000, "test": 1000}
    train, validation = (affnist.originals(s, "embedded") for s in ("train", "validation"))
    whole = load("mnist", "train", source="embedded").images
    assert torch.equal(torch.cat([train.images, validation.images]), whole)
    assert validation.provenance.split == "validation"


@pytest.mark.skipif(
    not FULL or not (Path(FULL) / "MNIST" / "raw").is_dir(),
    reason="TVAE_DATA names no root with the full MNIST",
)
def test_full_sets_have_the_published_sizes() -> None:
    sizes = {split: len(affnist.originals(split)) * 32 for split in affnist.SPLITS}
    assert sizes == {"train": 1_600_000, "validation": 320_000, "test": 320_000}
    anchors = load("affnist", "train", source="regenerated", count=500)
    assert anchors.images.shape == (500, 1, 28, 28)
    assert "500 drawn of 1,600,000" in str(anchors.provenance)
    some = load("affnist", "test", source="regenerated", count=100)
    assert torch.equal(some.labels, load("mnist", "test").labels[some.extras["number"] % 10_000])


def test_load_gives_affnist_by_its_one_interface() -> None:
    data = load("affnist", "test", source="embedded", count=50, seed=3, size=40)
    assert data.images.shape == (50, 1, 40, 40)
    line = str(data.provenance)
    assert "\n" not in line and "affnist (embedded), test: 50 images" in line
    assert "seed 3" in line and "50 drawn of 32,000" in line


def test_nonsense_is_refused_before_work_begins(mnist: Dataset) -> None:
    for count in (0, -1, 32_001):
        with pytest.raises(ValueError, match="count must be 1 to"):
            load("affnist", "test", source="embedded", count=count)
    with pytest.raises(ValueError, match="size must be"):
        load("affnist", "test", source="embedded", count=2, size=41)
    with pytest.raises(ValueError, match="train, validation, test"):
        load("affnist", "valid")
    with pytest.raises(ValueError, match="Unknown source"):
        load("affnist", "test", source="zip")
    with pytest.raises(ValueError, match="path"):
        load("affnist", "test", source="regenerated", path=Path("x.mat"))
    with pytest.raises(ValueError, match="grey uint8"):
        floats = describe("a", "b", "test", mnist.floats(), mnist.labels)
        affnist.regenerate(floats, 3)
    with pytest.raises(ValueError, match="at least one version"):
        affnist.regenerate(mnist, versions=0)


# ---------------------------------------------------------------- the published files


def write_mat(path: Path, images: torch.Tensor, labels: torch.Tensor, **more: np.ndarray) -> None:
    """A file in the publisher's format: one image per column."""
    struct = {
        "image": images.reshape(len(images), -1).numpy().T,
        "label_int": labels.numpy().astype(np.uint8)[None],
        **more,
    }
    savemat(path, {"affNISTdata": struct})


@pytest.fixture
def batches(tmp_path: Path, mnist: Dataset) -> tuple[Path, Dataset]:
    """Three files of 40 images under a data root, and the images in order."""
    data = affnist.regenerate(mnist, 120, size=40)
    folder = tmp_path / "affNIST" / "test_batches"
    folder.mkdir(parents=True)
    transform = np.arange(720.0).reshape(120, 6)
    # 10.mat comes after 2.mat: the order is by number, not by name
    for index, name in enumerate(("1", "2", "10")):
        part = slice(40 * index, 40 * index + 40)
        write_mat(
            folder / f"{name}.mat",
            data.images[part],
            data.labels[part],
            human_readable_transform=transform[part].T,
        )
    return tmp_path, data


def test_mat_files_read_back_equal(batches: tuple[Path, Dataset]) -> None:
    root, data = batches
    read = load("affnist", "test", source="mat", root=root, size=40)
    assert torch.equal(read.images, data.images) and torch.equal(read.labels, data.labels)
    assert torch.equal(read.extras["number"], torch.arange(120))
    transform = read.extras["human_readable_transform"]
    assert torch.equal(transform, torch.arange(720.0, dtype=torch.float64).reshape(120, 6))
    assert "affnist (mat), test: 120 images" in str(read.provenance)
    # the same interface as the regenerated set, down to the reduction
    again = load("affnist", "test", root=root)
    assert torch.equal(again.images, resize(data.images, 28))


def test_folder_archive_and_single_file_are_alike(batches: tuple[Path, Dataset]) -> None:
    root, data = batches
    folder = root / "affNIST" / "test_batches"
    archive = root / "affNIST" / "test_batches.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in folder.iterdir():
            packed.write(path, f"test_batches/{path.name}")
    single = root / "test.mat"
    write_mat(single, data.images, data.labels)
    for path in (folder, archive, single):
        read = load("affnist", "test", source="mat", path=path, size=40)
        assert torch.equal(read.images, data.images), path
        assert torch.equal(read.labels, data.labels), path


def test_damaged_archives_of_mat_files_are_named(batches: tuple[Path, Dataset]) -> None:
    root, _ = batches
    archive = root / "damaged.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.write(root / "affNIST" / "test_batches" / "1.mat", "1.mat")
    good = archive.read_bytes()
    spoilt = good[:200] + bytes([good[200] ^ 1]) + good[201:]  # the checksum of the member is wrong
    for content in (good[:-50], spoilt):
        archive.write_bytes(content)
        with pytest.raises(ValueError, match=r"damaged\.zip is damaged: "):
            load("affnist", "test", source="mat", path=archive)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("1.mat", bytes(2**28 + 1))
    with pytest.raises(ValueError, match=r"1\.mat promises 268,435,457 bytes"):
        load("affnist", "test", source="mat", path=archive)


def test_mat_selection(batches: tuple[Path, Dataset]) -> None:
    root, data = batches
    few = load("affnist", "test", source="mat", root=root, count=30, seed=2, size=40)
    numbers = few.extras["number"]
    assert torch.equal(numbers, affnist.chosen(120, 30, 2, "test"))
    assert torch.equal(few.images, data.images[numbers])
    with pytest.raises(ValueError, match="count must be 1 to"):
        load("affnist", "test", source="mat", root=root, count=121)


def test_parameters_of_as_many_cases_as_values_are_not_turned(
    tmp_path: Path, mnist: Dataset
) -> None:
    data = affnist.regenerate(mnist, 6, size=40)
    rows, path = np.arange(36.0).reshape(6, 6), tmp_path / "six.mat"
    write_mat(path, data.images, data.labels, human_readable_transform=rows.T)
    read = affnist_mat.read_file(str(path), "six.mat")
    assert np.array_equal(read["human_readable_transform"].numpy(), rows)
    write_mat(path, data.images, data.labels, original_id=np.arange(5.0)[None])
    with pytest.raises(ValueError, match=r"six\.mat: original_id must have 6 columns"):
        affnist_mat.read_file(str(path), "six.mat")


def test_bad_mat_files_are_named(batches: tuple[Path, Dataset], tmp_path: Path) -> None:
    root, data = batches
    wrong = tmp_path / "wrong.mat"
    savemat(wrong, {"something": np.zeros(3)})
    with pytest.raises(ValueError, match=r"wrong\.mat is not an AffNIST file"):
        load("affnist", "test", source="mat", path=wrong)
    wrong.write_bytes(b"not a mat file, whatever its name says" * 10)
    with pytest.raises(ValueError, match=r"wrong\.mat is not an AffNIST file"):
        load("affnist", "test", source="mat", path=wrong)
    write_mat(wrong, data.images[:, :, 1:], data.labels)
    with pytest.raises(ValueError, match="1600"):
        load("affnist", "test", source="mat", path=wrong)
    write_mat(wrong, data.images, data.labels[1:])
    with pytest.raises(ValueError, match="120 images but 119 labels"):
        load("affnist", "test", source="mat", path=wrong)
    short = root / "affNIST" / "test_batches" / "2.mat"
    write_mat(short, data.images[:39], data.labels[:39])
    with pytest.raises(ValueError, match="as many"):
        load("affnist", "test", source="mat", root=root)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ValueError, match=r"no \.mat file"):
        load("affnist", "test", source="mat", path=empty)
    with pytest.raises(DataNotFound, match="regenerated"):
        load("affnist", "validation", source="mat", root=root)
    with pytest.raises(DataNotFound, match="gone"):
        load("affnist", "test", source="mat", path=tmp_path / "gone.mat")


@pytest.mark.skipif(
    not FULL or not (Path(FULL) / "affnist").is_dir(),
    reason="TVAE_DATA names no root with published AffNIST records",
)
def test_published_records_agree_with_the_conventions() -> None:
    """60 untransformed records: layout, orientation, border, matrices, and which originals."""
    mnist = load("mnist", "train", root=FULL)
    position = {image.numpy().tobytes(): k for k, image in enumerate(mnist.images)}
    tests = {image.numpy().tobytes() for image in load("mnist", "test", root=FULL).images}
    found, ids = [], []
    for path in sorted((Path(FULL or "") / "affnist").glob("*.mat")):
        read = affnist_mat.read_file(str(path), path.name)
        inner = read["images"][:, :, 6:34, 6:34].contiguous()
        # upright, pixel by pixel, and nothing in the border
        own = [position[image.numpy().tobytes()] for image in inner]
        assert not {image.numpy().tobytes() for image in inner} & tests
        assert int(read["images"].sum()) == int(inner.sum())
        assert torch.equal(read["labels"], mnist.labels[own])
        n = len(own)
        identity = torch.tensor([[0.0, 0, 1, 1, 0, 0]], dtype=torch.float64)
        assert torch.equal(read["human_readable_transform"], identity.expand(n, -1))
        for name, shift in (("matrix_old_to_new", 6.0), ("matrix_new_to_old", -6.0)):
            matrix = torch.tensor([[1, 0, shift, 0, 1, shift]], dtype=torch.float64)
            assert torch.equal(read[name], matrix.expand(n, -1))
        # the regenerator's identity gives the same canvas
        zero, one = torch.zeros(n, dtype=torch.float64), torch.ones(n, dtype=torch.float64)
        same = affnist.Parameters(torch.tensor(own), zero, zero, one, one, zero, zero)
        assert torch.equal(affnist.render(mnist.images, same), read["images"])
        found += own
        ids += read["original_id"].flatten().int().tolist()
    assert sorted(ids) == list(range(50_001, 50_061)) and len(set(found)) == 60
    # numbered in an order of its own: were it MNIST's, all would lie beyond the first 50,000
    assert sum(k >= 50_000 for k in found) == 10


@pytest.mark.parametrize("option", [{"split": "all"}, {"source": "elsewhere"}])
def test_an_unknown_split_or_source_is_refused_by_name(option):
    with pytest.raises(ValueError, match=next(iter(option.values()))):
        affnist.load(**{"source": "embedded", "count": 10, **option})
