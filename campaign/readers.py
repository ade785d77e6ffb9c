"""Damaged files for every reader: a clean error or a right answer, in bounded time and memory.

A clean error is a ValueError or an OSError whose one sentence names the file or the folder. Each input
is made from the campaign's seed, the reader's name and a number, so that a fault can be made again:

    python campaign/readers.py npz --seed 3 --input 4711
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import pickle
import random
import resource
import signal
import struct
import sys
import tempfile
import traceback
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mutations import damaged, damaged_json

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))  # the notebooks' reader

SECONDS = 10.0  # that one input may take
MEMORY = 2 * 2**30  # bytes that a reader may take beyond what the process has

Parts = dict[str, bytes]


def _as_they_are(parts: Parts) -> Parts:
    return parts


@dataclass(frozen=True)
class Reader:
    """Something that reads files: `parts` are their contents, `pack` makes the files of them.

    A part is damaged before it is packed, so that checksums and compression hide nothing, or a file
    is damaged afterwards. `read` gets the folder; `right` says whether an answer may stand. `bombs`
    are whole sets of files that promise more than they hold.
    """

    name: str
    parts: Parts
    read: Callable[[Path], Any]
    right: Callable[[Any], bool]
    pack: Callable[[Parts], Parts] = _as_they_are
    bombs: tuple[Parts, ...] = ()
    text: tuple[str, ...] = ()  # parts that are JSON, whose values are exchanged as well

    def files(self, seed: int, number: int) -> Parts:
        """The files of one input."""
        if number < len(self.bombs):
            return self.bombs[number]
        draw = random.Random(f"{seed}/{self.name}/{number}")
        parts = dict(self.parts)
        if draw.random() < 0.6:
            which = draw.choice(list(parts))
            if which in self.text and draw.random() < 0.7:
                parts[which] = json.dumps(damaged_json(json.loads(parts[which]), draw)).encode()
            else:
                parts[which] = damaged(parts[which], draw)
            return self.pack(parts)
        files = self.pack(parts)
        which = draw.choice(list(files))
        if draw.random() < 0.02:
            del files[which]
        else:
            files[which] = damaged(files[which], draw)
        return files


@dataclass
class Count:
    """What became of the inputs of one reader."""

    inputs: int = 0
    errors: int = 0
    answers: int = 0
    faults: list[str] = field(default_factory=list)


class TooSlow(BaseException):
    """An input took longer than it may."""


@contextmanager
def _limits():
    def ring(*_: Any) -> None:
        raise TooSlow

    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGALRM, ring)
    resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGALRM, before)


def outcome(reader: Reader, folder: Path, files: Parts) -> str:
    """`error`, `answer`, or what is wrong."""
    for name in {*reader.pack(reader.parts)} | {*files}:
        path = folder / name
        if name in files:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(files[name])
        else:
            path.unlink(missing_ok=True)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        found = reader.read(folder)
    except (ValueError, OSError) as error:
        told = str(error)
        if isinstance(error, (json.JSONDecodeError, UnicodeError)) or type(error) is OSError:
            return f"{type(error).__name__} from below: {told[:150]}"
        own = type(error).__module__.startswith("tvae.")  # whoever calls has named the file
        if (
            not own
            and folder.name not in told
            and not any(Path(name).name in told for name in files)
        ):
            return f"{type(error).__name__} that does not name the file: {told[:150]}"
        return "error"
    except TooSlow:
        return f"longer than {SECONDS:.0f} seconds"
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return f"{type(error).__name__} at {where}: {str(error)[:150]}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "answer" if reader.right(found) else f"a wrong answer: {str(found)[:150]}"


def work(reader: Reader, seed: int, numbers: range, folder: Path, progress: Any = None) -> Count:
    """All inputs of these numbers, one after the other, in this process."""
    count, seen = Counter[str](), {}
    with _limits():
        for number in numbers:
            if progress is not None:
                progress[:8] = struct.pack("q", number)
            found = outcome(reader, folder, reader.files(seed, number))
            count[found if found in ("error", "answer") else "fault"] += 1
            if found not in ("error", "answer"):
                seen.setdefault(found.partition(":")[0], (number, found))
    faults = [f"{reader.name}, input {number}: {what}" for number, what in seen.values()]
    return Count(len(numbers), count["error"], count["answer"], faults)


def run(reader: Reader, seed: int, inputs: int, workers: int = 2) -> Count:
    """The inputs shared out among processes; one that dies is a fault, and its place is taken."""
    import mmap

    total = Count()
    with tempfile.TemporaryDirectory(prefix="campaign-", dir=_memory()) as place:
        shares = [range(k, inputs, workers) for k in range(workers)]
        jobs = {}

        def start(share: range) -> None:
            folder = Path(place) / f"w{share.start}-{len(share)}"
            back = open(folder.with_suffix(".count"), "wb+")  # noqa: SIM115
            folder.mkdir()
            at = mmap.mmap(-1, 8)
            child = os.fork()
            if child == 0:
                try:
                    torch.set_num_threads(1)
                    devnull = os.open(os.devnull, os.O_WRONLY)
                    os.dup2(devnull, 2)
                    pickle.dump(work(reader, seed, share, folder, at), back)
                    back.flush()
                    os._exit(0)
                finally:
                    os._exit(1)
            jobs[child] = share, back, at

        for share in shares:
            if share:
                start(share)
        while jobs:
            child, status = os.wait()
            share, back, at = jobs.pop(child)
            if status == 0:
                back.seek(0)
                found = pickle.load(back)  # our own, from the process that we have forked
                total.inputs += found.inputs
                total.errors += found.errors
                total.answers += found.answers
                total.faults += found.faults
                continue
            number = struct.unpack("q", at[:8])[0]
            total.faults.append(f"{reader.name}, input {number}: the process died ({status})")
            total.inputs += len(range(share.start, number + 1, share.step))
            if len(total.faults) < 20 and number + share.step < share.stop:
                start(range(number + share.step, share.stop, share.step))
    return total


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


# --- what is read -------------------------------------------------------------------------------


def _images(count: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, *shape), dtype=np.uint8)


def _picture(array: np.ndarray, kind: str) -> bytes:
    from PIL import Image

    with io.BytesIO() as buffer:
        Image.fromarray(array).save(buffer, kind)
        return buffer.getvalue()


def _png_bomb(side: int) -> bytes:
    """A PNG that promises side × side pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"\0" * min(side * (side + 1), 50_000_000), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def _zipped(members: Mapping[str, bytes]) -> bytes:
    with io.BytesIO() as buffer:
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return buffer.getvalue()


