"""Damaged files for every reader: a clean error or a right answer, in bounded time and memory.

A clean error is a ValueError or an OSError whose one sentence names the file or the folder. What a
reader may not do in any case, `guard.py` watches. Each input is made from the campaign's seed, the
reader's name and a number, so that a fault can be made again:

    python campaign/readers.py npz --seed 3 --input 4711
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import mmap
import os
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from found import Found, times
from guard import Trespass, watched
from mutations import damaged, damaged_text

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))  # the notebooks' reader

SECONDS = 10.0  # of the processor that one input may take
PATIENCE = 120.0  # on the clock, after which a process that does not move is killed
MEMORY = 2**30  # bytes that a reader may take beyond what the process has
ADDRESSES = (
    6 * 2**30
)  # that it may ask for, most of them never touched: MATLAB's sizes go up to 2^32
INPUTS = 7000  # for each reader at scale 1: more than 100,000 in all

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
                parts[which] = damaged_text(parts[which], draw)
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
def _limits() -> Iterator[None]:
    def ring(*_: Any) -> None:
        raise TooSlow

    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGPROF, ring)
    resource.setrlimit(resource.RLIMIT_AS, (held + ADDRESSES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGPROF, before)


def _most_memory() -> int:
    """The bytes that this process had in memory when it had most."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _for_want_of_memory(error: BaseException | None) -> bool:
    """Whether an error, or one that it came from, is that of the limit."""
    while error is not None:
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def outcome(reader: Reader, folder: Path, files: Parts) -> str:
    """`error`, `answer`, or what is wrong."""
    for name in {*reader.pack(reader.parts)} | {*files}:
        path = folder / name
        if name in files:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(files[name])
        else:
            path.unlink(missing_ok=True)
    trespasses: list[str] = []
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with watched(folder) as trespasses:
            found = reader.read(folder)
        result = "answer" if reader.right(found) else f"a wrong answer: {str(found)[:150]}"
    except (ValueError, OSError) as error:
        result = _judged(error, folder, files, reader.parts)
    except TooSlow:
        result = f"longer than {SECONDS:.0f} seconds"
    except (Exception, Trespass) as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        result = f"{type(error).__name__} at {where}: {str(error)[:150]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return f"what no reader may do: {trespasses[0]}" if trespasses else result


def _judged(error: ValueError | OSError, folder: Path, files: Parts, members: Parts) -> str:
    """Whether an error is a clean one."""
    told = str(error)
    if _for_want_of_memory(error):
        return f"asks for more than {ADDRESSES >> 30} GB: {told[:150]}"
    if isinstance(error, (json.JSONDecodeError, UnicodeError)) or type(error) is OSError:
        return f"{type(error).__name__} from below: {told[:150]}"
    own = type(error).__module__.startswith("tvae.")  # whoever calls has named the file
    names = {folder.name, *(Path(name).name for name in {*files, *members})}
    if not own and not any(name in told for name in names):
        return f"{type(error).__name__} that does not name the file: {told[:150]}"
    return "error"


def work(reader: Reader, seed: int, numbers: range, folder: Path, progress: Any = None) -> Count:
    """All inputs of these numbers, one after the other, in this process."""
    count, seen = Counter[str](), dict[str, tuple[int, str]]()
    limit = _most_memory() + MEMORY
    with _limits():
        for number in numbers:
            if progress is not None:
                progress[:8] = struct.pack("q", number)
            files = reader.files(seed, number)
            found = outcome(reader, folder, files)
            if _most_memory() > limit:
                found = f"took {(_most_memory() - limit + MEMORY) >> 20} MB"
                limit = _most_memory() + MEMORY  # told once, and then only of what takes still more
            count[found if found in ("error", "answer") else "fault"] += 1
            if found not in ("error", "answer"):
                seen.setdefault(found.partition(":")[0], (number, found))
    faults = [f"{reader.name}, input {number}: {what}" for number, what in seen.values()]
    return Count(len(numbers), count["error"], count["answer"], faults)


