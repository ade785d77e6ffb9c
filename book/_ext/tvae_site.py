"""What this book needs beyond its theme: the address, the API pages, the status table.

- The repository's address is read from `pyproject.toml`, so that it stands nowhere else.
- Every module of `tvae` gets a page, found by walking the package: none can be forgotten. Modules
  whose names begin with an underscore are private and not shown.
- The status table comes from `status.json`, which the execution of the chapters writes, that of the
  campaigns from `campaign.json`, which `make campaign` writes.
- Types of other packages, which cannot be linked without a network, become plain text; an
  unknown name of `tvae` itself stays an error.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.util
import inspect
import itertools
import json
import pkgutil
import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from pydantic import BaseModel
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.docutils import SphinxDirective

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

import tvae

# The floors from the roof down; tests/project/test_rooms.py checks that imports lead downwards.
HOUSE = (
    "cli estimator",
    "experiments",
    "paper",
    "runs",
    "training evaluation",
    "transforms data",
    "objective models motions pose actions networks layers",
    "seeding checks files text",
)


def modules() -> dict[str, list[str]]:
    """Return, for each page, the modules it shows: one page for each module right under `tvae`."""
    pages: dict[str, list[str]] = {"tvae": ["tvae"]}
    for found in pkgutil.walk_packages(tvae.__path__, "tvae."):
        parts = found.name.split(".")
        if any(part.startswith("_") for part in parts):
            continue
        pages.setdefault(".".join(parts[:2]), []).append(found.name)
    return pages


def summary(module: str) -> str:
    """Return the first sentence of a module's docstring, in one line."""
    text = (importlib.import_module(module).__doc__ or "").strip().split("\n\n")[0]
    return " ".join(text.split())


def _page(page: str, names: list[str]) -> str:
    lines = [f"# {page}", ""]
    for name in names:
        module = importlib.import_module(name)
        if name != page:
            lines += [f"## {name}", ""]
        lines += ["```{eval-rst}", f".. automodule:: {name}"]
        exported = getattr(module, "__all__", None)
        # A package that hands on names from its modules lists them; they are described there.
        links = {n: home(getattr(module, n), f"{name}.{n}") for n in exported or ()}
        elsewhere = {n: target for n, target in links.items() if target != f"{name}.{n}"}
        here = [n for n in links if n not in elsewhere]
        if exported is None:
            lines += ["   :members:", "   :show-inheritance:"]
        elif here:
            lines += [f"   :members: {', '.join(here)}", "   :show-inheritance:"]
        lines += ["```", ""]
        if elsewhere:
            text = ", ".join(f"{{py:obj}}`{n} <{elsewhere[n]}>`" for n in sorted(elsewhere))
            lines += [f"Handed on from its modules: {text}.", ""]
    return "\n".join(lines)


def home(found: Any, name: str) -> str:
    """Return the full name under which the object `found`, met as `name`, is described.

    `tvae.Triplets` is described where it is defined, as `tvae.transforms.triplets.Triplets`.
    """
    if isinstance(found, type(sys)):
        return str(found.__name__)
    module, path = getattr(found, "__module__", None), getattr(found, "__qualname__", None)
    if isinstance(module, str) and isinstance(path, str) and module.split(".")[0] == "tvae":
        return f"{module}.{path}"
    return name


def canonical(name: str) -> str:
    """Return where the object called `name` is described; empty if nothing has that name."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        try:
            for part in parts[cut:]:
                found = getattr(found, part)
        except AttributeError:
            return ""
        return home(found, name)
    return ""


def write_api_pages(app: Sphinx, config: Config) -> None:
    """Write a page for each module to `book/api`; pages of modules that are gone are removed."""
    folder = Path(app.srcdir) / "book" / "api"
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {f"{page}.md": _page(page, names) for page, names in modules().items()}
    for old in folder.glob("*.md"):
        if old.name not in wanted:
            old.unlink()
    for name, text in wanted.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def set_address(app: Sphinx, config: Config) -> None:
    """Give the theme the repository's address, for the source link and the Colab buttons."""
    with open(Path(app.srcdir) / "pyproject.toml", "rb") as file:
        address = tomllib.load(file)["project"]["urls"]["Repository"]
    options = dict(config.html_theme_options)
    options.update(
        repository_url=address,
        repository_branch="main",
        path_to_docs="",
        use_repository_button=True,
        use_issues_button=True,
        launch_buttons={"colab_url": "https://colab.research.google.com"},
    )
    config.html_theme_options = options


