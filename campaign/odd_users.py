"""Odd users: images of all kinds, odd paths, a machine without the data, Ctrl-C at any moment.

A command does what was asked or refuses in one line; an answer is the right one. After Ctrl-C there
is one line and no traceback, and the same command then ends as it would have ended undisturbed.
"""

from __future__ import annotations

import io
import json
import random
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from found import Found, times, try_cases
from kills import SWEEP, entries, left_behind, state
from PIL import Image
from processes import command, environment

import tvae
from tvae import cli
from tvae.runs import released

MODEL = "mnist-A-25"
SIDE = 28
INTERRUPTED = "tvae: interrupted\n"


def call(*words: object) -> tuple[int, str, list[str]]:
    """`tvae WORDS` in this process: the exit code, what it said, and what is wrong with that."""
    out, told, faults = io.StringIO(), io.StringIO(), list[str]()
    with redirect_stdout(out), redirect_stderr(told), warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            code = cli.main([str(word) for word in words])
        except Exception as error:
            return 1, "", [f"{type(error).__name__}: {error}"]
    lines = told.getvalue().splitlines()
    if code and (len(lines) != 1 or not lines[0].startswith("tvae: ")):
        faults.append(f"refused, but not in one line: {told.getvalue()[-300:]!r}")
    return code, told.getvalue(), faults


# --- images -------------------------------------------------------------------------------------


def _digits(count: int, draw: random.Random) -> np.ndarray:
    """Test digits of the embedded sample, (count, 28, 28) uint8."""
    images = tvae.data.load("mnist", "test", source="embedded").images
    return np.stack([images[draw.randrange(len(images)), 0].numpy() for _ in range(count)])


def _alike(pixels: np.ndarray, mode: str) -> Image.Image:
    """The same image in another mode, without any loss."""
    grey = Image.fromarray(pixels)
    if mode == "I;16":
        return Image.fromarray(pixels.astype(np.uint16) * 257)
    if mode == "I":
        return Image.fromarray(pixels.astype(np.int32) * 257)
    if mode == "F":
        return Image.fromarray(pixels.astype(np.float32) / 255)
    if mode == "P":
        palette = grey.convert("P")
        palette.putpalette([value for value in range(256) for _ in range(3)])
        return palette
    return grey.convert(mode)


#: Modes that hold a grey image without loss, with a format that keeps them.
ALIKE = {"L": "png", "RGB": "bmp", "RGBA": "png", "LA": "png", "P": "gif", "I;16": "png"}
ALIKE |= {"I": "tiff", "F": "tiff"}
ODD = {"1": "png", "L": "webp", "RGB": "jpeg", "RGBA": "tiff", "CMYK": "tiff", "YCbCr": "jpeg"}
ODD |= {"P": "png", "I;16": "tiff", "F": "tiff", "PA": "png", "HSV": "png"}


def _codes(what: Path, place: Path, *options: str) -> tuple[np.ndarray | None, str, list[str]]:
    output = place / "codes.npy"
    output.unlink(missing_ok=True)
    code, told, faults = call("embed", MODEL, what, "-o", output, *options)
    if (code == 0) != output.exists():
        faults.append(
            f"exit code {code}, and the output is {'' if output.exists() else 'not '}there"
        )
    return (np.load(output) if output.exists() else None), told, faults


def same_image(place: Path, draw: random.Random) -> list[str]:
    """One image in many modes, of the model's own size: the same code, with `--fit` or without."""
    (pixels,) = _digits(1, draw)
    np.save(place / "plain.npy", pixels[None])
    expected, _, faults = _codes(place / "plain.npy", place)
    for mode, kind in ALIKE.items():
        folder = place / mode.replace(";", "")
        folder.mkdir()
        _alike(pixels, mode).save(folder / f"a.{kind}")
        for options in ((), ("--fit",)):
            found, told, wrong = _codes(folder, place, *options)
            faults += [f"{mode} {options}: {what}" for what in wrong]
            if found is None:
                faults.append(f"{mode} {options} is refused: {told}")
            elif expected is None or not np.array_equal(found, expected):
                faults.append(f"{mode} {options}: another code than that of the same image")
    return faults


