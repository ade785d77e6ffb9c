"""Fetching (from a server of the test's own), listing and checking."""

from __future__ import annotations

import functools
import gzip
import hashlib
import http.server
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from embed_data import encode_idx
from torchvision import datasets

import tvae.data
from tvae.data import DataNotFound, affnist_mat, digits, load

ARCHIVES = ("training_batches.zip", "test_batches.zip")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A folder and the local address that serves it."""
    folder = tmp_path / "served"
    folder.mkdir()
    monkeypatch.setenv("no_proxy", "*")
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{running.server_address[1]}/"
        running.shutdown()
        thread.join()


def serve_mnist(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Let torchvision find a little MNIST at `url`; return its training images."""
    resources = []
    train = np.random.default_rng(0).integers(0, 256, (30, 28, 28), dtype=np.uint8)
    arrays = {
        "train-images-idx3-ubyte": train,
        "train-labels-idx1-ubyte": np.arange(30, dtype=np.uint8) % 10,
        "t10k-images-idx3-ubyte": train[:10],
        "t10k-labels-idx1-ubyte": np.arange(10, dtype=np.uint8),
    }
    for name, array in arrays.items():
        data = gzip.compress(encode_idx(array))
        (folder / f"{name}.gz").write_bytes(data)
        resources.append((f"{name}.gz", hashlib.md5(data).hexdigest()))
    monkeypatch.setattr(datasets.MNIST, "mirrors", [url])
    monkeypatch.setattr(datasets.MNIST, "resources", resources)
    return train


def test_download_fetches_what_is_missing_once(
    server: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, url = server
    train = serve_mnist(folder, url, monkeypatch)
    root = tmp_path / "root"
    data = load("mnist", "train", root=root, download=True)
    assert np.array_equal(data.images[:, 0].numpy(), train)
    assert data.provenance.source == "torchvision"
    for file in folder.iterdir():
        file.unlink()
    again = load("mnist", "train", root=root, download=True)
    assert torch.equal(again.images, data.images)
    assert tvae.data.fetch("mnist", root) == root


def test_affnist_is_fetched_from_its_publisher(
    server: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, url = server
    monkeypatch.setattr(affnist_mat, "URL", url)
    for file in ARCHIVES:
        with zipfile.ZipFile(folder / file, "w") as archive:
            archive.writestr("1.mat", b"x")
    with pytest.raises(DataNotFound, match="not the published"):
        tvae.data.fetch("affnist", tmp_path / "root")
    sums = {f: f"sha256:{hashlib.sha256((folder / f).read_bytes()).hexdigest()}" for f in ARCHIVES}
    monkeypatch.setattr(affnist_mat, "published", lambda name: sums)
    tvae.data.fetch("affnist", tmp_path / "root")
    found = sorted(path.name for path in (tmp_path / "root" / "affNIST").glob("[!.]*"))
    assert found == sorted(ARCHIVES)
    row = next(r for r in tvae.data.available(tmp_path / "root") if r.source == "mat")
    assert row.present


def test_a_failed_download_says_what_failed(
    server: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, url = server
    serve_mnist(folder, url, monkeypatch)
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(b"damaged on the way")
    with pytest.raises(DataNotFound, match="mnist could not be fetched into"):
        tvae.data.fetch("mnist", tmp_path / "root")
    with pytest.raises(DataNotFound, match="train-labels") as caught:
        load("mnist", "train", root=tmp_path / "root2", download=True)
    assert "\n" not in str(caught.value)


def test_names_that_cannot_be_fetched() -> None:
    with pytest.raises(ValueError, match=r"put faces_open_rgb96_jpg\.zip"):
        tvae.data.fetch("portraits")
    with pytest.raises(ValueError, match="choose one of mnist, fashion-mnist, omniglot"):
        tvae.data.fetch("imagenet")


def test_available_lists_every_set_and_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digits, "DEBIAN_FASHION", tmp_path / "debian")
    rows = tvae.data.available(tmp_path)
    listed = {(row.name, row.source) for row in rows}
    for name in tvae.data.names():
        sources = tvae.data.entry(name).source_names
        assert {(name, source) for source in sources if source != "full"} <= listed
    for row in rows:
        assert "\n" not in str(row)
        assert row.present == (row.source == "embedded")
        assert row.present or row.provide


def test_check_finds_a_changed_byte(tmp_path: Path) -> None:
    folder = tmp_path / "omniglot-py"
    folder.mkdir()
    (folder / "images_background_small1.zip").write_bytes(b"PK")
    rows = tvae.data.check("omniglot", tmp_path)
    assert [row.ok for row in rows] == [False, True, True] and "WRONG" in str(rows[0])
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    (raw / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(b"something else"))
    wrong = [row for row in tvae.data.check(root=tmp_path) if not row.ok]
    assert [Path(row.path).name for row in wrong] == [
        "t10k-labels-idx1-ubyte.gz",
        "images_background_small1.zip",
    ]
    assert tvae.data.check("celeba", tmp_path) == []
    with pytest.raises(ValueError, match="There is no data set"):
        tvae.data.check("imagenet", tmp_path)