def mark_code(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Show indented blocks of a docstring as code.

    The docstrings are plain text in which an example is a paragraph indented by four spaces;
    reStructuredText would take it for a quotation.
    """
    result: list[str] = []
    inside = False
    for k, line in enumerate(lines):
        indented = line.startswith("    ")
        blank = not line.strip()
        if indented and not inside and k >= 2 and not lines[k - 1].strip():
            before = next((t for t in reversed(lines[:k]) if t.strip()), "")
            # Not within a list, nor within a section such as "Args:", whose lines are indented.
            if before and not before[0].isspace() and not before.startswith(("-", "*", ".. ")):
                inside = True
                if not before.endswith("::"):
                    result += ["::", ""]
        if inside and not indented and not blank:
            inside = False
        result.append(line if inside or line.lstrip().startswith("|") else escape(line))
    if what in ("attribute", "data", "property"):
        # Else napoleon takes what stands before a colon in the first line for a type.
        # An empty comment as the first line prevents that.
        result[:0] = ["..", ""]
    lines[:] = tables(result)


def escape(line: str) -> str:
    """Keep bars and underscores at the end of a word, as in |A| and x_, from being markup."""
    pieces = line.split("`")
    pieces[::2] = [re.sub(r"\||(?<=\w)_(?!\w)", r"\\\g<0>", piece) for piece in pieces[::2]]
    return "`".join(pieces)


def tables(lines: list[str]) -> list[str]:
    """Replace tables in the Markdown notation by the same in reStructuredText."""
    result: list[str] = []
    k = 0
    while k < len(lines):
        block = list(itertools.takewhile(lambda t: t.lstrip().startswith("|"), lines[k:]))
        if len(block) < 3 or set(block[1].strip()) - set("|-: "):
            result.append(lines[k])
            k += 1
            continue
        indent = block[0][: len(block[0]) - len(block[0].lstrip())]
        result += ["", f"{indent}.. list-table::", f"{indent}   :header-rows: 1", ""]
        for row in (block[0], *block[2:]):
            for position, cell in enumerate(row.strip().strip("|").split("|")):
                result.append(f"{indent}   {'*' if position == 0 else ' '} - {cell.strip()}")
        result.append("")
        k += len(block)
    return result


def skip(app: Sphinx, what: str, name: str, obj: Any, skipped: bool, options: Any) -> bool | None:
    """Leave out what only looks like ours: a default value with another package's docstring."""
    if what == "class" and callable(obj):
        module = getattr(obj, "__module__", None)
        if inspect.isbuiltin(obj) or (isinstance(module, str) and not module.startswith("tvae")):
            return True
    return None


def without_checks(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returned: Any
) -> tuple[str, None] | None:
    """No signature for a pydantic model: it would repeat the fields, with every check on them."""
    model = what == "class" and isinstance(obj, type) and issubclass(obj, BaseModel)
    return ("", None) if model else None


def resolve(app: Sphinx, env: Any, node: nodes.Element, content: nodes.Element) -> Any:
    """Find names of `tvae` where they are defined; leave types of other packages as text.

    Without a network other packages cannot be linked to. A name that exists nowhere is left to
    Sphinx, which reports it.
    """
    if node.get("refdomain") != "py":
        return None
    target = str(node.get("reftarget", ""))
    around = sys.modules.get(str(node.get("py:module", "")))
    if "." not in target and hasattr(around, target):
        full = home(getattr(around, target), "")
        if not full:
            return content
        target = full
    elif around and _imported_for_types(around, target):
        return content
    if target.split(".")[0] == "tvae":
        domain = env.get_domain("py")
        full = canonical(target)
        if full in domain.objects:
            return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", full, node, content)
        # In a signature, a private or undescribed type of ours stands as text; a link that
        # somebody wrote has to lead somewhere.
        return content if full and node.get("reftype") == "class" else None
    if target in vars(builtins) or (target and _exists(target)):
        return content
    return None


def _imported_for_types(module: Any, name: str) -> bool:
    """Whether a module imports `name` from another package, if only for the type checker."""
    tree = ast.parse(inspect.getsource(module))
    return any(
        isinstance(node, ast.ImportFrom)
        and (node.module or "").split(".")[0] != "tvae"
        and name in [alias.asname or alias.name for alias in node.names]
        for node in ast.walk(tree)
    )


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name.split(".")[0]) is not None
    except ValueError:
        return False


def house() -> list[list[str]]:
    """The rooms floor by floor, the roof first; an error names a module that has no floor."""
    floors = [[f"tvae.{room}" for room in floor.split()] for floor in HOUSE]
    lost = set(modules()) ^ {"tvae", *itertools.chain(*floors)}
    if lost:
        raise ValueError(f"HOUSE in tvae_site.py and the package differ in {sorted(lost)}.")
    return floors