def odd_image(place: Path, draw: random.Random) -> list[str]:
    """An image of any size, mode, depth and format, for `embed` and `transfer`."""
    folder, faults = place / "images", []
    folder.mkdir()
    width, height = (draw.choice((1, 2, SIDE, SIDE, 60, 80, 333, 1500)) for _ in range(2))
    count, names = draw.choice((1, 2, 5)), []
    for number in range(count):
        mode = draw.choice(sorted(ODD))
        noise = np.random.default_rng(draw.randrange(2**32)).integers(0, 256, (height, width, 3))
        picture = Image.fromarray(noise.astype(np.uint8))
        if mode in ("I;16", "F"):
            wide = noise[:, :, 0] * draw.choice((1, 257))
            picture = Image.fromarray(wide.astype(np.uint16 if mode == "I;16" else np.float32))
        elif mode == "HSV":
            picture = picture.convert("HSV").convert("RGB")
        else:
            picture = picture.convert("LA" if mode == "PA" else mode)
        names.append(f"{number}.{ODD[mode]}")
        picture.save(folder / names[-1])
    own = (width, height) == (SIDE, SIDE)
    for options in ((), ("--fit",)):
        found, told, wrong = _codes(folder, place, *options)
        faults += wrong
        if options or own:
            if found is None or found.shape != (count, 25) or not np.isfinite(found).all():
                faults.append(f"{width}x{height} {names} {options}: no codes: {told}")
            elif options and f"of {count} pictures" not in told:
                faults.append(f"{width}x{height}: not said what was done: {told}")
        elif found is not None or "--fit" not in told or "28x28" not in told:
            faults.append(f"{width}x{height} without --fit: {told}")
        wanted, output = 0 if options or own else 2, place / "turned.png"
        output.unlink(missing_ok=True)
        code, told, wrong = call(
            "transfer", MODEL, "--images", folder, "-o", output, "--source", "embedded", *options
        )
        faults += wrong
        if code != wanted or output.exists() != (wanted == 0):
            faults.append(
                f"transfer of {width}x{height} {names} {options} ended with {code}: {told}"
            )
    return faults


def odd_array(place: Path, draw: random.Random) -> list[str]:
    """Arrays of any type and shape, also as triplets: an answer for what can be one, or a line."""
    kind = draw.choice(("u1", "u2", "i4", "i8", "f2", "f4", "f8", "b1", "c8", "U3", "O"))
    shape = tuple(draw.choice((0, 1, 3, SIDE, SIDE, SIDE)) for _ in range(draw.randint(0, 5)))
    if draw.random() < 0.4:
        shape = (draw.choice((1, 3)), SIDE, SIDE)
    values = np.random.default_rng(draw.randrange(2**32)).random(shape)
    if kind in ("u1", "u2", "i4", "i8"):
        values = values * 255
    array = np.asarray(values).astype(kind)
    if kind in ("f4", "f8") and array.size and draw.random() < 0.3:
        array.reshape(-1)[0] = draw.choice((np.nan, np.inf, -1, 2))
    path = place / "mine.npy"
    np.save(path, array, allow_pickle=True)
    plain = kind in ("u1", "f2", "f4", "f8") and array.size > 0
    with np.errstate(invalid="ignore"):
        inside = plain and (kind == "u1" or bool(((array >= 0) & (array <= 1)).all()))
    right = inside and (shape[1:] in ((SIDE, SIDE), (1, SIDE, SIDE)))
    faults = []
    for options in ((), ("--fit",)):
        found, told, wrong = _codes(path, place, *options)
        faults += [f"{kind} {shape} {options}: {what}" for what in wrong]
        if right and (found is None or found.shape != (shape[0], 25)):
            faults.append(f"{kind} {shape} {options} was refused: {told}")
        if found is not None and (not inside or not (right or options)):
            faults.append(f"{kind} {shape} {options} was taken for images")
    output = place / "turned.png"
    code, told, wrong = call("transfer", MODEL, "--triplet", path, "--images", "mnist",
                             "--source", "embedded", "-o", output)  # fmt: skip
    faults += wrong
    if (code == 0) != (right and shape[0] == 3):
        faults.append(f"a triplet of {kind} {shape} ended with {code}: {told}")
    return faults


# --- paths and machines ---------------------------------------------------------------------------


