"""`tvae train`, `tvae resume`, `tvae evaluate`, `tvae models`, `tvae info`."""

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

from tvae.cli.common import add_command, add_device, count, said, set_threads, show, show_metrics


def add(commands: Any) -> None:
    """Register the commands."""
    _add_train(commands)
    _add_resume(commands)
    _add_evaluate(commands)
    models = add_command(
        commands,
        "models",
        "the trained models that are released",
        "One line for each released model: how it was trained (preset, epochs), its most important "
        "metrics as the ledger has them, and the size of its weights. tvae.pretrained() has them all. "
        "Weights that do not come with the package are fetched on first use, or now, by --fetch.",
        "  tvae models\n  tvae models --fetch\n  tvae info mnist-A-25\n",
        _models,
    )
    models.add_argument("--fetch", action="store_true", help="fetch all weights, to work offline")
    info = add_command(
        commands,
        "info",
        "what is installed, or what a run is",
        "Without RUN: versions, devices, presets, released weights. With RUN: its settings and its "
        "last epoch.",
        "  tvae info\n  tvae info runs/mnist-A-25_quick_seed0\n",
        _info,
    )
    info.add_argument("trained", metavar="RUN", nargs="?", help="a run folder or a released model")


def _add_train(commands: Any) -> None:
    train = add_command(
        commands,
        "train",
        "train a model",
        "Train a T-VAE, a VAE or a VAE+. Checkpoints go into the run folder after every epoch; the "
        "same command (or `tvae resume FOLDER`) continues a run that was interrupted.",
        "  tvae train --dataset mnist --preset quick\n"
        "  tvae train --dataset fashion-mnist --action M --d 26 --preset book\n"
        "  tvae train --dataset mnist --model vae+ --epochs 3 --folder runs/trial\n"
        "  tvae train --dataset celeba --preset paper --devices 4 --precision bf16-mixed\n",
        _train,
    )
    train.add_argument(
        "--dataset", required=True, help="mnist, fashion-mnist, omniglot, celeba, ..."
    )
    train.add_argument("--preset", default="quick", help="quick (default), book or paper")
    train.add_argument("--model", default="tvae", help="tvae (default), vae or vae+")
    train.add_argument(
        "--action", help="A (default), M, MA, T or N; E, L, W or G; P or AP; for tvae"
    )
    train.add_argument("--residual", action="store_true", help="the action's residual form")
    train.add_argument("--d", type=int, default=25, help="latent dimension (default: 25)")
    train.add_argument("--seed", type=int, default=0, help="of everything drawn (default: 0)")
    train.add_argument("--epochs", type=int, help="instead of the preset's; a small set has more")
    train.add_argument("--learning-rate", type=float, help="instead of the preset's")
    train.add_argument("--halve-every", type=int, metavar="EPOCHS", help="instead of the preset's")
    train.add_argument("--batch-size", type=int, help="instead of the preset's")
    train.add_argument("--source", help="where images come from: full, embedded, ...")
    train.add_argument("--analytic", action="store_true", help="C1, C2 from posterior means")
    train.add_argument(
        "--pairs",
        action="store_true",
        help="two images share each transformation, which has a true inverse, and lend each other τ",
    )
    train.add_argument("--k", type=count, help="numbers in τ, for the actions E, L, W and G")
    train.add_argument(
        "--moved",
        action="store_true",
        help="images are moved at random first, and the transformations are affine maps",
    )
    train.add_argument("--tau-width", type=float, help="standard deviation of τ (default: none)")
    train.add_argument("--max-steps", type=count, help="stop after so many steps, for trials")
    train.add_argument("--folder", type=Path, help="run folder (default: runs/NAME_PRESET_seedN)")
    train.add_argument("--root", help="data root (default: TVAE_DATA)")
    train.add_argument(
        "--precision", default="32-true", help="Fabric's: 32-true (default), bf16-mixed, ..."
    )
    _add_devices(train)


def _add_resume(commands: Any) -> None:
    resume = add_command(
        commands,
        "resume",
        "continue an interrupted run",
        "Continue a run from its newest intact checkpoint. It ends with the weights it would have "
        "had without the interruption.",
        "  tvae resume runs/mnist-A-25_quick_seed0\n"
        "  tvae resume runs/mnist-A-25_quick_seed0 --epochs 12\n",
        _resume,
    )
    resume.add_argument("folder", metavar="RUN", type=Path, help="the run folder")
    resume.add_argument("--epochs", type=int, help="train for more epochs than first asked for")
    resume.add_argument("--max-steps", type=count, help="stop after so many steps, for trials")
    resume.add_argument("--root", help="data root (default: TVAE_DATA)")
    _add_devices(resume)


