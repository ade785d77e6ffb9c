"""Extensions of your own, for the command line and for the workers of a sweep.

A data set, a family of transformations or an action that a program registers is known to that program
alone. The runs of a sweep are other processes, perhaps on other machines. So put the registrations
into a module, say `mine.py`, and name it:

    TVAE_PLUGINS=mine tvae sweep mine.yaml

The module must be importable there (installed, or in a folder on PYTHONPATH). Several names are
separated by commas.
"""

import importlib
import os


class PluginError(ValueError):
    """A module that TVAE_PLUGINS names and that cannot be imported."""


def load() -> tuple[str, ...]:
    """Import the modules that the environment variable TVAE_PLUGINS names; return their names.

    A module is imported once, however often this is called.
    """
    names = tuple(part.strip() for part in os.environ.get("TVAE_PLUGINS", "").split(","))
    names = tuple(name for name in names if name)
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:  # whatever its own code raises
            raise PluginError(
                f"The module {name!r}, which TVAE_PLUGINS names, cannot be imported: "
                f"{type(error).__name__}: {error}."
            ) from error
    return names