def _is_dataset(found: Any) -> bool:
    return found.images.dtype == torch.uint8 and found.images.ndim == 4 and len(found) > 0


def _idx(packed: bool) -> Reader:
    from embed_data import encode_idx

    from tvae.data import digits

    raw = "MNIST/raw/"
    parts = {
        "t10k-images-idx3-ubyte": encode_idx(_images(5, 28, 28)),
        "t10k-labels-idx1-ubyte": encode_idx(_images(5) % 10),
    }

    def pack(contents: Parts) -> Parts:
        if not packed:
            return {raw + name: content for name, content in contents.items()}
        return {f"{raw}{name}.gz": gzip.compress(data, 1) for name, data in contents.items()}

    bombs: tuple[Parts, ...] = ()
    if packed:
        labels = gzip.compress(parts["t10k-labels-idx1-ubyte"])
        zeros = gzip.compress(bytes(2**26), 6) * 64  # four gigabytes in a few megabytes
        bombs = (
            {f"{raw}t10k-images-idx3-ubyte.gz": zeros, f"{raw}t10k-labels-idx1-ubyte.gz": labels},
        )
    return Reader(
        "gz" if packed else "idx",
        parts,
        lambda folder: digits.full("mnist", "test", "torchvision", folder),
        _is_dataset,
        pack,
        bombs,
    )