def picture() -> str:
    """The house as an inline SVG: drawn in the colour of the text, so that it suits any theme."""
    width, height, top = 720, 44, 40
    floors = house()
    bottom = top + height * len(floors) + 2
    parts = [
        f'<svg class="tvae-house" viewBox="0 0 {width} {bottom}" width="100%" role="group" '
        'aria-labelledby="tvae-house-title tvae-house-text" fill="none" stroke="currentColor" '
        'style="margin-bottom: 1rem">',
        '<title id="tvae-house-title">The rooms of the package</title>',
        '<desc id="tvae-house-text">A house; each floor uses only those below it. From the top: '
        f"{'; '.join(', '.join(floor) for floor in floors)}.</desc>",
        f'<path d="M1 {top} L{width / 2} 2 L{width - 1} {top}"/>',
    ]
    for number, floor in enumerate(floors):
        wide, y = (width - 2) / len(floor), top + number * height
        for place, room in enumerate(floor):
            x = 1 + place * wide
            parts.append(
                f'<a href="api/{room}.html"><rect x="{x:.1f}" y="{y}" width="{wide:.1f}" '
                f'height="{height}" pointer-events="all"/><text x="{x + wide / 2:.1f}" '
                f'y="{y + height / 2 + 5}" text-anchor="middle" fill="currentColor" stroke="none" '
                f'font-size="15">{room.removeprefix("tvae.")}</text></a>'
            )
    return "\n".join([*parts, "</svg>"])


class House(SphinxDirective):
    """A picture of the rooms, and below it what each is for, with its modules."""

    def run(self) -> list[nodes.Node]:
        lines = ["| room | what it is for | its modules |", "|---|---|---|"]
        pages = modules()
        for page in ["tvae", *itertools.chain(*house())]:
            inside = ", ".join(name.rsplit(".", 1)[1] for name in pages[page] if name != page)
            lines.append(f"| {{doc}}`{page} </book/api/{page}>` | {summary(page)} | {inside} |")
        container = nodes.container()
        self.content = self.content.__class__(lines, "tvae-house")
        self.state.nested_parse(self.content, self.content_offset, container)
        return [nodes.raw("", picture(), format="html"), *container.children]


class Status(SphinxDirective):
    """A table of all chapters: preset, run time and date of the last execution."""

    def run(self) -> list[nodes.Node]:
        folder = Path(self.env.srcdir) / "book"
        self.env.note_dependency(str(folder / "status.json"))
        entries = json.loads((folder / "status.json").read_text(encoding="utf-8"))
        lines = [
            "| chapter | preset | run time | threads | executed on | torch |",
            "|---|---|---:|---:|---|---|",
        ]
        for path in sorted(folder.glob("[0-9][0-9]_*.ipynb")):
            if path.stem not in entries:
                raise self.error(f"{path.name} is not in status.json: run `make execute`.")
            entry = entries[path.stem]
            lines.append(
                f"| {{doc}}`/book/{path.stem}` | {entry['preset']} | {entry['seconds']:.0f} s "
                f"| {entry['threads']} | {entry['date']} | {entry['torch']} |"
            )
        container = nodes.container()
        self.content = self.content.__class__(lines, "tvae-status")
        self.state.nested_parse(self.content, self.content_offset, container)
        return container.children


def campaign_table(campaigns: list[dict[str, Any]], most: int = 3) -> list[str]:
    """The last campaigns side by side, the newest first: what was done how often, and the faults."""
    shown = campaigns[::-1][:most]
    if not shown:
        return ["No campaign has been recorded yet."]
    counted = dict.fromkeys(what for campaign in shown for what in campaign["counts"])
    rows = {
        "seed": [f"{campaign['seed']}" for campaign in shown],
        "commit": [f"`{(campaign['commit'] or 'unknown')[:10]}`" for campaign in shown],
        "minutes": [f"{campaign['seconds'] / 60:.0f}" for campaign in shown],
        **{
            what: [f"{campaign['counts'].get(what, 0):,}" for campaign in shown] for what in counted
        },
        "**faults**": [f"**{len(campaign['faults'])}**" for campaign in shown],
    }
    if any(campaign["left out"] for campaign in shown):
        rows["left out"] = ["; ".join(campaign["left out"]) or "–" for campaign in shown]
    return [
        f"| | {' | '.join(campaign['date'] for campaign in shown)} |",
        f"|---|{'---:|' * len(shown)}",
        *(f"| {what} | {' | '.join(cells)} |" for what, cells in rows.items()),
    ]


class Campaign(SphinxDirective):
    """A table of the last campaigns."""

    def run(self) -> list[nodes.Node]:
        path = Path(self.env.srcdir) / "book" / "campaign.json"
        self.env.note_dependency(str(path))
        lines = campaign_table(json.loads(path.read_text(encoding="utf-8")))
        container = nodes.container()
        self.content = self.content.__class__(lines, "tvae-campaign")
        self.state.nested_parse(self.content, self.content_offset, container)
        return container.children


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("config-inited", write_api_pages, priority=10)
    app.connect("config-inited", set_address, priority=10)
    app.connect("autodoc-process-docstring", mark_code, priority=100)
    app.connect("autodoc-skip-member", skip)
    app.connect("missing-reference", resolve)
    app.connect("autodoc-process-signature", without_checks)
    app.add_directive("tvae-house", House)
    app.add_directive("tvae-status", Status)
    app.add_directive("tvae-campaign", Campaign)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
