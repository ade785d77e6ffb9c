"""`tvae data`: list, fetch, check."""

import argparse
from typing import Any

from tvae.cli.common import add_command, show


def add(commands: Any) -> None:
    """Register the commands."""
    data = add_command(
        commands,
        "data",
        "list, fetch and check data sets",
        "Which data sets there are and whether they are on this machine (list), download them "
        "(fetch), compare the files with their published checksums (check). The full sets are "
        "looked for in the folder that TVAE_DATA (or --root) names, laid out as torchvision does; "
        "the embedded ones are part of the package.",
        "  tvae data list\n  tvae data fetch mnist\n  tvae data check mnist fashion-mnist\n",
        _list,
    )
    data.set_defaults(root=None)
    actions = data.add_subparsers(title="actions", metavar="ACTION", dest="data_action")
    listing = add_command(
        actions,
        "list",
        "what there is, and where",
        "One line for each data set and source: whether it is there, where, and how to get it.",
        "  tvae data list\n",
        _list,
    )
    fetch = add_command(
        actions,
        "fetch",
        "download data sets",
        "Download data sets into the data root. What is there already is not fetched again.",
        "  tvae data fetch mnist\n  tvae data fetch omniglot --root ~/data\n",
        _fetch,
    )
    fetch.add_argument("names", metavar="NAME", nargs="+", help="data sets")
    check = add_command(
        actions,
        "check",
        "compare files with their checksums",
        "Compare every file that is there, and the embedded samples, with the published checksum. "
        "The exit code is 1 if one differs.",
        "  tvae data check\n  tvae data check mnist\n",
        _check,
    )
    check.add_argument("names", metavar="NAME", nargs="*", help="data sets (default: all)")
    for action in (listing, fetch, check):
        action.add_argument("--root", help="data root (default: TVAE_DATA)")


def _list(arguments: argparse.Namespace) -> int:
    from tvae.data import data_root, fetching

    rows = []
    for found in fetching.available(arguments.root):
        where = found.where if found.present else f"{found.where}; {found.provide}"
        rows.append([found.name, found.source, "yes" if found.present else "no", where])
    show(["data set", "source", "there", "where, or how to get it"], rows, left=(0, 1, 2, 3))
    print(f"data root: {data_root(arguments.root)}")
    return 0


def _fetch(arguments: argparse.Namespace) -> int:
    from tvae.data import fetching

    for name in arguments.names:
        print(f"{name}: in {fetching.fetch(name, arguments.root)}", flush=True)
    return 0


def _check(arguments: argparse.Namespace) -> int:
    from tvae.data import data_root, fetching

    found = fetching.check(arguments.names or None, arguments.root)
    for file in found:
        print(file, flush=True)
    if not found:
        print(f"no file to check in {data_root(arguments.root)}")
    return 0 if all(file.ok for file in found) else 1
