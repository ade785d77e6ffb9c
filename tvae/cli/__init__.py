"""The command line: `tvae COMMAND ...`.

Exit codes: 0, all went well; 1, something failed (a loss that is no longer finite, a full disk, a run
of a sweep); 2, the command was not understood or asks for what cannot be; 130, interrupted.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from tvae import __version__
from tvae.cli import data, images, runs, sweeps
from tvae.runs import plugins

_EXAMPLES = """\
examples:
  tvae train --dataset mnist --preset quick          train A on the embedded sample, about a minute
  tvae evaluate runs/mnist-A-25_quick_seed0          all twelve metrics, beside the paper's
  tvae embed runs/mnist-A-25_quick_seed0 mnist -o z.npy
  tvae transfer runs/mnist-A-25_quick_seed0 --family rotation -o turned.png
  tvae models                                        the trained models that come with it
  tvae sweep sweeps/paper.yaml --dry-run             what all 99 rows would cost here
  tvae report --dataset mnist --d 25                 ours beside the paper's

`tvae COMMAND --help` explains a command. TVAE_DATA names the folder with the full data sets,
TVAE_PLUGINS modules with data sets, transformations and actions of your own,
TVAE_DEBUG=1 (or --debug) shows where an error comes from.
"""


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="tvae",
        description="Train, measure and use transformation-aware variational autoencoders.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"tvae {__version__}")
    top.add_argument("--debug", action="store_true", help="show where an error comes from")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for module in (data, runs, images, sweeps):
        module.add(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    top = parser()
    try:
        chosen = top.parse_args(arguments)
    except SystemExit as error:  # argparse has said what it had to say
        return error.code if isinstance(error.code, int) else 2
    if chosen.command is None:
        top.print_help(sys.stderr)
        return 2
    debug = chosen.debug or os.environ.get("TVAE_DEBUG", "") not in ("", "0")
    heard: list[int] = []

    def interrupt(number: int, _: object) -> None:
        heard.append(number)
        raise KeyboardInterrupt

    if arguments is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    try:
        plugins.load()
        code: int = chosen.run(chosen)
        _done(arguments)
        return code
    except BrokenPipeError:  # the reader of a pipe, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except (Exception, KeyboardInterrupt) as error:
        # what an interrupted import leaves fails in other ways than by KeyboardInterrupt
        if heard or isinstance(error, KeyboardInterrupt):
            _done(arguments)
            print("tvae: interrupted", file=sys.stderr)
            return 130
        told = (ArithmeticError, LookupError, OSError, TypeError, ValueError)
        if debug or not isinstance(error, told):
            raise
        text = error.args[0] if isinstance(error, KeyError) and error.args else error
        print(f"tvae: {text}", file=sys.stderr)
        return _code(error)


def _done(arguments: Sequence[str] | None) -> None:
    """Deaf to Ctrl-C from now on, if this is the program itself: what is left is Python's farewell."""
    if arguments is None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _code(error: Exception) -> int:
    """2 for what the user can put right in the command, 1 for what went wrong on the way."""
    missing = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError)
    if isinstance(error, OSError) and not isinstance(error, missing):
        return 1
    return 1 if isinstance(error, ArithmeticError) else 2