def odd_path(place: Path, draw: random.Random) -> list[str]:
    """Spaces, umlauts and a thousand files in a path, from training to the codes."""
    part = [
        "ä ö ü",
        "größer als 1",
        "日本 語",
        "a'b\"c",
        "-o",
        "%s {x} $HOME",
        "tab\there",
        "é" * 60,
    ]
    folder = place / "/".join(draw.sample(part, 3))
    folder.mkdir(parents=True)
    few = ["--anchors", 50, "--queries", 10, "--likelihood-samples", 2, "--likelihood-images", 2]
    run, faults = folder / "run one", []
    digits, images = _digits(1000, draw), folder / "my images"
    images.mkdir()
    np.save(folder / "all.npy", digits)
    for number, pixels in enumerate(digits):
        Image.fromarray(pixels).save(images / f"ü {number:04}.png")
    sweep = folder / "my sweep.yaml"
    sweep.write_text(yaml.safe_dump({**SWEEP, "epochs": 1, "seeds": [0], "models": ["pca"]}))
    steps: tuple[tuple[object, ...], ...] = (
        ("train", "--dataset", "tiny", "--epochs", 1, "--batch-size", 10, "--folder", run),
        ("evaluate", run, *few, "--json", folder / "found.json"),
        ("transfer", run, "-o", folder / "turned.png", "--images", images),
        ("info", run),
        ("embed", MODEL, images, "-o", folder / "codes.npy"),
        ("embed", MODEL, folder / "all.npy", "-o", folder / "again.npy"),
        ("sweep", sweep, "--results", folder / "results", "--runs", folder / "runs"),
    )
    for words in steps:
        done = command(*words, cwd=folder)
        _, told = done.communicate()
        if done.returncode or told:
            faults.append(f"tvae {words[0]} ended with {done.returncode}: {told[-300:]}")
    if not faults and not np.array_equal(
        np.load(folder / "codes.npy"), np.load(folder / "again.npy")
    ):
        faults.append("a thousand files have other codes than the array of the same images")
    return faults + left_behind(folder)


def without_data(place: Path, draw: random.Random) -> list[str]:
    """The book's own example on a machine that has no data set: the sample is used, and that is said."""
    images = place / "mine"
    images.mkdir()
    for number, pixels in enumerate(_digits(draw.randint(1, 12), draw)):
        Image.fromarray(pixels).save(images / f"{number}.png")
    empty = place / "nothing here"
    empty.mkdir()
    home = {"HOME": str(place / "home"), "XDG_DATA_HOME": None, "XDG_CACHE_HOME": None}
    root = draw.choice((None, "", str(empty), str(place / "not even a folder")))
    changed = environment({**home, "TVAE_DATA": root, "TVAE_PLUGINS": None})
    name, faults = draw.choice([x for x in released.names() if "VAE" not in x]), []
    words = ["transfer", name, "--images", images, "-o", place / "mine.png"]
    done = command(*words, env=changed, cwd=place)
    _, told = done.communicate()
    if done.returncode or not (place / "mine.png").exists():
        faults.append(f"TVAE_DATA={root!r}: ended with {done.returncode}: {told[-300:]}")
    if told.count("\n") != 1 or "is not on this machine; instead: " not in told:
        faults.append(f"TVAE_DATA={root!r}: not said in one line what was used: {told[-300:]!r}")
    return faults


# --- Ctrl-C -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Interrupted:
    """A command to be interrupted: its words for a folder, and what it `ends` with there."""

    words: Callable[[Path], list[object]]
    ends: Callable[[Path], Any]
    often: int


def _sweep_words(folder: Path, *more: object) -> list[object]:
    file = folder / "sweep.yaml"
    file.write_text(yaml.safe_dump({**SWEEP, "epochs": 5, "seeds": [0]}))
    return ["sweep", file, "--results", folder / "results", "--runs", folder / "runs", *more]


def _train_words(folder: Path) -> list[object]:
    words: list[object] = ["train", "--dataset", "tiny", "--epochs", 40, "--batch-size", 10]
    return [*words, "--device", "cpu", "--folder", folder / "run"]


def _evaluate_words(folder: Path) -> list[object]:
    few = ["--anchors", 300, "--queries", 50, "--likelihood-samples", 20, "--likelihood-images", 20]
    words: list[object] = ["evaluate", MODEL, "--source", "embedded", "--cache", folder / "cache"]
    return [*words, *few, "--json", folder / "found.json"]


