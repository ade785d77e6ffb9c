"""The scripts behind `make package`, `make colab` and `make serve`."""

from __future__ import annotations

import os
from pathlib import Path

import colab
import package
import project
import pytest
import serve


def test_a_tag_of_another_version_is_refused(tmp_path: Path, capsys) -> None:
    assert package.main(["--tag", "v9.9.9", "--into", str(tmp_path / "dist")]) == 1
    assert f"pyproject.toml says v{project.version()}" in capsys.readouterr().err
    assert not (tmp_path / "dist").exists()


def test_every_released_model_comes_with_its_description() -> None:
    names = [path.name for path in package.weights()]
    models = {Path(name).stem for name in names}
    assert len(names) == 2 * len(models) > 0


def test_colabs_versions_take_the_place_of_our_ranges() -> None:
    text = "# comment\ntorch==2.6.0+cu124\nscikit_learn==1.6.1\nPillow==11.1.0\nother @ file:///x\n"
    wanted = colab.requirements(colab.pins(text))
    assert {"torch==2.6.0", "scikit-learn==1.6.1", "Pillow==11.1.0", "torchvision"} <= set(wanted)
    assert len(wanted) == len(project.metadata()["dependencies"])


def test_changes_of_sources_are_seen_and_those_of_what_is_made_are_not(tmp_path: Path) -> None:
    (tmp_path / "book" / "api").mkdir(parents=True)
    page, made = tmp_path / "book" / "glossary.md", tmp_path / "book" / "api" / "tvae.md"
    page.write_text("one")
    made.write_text("one")
    (tmp_path / "_toc.yml").write_text("root: x")
    before = serve.changes(tmp_path)
    assert set(before) == {page, tmp_path / "_toc.yml"}
    page.touch()
    made.write_text("two")
    os.utime(page, ns=(0, 0))
    assert serve.changes(tmp_path) != before
    assert set(serve.changes(tmp_path)) == set(before)


@pytest.mark.parametrize("bad", ["", "torch", "torch>=2"])
def test_lines_that_name_no_version_are_passed_over(bad: str) -> None:
    assert colab.pins(bad) == {}
