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

import pytest
import render
from repository import FLOOR

import tvae

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def extension(root: Path) -> ModuleType:
    path = root / "book" / "_ext" / "tvae_site.py"
    specification = importlib.util.spec_from_file_location("tvae_site", path)
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


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
