"""Re-create the embedded samples from the full files, byte for byte.

    TVAE_DATA=/path/to/torchvision/root python scripts/embed_data.py          # write
    TVAE_DATA=/path/to/torchvision/root python scripts/embed_data.py --check  # compare only

The draws and the packing are those of `tvae.data` (`digits.choose`, `omniglot.SAMPLE`,
`portraits.choose`; `embedded.pack`, `portraits.pack`); this script only applies them.
With `--check` nothing is written, and the exit code is 1 if any file differs.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

from tvae.data import digits, embedded, omniglot, portraits
from tvae.files import atomic_write

SAMPLES = Path(embedded.__file__).parent / "samples"


def recreate(root: Path | None = None) -> dict[str, bytes]:
    """File name -> bytes of every sample, and of the list of their checksums."""
    result: dict[str, bytes] = {}
    for name in ("mnist", "fashion-mnist"):
        for split in ("train", "test"):
            full = digits.full(name, split, root=root)
            kept = digits.choose(name, split, full.labels)
            image_file, label_file = digits.sample_names(name, split)
            result[image_file] = embedded.pack(full.images[kept, 0].numpy())
            result[label_file] = embedded.pack(full.labels[kept].numpy().astype("uint8"))
    for split, alphabets in omniglot.SAMPLE.items():
        drawings = omniglot.load(split, root=root, alphabets=list(alphabets))
        result[f"omniglot-{split}-images.idx3.xz"] = embedded.pack(drawings.images[:, 0].numpy())
    for split in portraits.SAMPLE:
        result[f"portraits-{split}-images.jpg"] = portraits.pack(portraits.choose(split, root))
    sums = [f"{hashlib.sha256(data).hexdigest()}  {file}\n" for file, data in result.items()]
    return {**result, "SHA256SUMS": "".join(sums).encode()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    parser.add_argument("--root", type=Path, help="torchvision data root (default: TVAE_DATA)")
    arguments = parser.parse_args()
    differing = 0
    for file, data in recreate(arguments.root).items():
        path = SAMPLES / file
        same = path.is_file() and path.read_bytes() == data
        differing += not same
        if not arguments.check and not same:
            atomic_write(path, data)
        print(f"{'same' if same else 'differs' if arguments.check else 'written':8}{path.name}")
    return int(arguments.check and differing > 0)


if __name__ == "__main__":
    sys.exit(main())
