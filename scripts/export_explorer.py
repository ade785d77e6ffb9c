"""Put together what the τ explorer needs in the reader's browser, all of it from the package.

    python scripts/export_explorer.py _build/explorer

Written are, into one folder: the scripts of `book/_explorer` and its library; for each model of
`MODELS` a script with its weights in half precision; for each data set a script with images of its
test set; a catalogue of all that; and the still images that readers without JavaScript see. The
small live figures of the chapters come with it, two of them with numbers from the ledger's folder.
`scripts/render.py` calls this for every site it renders.

Weights and images are scripts, not data files, since a page opened from a disk (`file://`) may load
scripts but may not fetch data. To ship another model, add its name to `MODELS`; a model with a new
kind of action also needs that action in `book/_explorer/engine.js`.
"""

from __future__ import annotations

import argparse
import base64
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import pandas as pd
import project
import torch
from torch import Tensor, nn

import tvae
from tvae.experiments import figures
from tvae.runs import ledger
from tvae.runs.name import RunName
from tvae.transforms import Parameters, Triplets, get_family, homographies, warp

#: The released models of the page; the first is the one a visitor meets. Each name begins with
#: the data set that the model was trained on.
MODELS = ("mnist-A-25", "mnist-M-26", "mnist-T-25", "mnist-NR-25", "fashion-mnist-A-25")
DATASETS = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}
#: What `engine.js` can do with a code; the letters of `tvae.actions`.
ACTIONS = ("A", "M", "MA", "T", "N")
FAMILIES = ("rotation", "tilt", "shear", "translation", "scale")
PER_CLASS = 6  # images of each class
SIZE = 28
EPOCHS = 20  # of the runs whose paths are shown
WALKERS = ("A", "M", "T", "N^R", "VAE+", "VAE")
SOURCE = project.BOOK / "_explorer"


