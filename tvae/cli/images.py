"""`tvae embed` and `tvae transfer`: using a trained model on images."""

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

from tvae.cli.common import add_command, add_device, count, set_threads
from tvae.files import atomic_path, reading

_WHAT = (
    "IMAGES is a data set (`tvae data list`, or one of your own in TVAE_PLUGINS), an .npy file of "
    "shape (N, H, W) or (N, C, H, W), uint8 or floats in [0, 1], or a folder of pictures, taken "
    "in the order of their names. Pictures of another size than the model's need --fit."
)


def add(commands: Any) -> None:
    """Register the commands."""
    embed = add_command(
        commands,
        "embed",
        "images in, .npy out",
        f"The posterior mean of every image, an array (N, d) of float32. {_WHAT}",
        "  tvae embed runs/mnist-A-25_quick_seed0 mnist --split test -o z.npy\n"
        "  tvae embed mnist-A-25 my_images.npy -o z.npy --log-variance logvar.npy\n",
        _embed,
    )
    embed.add_argument("trained", metavar="RUN", help="a run folder or a released model")
    embed.add_argument(
        "images", metavar="IMAGES", help="a data set, an .npy file, a folder of .png"
    )
    embed.add_argument("-o", "--output", type=Path, required=True, help="the .npy file to write")
    embed.add_argument("--log-variance", type=Path, help="write log-variances into this .npy file")
    embed.add_argument("--batch", type=count, default=1000, help="images at a time (default: 1000)")
    _add_source(embed)
    add_device(embed)

    transfer = add_command(
        commands,
        "transfer",
        "take tau from a triplet, apply it to other images",
        "Infer tau from one triplet (an image and two opposite views of it) and apply it to other "
        "images in latent space. Without --triplet it is drawn as those the model was trained on. "
        "The picture has a column for the triplet and one for each image: "
        "the image itself, then tau applied, then its inverse. " + _WHAT,
        "  tvae transfer runs/mnist-A-25_quick_seed0 --family rotation -o turned.png\n"
        "  tvae transfer mnist-A-25 --family shear --index 7 --count 12 -o sheared.png\n"
        "  tvae transfer mnist-A-25 --triplet three.npy --images mine/ -o mine.png\n",
        _transfer,
    )
    transfer.add_argument("trained", metavar="RUN", help="a run folder or a released model (T-VAE)")
    transfer.add_argument("-o", "--output", type=Path, required=True, help="the .png file to write")
    transfer.add_argument("--images", help="what to apply it to (default: the run's data set)")
    transfer.add_argument("--count", type=count, default=10, help="of images (default: 10)")
    transfer.add_argument("--triplet", help="x0, x1, x2: an .npy file or folder with three images")
    transfer.add_argument("--family", help="of the triplet if drawn (default: as in training)")
    transfer.add_argument("--index", type=int, default=0, help="test image the triplet is made of")
    transfer.add_argument("--seed", type=int, default=0, help="of the drawn triplet (default: 0)")
    transfer.add_argument("--zoom", type=count, default=3, help="size of a pixel (default: 3)")
    _add_source(transfer)
    add_device(transfer)


def _add_source(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--fit",
        action="store_true",
        help="pad pictures to squares, resize them, invert those on white ground, and say so",
    )
    command.add_argument("--split", default="test", help="of a data set (default: test)")
    command.add_argument("--source", help="of a data set: full, embedded, ... (default: the run's)")
    command.add_argument("--root", help="data root (default: TVAE_DATA)")


# --- reading images -----------------------------------------------------------------------------


def read_images(
    what: str,
    shape: tuple[int, int, int],
    *,
    split: str = "test",
    source: str = "full",
    root: str | None = None,
    fit: bool = False,
    or_sample: bool = False,
) -> Any:
    """The images that `what` names as a tensor (N, C, H, W), uint8 or float32 in [0, 1].

    They must have the model's `shape` = (C, H, W), unless `fit` brings them to it. With `or_sample`
    the embedded sample stands in for a data set that is not on this machine, and that is said.
    """
    import torch

    from tvae import data
    from tvae.checks import check_images, to_floats
    from tvae.data.pictures import fitted, read_folder

    path = Path(what)
    if path.is_dir():
        images = read_folder(path, shape, fit)
    elif path.suffix == ".npy":
        images = _read_array(path)
        if fit and check_images(images, name=what).shape[1:] != shape:
            pixels = (255 * to_floats(images)).round().byte().permute(0, 2, 3, 1)
            if pixels.shape[-1] != shape[0]:
                raise ValueError(f"{what} has {pixels.shape[-1]} channel(s), the model {shape[0]}.")
            images = fitted(list(pixels.numpy()), shape)
    elif what in data.names():
        try:
            images = data.load(what, split, source=source, root=root).images
        except data.DataNotFound:
            if not or_sample:
                raise
            found = data.load(what, split, source="embedded")
            print(f"{what} is not on this machine; instead: {found.provenance}", file=sys.stderr)
            images = found.images
    else:
        raise ValueError(
            f"{what} is neither a folder, nor an .npy file, nor a data set "
            f"({', '.join(data.names())})."
        )
    images = check_images(images, shape, name=what)
    return images if images.dtype == torch.uint8 else images.float()