def _measured(folder: Path) -> Any:
    found = json.loads((folder / "found.json").read_text())
    return found["metrics"], found["standard_errors"], found["data"]


def _embed_words(folder: Path) -> list[object]:
    return ["embed", MODEL, "mnist", "--source", "embedded", "-o", folder / "codes.npy"]


def _transfer_words(folder: Path) -> list[object]:
    return ["transfer", MODEL, "--source", "embedded", "-o", folder / "turned.png"]


COMMANDS = {
    "train": Interrupted(_train_words, lambda at: state(at / "run"), 20),
    "evaluate": Interrupted(_evaluate_words, _measured, 15),
    "embed": Interrupted(_embed_words, lambda at: (at / "codes.npy").read_bytes(), 15),
    "transfer": Interrupted(_transfer_words, lambda at: (at / "turned.png").read_bytes(), 15),
    "sweep": Interrupted(_sweep_words, lambda at: entries(at / "results"), 10),
    "sweep on Ray": Interrupted(
        lambda at: _sweep_words(at, "--engine", "ray"), lambda at: entries(at / "results"), 3
    ),
}


def _began(process: subprocess.Popen[str], mark: Path) -> bool:
    """Wait until Python has come to our own code: what happens before is not ours to answer for."""
    while not mark.exists() and process.poll() is None:
        time.sleep(0.002)
    return mark.exists()


def interrupted(seed: int, scale: float, name: str) -> Found:
    """Ctrl-C at random moments of a command, which is then begun again until it ends."""
    case, found, what = COMMANDS[name], Found(), f"Ctrl-C in tvae {name}"
    draw, wanted = random.Random(f"{seed}/{what}"), times(case.often, scale)
    with tempfile.TemporaryDirectory(prefix="odd-") as above:
        alone = Path(above) / "alone"
        alone.mkdir()
        start = time.monotonic()
        done = command(*case.words(alone))
        _, told = done.communicate()
        length = time.monotonic() - start
        if done.returncode:
            found.faults.append(f"{what}: it failed undisturbed: {told[-300:]}")
            return found
        expected, rounds = case.ends(alone), 0
        while found.counts[what] < wanted and rounds < 5 * wanted:
            rounds += 1
            folder, ended = Path(above) / str(rounds), False
            folder.mkdir()
            for attempt in range(3):
                mark = folder / f"began-{attempt}"
                marked = {"TVAE_PLUGINS": "began,tiny", "CAMPAIGN_MARK": str(mark)}
                process = command(*case.words(folder), env=environment(marked))
                _began(process, mark)
                time.sleep(draw.uniform(0, length))
                process.send_signal(signal.SIGINT)
                try:
                    _, told = process.communicate(timeout=180)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
                    found.faults.append(f"{what}: it went on for three minutes after Ctrl-C")
                    continue
                if process.returncode == 0:  # it had ended, or all was done
                    ended = True
                    if told:
                        found.faults.append(f"{what}, after its end: {told[-300:]!r}")
                    break
                lines = [] if told == INTERRUPTED else [f"{process.returncode}, {told[-600:]!r}"]
                found.add(what, lines, rounds)
            if not ended:
                done = command(*case.words(folder))
                _, told = done.communicate()
                if done.returncode:
                    found.faults.append(f"{what}: it could not be continued: {told[-300:]}")
                    continue
            if case.ends(folder) != expected:
                found.faults.append(f"{what}: it ends with something else than undisturbed")
            found.faults += [f"{what}: {x}" for x in left_behind(folder)]
    return found


PARTS: dict[str, Callable[[int, float], Found]] = {
    **{f"Ctrl-C, {name}": partial(interrupted, name=name) for name in COMMANDS},
    "odd images": partial(
        try_cases,
        {
            "one image in eight modes": (same_image, 40),
            "odd images": (odd_image, 200),
            "odd arrays": (odd_array, 300),
        },
        "odd ü-",
    ),
    "odd paths": partial(
        try_cases,
        {"odd paths": (odd_path, 6), "machines without the data": (without_data, 12)},
        "odd ü-",
    ),
}