class Weights:
    """Tensors one after another in half precision, as which the package holds them anyway."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.length = 0

    def add(self, tensor: Tensor) -> dict[str, Any]:
        """Append a tensor; the result says where it lies (counted in numbers) and its shape."""
        half = tensor.detach().half().contiguous()
        if not torch.equal(half.float(), tensor.float()):
            raise ValueError(
                "These weights do not fit into half precision: release the model first."
            )
        place = {"at": self.length, "shape": list(half.shape)}
        self.parts.append(half.numpy().astype("<f2").tobytes())
        self.length += half.numel()
        return place

    def base64(self) -> str:
        return base64.b64encode(b"".join(self.parts)).decode()


def layer(module: nn.Module, weights: Weights) -> dict[str, Any]:
    """A layer with weights as a convolution or a matrix product, channels last.

    Transposed convolutions become ordinary ones, which the browser's library computes faster:

    - of a single pixel (`FromPoint`): a matrix product, then its numbers laid out as an image;
    - with stride 1: a convolution with the kernel turned round and a rim of k − 1 pixels;
    - with a 4×4 kernel, stride 2 and padding 1: as in `tvae.networks.Upsample`, write the kernel's
      row as 2a + i and its column as 2b + j. A 2×2 convolution over (a, b) gives the four pixels
      (i, j) of each cell as channels; the cells are laid out (`shuffle`) and the rim cut off.
    """
    if isinstance(module, nn.Linear):
        return {
            "kind": "dense",
            "kernel": weights.add(module.weight.T),
            "bias": weights.add(module.bias),
        }
    if isinstance(module, tvae.networks.FromPoint):
        c_in, c_out, k, _ = module.weight.shape
        kernel = module.weight.permute(0, 2, 3, 1).reshape(c_in, k * k * c_out)
        assert module.bias is not None
        return {
            "kind": "dense",
            "kernel": weights.add(kernel),
            "bias": weights.add(module.bias.repeat(k * k)),
            "reshape": [k, k, c_out],
        }
    if isinstance(module, nn.ConvTranspose2d):
        c_in, c_out, k, _ = module.weight.shape
        stride, padding = module.stride[0], int(module.padding[0])
        assert module.bias is not None
        if (stride, padding) == (1, 0):
            kernel = module.weight.flip(2, 3).permute(2, 3, 0, 1)
            return _convolution(weights, kernel, module.bias, 1, k - 1)
        if (k, stride, padding) == (4, 2, 1):
            split = module.weight.view(c_in, c_out, 2, 2, 2, 2)  # in, out, a, i, b, j
            kernel = split.permute(2, 4, 0, 3, 5, 1).flip(0, 1).reshape(2, 2, c_in, 4 * c_out)
            return _convolution(weights, kernel, module.bias.repeat(4), 1, 1) | {"shuffle": 2}
    elif isinstance(module, nn.Conv2d):
        kernel = module.weight.permute(2, 3, 1, 0)
        assert module.bias is not None
        return _convolution(weights, kernel, module.bias, module.stride[0], int(module.padding[0]))
    raise ValueError(f"The τ explorer cannot run a layer of this kind: {module}.")


def _convolution(
    weights: Weights, kernel: Tensor, bias: Tensor, stride: int, padding: int
) -> dict[str, Any]:
    return {
        "kind": "convolution",
        "kernel": weights.add(kernel),
        "bias": weights.add(bias),
        "stride": stride,
        "padding": padding,
    }


def network(module: nn.Module, weights: Weights) -> list[dict[str, Any]]:
    """A sequential network as a list of layers, each with or without a ReLU after it."""
    layers: list[dict[str, Any]] = []
    for child in module.children():
        if isinstance(child, nn.ReLU):
            layers[-1]["relu"] = True
        elif not isinstance(child, nn.Flatten | nn.Unflatten):
            layers.append(layer(child, weights))
    return layers


def describe(name: str) -> dict[str, Any]:
    """All that the browser needs of the released model `name`."""
    model = tvae.pretrained(name)
    settings = model.settings
    if settings["model"] != "tvae" or settings["shape"] != [1, SIZE, SIZE]:
        raise ValueError(
            f"The τ explorer shows T-VAEs of grey {SIZE}×{SIZE} images; {name} is none."
        )
    if settings["action"] not in ACTIONS:
        raise ValueError(
            f"{name} has the action {settings['action']!r}; the τ explorer knows {', '.join(ACTIONS)}."
        )
    weights = Weights()
    networks = {
        part: network(getattr(model, part), weights) for part in ("encoder", "decoder", "psi", "xi")
    }
    inner = model.action.inner if settings["residual"] else model.action
    vectors = {}
    if hasattr(inner, "chi"):
        networks["chi"] = network(inner.chi, weights)
    if hasattr(inner, "b"):
        vectors["b"] = weights.add(inner.b)
    return {
        "name": name,
        "action": settings["action"],
        "residual": settings["residual"],
        "options": settings["action_options"],
        "d": model.d,
        "tauSize": model.action.tau_size,
        "networks": networks,
        "vectors": vectors,
        "weights": weights.base64(),
    }


def selection(dataset: str) -> tuple[Tensor, list[int], tuple[str, ...]]:
    """Images (n, 28, 28) of the test set, their classes and the classes' names.

    The first six of each class, none picked by hand; the classes take turns.
    """
    data = tvae.data.load(dataset, "test", source="embedded")
    places = [torch.nonzero(data.labels == c).flatten() for c in data.labels.unique()]
    chosen = torch.stack([p[:PER_CLASS] for p in places], 1).flatten()
    names = data.classes or tuple(str(int(c)) for c in data.labels.unique())
    return data.images[chosen, 0], data.labels[chosen].tolist(), tuple(names)


def strongest(name: str) -> float:
    """The largest value of a family's first parameter that triplets are drawn with."""
    family = get_family(name)
    most = family.draw(torch.ones(1, len(family.parameters)), family.range, SIZE, SIZE)
    return float(most[0, 0])