def _npz() -> Reader:
    from tvae.data import omniglot

    drawings = np.ones((1, 20, 105, 105), dtype=bool)
    drawings[:, :, 30:60, 40:50] = False
    with io.BytesIO() as buffer:
        np.save(buffer, drawings)
        array = buffer.getvalue()
    index = (
        b"array,row,split,alphabet,character_in_alphabet\nimages_background,0,background,Greek,1\n"
    )

    def pack(contents: Parts) -> Parts:
        return {
            "omniglot/images_background.npz": _zipped({"images.npy": contents["images.npy"]}),
            "omniglot/omniglot_index.csv": contents["index"],
        }

    bomb = pack({"images.npy": array[:128] + bytes(2**28), "index": index})
    objects = io.BytesIO()
    np.save(objects, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    pickled = pack({"images.npy": objects.getvalue(), "index": index})
    return Reader(
        "npz",
        {"images.npy": array, "index": index},
        lambda folder: omniglot.load("train", source="npz", root=folder),
        _is_dataset,
        pack,
        (bomb, pickled),
    )


def _mat() -> Reader:
    from scipy.io import savemat

    from tvae.data import affnist_mat

    values = {
        "image": _images(1600, 3),
        "label_int": np.array([[1, 2, 3]], dtype=np.uint8),
        "human_readable_transform": np.ones((6, 3)),
    }
    with io.BytesIO() as buffer:
        savemat(buffer, {"affNISTdata": values}, do_compression=True)
        packed = buffer.getvalue()
    with io.BytesIO() as buffer:
        savemat(buffer, {"affNISTdata": values})
        plain = buffer.getvalue()

    def read(folder: Path) -> Any:
        for name in ("1.mat", "2.mat"):
            found = affnist_mat.read_file(str(folder / name), str(folder / name))
        return found

    return Reader(
        "mat", {"1.mat": packed, "2.mat": plain}, read, lambda found: found["images"].ndim == 4
    )


def _zip() -> Reader:
    from tvae.data import portraits

    names = [f"congress/{k}.jpg" for k in range(12)]
    chosen = [name for name in names if portraits.split_of("congress", name) == "train"][:2]
    lines = ["source,file_in_zip,licence,attribution"]
    lines += [f"congress,{name},public domain,GPO" for name in chosen]
    parts = {name: _picture(_images(96, 96, 3), "jpeg") for name in chosen}
    parts["index"] = "\n".join(lines).encode()

    def pack(contents: Parts) -> Parts:
        members = {name: content for name, content in contents.items() if name != "index"}
        return {
            "faces-open/faces_open_rgb96_jpg.zip": _zipped(members),
            "faces-open/index.csv": contents["index"],
        }

    bomb = pack({**parts, chosen[0]: _png_bomb(20_000)})
    large = pack({**parts, chosen[0]: bytes(2**32 - 2**20)[: 2**29]})
    return Reader(
        "zip",
        parts,
        lambda folder: portraits.load("train", root=folder),
        _is_dataset,
        pack,
        (bomb, large),
    )


def _png() -> Reader:
    from tvae.cli.images import read_images

    parts = {f"{k}.png": _picture(image, "png") for k, image in enumerate(_images(2, 28, 28))}
    return Reader(
        "PNG folder",
        parts,
        lambda folder: read_images(str(folder), (1, 28, 28)),
        lambda found: tuple(found.shape[1:]) == (1, 28, 28),
        bombs=({**parts, "1.png": _png_bomb(20_000)}, {**parts, "1.png": _png_bomb(9_000)}),
    )


def _jpeg() -> Reader:
    from tvae.data import celeba

    folder = "celeba/img_align_celeba/"
    parts = {
        f"{folder}{k}.jpg": _picture(image, "jpeg")
        for k, image in enumerate(_images(2, 160, 150, 3))
    }
    parts["celeba/list_eval_partition.txt"] = b"0.jpg 0\n1.jpg 0\n"
    parts["celeba/identity_CelebA.txt"] = b"0.jpg 17\n1.jpg 4\n"
    return Reader(
        "JPEG folder",
        parts,
        lambda root: celeba.load("train", root=root),
        _is_dataset,
        bombs=({**parts, f"{folder}1.jpg": _png_bomb(20_000)},),
    )


def _npy() -> Reader:
    from tvae.cli.images import read_images

    with io.BytesIO() as buffer:
        np.save(buffer, _images(3, 28, 28))
        array = buffer.getvalue()
    objects = io.BytesIO()
    np.save(objects, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    huge = array.replace(b"(3, 28, 28)", b"(3000000, 999, 999)"[:11].ljust(11))
    return Reader(
        "npy",
        {"mine.npy": array},
        lambda folder: read_images(str(folder / "mine.npy"), (1, 28, 28)),
        lambda found: tuple(found.shape[1:]) == (1, 28, 28),
        bombs=({"mine.npy": objects.getvalue()}, {"mine.npy": huge}),
    )


def _safetensors() -> Reader:
    import release_weights

    import tvae
    from tvae.runs import released
    from tvae.runs.ledger import Entry

    held = released.entry("mnist-VAE-25").to_dict()
    held["configuration"]["d"], held["name"] = 2, "mnist-VAE-2"
    held["curve"] = held["curve"][:1]
    model = tvae.VAE(2, generator=tvae.generator(0, "campaign"))
    with tempfile.TemporaryDirectory() as place:
        release_weights.release(model, Entry.checked(held), place)
        parts = {path.name: path.read_bytes() for path in Path(place).iterdir()}

    def pack(contents: Parts) -> Parts:
        """Signed anew, as somebody would who wants it to be taken."""
        try:
            told = json.loads(contents["mnist-VAE-2.json"])
            told["sha256"] = hashlib.sha256(contents["mnist-VAE-2.safetensors"]).hexdigest()
            told["entry_sha256"] = released.entry_checksum(told["entry"], told["settings"])
            return {**contents, "mnist-VAE-2.json": json.dumps(told).encode()}
        except (ValueError, TypeError, KeyError):
            return contents

    return Reader(
        "safetensors",
        parts,
        lambda folder: released.pretrained("mnist-VAE-2", folder=folder),
        lambda found: isinstance(found, torch.nn.Module),
        pack,
        text=("mnist-VAE-2.json",),
    )


def _checkpoint() -> Reader:
    from tvae.training import checkpoints

    made = checkpoints.Checkpoint(
        epoch=3,
        step=12,
        settings={"model": "vae", "d": 2},
        weights={"w": torch.arange(6.0).reshape(2, 3)},
        config={"dataset": "mnist", "seed": 1},
        history=[{"epoch": 3, "total": 1.5}],
        training={"moment": torch.ones(3)},
        extra={"data": "abc", "device": "cpu"},
    )
    with tempfile.TemporaryDirectory() as place:
        path = checkpoints.save(place, made)
        parts = {f"epoch-00003/{file.name}": file.read_bytes() for file in path.iterdir()}
    manifest = "epoch-00003/manifest.json"

    def pack(contents: Parts) -> Parts:
        try:
            told = json.loads(contents[manifest])
            for name in told["sha256"]:
                told["sha256"][name] = hashlib.sha256(contents[f"epoch-00003/{name}"]).hexdigest()
            return {**contents, manifest: json.dumps(told).encode()}
        except (ValueError, TypeError, KeyError, AttributeError):
            return contents

    def right(found: Any) -> bool:
        return (
            type(found.epoch) is int and type(found.step) is int and isinstance(found.history, list)
        )

    return Reader(
        "checkpoint",
        parts,
        lambda folder: checkpoints.read(folder / "epoch-00003"),
        right,
        pack,
        text=tuple(name for name in parts if name.endswith(".json")),
    )


def _ledger() -> Reader:
    from tvae.runs import ledger

    path = next(ledger.folder().glob("mnist-VAE-25_book_seed0.json"))
    values = json.loads(path.read_text())
    values["curve"] = values["curve"][:1]
    return Reader(
        "ledger entry",
        {path.name: json.dumps(values).encode()},
        lambda folder: ledger.read(folder / path.name),
        lambda found: found.status in ("ok", "failed"),
        text=(path.name,),
    )


def _sweep() -> Reader:
    from tvae.runs import sweep

    values = {
        "preset": "book",
        "seeds": [0, 1],
        "epochs": 3,
        "runs": [
            {"datasets": ["mnist"], "models": ["tvae", "pca"], "actions": ["A", "M"], "d": [25]},
            {"datasets": "omniglot", "residual": [True], "actions": "N", "weights": {"c1": 0.5}},
        ],
    }
    return Reader(
        "sweep file",
        {"sweep.yaml": json.dumps(values).encode()},
        lambda folder: sweep.load(folder / "sweep.yaml"),
        lambda found: all(isinstance(job, sweep.Job) for job in found),
        text=("sweep.yaml",),
        bombs=({"sweep.yaml": _laughs()},),
    )


def _laughs() -> bytes:
    """YAML whose anchors multiply: a hundred bytes a line, a billion values in the end."""
    lines = ["a0: &a0 [mnist, mnist, mnist, mnist, mnist, mnist, mnist, mnist, mnist]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 9)]
    return "\n".join([*lines, "datasets: *a8"]).encode()


def _notebook() -> Reader:
    import execute
    import nbformat

    cell = nbformat.v4.new_code_cell('preset = "quick"  # or book\nseed = 0\ndevice = "auto"\n')
    cell.metadata["tags"] = ["parameters"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# A"), cell])
    return Reader(
        "notebook",
        {"01_a.ipynb": nbformat.writes(notebook).encode()},
        lambda folder: execute.read_parameters(folder / "01_a.ipynb"),
        lambda found: isinstance(found, dict),
        text=("01_a.ipynb",),
    )


READERS: dict[str, Callable[[], Reader]] = {
    "idx": lambda: _idx(False),
    "gz": lambda: _idx(True),
    "npz": _npz,
    "npy": _npy,
    "mat": _mat,
    "zip": _zip,
    "PNG folder": _png,
    "JPEG folder": _jpeg,
    "safetensors": _safetensors,
    "checkpoint": _checkpoint,
    "ledger entry": _ledger,
    "sweep file": _sweep,
    "notebook": _notebook,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("readers", nargs="*", default=list(READERS), help=", ".join(READERS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inputs", type=int, default=2000, help="for each reader")
    parser.add_argument("--input", type=int, help="only this one, with its traceback")
    arguments = parser.parse_args()
    faults = 0
    for name in arguments.readers:
        reader = READERS[name]()
        if arguments.input is not None:
            files = reader.files(arguments.seed, arguments.input)
            with tempfile.TemporaryDirectory(dir=_memory()) as place:
                folder = Path(place) / "files"
                folder.mkdir()
                print(outcome(reader, folder, files))
                print(reader.read(folder))
            continue
        found = run(reader, arguments.seed, arguments.inputs)
        faults += len(found.faults)
        print(
            f"{name}: {found.inputs:,} inputs, {found.errors:,} clean errors, {found.answers:,} answers"
        )
        for fault in found.faults:
            print(f"    {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
