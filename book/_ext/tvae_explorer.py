"""Live figures on a page: for each a still image, a word for readers without script, the script.

A page holds an empty mount, in Markdown or in a Markdown cell of a notebook:

    <div class="tau-explorer" data-form="full"></div>       the τ explorer; or data-form="compact"
    <div class="tau-plane" data-form="A"></div>             what A makes of two codes; or data-form="M"
    <div class="tau-strength" data-form="triplet"></div>    a triplet and its strength
    <div class="tau-anchors" data-form="mnist"></div>       accuracy by the number of labelled images
    <div class="tau-walk" data-form="mnist"></div>          NLL and KL0 by epoch, lines of equal ELBO

It is filled here, and only pages with a mount get the stylesheet and the scripts. The files
themselves are made and put beside the pages by `scripts/export_explorer.py`; they are not in
`_static`, from which jupyter-book would load every script on every page.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

FOLDER = "_explorer"
MOUNT = re.compile(r'<div class="(?P<kind>tau-[a-z]+)"(?P<rest>[^>]*)>\s*</div>')
FORM = re.compile(r'data-form="(\w+)"')
#: What the still image of each kind and form shows.
ALT = {
    ("tau-explorer", "full"): "The digit 7 between its two views, turned by 20 degrees either way, "
    "and ten other digits: as they are, with the τ of the 7 and its inverse applied by the model, "
    "and truly turned.",
    ("tau-explorer", "compact"): "The digit 7 between its two views, turned by 20 degrees either "
    "way, and six other digits: as they are, with the τ of the 7 and its inverse applied by the "
    "model, and truly turned.",
    (
        "tau-plane",
        "A",
    ): "Two points of a plane, z1 and z2; z lies half-way between them, and arrows "
    "τ and −τ lead from z to the one and to the other.",
    ("tau-plane", "M"): "Two points of a plane, z1 and z2, at different distances from the origin; "
    "z lies on their bisector, on a circle of the mean distance. Turned by θ and −θ it ends on the "
    "circle, short of the one point and beyond the other.",
    ("tau-strength", "triplet"): "A digit, its two views by rotation either way, both larger than "
    "the digit itself, and the one followed by the other: upright again, and larger still.",
    (
        "tau-anchors",
        "mnist",
    ): "Accuracy of nearest neighbours against the number of labelled images, "
    "from a hundred to 320,000 on a logarithmic axis, for raw pixels, PCA and the codes of models "
    "trained on MNIST. The line of the pixels begins below that of M, crosses it and ends highest.",
    (
        "tau-walk",
        "mnist",
    ): "NLL of test images against KL0 after each epoch, a path for each model, "
    "over dotted lines on which the sum of both is the same. The T-VAEs go to and fro along these "
    "lines; VAE and VAE+ go down across them.",
}
NOSCRIPT = (
    "This figure can be played with, but JavaScript is off in this browser. The image above is what "
    "it shows first."
)


def fill(body: str, base: str) -> str:
    """Fill all mounts of a page; `base` is the way from the page to the figures' files."""
    scripts: dict[str, None] = {}

    def mount(found: re.Match[str]) -> str:
        kind, form = found["kind"], FORM.search(found["rest"])
        if not form or (kind, form[1]) not in ALT:
            known = ", ".join(f'{k} with data-form="{f}"' for k, f in ALT)
            raise ValueError(f"There is no live figure {found[0]}; there are {known}.")
        scripts["explorer.js" if kind == "tau-explorer" else "figures.js"] = None
        still = f"{base}/stills/{kind.removeprefix('tau-')}-{form[1]}.png"
        return (
            f'<div class="{kind}"{found["rest"]}>'
            f'<img class="tau-still" src="{still}" alt="{ALT[kind, form[1]]}"/>'
            f"<noscript><p>{NOSCRIPT}</p></noscript></div>"
        )

    filled = MOUNT.sub(mount, body)
    if not scripts:
        return body
    tags = "".join(f'<script defer src="{base}/{s}"></script>' for s in ("page.js", *scripts))
    return f'<link rel="stylesheet" href="{base}/explorer.css"/>{filled}{tags}'


def on_page(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Before a page is written."""
    body = context.get("body", "")
    if MOUNT.search(body):
        context["body"] = fill(body, context["pathto"](FOLDER, 1))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("html-page-context", on_page)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
