"""Downloads that are there in full, with the published checksum, or not there at all."""

import http.client
import os
import urllib.error
import urllib.request
from pathlib import Path

from tqdm import tqdm

from tvae.files import AnyPath, digest, locked

_BLOCK = 1 << 16


class DownloadError(OSError):
    """A file that could not be fetched; the sentence says why, and what the next try does."""


def download(
    url: str, path: AnyPath, sha256: str, *, tries: int = 3, timeout: float = 30.0
) -> Path:
    """Fetch `url` into the file `path`, with progress on a terminal; return the path.

    What has come so far is kept in `path`.part, and the next try, of this call or of a later one,
    goes on from there. The file gets its name once its checksum is the expected one; what has
    another checksum is thrown away. A server that sends nothing for `timeout` seconds is given up.
    """
    path = Path(path)
    part = path.with_name(f"{path.name}.part")
    with locked(path.with_name(f".{path.name}.lock"), wait=True):
        if path.is_file():  # also if another process has fetched it meanwhile
            return path
        problem = ""
        for _ in range(tries):
            try:
                _append(url, part, timeout)
            except (OSError, http.client.HTTPException, ValueError) as error:
                problem = " ".join(str(error).split()) or type(error).__name__
                continue
            with part.open("rb") as file:
                found = digest(file, "sha256")
            if found == sha256:
                os.replace(part, path)
                return path
            part.unlink()
            problem = f"its checksum is {found[:12]}…, not the published {sha256[:12]}…"
    kept = part.stat().st_size if part.is_file() else 0
    rest = f"{kept:,} bytes are kept, the next try goes on from there" if kept else "try again"
    raise DownloadError(f"{url} could not be fetched: {problem}; {rest}.")


def _append(url: str, part: Path, timeout: float) -> None:
    """Add to `part` what is missing of the file, or begin again if the server cannot go on."""
    begun = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={begun}-"} if begun else {})
    try:
        answer = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        if begun and error.code == 416:  # nothing comes after what we have: the checksum will tell
            return
        raise
    with answer:
        if answer.headers.get_content_type() == "text/html":
            raise ValueError("the server answered with a web page in the place of the file")
        goes_on = answer.status == 206
        length = answer.headers.get("Content-Length")
        came, wanted = 0, None if length is None else int(length)
        with (
            open(part, "ab" if goes_on else "wb") as file,
            tqdm(total=wanted, unit="B", unit_scale=True, desc=part.stem, disable=None) as bar,
        ):
            while block := answer.read(_BLOCK):
                file.write(block)
                bar.update(len(block))
                came += len(block)
        if wanted is not None and came < wanted:
            raise ValueError(f"the connection ended after {came:,} of {wanted:,} bytes")
