"""The site's own extension: complete API pages, docstrings as code and tables, the address."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import picture
import pytest
import render
from docutils import nodes
from docutils.utils import new_document
from PIL import Image
from repository import FLOOR

import tvae

pytestmark = pytest.mark.slow


def load(root: Path, name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, root / f"book/_ext/{name}.py")
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def extension(root: Path) -> ModuleType:
    return load(root, "tvae_site")


@pytest.fixture(scope="module")
def pages(root: Path) -> ModuleType:
    return load(root, "tvae_pages")


def test_every_module_has_its_place(extension: ModuleType, root: Path) -> None:
    """Compared with the files, not with the walk that the extension itself makes."""
    shown = {name for names in extension.modules().values() for name in names}
    files = set()
    for path in (root / "tvae").rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if not any(part.startswith("_") for part in name.split(".")):
            files.add(name)
    assert shown == files


def test_the_house_has_every_room_on_its_floor(extension: ModuleType) -> None:
    """The picture agrees with the order that `tests/project/test_rooms.py` holds the imports to."""
    floors = [[room.removeprefix("tvae.") for room in floor] for floor in extension.house()]
    assert {room for floor in floors for room in floor} == set(FLOOR)
    heights = [{FLOOR[room] for room in floor} for floor in floors]
    for upper, lower in itertools.pairwise(heights):
        assert min(upper) > max(lower)
    drawn = ElementTree.fromstring(extension.picture())
    names = [text.text for text in drawn.iter("text")]
    assert names == [room for floor in floors for room in floor]
    colours = {part.get(kind) for part in drawn.iter() for kind in ("fill", "stroke")}
    assert colours <= {None, "none", "currentColor"}  # nothing that a dark page would hide
    assert {link.get("href") for link in drawn.iter("a")} == {f"api/tvae.{n}.html" for n in names}


def test_private_modules_are_not_shown(extension: ModuleType, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "_hidden.py").write_text('"""Private."""')
    (tmp_path / "shown.py").write_text('"""Public."""')
    monkeypatch.setattr(tvae, "__path__", [*tvae.__path__, str(tmp_path)])
    assert "tvae.shown" in extension.modules() and "tvae._hidden" not in extension.modules()
    with pytest.raises(ValueError, match="shown"):  # a new room is given its floor
        extension.house()


def test_public_names_exist(extension: ModuleType) -> None:
    for found in pkgutil.walk_packages(tvae.__path__, "tvae."):
        if found.name.endswith("__main__"):
            continue
        module = importlib.import_module(found.name)
        for name in getattr(module, "__all__", []):
            assert hasattr(module, name), f"{found.name}.__all__ names {name}"


def test_names_are_found_where_they_are_defined(extension: ModuleType) -> None:
    assert extension.canonical("tvae.Triplets") == "tvae.transforms.triplets.Triplets"
    assert extension.canonical("tvae.files.atomic_write") == "tvae.files.atomic_write"
    assert extension.canonical("tvae.files") == "tvae.files"
    assert extension.canonical("tvae.files.absent") == ""
    assert extension.canonical("nowhere.at.all") == ""


def processed(extension: ModuleType, text: str, what: str = "function") -> list[str]:
    lines = text.splitlines()
    extension.mark_code(None, what, "name", None, None, lines)
    return lines


def test_indented_example_becomes_code(extension: ModuleType) -> None:
    lines = processed(extension, "Use it so:\n\n    x = f_\n    y = |x|\n\nAnd so on.")
    assert lines[2:6] == ["::", "", "    x = f_", "    y = |x|"]
    assert processed(extension, "So::\n\n    x = 1").count("::") == 0


def test_sections_are_not_taken_for_code(extension: ModuleType) -> None:
    text = "Do it.\n\nArgs:\n    x: a number\n\n    and more about it\n"
    assert "::" not in processed(extension, text)


def test_bars_and_underscores_are_text(extension: ModuleType) -> None:
    assert processed(extension, "The norm |x_| of `|y_|`.") == [r"The norm \|x\_\| of `|y_|`."]


def test_markdown_table_becomes_a_table(extension: ModuleType) -> None:
    lines = processed(extension, "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |")
    assert ".. list-table::" in lines
    assert [line.strip() for line in lines if " - " in line] == [
        "* - a", "- b", "* - 1", "- 2", "* - 3", "- 4",
    ]  # fmt: skip


def test_first_line_of_an_attribute_is_no_type(extension: ModuleType) -> None:
    assert processed(extension, "The name: as printed.", "property")[:2] == ["..", ""]


def test_address_comes_from_pyproject(extension: ModuleType, tmp_path: Path) -> None:
    class Config:
        html_theme_options: dict[str, Any] = {"kept": 1}  # noqa: RUF012

    class App:
        srcdir = str(tmp_path)

    (tmp_path / "pyproject.toml").write_text('[project.urls]\nRepository = "https://one/place"\n')
    config = Config()
    extension.set_address(App(), config)
    assert config.html_theme_options["repository_url"] == "https://one/place"
    assert config.html_theme_options["kept"] == 1


def test_staging_takes_the_executed_chapters(root: Path, tmp_path: Path) -> None:
    executed = tmp_path / "executed"
    executed.mkdir()
    with pytest.raises(FileNotFoundError, match="execute them first"):
        render.stage(executed, tmp_path / "source", root)
    for path in render.project.chapters(root):
        (executed / path.name).write_text(f"executed {path.stem}")
    (executed / "status.json").write_text("{}")
    render.stage(executed, tmp_path / "source", root)
    for path in render.project.chapters(root):
        copy = tmp_path / "source" / "book" / path.name
        assert copy.read_text() == f"executed {path.stem}"
    assert (tmp_path / "source" / "book" / "status.json").read_text() == "{}"
    assert (tmp_path / "source" / "_config.yml").is_file()


# ---- What every page gets


def paragraphs(*texts: str) -> nodes.document:
    document = new_document("page")
    document += nodes.section(
        "", nodes.title("", "Title"), *(nodes.paragraph("", t) for t in texts)
    )
    return document


def test_description_is_the_first_paragraph_in_plain_text(pages: ModuleType) -> None:
    document = paragraphs("Too short.", "An action takes ")
    document[0][2] += nodes.math("", r"r_\chi(z, \tau^{-1})")
    document[0][2] += nodes.Text(" to the code of ")
    document[0][2] += nodes.math("", r"x_2")
    text = pages.description(document, "")
    assert text == "An action takes r(z, τ⁻¹) to the code of x₂"
    long = pages.description(paragraphs("many words, " * 40), "")
    assert len(long) <= pages.LENGTH + 2 and long.endswith(" many …")
    assert pages.description(None, "otherwise") == "otherwise"


def test_tags_are_escaped_and_absolute(pages: ModuleType) -> None:
    found = pages.tags("book/x", 'A "title" & more', "text", "https://where/it/is/")
    assert 'content="A &quot;title&quot; &amp; more"' in found
    assert '"https://where/it/is/book/x.html"' in found
    assert f'"https://where/it/is/{pages.IMAGE}"' in found


def test_first_cells_become_one_line(pages: ModuleType) -> None:
    def cell(source: str, *classes: str) -> nodes.container:
        made = nodes.container(nb_element="cell_code", classes=["cell", *classes])
        made["hide_mode"] = "input"
        made.append(nodes.literal_block(source, source))
        return made

    cells = [
        cell("%pip", "tag_setup"), cell("seed = 0", "tag_parameters"),
        cell("import torch"), cell("x = 1"), cell("from torch import nn"),
    ]  # fmt: skip
    document = new_document("page")
    document += nodes.section("", nodes.paragraph("", "before"), *cells)
    pages.fold(None, document)
    kinds = [type(node).__name__ for node in document[0]]
    assert kinds == ["paragraph", "raw", *["container"] * 3, "raw", *["container"] * 2]
    assert "imports</summary>" in document[0][1].astext()
    assert ["hide_mode" in c for c in cells] == [False, False, False, True, True]


def test_mended_tags(pages: ModuleType) -> None:
    assert "aria-label" in pages.mend('<summary><span class="toctree-toggle"></span></summary>')
    lines = pages.mend("<dl>\n<dd><em>a</em>,</dd>\n<dd><em>b</em>,</dd>\n</dl>")
    assert "<dd>" not in lines and lines.count('"sig-line"') == 2
    real = '<dl class="py function">\n<dt>f</dt>\n<dd>text</dd>\n</dl>'
    assert pages.mend(real) == real
    index = "All modules for which code is available<ul><li>a</li>\n<ul><li>a.b</li>\n</ul><li>c</li></ul>"
    assert ElementTree.fromstring(f"<p>{pages.mend(index)}</p>").find("ul/li/ul/li") is not None


def test_preview_image_has_the_size_that_is_announced(pages: ModuleType, tmp_path: Path) -> None:
    picture.write(picture.card(), tmp_path / "card.png")
    with Image.open(tmp_path / "card.png") as image:
        assert image.size == pages.IMAGE_SIZE
    assert (tmp_path / "card.png").stat().st_size < 1e6
