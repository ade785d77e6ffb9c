"""The project as a whole: metadata that agree, one address, complete lists, an honest README."""

from __future__ import annotations

import ast
import itertools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import project
import pytest
import setup_cell
import yaml
from repository import texts, tracked

import tvae

# What the same thing is called on conda-forge.
CONDA = {"torch": "pytorch", "pillow": "pillow", "pyyaml": "pyyaml"}


def normal(requirement: str) -> str:
    """A requirement without spaces, its name in small letters."""
    name, rest = re.fullmatch(r"([A-Za-z0-9_.-]+)(.*)", requirement.strip(), re.S).groups()  # type: ignore[union-attr]
    name = name.lower().replace("_", "-")
    return CONDA.get(name, name) + rest.replace(" ", "").replace('"', "'")


def test_conda_environment_mirrors_pyproject(root: Path) -> None:
    table = project.metadata(root)
    extras = table["optional-dependencies"]
    wanted = {normal(r) for r in (*table["dependencies"], *extras["book"], *extras["test"])}
    conda = yaml.safe_load((root / "environment.yml").read_text())["dependencies"]
    pip = next(entry["pip"] for entry in conda if isinstance(entry, dict))
    listed = [entry for entry in conda if isinstance(entry, str)]
    assert "-e ." in pip, "the environment has to install the package itself"
    assert f"python{table['requires-python']}" in listed
    given = {normal(r) for r in (*listed, *pip) if r != "-e ."} - {
        "pip",
        f"python{table['requires-python']}",
    }
    assert given == wanted


def test_torch_and_torchvision_carry_no_version(root: Path) -> None:
    """Else pip would replace the builds that Colab brings along."""
    assert {"torch", "torchvision"} <= set(project.metadata(root)["dependencies"])


def test_versions_agree(root: Path) -> None:
    citation = yaml.safe_load((root / "CITATION.cff").read_text())
    assert tvae.__version__ == project.version(root) == str(citation["version"])


def test_address_stands_in_one_place_and_its_copies_agree(root: Path) -> None:
    """`pyproject.toml` decides; only what `make address` rewrites may repeat it."""
    address = project.address(root)
    short = address.removeprefix("https://github.com/")
    allowed = {Path("pyproject.toml"), Path("README.md"), Path("CITATION.cff")}
    allowed |= {p.relative_to(root) for p in project.chapters(root)}
    holders = {p for p, text in texts(root).items() if short in text}
    assert Path("pyproject.toml") in holders
    assert holders <= allowed, f"the address is repeated in {sorted(map(str, holders - allowed))}"
    assert (root / "pyproject.toml").read_text().count(address) == 1
    assert yaml.safe_load((root / "CITATION.cff").read_text())["repository-code"] == address
    source = setup_cell.text(address, project.version(root))
    for path in project.chapters(root):
        notebook = nbformat.read(path, as_version=4)
        cells = [c for c in notebook.cells if "setup" in c.metadata.get("tags", [])]
        assert [c.source for c in cells] == [source], path.name
        # the set-up cell is the only one with the address, and it has it once
        assert sum(c.source.count(short) for c in notebook.cells) == 1, path.name


def test_the_site_address_follows_from_the_repository(root: Path) -> None:
    import address

    assert project.site(root) == address.pages(project.address(root))
    holders = {p for p, text in texts(root).items() if project.site(root).split("//")[1] in text}
    assert holders == {Path("pyproject.toml"), Path("README.md")}


