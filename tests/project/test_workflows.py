"""What GitHub runs: valid files, pinned actions, least permissions, and only targets that exist here."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).parents[2] / ".github"
WORKFLOWS = sorted((FOLDER / "workflows").glob("*.yml"))
workflows = pytest.mark.parametrize("path", WORKFLOWS, ids=[p.stem for p in WORKFLOWS])


def read(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in read(path)["jobs"].values() for step in job["steps"]]


def test_all_four_are_there() -> None:
    assert [p.stem for p in WORKFLOWS] == ["checks", "colab", "release", "site"]


@pytest.mark.parametrize(
    "schema, files",
    [
        ("vendor.github-workflows", WORKFLOWS),
        (
            "vendor.github-issue-forms",
            [p for p in (FOLDER / "ISSUE_TEMPLATE").glob("*.yml") if p.stem != "config"],
        ),
    ],
)
def test_they_follow_the_published_schema(schema: str, files: list[Path]) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]
    done = subprocess.run([*command, *map(str, files)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@workflows
def test_every_command_is_a_target_of_the_makefile(path: Path, root: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (root / "Makefile").read_text(), re.M))
    commands = [step["run"] for step in steps(path) if "run" in step]
    for command in commands:
        # nothing is put into a command line: what an event brings comes as an environment variable
        found = re.fullmatch(r"make ([a-z]+)", command.strip())
        assert found and found[1] in targets, command


@workflows
def test_actions_are_pinned_to_commits(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if "uses:" in line]
    for line in lines:
        assert re.search(r"uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


@workflows
def test_permissions_are_least_and_time_is_limited(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    granted = {"site/publish": {"pages", "id-token"}, "release/index": {"id-token"}}
    granted["release/page"] = {"contents"}
    for name, job in workflow["jobs"].items():
        assert 0 < job["timeout-minutes"] <= 90
        assert set(job.get("permissions", {})) == granted.get(f"{path.stem}/{name}", set())
        for step in job["steps"]:
            if "checkout" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False


def test_the_oldest_and_the_newest_python_are_tested(root: Path) -> None:
    import project

    matrix = read(FOLDER / "workflows" / "checks.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert f">={matrix['python'][0]}" == project.metadata(root)["requires-python"]
    assert len(matrix["python"]) == 2