def label(name: str) -> tuple[str, str]:
    """The data set of a released model, and its action as the page shows it: A, M, N^R."""
    dataset, letter, _ = name.rsplit("-", 2)
    if dataset not in DATASETS:
        raise ValueError(f"The τ explorer has no images for {name}; it has {', '.join(DATASETS)}.")
    return dataset, letter[:-1] + "ᴿ" if letter.endswith("R") else letter


def hand_over(path: Path, kind: str, name: str, content: dict[str, Any]) -> int:
    """Write a script that hands `content` to the page; return its size in bytes."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.write_bytes(
        f"TauExplorer.receive({json.dumps(kind)},{json.dumps(name)},{text});\n".encode()
    )


def still(columns: int) -> plt.Figure:
    """What the explorer shows first, as a still image: a triplet, and its τ on other digits."""
    figures.use_style()
    model = tvae.pretrained(MODELS[0])
    pixels, _, _ = selection(label(MODELS[0])[0])
    images = pixels[:, None].float() / 255
    rotation = Parameters.of("rotation", [[20.0]])
    triplets = Triplets(interpolation="bicubic")
    own = triplets.replay(images[7:8], rotation)
    with torch.no_grad():
        _, tau = model.infer(own.x1, own.x2)
        others = images[20 - columns : 20]
        codes, _ = model.encode(others)
        there = model.decode(model.act(codes, tau))
        back = model.decode(model.act_inverse(codes, tau))
    truth = triplets.replay(others, Parameters.of("rotation", [[20.0]] * columns))
    figure, axes = plt.subplots(
        1, 2, figsize=(2.2 + 0.62 * columns, 3.3), width_ratios=(1, columns / 2.2)
    )
    figures.image_grid(
        torch.cat([own.x2, own.x0, own.x1]),
        1,
        row_labels=["$x_2$", "$x_0$", "$x_1$"],
        title="turned by 20°",
        ax=axes[0],
    )
    figures.image_grid(
        torch.cat([truth.x2, back, others, there, truth.x1]),
        columns,
        row_labels=[
            "truly turned back",
            "τ⁻¹ applied",
            "other digits",
            "τ applied",
            "truly turned",
        ],
        title="its τ on other digits",
        ax=axes[1],
    )
    return figure


def plane(action: str) -> plt.Figure:
    """What the plane of an action shows first: two codes, and the z and τ that fit them best."""
    figures.use_style()
    there, back = figures.PALETTE["blue"], figures.PALETTE["vermillion"]
    z1, z2 = torch.tensor([-0.3, 1.5]), torch.tensor([2.1, 0.9])
    figure, ax = plt.subplots(figsize=(4, 4))
    ax.axhline(0, color="#CCCCCC", linewidth=0.8)
    ax.axvline(0, color="#CCCCCC", linewidth=0.8)
    r = tvae.actions.build(action, 2)
    if action == "A":
        z, tau, name = (z1 + z2) / 2, (z1 - z2) / 2, "τ"
    else:
        angles = torch.atan2(z1[1], z1[0]), torch.atan2(z2[1], z2[0])
        length, middle = (z1.norm() + z2.norm()) / 2, (angles[0] + angles[1]) / 2
        z = length * torch.stack((middle.cos(), middle.sin()))
        tau, name = ((angles[0] - angles[1]) / 2)[None], "θ"
        ax.add_patch(plt.Circle((0, 0), float(length), fill=False, linestyle=":", color="#888888"))
        ax.plot([0, float(z[0])], [0, float(z[1])], color="#CCCCCC", linewidth=0.8)
    # the action with a growing share of τ draws its own path
    shares = torch.linspace(0, 1, 30)[:, None]
    for target, move, colour, style, text in (
        (z1, r.act, there, "-", name),
        (z2, r.act_inverse, back, "--", f"−{name}"),
    ):
        path = move(z.expand(30, 2), shares * tau)
        ax.plot(*path.T.tolist(), style, color=colour)
        ax.plot(*torch.stack((path[-1], target)).T.tolist(), ":", color="black", linewidth=1)
        ax.plot(*path[-1:].T.tolist(), "o", color=colour, markerfacecolor="white", markersize=5)
        ax.annotate(
            text, tuple(path[15].tolist()), (4, 6), textcoords="offset points", color=colour
        )
    for point, colour, text in ((z1, there, "z₁"), (z2, back, "z₂"), (z, "black", "z")):
        ax.plot(*point.tolist(), "o", color=colour, markersize=7)
        offset = {"z": (7, -14), "z₁": (-18, -4), "z₂": (8, -4)}[text]
        ax.annotate(text, tuple(point.tolist()), offset, textcoords="offset points", color=colour)
    ax.set(xlim=(-3, 3), ylim=(-3, 3), aspect="equal", xticks=[], yticks=[])
    return figure


def strength() -> plt.Figure:
    """A triplet by rotation, and the one way followed by the other."""
    figures.use_style()
    pixels, _, _ = selection("mnist")
    x0 = pixels[5:6, None].float() / 255
    given = torch.tensor([[20.0]], dtype=torch.float64)
    there, back = (homographies("rotation", v, SIZE, SIZE) for v in (given, -given))
    views = [warp(x0, m, "bicubic") for m in (back, there, there @ back)]
    figure, ax = plt.subplots(figsize=(6, 1.9))
    labels = ["$x_2 = f^{-1}(x_0)$", "$x_0$", "$x_1 = f(x_0)$", "$f^{-1}(f(x_0))$"]
    images = torch.cat([views[0], x0, *views[1:]])
    figures.image_grid(images, 4, column_labels=labels, ax=ax)
    return figure


def line(label: str, **numbers: list[float]) -> dict[str, Any]:
    """A line of a chart: its name on the page, its looks as in all figures, its numbers."""
    look = figures.look(label)
    return {
        "name": label.replace("^R", "ᴿ"),
        "colour": look["color"],
        "dashed": "linestyle" in look,
        **numbers,
    }


def anchors() -> dict[str, Any]:
    """Accuracy by the number of labelled images: mean and deviation over the subsamples."""
    rows = pd.read_csv(ledger.folder() / "sample_efficiency.csv", comment="#")
    found = rows.groupby(["name", "anchors"])["accuracy"].agg(["mean", "std"]).round(4)
    datasets = {}
    for dataset, title in DATASETS.items():
        lines = []
        for label in ("pixels", "M", "N^R", "A", "VAE+", "PCA", "VAE"):
            d = 26 if label == "M" else 25
            name = label if label == "pixels" else f"{dataset}-{label.replace('^', '')}-{d}"
            if name in found.index.levels[0]:
                one = found.loc[name]
                numbers = {"accuracy": one["mean"].tolist(), "spread": one["std"].tolist()}
                lines.append(line(label, **numbers))
        datasets[dataset] = {"label": title, "lines": lines}
    return {"anchors": sorted(rows["anchors"].unique().tolist()), "datasets": datasets}


def number(value: float | None) -> float:
    """A recorded number to two digits; an epoch without one cannot be drawn."""
    if value is None:
        raise ValueError("An epoch in the ledger lacks its numbers on the test images.")
    return round(value, 2)


def walk() -> dict[str, Any]:
    """NLL of x0 and KL0 on the test images after every epoch, from the ledger's runs of 20 epochs."""
    runs = {
        (c.dataset, RunName.of(c).label): entry.curve
        for entry in ledger.entries()
        if (c := entry.configuration).preset == "book"
        and (c.seed, c.tag, len(entry.curve)) == (0, "", EPOCHS)
        and c.d in (25, 26)
    }
    datasets = {}
    for dataset, title in DATASETS.items():
        lines = [
            line(
                label,
                nll=[number(epoch["test_nllx0"]) for epoch in curve],
                kl=[number(epoch["test_kl0"]) for epoch in curve],
            )
            for label in WALKERS
            if (curve := runs.get((dataset, label)))
        ]
        datasets[dataset] = {"label": title, "lines": lines}
    return {"epochs": EPOCHS, "datasets": datasets}