def test_badges_come_from_the_one_address(root: Path) -> None:
    head = (root / "README.md").read_text(encoding="utf-8").split("\n\n")[1]
    badges = re.findall(r"\[!\[([^]]+)\]\(([^)]+)\)\]\(([^)]+)\)", head)
    assert [name.split(":")[0] for name, _, _ in badges] == [
        "checks",
        "site",
        "Open in Colab",
        "licence",
    ]
    address = project.address(root)
    for (_, image, _), workflow in zip(badges, ("checks", "site"), strict=False):
        assert image == f"{address}/actions/workflows/{workflow}.yml/badge.svg"
        assert (root / ".github" / "workflows" / f"{workflow}.yml").is_file()
    assert badges[0][2].startswith(address) and badges[1][2] == project.site(root)
    assert f"/github/{address.removeprefix('https://github.com/')}/blob/main/" in badges[2][2]
    assert badges[3][2] == "LICENSE" and project.metadata(root)["license"] in badges[3][1]


def copy(root: Path, target: Path) -> Path:
    """A copy of the project's files."""
    for path in tracked(root):
        place = target / path.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)
    return target


@pytest.mark.slow
def test_address_command_moves_every_copy(root: Path, tmp_path: Path) -> None:
    there = copy(root, tmp_path / "project")
    old = project.address(root).removeprefix("https://github.com/")
    new = "/".join(["https://github.com", "someone-else", "moved"])  # not to be found as such here
    command = [sys.executable, "scripts/address.py", f"{new}.git"]
    run = subprocess.run(command, cwd=there, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert project.address(there) == new
    assert [p for p, text in texts(there).items() if old in text] == []
    assert project.site(there).endswith("github.io/moved/")
    test_the_site_address_follows_from_the_repository(there)
    test_badges_come_from_the_one_address(there)
    test_address_stands_in_one_place_and_its_copies_agree(there)
    # a second time there is nothing left to do
    again = subprocess.run(command, cwd=there, capture_output=True, text=True)
    assert again.returncode == 0
    assert "Nothing to change" in again.stdout


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["", "github.com/a/b", "https://example.org/a/b", "a/b"])
def test_address_command_refuses_what_colab_cannot_open(
    root: Path, tmp_path: Path, wrong: str
) -> None:
    there = copy(root, tmp_path / "project")
    before = texts(there)
    command = [sys.executable, "scripts/address.py", wrong]
    run = subprocess.run(command, cwd=there, capture_output=True, text=True)
    assert run.returncode == 1
    assert "https://github.com/name/repository" in run.stderr
    assert texts(there) == before


def test_every_chapter_is_in_the_table_of_contents(root: Path) -> None:
    toc = yaml.safe_load((root / "_toc.yml").read_text())
    listed = [toc["root"]] + [
        entry["file"] for part in toc["parts"] for entry in part["chapters"] if "file" in entry
    ]
    chapters = [f"book/{p.stem}" for p in sorted((root / "book").glob("*.ipynb"))]
    notebooks = [f for f in listed if (root / f"{f}.ipynb").exists()]
    assert sorted(notebooks) == chapters
    # in the order of their numbers; the notation is for looking things up, and the triplets are
    # told before the model of them
    numbered = [f for f in chapters if f not in ("book/02_notation", "book/06_triplets")]
    numbered.insert(numbered.index("book/03_models"), "book/06_triplets")
    assert [f for f in notebooks if f != "book/02_notation"] == numbered
    pages = {f"book/{p.stem}" for p in (root / "book").glob("*.md")}
    assert pages <= set(listed), f"{sorted(pages - set(listed))} can be reached from nowhere"
    for name in listed:
        assert (root / f"{name}.md").exists() or (root / f"{name}.ipynb").exists(), name


def test_chapters_are_numbered_and_found(root: Path) -> None:
    assert project.chapters(root) == sorted((root / "book").glob("*.ipynb"))
    assert len(project.chapters(root)) >= 2


def test_status_covers_every_chapter(root: Path) -> None:
    import json

    entries = json.loads((root / "book" / project.STATUS).read_text())
    assert set(entries) == {p.stem for p in project.chapters(root)}
    assert {e["preset"] for e in entries.values()} == {"quick"}