def _add_devices(command: argparse.ArgumentParser) -> None:
    """--device, --threads, and how a batch is shared between several devices."""
    add_device(command)
    command.add_argument(
        "--devices",
        type=count,
        default=1,
        help="share each batch between so many, on the CPU between processes (default: 1)",
    )
    command.add_argument(
        "--strategy", default="auto", help="Fabric's: auto (default), ddp, ddp_spawn, fsdp, ..."
    )


def _add_evaluate(commands: Any) -> None:
    evaluate = add_command(
        commands,
        "evaluate",
        "measure a trained model",
        "All twelve metrics of the paper's appendix on the run's own test images: loss terms, "
        "log-likelihood, kNN accuracy in sample and out of sample (AffNIST made from MNIST). How "
        "thoroughly is the preset's business unless said otherwise.",
        "  tvae evaluate runs/mnist-A-25_quick_seed0\n"
        "  tvae evaluate mnist-A-25 --likelihood-images 100 --json metrics.json\n",
        _evaluate,
    )
    evaluate.add_argument("trained", metavar="RUN", help="a run folder or a released model")
    evaluate.add_argument("--preset", help="measure as thoroughly as this preset says")
    evaluate.add_argument("--anchors", type=count, help="labelled AffNIST images")
    evaluate.add_argument("--queries", type=count, help="AffNIST images to classify")
    evaluate.add_argument("--likelihood-samples", type=count, help="importance samples an image")
    evaluate.add_argument("--likelihood-images", type=count, help="test images for log p(x)")
    evaluate.add_argument("--source", help="where images come from (default: as in training)")
    evaluate.add_argument("--seed", type=int, default=0, help="of everything drawn (default: 0)")
    evaluate.add_argument("--json", type=Path, help="write the metrics into this file as well")
    evaluate.add_argument("--cache", type=Path, help="keep the AffNIST images in this folder")
    evaluate.add_argument("--root", help="data root (default: TVAE_DATA)")
    add_device(evaluate)


# --- commands -----------------------------------------------------------------------------------


def _train(arguments: argparse.Namespace) -> int:
    from tvae.runs.name import RunName
    from tvae.training.configuration import RunConfig, usual_epoch_images

    names = ("dataset", "model", "action", "residual", "d", "seed", "preset", "analytic", "pairs")
    changes = ("epochs", "learning_rate", "halve_every", "batch_size", "source", "k", "tau_width")
    config = RunConfig.from_preset(**said(arguments, *names, *changes, "moved"))
    folder = arguments.folder or Path("runs") / RunName.of(config).entry(config.preset, config.seed)
    epoch_images = usual_epoch_images(config.dataset, config.preset)
    return _run(config, folder, arguments, arguments.precision, epoch_images)


def _resume(arguments: argparse.Namespace) -> int:
    from tvae.training import checkpoints
    from tvae.training.configuration import RunConfig

    found = checkpoints.latest(arguments.folder)
    if found is None:
        raise ValueError(f"There is no run to resume in {arguments.folder}.")
    config = RunConfig.from_dict(found.config)
    if arguments.epochs is not None:
        config = dataclasses.replace(config, epochs=arguments.epochs)
    # a run continues in the precision it began with, else it would be another run
    return _run(config, arguments.folder, arguments, found.extra.get("precision", "32-true"))


