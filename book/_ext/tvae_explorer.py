"""The τ explorer's place on a page: a still image, a word for readers without script, the script.

A page holds an empty mount,

    <div class="tau-explorer" data-form="full"></div>

or `data-form="compact"`, in Markdown or in a Markdown cell of a notebook. It is filled here, and only
pages with a mount get the stylesheet and the script. The files themselves are made and put beside
the pages by `scripts/export_explorer.py`; they are not in `_static`, from which jupyter-book would
load every script on every page.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

FOLDER = "_explorer"
MOUNT = re.compile(r'<div class="tau-explorer"(?P<rest>[^>]*)>\s*</div>')
FORM = re.compile(r'data-form="(full|compact)"')
ALT = (
    "The digit 7 between its two views, turned by 20 degrees either way, and ten other digits: "
    "as they are, with the τ of the 7 and its inverse applied by the model, and truly turned."
)
NOSCRIPT = (
    "This figure can be played with, but JavaScript is off in this browser. The image above is what "
    "it shows first, made by the same model."
)


def fill(body: str, base: str) -> str:
    """Fill all mounts of a page; `base` is the way from the page to the explorer's files."""

    def mount(found: re.Match[str]) -> str:
        form = FORM.search(found["rest"])
        if not form:
            raise ValueError(f'A τ explorer needs data-form="full" or "compact": {found[0]}')
        alt = ALT if form[1] == "full" else ALT.replace("ten other", "six other")
        return (
            f'<div class="tau-explorer"{found["rest"]}>'
            f'<img class="tau-still" src="{base}/stills/{form[1]}.png" alt="{alt}"/>'
            f"<noscript><p>{NOSCRIPT}</p></noscript></div>"
        )

    filled, count = MOUNT.subn(mount, body)
    if count:
        filled = (
            f'<link rel="stylesheet" href="{base}/explorer.css"/>{filled}'
            f'<script defer src="{base}/explorer.js"></script>'
        )
    return filled


def on_page(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Before a page is written."""
    if "tau-explorer" in context.get("body", ""):
        base = context["pathto"](FOLDER, 1)
        context["body"] = fill(context["body"], base)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("html-page-context", on_page)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
