"""Data sets and provenance; IDX files; MNIST and Fashion-MNIST, full and embedded."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import embed_data
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tvae.data
from tvae.data import DataNotFound, Dataset, data_root, digits, embedded, fingerprint, idx, load
from tvae.data.dataset import describe

FULL = os.environ.get("TVAE_DATA")
needs_full = pytest.mark.skipif(
    not FULL or not (Path(FULL) / "MNIST" / "raw").is_dir(),
    reason="TVAE_DATA names no root with the full MNIST",
)
needs_all = pytest.mark.skipif(
    not FULL
    or not all((Path(FULL) / name).is_dir() for name in ("MNIST", "omniglot", "faces-open")),
    reason="TVAE_DATA names no root with all sets that samples were drawn from",
)


def small(n: int = 12, seed: int = 0) -> Dataset:
    draw = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (n, 1, 6, 5), generator=draw).to(torch.uint8)
    return describe("some", "test", "train", images, torch.arange(n) % 3, note="a\nnote")


def test_provenance_is_one_line_with_all_it_must_tell() -> None:
    line = str(small().provenance)
    assert "\n" not in line
    for part in ("some", "test", "train", "12", small().provenance.checksum[:12], "a note"):
        assert part in line


def test_fingerprint_is_the_sha256_of_types_shapes_and_values() -> None:
    images = torch.arange(8, dtype=torch.uint8).reshape(2, 1, 2, 2)
    labels = torch.tensor([3, 1])
    by_hand = hashlib.sha256(b"uint8(2, 1, 2, 2);" + bytes(range(8)))
    by_hand.update(b"int64(2,);" + struct.pack("<2q", 3, 1))
    assert fingerprint(images, labels) == by_hand.hexdigest()
    # layout in memory does not matter, values, labels and shape do
    turned = images.permute(0, 1, 3, 2).contiguous().permute(0, 1, 3, 2)
    assert fingerprint(turned, labels) == by_hand.hexdigest()
    assert fingerprint(images + 1, labels) != by_hand.hexdigest()
    assert fingerprint(images, labels + 1) != by_hand.hexdigest()
    assert fingerprint(images.reshape(2, 1, 1, 4), labels) != by_hand.hexdigest()


def test_floats_are_the_images_over_255() -> None:
    data = small()
    assert data.floats().dtype == torch.float32
    assert torch.equal((data.floats() * 255).round().to(torch.uint8), data.images)
    assert torch.equal(data.floats([3, 1]), data.floats()[[3, 1]])
    assert torch.equal(data.floats(torch.tensor([0])), data.floats()[:1])
    assert float(data.floats().max()) <= 1
    before = data.images.clone()
    data.floats()
    assert torch.equal(before, data.images)


def test_take_keeps_rows_together_and_tells_so() -> None:
    data = describe(
        "some",
        "test",
        "train",
        small().images,
        torch.arange(12),
        extras={"angle": torch.arange(12) * 10.0},
    )
    part = data.take([5, 2, 7])
    assert part.labels.tolist() == [5, 2, 7]
    assert part.extras["angle"].tolist() == [50.0, 20.0, 70.0]
    assert torch.equal(part.images, data.images[[5, 2, 7]])
    assert part.provenance.count == len(part) == 3
    assert part.provenance.checksum == fingerprint(part.images, part.labels)
    assert data.take(4).labels.tolist() == [0, 1, 2, 3]
    assert "the first 4 of 12" in str(data.take(4).provenance)
    assert data.take(torch.arange(12) > 9).labels.tolist() == [10, 11]
    for wrong in (0, 13, -1):
        with pytest.raises(ValueError, match="Cannot take"):
            data.take(wrong)


def test_data_sets_that_do_not_fit_together_are_refused() -> None:
    images, labels = small().images, small().labels
    with pytest.raises(ValueError, match="shape"):
        describe("x", "y", "z", images[:, 0], labels)
    with pytest.raises(ValueError, match="int64"):
        describe("x", "y", "z", images, labels[:-1])
    with pytest.raises(ValueError, match="uint8 or float32"):
        describe("x", "y", "z", images.double(), labels)
    with pytest.raises(ValueError, match="rows"):
        describe("x", "y", "z", images, labels, extras={"a": torch.zeros(3)})


@given(
    hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5)),
    st.sampled_from(["", ".gz", ".xz"]),
)
def test_idx_reads_back_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, array: np.ndarray, suffix: str
) -> None:
    path = tmp_path_factory.mktemp("idx") / f"file{suffix}"
    data = embed_data.encode_idx(array)
    packed = {"": data, ".gz": gzip.compress(data), ".xz": embed_data.pack(array)}[suffix]
    path.write_bytes(packed)
    assert np.array_equal(idx.read(path).numpy(), array)
    assert idx.read(path).shape == array.shape


def test_damaged_idx_files_are_named(tmp_path: Path) -> None:
    good = embed_data.encode_idx(np.zeros((2, 3), np.uint8))
    path = tmp_path / "broken"
    for bad in (good[:-1], good + b"x", good[:6], b"\1" + good[1:], b""):
        path.write_bytes(bad)
        with pytest.raises(ValueError, match=re.escape(str(path))):
            idx.read(path)
    packed = tmp_path / "broken.gz"
    packed.write_bytes(gzip.compress(good)[:-6])
    with pytest.raises(ValueError, match="damaged"):
        idx.read(packed)


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
@pytest.mark.parametrize(("split", "each"), [("train", 600), ("test", 100)])
def test_embedded_samples_are_stratified(name: str, split: str, each: int) -> None:
    data = load(name, split, source="embedded")
    assert data.images.shape == (10 * each, 1, 28, 28)
    assert data.images.dtype == torch.uint8
    assert data.labels.bincount().tolist() == [each] * 10
    assert len(data.classes) == 10
    assert int(data.images.max()) == 255
    assert "not the full set" in str(data.provenance)


def test_embedded_train_and_test_do_not_share_images() -> None:
    for name in ("mnist", "fashion-mnist"):
        seen = {row.numpy().tobytes() for row in load(name, "train", source="embedded").images}
        fresh = [row.numpy().tobytes() for row in load(name, "test", source="embedded").images]
        assert not seen & set(fresh)


def test_embedded_files_match_their_listed_checksums_and_licences_are_there() -> None:
    rows = [row for row in tvae.data.check() if row.path.startswith("embedded ")]
    assert len(rows) == 12 == len(embedded.checksums())
    assert all(row.ok for row in rows)
    assert b"CC BY-SA 3.0" in embedded.sample_bytes("LICENSE-mnist.txt")
    assert b"MIT License" in embedded.sample_bytes("LICENSE-fashion-mnist.txt")
    assert b"Brenden Lake" in embedded.sample_bytes("LICENSE-omniglot.txt")
    assert b"public domain" in embedded.sample_bytes("LICENSE-portraits.txt")


def test_choice_is_by_hash_within_each_class() -> None:
    labels = torch.arange(7000) % 10
    kept = embed_data.choose("mnist", "train", labels)
    assert len(kept) == 6000 and kept.tolist() == sorted(kept.tolist())
    ranks = {i: hashlib.sha256(f"mnist/train/{i}".encode()).hexdigest() for i in range(7000)}
    left = set(range(7000)) - set(kept.tolist())
    for digit in range(10):
        worst_kept = max(ranks[i] for i in kept.tolist() if i % 10 == digit)
        best_left = min(ranks[i] for i in left if i % 10 == digit)
        assert worst_kept < best_left
    with pytest.raises(ValueError, match="fewer"):
        embed_data.choose("mnist", "train", labels[:5000])


@needs_all
def test_embedded_samples_are_recreated_byte_for_byte() -> None:
    for file, data in embed_data.recreate().items():
        assert embedded.sample_bytes(file) == data, file


@needs_full
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_full_sets_are_complete_and_hold_the_samples(name: str) -> None:
    for split, count in (("train", 60_000), ("test", 10_000)):
        data = load(name, split)
        assert data.images.shape == (count, 1, 28, 28)
        assert data.provenance.count == count
        assert data.provenance.source in ("torchvision", "debian")
        sample = load(name, split, source="embedded")
        kept = embed_data.choose(name, split, data.labels)
        assert torch.equal(data.images[kept], sample.images)
        assert torch.equal(data.labels[kept], sample.labels)
    checked = tvae.data.check(name)
    assert len(checked) >= 8 and all(row.ok for row in checked)


def write_digits(folder: Path, n: int = 20, suffix: str = "") -> None:
    """A little set in the files of MNIST."""
    folder.mkdir(parents=True)
    for stem, count in (("train", n), ("t10k", n // 2)):
        images = np.random.default_rng(count).integers(0, 256, (count, 28, 28), dtype=np.uint8)
        labels = (np.arange(count) % 10).astype(np.uint8)
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            data = embed_data.encode_idx(array)
            path = folder / f"{stem}-{kind}-ubyte{suffix}"
            path.write_bytes(gzip.compress(data) if suffix else data)


def test_full_reads_plain_and_gzipped_files_alike(tmp_path: Path) -> None:
    write_digits(tmp_path / "plain" / "MNIST" / "raw")
    write_digits(tmp_path / "packed" / "MNIST" / "raw", suffix=".gz")
    one = load("mnist", "test", root=tmp_path / "plain")
    two = load("mnist", "test", root=tmp_path / "packed")
    assert len(one) == 10 and one.labels.tolist() == list(range(10))
    assert one.provenance == two.provenance
    # and the check sees that these are not the published files
    assert not any(row.ok for row in tvae.data.check("mnist", tmp_path / "plain")[:4])


def test_debians_files_serve_fashion_mnist_only_after_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    debian = tmp_path / "debian"
    write_digits(debian, suffix=".gz")
    monkeypatch.setattr(digits, "DEBIAN_FASHION", debian)
    for source in ("full", "debian"):
        data = load("fashion-mnist", "train", source=source, root=tmp_path)
        assert data.provenance.source == "debian" and len(data) == 20
    write_digits(tmp_path / "FashionMNIST" / "raw", n=40)
    assert len(load("fashion-mnist", "train", root=tmp_path)) == 40
    with pytest.raises(DataNotFound, match="MNIST"):
        load("mnist", "train", root=tmp_path)


def test_missing_data_names_places_and_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digits, "DEBIAN_FASHION", tmp_path / "no-debian")
    with pytest.raises(DataNotFound) as caught:
        load("fashion-mnist", "train", root=tmp_path)
    text = str(caught.value)
    assert str(tmp_path / "FashionMNIST" / "raw") in text and str(tmp_path / "no-debian") in text
    assert "tvae data fetch fashion-mnist" in text
    assert "apt install dataset-fashion-mnist" in text
    for name in ("mnist", "omniglot", "celeba", "affnist"):
        with pytest.raises(DataNotFound, match=f"tvae data fetch {name}"):
            load(name, "train", root=tmp_path)


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "MNIST" / "raw"
    write_digits(folder)
    other = folder / "t10k-labels-idx1-ubyte"
    (folder / "train-labels-idx1-ubyte").write_bytes(other.read_bytes())
    with pytest.raises(ValueError, match="do not belong together"):
        load("mnist", "train", root=tmp_path)


def test_wrong_names_get_the_right_ones() -> None:
    with pytest.raises(ValueError, match="fashion-mnist"):
        load("mnits")
    with pytest.raises(ValueError, match="train, test"):
        load("mnist", "validation")
    with pytest.raises(ValueError, match="full, torchvision, embedded"):
        load("mnist", source="debian")
    with pytest.raises(ValueError, match="train, test"):
        load("celeba", "valid", source="embedded")
    with pytest.raises(TypeError, match="no option 'count'; it has none"):
        load("mnist", source="embedded", count=3)
    with pytest.raises(TypeError, match="count, seed"):
        load("affnist", "test", source="embedded", drawings=3)


def test_data_root_follows_argument_then_environment_then_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVAE_DATA", str(tmp_path / "named"))
    assert data_root(tmp_path / "given") == tmp_path / "given"
    assert data_root() == tmp_path / "named"
    monkeypatch.delenv("TVAE_DATA")
    if sys.platform == "linux":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        assert data_root() == tmp_path / "cache" / "tvae"
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert data_root() == Path.home() / ".cache" / "tvae"
    assert data_root().is_relative_to(Path.home()) and data_root().name == "tvae"


@pytest.mark.slow
def test_importing_the_package_does_not_import_torchvision_or_scipy() -> None:
    code = (
        "import sys, tvae.data; tvae.data.load('mnist', 'test', source='embedded');"
        "print([m for m in ('torchvision', 'scipy', 'PIL', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_letters_that_are_only_measured_on_are_read_from_the_same_files(tmp_path: Path) -> None:
    folder = tmp_path / "KMNIST" / "raw"
    folder.mkdir(parents=True)
    images = np.arange(2 * 28 * 28, dtype=np.uint8).reshape(2, 28, 28)
    for kind, array in (("images-idx3", images), ("labels-idx1", np.array([3, 9], np.uint8))):
        (folder / f"t10k-{kind}-ubyte").write_bytes(embed_data.encode_idx(array))
    found = digits.full("kmnist", "test", root=tmp_path)
    assert np.array_equal(found.images[:, 0].numpy(), images) and found.labels.tolist() == [3, 9]
    assert found.provenance.name == "kmnist" and len(found.classes) == 10
    with pytest.raises(DataNotFound, match="put its IDX files there"):
        digits.full("notmnist", "test", root=tmp_path)