def _read_array(path: Path) -> Any:
    import numpy as np
    import torch

    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    with reading(f"{path} is not an array that can be read"):
        array = np.load(path, allow_pickle=False)
    if array.ndim == 3:
        array = array[:, None]
    if array.dtype.kind not in "uf" or (array.dtype.kind == "u" and array.dtype != np.uint8):
        raise ValueError(f"{path} must hold uint8 or floats in [0, 1], not {array.dtype}.")
    return torch.from_numpy(np.ascontiguousarray(array))


# --- commands -----------------------------------------------------------------------------------


def _embed(arguments: argparse.Namespace) -> int:
    import numpy as np

    from tvae.evaluation.inference import Probe
    from tvae.runs.trained import find

    set_threads(arguments)
    trained = find(arguments.trained, arguments.device)
    model = trained.model
    images = read_images(arguments.images, model.shape, **_place(arguments, trained))
    codes = Probe(model, arguments.batch).encode(images)
    for path, rows in zip((arguments.output, arguments.log_variance), codes, strict=True):
        if path is None:
            continue
        array = rows.numpy().astype(np.float32)
        with atomic_path(path) as temporary, open(temporary, "wb") as file:
            np.save(file, array)
        print(f"{path}: {array.shape[0]} x {array.shape[1]}")
    return 0


def _transfer(arguments: argparse.Namespace) -> int:
    import torch

    from tvae.evaluation.inference import batches
    from tvae.models import TVAE
    from tvae.runs.trained import find

    set_threads(arguments)
    trained = find(arguments.trained, arguments.device)
    model = trained.model
    if not isinstance(model, TVAE):
        raise ValueError(
            f"{trained.name} is not a T-VAE: it has no latent transformation to infer."
        )
    place = _place(arguments, trained)
    triplet = _triplet(arguments, trained, place)
    images = read_images(arguments.images or trained.config.dataset, model.shape, **place)
    if arguments.images is None:  # not the image the triplet is made of
        images = images[[i for i in range(len(images)) if i != arguments.index]]
    (images,) = batches(images[: arguments.count], model, arguments.count)
    with torch.no_grad():
        _, tau = model.infer(triplet[1:2], triplet[2:3])
        z, _ = model.encode(images)
        parts = (images, *(model.decode(act(z, tau)) for act in (model.act, model.act_inverse)))
    rows = [torch.cat([view[None], part]).cpu() for view, part in zip(triplet, parts, strict=True)]
    with atomic_path(arguments.output) as temporary:
        picture(rows, arguments.zoom).save(temporary, format="PNG")
    print(
        f"{arguments.output}: first column x0, x1, x2 of the triplet; then {len(images)} images, "
        "below each tau and the inverse of tau applied to it"
    )
    return 0


def _place(arguments: argparse.Namespace, trained: Any) -> dict[str, Any]:
    """Where the images of a data set come from."""
    return {
        "split": arguments.split,
        "source": arguments.source or trained.config.source,
        "root": arguments.root,
        "fit": arguments.fit,
        # a released model comes with the sample; whoever trained on the full set has that
        "or_sample": arguments.source is None and trained.folder is None,
    }


def _triplet(arguments: argparse.Namespace, trained: Any, place: dict[str, Any]) -> Any:
    """x0, x1, x2 as a tensor (3, C, H, W) of floats: given by the user, or drawn."""
    import torch

    from tvae.evaluation.inference import batches
    from tvae.seeding import generator

    if arguments.triplet is not None:
        given = read_images(arguments.triplet, trained.model.shape, **place)
        if len(given) != 3:
            raise ValueError(
                f"A triplet has three images, x0, x1 and x2; {arguments.triplet} has {len(given)}."
            )
        return next(batches(given, trained.model, 3))
    images = read_images(trained.config.dataset, trained.model.shape, **place)
    if not 0 <= arguments.index < len(images):
        raise ValueError(
            f"There is no image {arguments.index}: the index goes from 0 to {len(images) - 1}."
        )
    draw = trained.model.triplets
    if arguments.family is not None:
        draw = dataclasses.replace(draw, families=(arguments.family,), ranges={})
    (x0,) = batches(images[arguments.index : arguments.index + 1], trained.model, 1)
    return torch.cat(list(draw(x0, generator(arguments.seed, "transfer"))[:3]))


def picture(rows: list[Any], zoom: int) -> Any:
    """A Pillow image of rows of pictures, each row a tensor (N, C, H, W) of floats in [0, 1].

    A wide gap follows the first column, which holds the triplet.
    """
    import torch
    from PIL import Image

    pixels = torch.stack(rows).clamp(0, 1).mul(255).round().byte()  # (rows, N, C, H, W)
    framed = torch.nn.functional.pad(pixels, (0, 1, 0, 1), value=128)
    canvas = framed.permute(0, 3, 1, 4, 2).flatten(2, 3).flatten(0, 1)[:-1, :-1]  # (H, W, C)
    wide = canvas.new_full((len(canvas), 3, canvas.shape[2]), 128)
    first = pixels.shape[-1] + 1
    array = torch.cat([canvas[:, :first], wide, canvas[:, first:]], 1).numpy()
    array = array.repeat(zoom, 0).repeat(zoom, 1)
    return Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)
