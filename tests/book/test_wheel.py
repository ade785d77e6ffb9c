"""The chapters away from the repository: with the built wheel alone, and as Colab runs them.

Each environment made here sees the packages that are installed already (so that nothing has to be
downloaded) but neither the repository nor its editable installation. On the simulated Colab,
`google.colab` is in `sys.modules` from the start, the package is not installed, and the set-up
cell's own `%pip install` fetches it with git at the tag of this version, from a local repository
that stands in for the public address. Weights that the wheel leaves out come from a local server that
stands in for the release page.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import nbformat
import project
import pytest
from nbformat import v4
from repository import tracked

pytestmark = pytest.mark.slow

CHAPTERS = project.chapters()
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def environment(**extra: str) -> dict[str, str]:
    """The variables of a process that knows nothing of this project, and has no index to ask."""
    dropped = ("PYTHON", "VIRTUAL_ENV", "TVAE_", "PYTEST_", "PIP_", "GIT_", "COV_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    return {**kept, **OFFLINE, **extra}


def run(*command: str | Path, cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment(**extra), capture_output=True, text=True
    )


def must(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, f"{done.args}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def make_environment(folder: Path) -> Path:
    """A new environment beside the current one; return its interpreter."""
    must(run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent))
    python = folder / "bin" / "python"
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(must(run(python, "-c", ask, cwd=folder)).strip())
    # A folder named in a .pth file is searched, but .pth files within it are not read: that is
    # how the editable installation of the repository stays out of sight.
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "packages.pth").write_text("\n".join(sorted(paths)) + "\n")
    # a module of the package, not the package: an editable installation leaves a folder `tvae` with
    # a copy of the ledger, which Python takes for a namespace
    absent = run(python, "-c", "import tvae.models", cwd=folder)
    assert "No module named 'tvae" in absent.stderr, "the repository must be out of sight"
    return python


def site_packages(python: Path) -> Path:
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(must(run(python, "-c", ask, cwd=python.parent)).strip())


def execute(python: Path, chapter: Path, folder: Path, **extra: str) -> Path:
    """Execute a copy of the chapter with this interpreter, in an empty folder.

    A last cell is added that tells where the package came from; it is returned.
    """
    notebook = nbformat.read(chapter, as_version=4)
    notebook.cells.append(v4.new_code_cell("import tvae\nprint(tvae.__file__)"))
    source, output, empty = folder / chapter.name, folder / "out.ipynb", folder / "empty"
    nbformat.write(notebook, source)
    empty.mkdir()
    command = [python, "-m", "papermill", "--kernel", "python3", "--cwd", empty]
    must(run(*command, "--no-progress-bar", source, output, cwd=empty, **extra))
    assert list(empty.iterdir()) == [], "a chapter leaves nothing behind"
    executed = nbformat.read(output, as_version=4)
    assert all(c.execution_count for c in executed.cells if c.cell_type == "code")
    return Path(executed.cells[-1].outputs[0].text.strip())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    """The built wheel."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder]
    must(run(*command, root, cwd=folder))
    (built,) = folder.glob("*.whl")
    return built


def test_wheel_holds_the_package_and_nothing_else(wheel: Path, root: Path) -> None:
    import zipfile

    names = zipfile.ZipFile(wheel).namelist()
    packaged = {n for n in names if ".dist-info/" not in n}
    assert all(n.startswith("tvae/") for n in packaged)
    own = [p for p in tracked(root) if root / "tvae" in p.parents]
    wanted = {p.relative_to(root).as_posix() for p in set(own) - project.left_out(root)}
    # the ledger of runs lies beside the package in the repository, and within it in the wheel
    results = [p for p in tracked(root) if root / "results" in p.parents]
    wanted |= {f"tvae/_results/{p.relative_to(root / 'results').as_posix()}" for p in results}
    assert packaged == wanted
    assert f"tvae_book-{project.version(root)}.dist-info/licenses/LICENSE" in names


def test_wheel_is_of_a_size_that_people_like(wheel: Path, root: Path) -> None:
    assert wheel.stat().st_size <= 40 * 2**20
    assert all(path.suffix == ".safetensors" for path in project.left_out(root))


class Files(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def page(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A release page on this machine: the variables that lead there, and to an empty cache."""
    folder = root / "tvae" / "runs" / "released"
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cache = tmp_path_factory.mktemp("cache")
        yield {
            "TVAE_RELEASES": f"http://127.0.0.1:{server.server_port}",
            "TVAE_WEIGHTS": str(cache),
        }
        server.shutdown()


def test_chapter_runs_with_the_wheel_alone(wheel: Path, tmp_path: Path, root: Path) -> None:
    python = make_environment(tmp_path / "env")
    command = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", wheel]
    must(run(*command, cwd=tmp_path))
    origin = execute(python, root / "book" / "02_notation.ipynb", tmp_path)
    assert origin.is_relative_to(site_packages(python))


@pytest.fixture(scope="module")
def colab(tmp_path_factory: pytest.TempPathFactory, root: Path) -> tuple[Path, dict[str, str]]:
    """An interpreter with `google.colab` loaded, and the variables that lead git to this project."""
    folder = tmp_path_factory.mktemp("colab")
    repository = folder / "repository"
    for path in tracked(root):
        place = repository / path.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)
    who = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"]
    for step in (
        ["init", "--quiet"],
        ["add", "--all"],
        [*who, "commit", "--quiet", "--message", "All of it"],
        ["tag", f"v{project.version(root)}"],
    ):
        must(run("git", *step, cwd=repository))
    python = make_environment(folder / "env")
    (site_packages(python) / "sitecustomize.py").write_text(
        "import sys, types\nsys.modules['google.colab'] = types.ModuleType('google.colab')\n"
    )
    redirect = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{repository.as_uri()}.insteadOf",
        "GIT_CONFIG_VALUE_0": project.address(root),
    }
    return python, redirect


@pytest.mark.parametrize("chapter", CHAPTERS, ids=[p.stem for p in CHAPTERS])
def test_chapter_runs_as_on_colab(
    chapter: Path,
    colab: tuple[Path, dict[str, str]],
    page: dict[str, str],
    tmp_path: Path,
    root: Path,
) -> None:
    python, redirect = colab
    packages = site_packages(python)
    for old in packages.glob("tvae*"):  # as on a new machine: nothing is installed yet
        shutil.rmtree(old)
    origin = execute(python, chapter, tmp_path, **redirect, **page)
    assert origin == packages / "tvae" / "__init__.py"
    (record,) = packages.glob("tvae_book-*.dist-info/direct_url.json")
    installed = json.loads(record.read_text())
    assert installed["url"] == project.address(root)
    assert installed["vcs_info"]["requested_revision"] == f"v{project.version(root)}"
