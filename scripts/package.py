"""What a release consists of: wheel and source archive, the weights, and their checksums, in dist/.

    python scripts/package.py --tag v0.2.0

The tag must be that of the version in pyproject.toml: a release of another version than it says would
never be found again.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import project


def weights(root: Path = project.ROOT) -> list[Path]:
    """The files of all released models."""
    place = root / "tvae" / "runs" / "released"
    return sorted([*place.glob("*.safetensors"), *place.glob("*.json")])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build what is released.")
    parser.add_argument("--tag", help="the tag that is released, such as v0.2.0")
    parser.add_argument("--into", type=Path, default=project.ROOT / "dist")
    options = parser.parse_args(arguments)
    wanted = f"v{project.version()}"
    if options.tag and options.tag != wanted:
        print(f"The tag is {options.tag}, but pyproject.toml says {wanted}.", file=sys.stderr)
        return 1
    shutil.rmtree(options.into, ignore_errors=True)
    packages, models = options.into / "packages", options.into / "weights"
    models.mkdir(parents=True)
    command = [sys.executable, "-m", "build", "--outdir", str(packages), str(project.ROOT)]
    status = subprocess.call(command)
    if status != 0:
        return status
    for path in weights():
        shutil.copy2(path, models / path.name)
    sums = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}"
        for path in sorted([*packages.iterdir(), *models.iterdir()])
    ]
    (options.into / "SHA256SUMS").write_text("\n".join(sums) + "\n", encoding="utf-8")
    print(f"{len(sums)} files in {options.into}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