def run(reader: Reader, seed: int, inputs: int) -> Count:
    """The inputs in a process of their own; if it dies or hangs, that is a fault, and another goes on."""
    total, numbers = Count(), range(inputs)
    with tempfile.TemporaryDirectory(prefix="campaign-", dir=_memory()) as place:
        sound = outcome(reader, _made(Path(place) / "sound"), reader.pack(dict(reader.parts)))
        if sound != "answer":
            total.faults.append(f"{reader.name}, undamaged: {sound}")
        while numbers and len(total.faults) < 20:
            folder = _made(Path(place) / f"from-{numbers.start}")
            back, at = folder.with_suffix(".count"), mmap.mmap(-1, 8)
            child = os.fork()
            if child == 0:
                try:
                    torch.set_num_threads(1)
                    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                    found = work(reader, seed, numbers, folder, at)
                    back.write_text(json.dumps(asdict(found)))
                    os._exit(0)
                finally:
                    os._exit(1)
            status = _wait(child, at)
            if status == 0:
                found = Count(**json.loads(back.read_text()))
                for name in ("inputs", "errors", "answers", "faults"):
                    setattr(total, name, getattr(total, name) + getattr(found, name))
                break
            last = struct.unpack("q", at[:8])[0]
            total.faults.append(f"{reader.name}, input {last}: the process died ({status})")
            total.inputs += last + 1 - numbers.start
            numbers = range(last + 1, inputs)
    return total


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _wait(child: int, at: mmap.mmap) -> int:
    """The status with which a process ended; one that stays at one input for too long is killed."""
    last, since = at[:8], time.monotonic()
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        if at[:8] != last:
            last, since = at[:8], time.monotonic()
        elif time.monotonic() - since > PATIENCE:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.05)


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


def _with_checksums(content: bytes) -> bytes:
    """A PNG whose chunks have the checksums of what they hold, as far as it can be followed."""
    data, at = bytearray(content), 8
    while at + 12 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        end = at + 8 + length
        if end + 4 > len(data):
            break
        data[end : end + 4] = struct.pack(">I", zlib.crc32(data[at + 4 : end]))
        at = end + 4
    return bytes(data)


def _zipped(members: Mapping[str, bytes]) -> bytes:
    with io.BytesIO() as buffer:
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return buffer.getvalue()


def _zip_bomb(name: str, size: int) -> bytes:
    """An archive of a few megabytes whose member unpacks to so many bytes."""
    with io.BytesIO() as buffer:
        with (
            zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
            archive.open(name, "w", force_zip64=True) as member,
        ):
            for _ in range(size >> 24):
                member.write(bytes(2**24))
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


def _mat_zip() -> Reader:
    from tvae.data import affnist_mat

    parts = _mat().parts

    def pack(contents: Parts) -> Parts:
        return {"test.zip": _zipped(contents)}

    def read(folder: Path) -> Any:
        return affnist_mat.read("test", size=40, path=folder / "test.zip")

    outside = pack({f"../../{name}": content for name, content in parts.items()})
    large = {"test.zip": _zip_bomb("1.mat", 2**31)}
    return Reader(
        "zip of mat",
        parts,
        read,
        _is_dataset,
        pack,
        (outside, large),
    )


def _drawings_zip() -> Reader:
    from tvae.data import omniglot

    folder = "images_background/Greek/character01/"
    drawings = 255 * (_images(20, 105, 105) > 9).astype(np.uint8)
    parts = {f"{folder}0001_{k:02}.png": _picture(x, "png") for k, x in enumerate(drawings, 1)}

    def pack(contents: Parts) -> Parts:
        members = {name: _with_checksums(data) for name, data in contents.items()}
        return {"omniglot-py/images_background.zip": _zipped(members)}

    first = next(iter(parts))
    outside = pack({**parts, "images_background/../../escaped.png": parts[first]})
    return Reader(
        "zip of drawings",
        parts,
        lambda root: omniglot.load("train", source="torchvision", root=root),
        _is_dataset,
        pack,
        (pack({**parts, first: _png_bomb(20_000)}), outside),
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
    large = {**pack(parts), "faces-open/faces_open_rgb96_jpg.zip": _zip_bomb(chosen[0], 2**31)}
    return Reader(
        "zip of photographs",
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
        lambda contents: {name: _with_checksums(data) for name, data in contents.items()},
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
        except (ValueError, TypeError, KeyError, RecursionError):
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
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
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
    "zip of mat": _mat_zip,
    "zip of drawings": _drawings_zip,
    "zip of photographs": _zip,
    "PNG folder": _png,
    "JPEG folder": _jpeg,
    "safetensors": _safetensors,
    "checkpoint": _checkpoint,
    "ledger entry": _ledger,
    "sweep file": _sweep,
    "notebook": _notebook,
}


def damaged_files(seed: int, scale: float, name: str) -> Found:
    """The part of the campaign for one reader."""
    count = run(READERS[name](), seed, times(INPUTS, scale))
    return Found(Counter({f"damaged files: {name}": count.inputs}), count.faults)


PARTS: dict[str, Callable[[int, float], Found]] = {
    f"damaged files, {name}": partial(damaged_files, name=name) for name in READERS
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
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