def _run(
    config: Any,
    folder: Path,
    arguments: argparse.Namespace,
    precision: str,
    epoch_images: int | None = None,
) -> int:
    from lightning_fabric.utilities.rank_zero import rank_zero_only

    from tvae import training
    from tvae.runs.execution import own_data
    from tvae.runs.name import RunName
    from tvae.training import checkpoints

    set_threads(arguments)
    say = rank_zero_only(print)  # Fabric starts this command once for each process
    before = len(checkpoints.checkpoint_folders(folder))
    train_data, test_data = own_data(config.dataset, config.source, arguments.root)
    config = config.stretched(len(train_data), epoch_images)
    say(f"{RunName.of(config)}, preset {config.preset}, {config.epochs} epochs, seed {config.seed}")
    say(train_data.provenance, test_data.provenance, sep="\n")
    say(f"{'continuing' if before else 'into'} {folder}", flush=True)
    run = training.train(
        config,
        train_data,
        test_data,
        folder=folder,
        device=arguments.device,
        devices=arguments.devices,
        strategy=arguments.strategy,
        precision=precision,
        max_steps=arguments.max_steps,
    )
    say(run.history.table(every=max(len(run.history) // 20, 1)))
    say(f"{run.history.seconds:.0f} s of training; next: tvae evaluate {folder}")
    return 0


def _evaluate(arguments: argparse.Namespace) -> int:
    from tvae import paper
    from tvae.files import atomic_write
    from tvae.runs import measurements
    from tvae.runs.execution import own_data
    from tvae.runs.trained import find
    from tvae.training import configuration

    set_threads(arguments)
    trained = find(arguments.trained, arguments.device)
    config = trained.config
    source = arguments.source or config.source
    preset = configuration.get_preset(arguments.preset or config.preset)
    names = ("anchors", "queries", "likelihood_samples", "likelihood_images")
    changes = said(arguments, *names)
    if "likelihood_images" in changes:  # so many images, and not as many as an error asks for
        changes["likelihood_error"] = None
    measures = dataclasses.replace(preset.measuring, **changes)
    own = own_data(config.dataset, source, arguments.root)
    print(f"{trained.name}, {len(trained.history)} epochs, measured as preset {preset.name}")
    print(*(part.provenance for part in own), sep="\n", flush=True)
    out = measurements.affnist(source, measures, own[1], arguments.cache, arguments.root)
    for part in out:
        if part is not None:
            print(part.provenance, flush=True)
    found = measurements.model_metrics(trained.model, *own, *out, measures, config, arguments.seed)
    printed = paper.row(
        config.dataset, config.model, config.action or "", config.residual, config.d
    )
    show_metrics(found["metrics"], found["standard_errors"], printed)
    if arguments.json is not None:
        content = {"run": trained.name, "configuration": config.to_dict(), **found}
        parts = dict(zip(("train", "test", "anchors", "queries"), (*own, *out), strict=True))
        content["data"] = {
            name: dataclasses.asdict(part.provenance)
            for name, part in parts.items()
            if part is not None
        }
        atomic_write(arguments.json, json.dumps(content, indent=1) + "\n")
        print(f"written to {arguments.json}")
    return 0


def _models(arguments: argparse.Namespace) -> int:
    from tvae.runs import released

    if arguments.fetch:
        places = {released.fetch(name).parent for name in released.names()}
        print(f"all weights are in {', '.join(sorted(map(str, places)))}")
        return 0
    print(released.pretrained())
    print("trained: preset and epochs; load one with tvae.load(name)")
    return 0


def _info(arguments: argparse.Namespace) -> int:
    return _describe() if arguments.trained is None else _describe_run(arguments.trained)


def _describe() -> int:
    from tvae.data import data_root
    from tvae.runs import ledger, released
    from tvae.training import configuration, pick_device

    hardware = ledger.hardware(pick_device("auto").type)
    rows = [[name, version] for name, version in ledger.versions().items()]
    rows += [["processor", f"{hardware['cpu']}, {hardware['cores']} cores"]]
    rows += [["device", hardware["device"]], ["data root", str(data_root())]]
    runs = ledger.table(failed=True)
    rows += [["ledger", f"{len(runs)} runs in {ledger.folder()}"]]
    rows += [["released", f"{len(released.names())} models (tvae models)"]]
    show(["", ""], rows, left=(0, 1))
    print()
    head = ["preset", "data", "epochs", "rate", "halved every", "anchors", "queries"]
    body = [
        [
            preset.name,
            preset.source,
            str(preset.epochs),
            f"{preset.learning_rate:g}",
            str(preset.halve_every),
            f"{preset.measuring.anchors:,}",
            f"{preset.measuring.queries:,}",
        ]
        for preset in configuration.PRESETS.values()
    ]
    show(head, body, left=(0, 1))
    return 0


def _describe_run(run: str) -> int:
    from tvae.runs.trained import find
    from tvae.training.history import History

    trained = find(run)
    numbers = sum(weight.numel() for weight in trained.model.parameters())
    where = "released with the package" if trained.folder is None else str(trained.folder)
    rows = [["name", trained.name], ["where", where], ["parameters", f"{numbers:,}"]]
    rows += [[key, str(value)] for key, value in trained.config.to_dict().items()]
    rows += [["epochs done", str(len(trained.history))]]
    show(["", ""], rows, left=(0, 1))
    if trained.history:
        print()
        print(History(trained.history[-1:]).table())
    return 0