def chart(kind: str, content: dict[str, Any]) -> plt.Figure:
    """What a chart shows first, as a still image."""
    figures.use_style()
    figure, ax = plt.subplots(figsize=(5.6, 4.4))
    for one in content["datasets"]["mnist"]["lines"]:
        style = {"color": one["colour"], "linestyle": "--" if one["dashed"] else "-"}
        name = one["name"].replace("ᴿ", "$^R$")
        if kind == "anchors":
            ax.plot(content["anchors"], one["accuracy"], label=name, **style)
        else:
            ax.plot(one["kl"][2:], one["nll"][2:], marker=".", linewidth=1, **style)
            ax.plot(one["kl"][-1:], one["nll"][-1:], "o", color=one["colour"])
            ax.annotate(name, (one["kl"][-1], one["nll"][-1]), (0, -13), textcoords="offset points")
    if kind == "anchors":
        ax.set(xscale="log", xlabel="labelled images", ylabel="accuracy")
        ax.legend()
    else:
        ax.set(xlabel="KL$_0$ (nats)", ylabel="NLL of $x_0$ (nats)", aspect="equal")
        ax.margins(0.06)
        (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
        for total in range(5 * int((left + low) // 5 + 1), int(right + high), 5):
            ax.plot([left, right], [total - left, total - right], ":", color="#888888", linewidth=1)
        ax.set(xlim=(left, right), ylim=(low, high))
    return figure


def export(folder: Path) -> None:
    """Write everything into `folder`, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("*.wasm"))
    wasm = (SOURCE / "vendor" / "tfjs-backend-wasm-simd.wasm").read_bytes()
    content: dict[str, Any] = {"base64": base64.b64encode(wasm).decode()}
    hand_over(folder / "vendor" / "wasm.js", "backend", "wasm", content)
    models = []
    for name in MODELS:
        dataset, action = label(name)
        size = hand_over(folder / "models" / f"{name}.js", "model", name, describe(name))
        models.append({"name": name, "dataset": dataset, "action": action, "bytes": size})
    datasets = {}
    for dataset in {label(name)[0]: None for name in MODELS}:
        images, labels, classes = selection(dataset)
        encoded = base64.b64encode(images.contiguous().numpy().tobytes()).decode()
        content = {"labels": labels, "pixels": encoded}
        hand_over(folder / "images" / f"{dataset}.js", "images", dataset, content)
        datasets[dataset] = {"label": DATASETS[dataset], "classes": classes, "count": len(labels)}
    catalogue = {
        "models": models,
        "datasets": datasets,
        "most": {name: strongest(name) for name in FAMILIES},
        "trained": Triplets().families,
    }
    hand_over(folder / "catalogue.js", "catalogue", "all", catalogue)
    charts = {"anchors": anchors(), "walk": walk()}
    for name, content in charts.items():
        hand_over(folder / "figures" / f"{name}.js", "figure", name, content)
    (folder / "stills").mkdir()
    stills = {
        "explorer-full": still(10),
        "explorer-compact": still(6),
        "plane-A": plane("A"),
        "plane-M": plane("M"),
        "strength-triplet": strength(),
        **{f"{name}-mnist": chart(name, content) for name, content in charts.items()},
    }
    for name, figure in stills.items():
        figure.savefig(folder / "stills" / f"{name}.png", format="png", dpi=120)
        plt.close(figure)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Put the τ explorer's files together.")
    parser.add_argument("folder", type=Path, help="where they go; emptied first")
    folder = parser.parse_args(arguments).folder
    export(folder)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"The τ explorer's files are in {folder}: {size / 1e6:.1f} MB in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
