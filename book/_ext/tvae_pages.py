"""What every page gets when it is written: a preview for those who share it, its first cells folded.

- Title, description and image for social networks (Open Graph, Twitter). The addresses begin with
  the site's own, which stands in `pyproject.toml`; the description is the page's first paragraph.
- A chapter's first code cells (set-up, parameters, imports) become one folded line. The notebooks
  stay as they are: on Colab these cells are as visible as all others.
- A few tags that Sphinx and the theme write are mended, so that a screen reader can read them.
"""

from __future__ import annotations

import re
import sys
from html import escape, unescape
from itertools import takewhile
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

IMAGE = "_static/preview.png"  # scripts/render.py puts it there
IMAGE_SIZE = (1200, 630)  # what the networks ask for
IMAGE_ALT = "A digit between two views of it, and other digits to which the same was done."
SITE = "The T-VAE book"
LENGTH = 200  # characters of a description

# --- previews -----------------------------------------------------------------------------------

_SIGNS = {
    "tau": "τ", "chi": "χ", "psi": "ψ", "xi": "ξ", "phi": "φ", "theta": "θ", "mu": "μ",
    "sigma": "σ", "bar": "", "mathrm": "", "mathbb": "", "text": "", "to": "→", "in": "∈",
    "times": "×", "cdot": "·", "le": "≤", "ge": "≥", "ldots": "…", "dots": "…", "log": "log",
}  # fmt: skip
_RAISED = str.maketrans("0123456789-+R", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ᴿ")
_LOWERED = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def formula(text: str) -> str:
    """A short formula of LaTeX as plain text: r_\\chi(z, \\tau^{-1}) becomes r(z, τ⁻¹)."""
    text = re.sub(r"_\{?\\[a-z]+\}?", "", text)  # parameters of a network are left out
    text = re.sub(r"\^\{?([-+\dR]+)\}?", lambda m: m[1].translate(_RAISED), text)
    text = re.sub(r"_\{?(\d+)\}?", lambda m: m[1].translate(_LOWERED), text)
    text = re.sub(r"\\([A-Za-z]+)", lambda m: _SIGNS.get(m[1], ""), text)
    return re.sub(r"[\\{}$]", "", text)


def description(doctree: nodes.document | None, otherwise: str) -> str:
    """The first paragraph of a page as one line of plain text, cut at a word; or `otherwise`."""
    for paragraph in doctree.findall(nodes.paragraph) if doctree else ():
        if not isinstance(paragraph.parent, nodes.section | nodes.document):
            continue
        copy = paragraph.deepcopy()
        for node in list(copy.findall(nodes.math)):
            node.replace_self(nodes.Text(formula(node.astext())))
        text = " ".join(copy.astext().split())
        if len(text) < 40:
            continue
        return text if len(text) <= LENGTH else text[:LENGTH].rsplit(" ", 1)[0].rstrip(",;:") + " …"
    return otherwise


def tags(page: str, title: str, text: str, site: str) -> str:
    """The tags of one page; `site` is where the site is published, with a slash at its end."""
    image = site + IMAGE
    properties = {
        "og:type": "website" if page.endswith("01_welcome") else "article",
        "og:site_name": SITE,
        "og:title": title,
        "og:description": text,
        "og:url": f"{site}{page}.html",
        "og:image": image,
        "og:image:width": str(IMAGE_SIZE[0]),
        "og:image:height": str(IMAGE_SIZE[1]),
        "og:image:alt": IMAGE_ALT,
    }
    names = {
        "description": text,
        "twitter:card": "summary_large_image",
        "twitter:title": title,
        "twitter:description": text,
        "twitter:image": image,
        "twitter:image:alt": IMAGE_ALT,
    }
    lines = [f'<meta property="{k}" content="{escape(v)}" />' for k, v in properties.items()]
    lines += [f'<meta name="{k}" content="{escape(v)}" />' for k, v in names.items()]
    return "\n" + "\n".join(lines) + "\n"


def preview(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Before a page is written: its tags."""
    with open(Path(app.srcdir) / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    site = project["urls"]["Documentation"]
    title = unescape(re.sub(r"<[^>]+>", "", context.get("title") or "")) or SITE
    if title in ("Welcome", "<no title>"):
        title = SITE
    text = description(doctree, f"{project['description']}.")
    context["metatags"] = context.get("metatags", "") + tags(page, title, text, site)


# --- the first cells ----------------------------------------------------------------------------


def _source(cell: nodes.Element) -> str:
    return next((block.astext() for block in cell.findall(nodes.literal_block)), "")


def fold(app: Sphinx, doctree: nodes.document) -> None:
    """After a chapter is read: the set-up, the parameters and the imports go behind one line."""

    def is_cell(node: nodes.Node) -> bool:
        return isinstance(node, nodes.container) and node.get("nb_element") == "cell_code"

    def opens(node: nodes.Node) -> bool:
        if not is_cell(node):
            return False
        classes = set(node.get("classes"))
        imports = re.search(r"^(import|from) ", _source(node), re.M)
        return bool(classes & {"tag_setup", "tag_parameters"} or imports) and not any(
            node.findall(nodes.image)
        )

    for first in list(doctree.findall(lambda n: is_cell(n) and "tag_setup" in n["classes"])):
        parent, start = first.parent, first.parent.index(first)
        group = list(takewhile(opens, parent.children[start:]))
        for cell in group:
            cell.attributes.pop("hide_mode", None)  # one fold suffices
        words = "Set-up, parameters, imports" if len(group) > 2 else "Set-up, parameters"
        begin = f'<details class="tvae-setup"><summary>{words}</summary>'
        parent.insert(start + len(group), nodes.raw("", "</details>", format="html"))
        parent.insert(start, nodes.raw("", begin, format="html"))


# --- mends --------------------------------------------------------------------------------------


def mend(html: str) -> str:
    """Names and roles that Sphinx and the theme leave out."""
    # the arrow that folds a part of the table of contents
    html = re.sub(
        r'<summary>(?=<span class="toctree-toggle")',
        '<summary aria-label="Show or hide the pages of this part">',
        html,
    )
    # the lines of a long signature: a list of definitions without anything defined
    html = re.sub(
        r"<dl>\n((?:<dd>.*?</dd>\n)+)</dl>",
        lambda m: (
            '<span class="sig-lines">'
            + re.sub(r"<(/?)dd>", lambda d: "</span>" if d[1] else '<span class="sig-line">', m[1])
            + "</span>"
        ),
        html,
    )
    # the index of modules: a list right within a list
    if "All modules for which code is available" in html:
        html = re.sub(r"</li>\n<ul><li>(.*?)</ul>", r"\n<ul><li>\1</ul></li>\n", html, flags=re.S)
    # a list may hold only its items, but here it holds links back as well
    return html.replace('<div role="list" class="citation-list">', '<div class="citation-list">')


def mend_all(app: Sphinx, exception: Exception | None) -> None:
    """After the last page is written."""
    if exception or app.builder.format != "html":
        return
    for path in Path(app.outdir).rglob("*.html"):
        old = path.read_text(encoding="utf-8")
        new = mend(old)
        if new != old:
            path.write_text(new, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("html-page-context", preview)
    app.connect("doctree-read", fold)
    app.connect("build-finished", mend_all)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