def test_nothing_depends_on_one_machine(root: Path) -> None:
    """No path of a development machine; only continuous integration may look beside the project."""
    own = Path("tests/project/test_project.py")
    pattern = re.compile(r"(?<![\w.])/(?:work|root|home)/|\.\./shared")
    found = {p for p, text in texts(root).items() if p != own and pattern.search(text)}
    assert found <= {Path(".ci/run")}


def test_modules_stay_readable(root: Path) -> None:
    """Every module says what it is for; only packages list names, those that they hand on."""
    for path in sorted((root / "tvae").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert ast.get_docstring(ast.parse(text)), f"{path.relative_to(root)} has no docstring"
        assert path.name == "__init__.py" or "__all__" not in text, path.relative_to(root)


def make(*arguments: str, root: Path) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    return subprocess.run(["make", *arguments], cwd=root, capture_output=True, text=True, env=clean)


def test_make_without_target_is_help(root: Path) -> None:
    shown = make(root=root)
    assert shown.returncode == 0
    assert shown.stdout == make("help", root=root).stdout
    targets = set(re.findall(r"^  make ([a-z]+)", shown.stdout, re.M))
    assert {"book", "site", "execute", "check", "test", "bench", "clean", "address"} <= targets


def test_make_passes_its_arguments_on(root: Path) -> None:
    """A dry run, taking the environment for made."""
    dry = ("--dry-run", "--old-file=.venv/.installed", "--old-file=pyproject.toml")
    paper = make(*dry, "book", "PRESET=paper", root=root).stdout
    assert "execute.py --into _build/executed --preset paper" in paper
    assert "render.py --executed _build/executed" in paper
    assert "--preset" not in make(*dry, "book", root=root).stdout
    one = make(*dry, "execute", "CHAPTER=book/04_bound.ipynb", root=root).stdout
    assert "execute.py book/04_bound.ipynb" in one
    everything, fast = (make(*dry, target, root=root).stdout for target in ("test", "check"))
    assert "nbval" in everything and "not slow" in fast
    for linter in ("ruff check", "ruff format", "mypy", "lint_book.py"):
        assert linter in everything and linter in fast


def test_hooks_run_the_linters_of_the_makefile_and_download_nothing(root: Path) -> None:
    (local,) = yaml.safe_load((root / ".pre-commit-config.yaml").read_text())["repos"]
    assert local["repo"] == "local" and {h["language"] for h in local["hooks"]} == {"system"}
    commands = re.findall(
        r"^\t\$\(BIN\)/(.+)$",
        (root / "Makefile").read_text().split("lint:")[1].split("check:")[0],
        re.M,
    )
    assert [h["entry"].replace(".venv/bin/", "") for h in local["hooks"]] == commands


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1], ids=["ten lines", "scikit-learn"])
def test_readme_examples_run_as_printed(root: Path, tmp_path: Path, which: int) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    code = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)[which]
    lines = [line for line in code.splitlines() if line.strip() and not line.startswith("#")]
    assert len(lines) <= 12, "the example is meant to be read at a glance"
    script = tmp_path / "example.py"
    script.write_text(code)
    run = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip(), "the example shows something"


def test_readme_links_lead_somewhere(root: Path) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    local = [t for t in re.findall(r"\]\(([^)#]+)", text) if "://" not in t]
    assert local, "the README shows a picture and links to the chapters"
    for target in local:
        assert (root / target).exists(), target


def test_picture_of_the_readme_can_be_made_again(root: Path) -> None:
    import picture

    assert f"({picture.PICTURE.relative_to(root).as_posix()})" in (root / "README.md").read_text()
    assert picture.PICTURE.is_file()
    figure = picture.draw()
    assert len(figure.axes) == 6
    # the three images of a triplet differ from each other
    for ax in figure.axes:
        parts = [ax.images[0].get_array()[:, k : k + 28] for k in (0, 29, 58)]
        assert all(abs(a - b).max() > 0.5 for a, b in itertools.pairwise(parts))
