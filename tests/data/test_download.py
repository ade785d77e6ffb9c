"""Downloads from a server that misbehaves: whole and checked, or not there, and a second try goes on."""

from __future__ import annotations

import hashlib
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tvae.data.download import DownloadError, download

CONTENT = bytes(range(256)) * 2000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves `content`; `behave` is called with the handler and may answer in its place."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.behave, self.asked = CONTENT, None, []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/file.zip"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.headers.get("Range"))
        if self.server.behave is None or not self.server.behave(self):
            self.send(self.server.content)

    def send(self, content, most=None):
        begin = int((self.headers.get("Range") or "bytes=0-")[6:-1])
        if begin > len(content):
            self.send_error(416)
            return
        self.send_response(206 if begin else 200)
        self.send_header("Content-Type", "application/zip")
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        self.wfile.write(content[begin:][:most])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    server = Server()
    yield server
    server.shutdown()
    server.server_close()


def test_a_file_arrives_whole_and_is_fetched_once(server, tmp_path):
    for _ in range(2):
        assert download(server.url, tmp_path / "file.zip", SHA256).read_bytes() == CONTENT
    assert server.asked == [None]
    assert not (tmp_path / "file.zip.part").exists()


def test_a_connection_that_ends_early_is_continued(server, tmp_path):
    server.behave = lambda handler: (
        len(server.asked) < 3 and (handler.send(CONTENT, 100_000) or True)
    )
    download(server.url, tmp_path / "file.zip", SHA256)
    assert server.asked == [None, "bytes=100000-", "bytes=200000-"]


def test_what_has_come_is_kept_for_the_next_call(server, tmp_path):
    server.behave = lambda handler: handler.send(CONTENT, 100_000) or True
    with pytest.raises(DownloadError, match="100,000 bytes are kept"):
        download(server.url, tmp_path / "file.zip", SHA256, tries=1)
    assert not (tmp_path / "file.zip").exists()
    server.behave = None
    assert download(server.url, tmp_path / "file.zip", SHA256).read_bytes() == CONTENT
    assert server.asked[-1] == "bytes=100000-"


def test_a_file_that_changed_between_two_tries_is_begun_again(server, tmp_path):
    (tmp_path / "file.zip.part").write_bytes(b"of another version" * 100)
    assert download(server.url, tmp_path / "file.zip", SHA256).read_bytes() == CONTENT
    assert server.asked == ["bytes=1800-", None]


def test_a_part_longer_than_the_file_is_thrown_away(server, tmp_path):
    (tmp_path / "file.zip.part").write_bytes(CONTENT + b"more")
    assert download(server.url, tmp_path / "file.zip", SHA256).read_bytes() == CONTENT


def test_a_stalled_server_is_given_up(server, tmp_path):
    def stall(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(CONTENT)))
        handler.end_headers()
        handler.wfile.write(CONTENT[:1000])
        handler.wfile.flush()
        time.sleep(1.5)
        return True

    server.behave = stall
    with pytest.raises(DownloadError, match="timed out"):
        download(server.url, tmp_path / "file.zip", SHA256, tries=1, timeout=0.3)
    assert not (tmp_path / "file.zip").exists()


def test_a_page_in_the_place_of_the_file_is_refused(server, tmp_path):
    def page(handler):
        handler.send_response(200)
        handler.send_header("Content-Type", "text/html; charset=utf-8")
        handler.end_headers()
        handler.wfile.write(b"<html>Sorry</html>")
        return True

    server.behave = page
    with pytest.raises(DownloadError, match="a web page in the place of the file"):
        download(server.url, tmp_path / "file.zip", SHA256)
    server.behave = lambda handler: handler.send_error(503) or True
    with pytest.raises(DownloadError, match="503"):
        download(server.url, tmp_path / "file.zip", SHA256)
    assert list(tmp_path.glob("file.zip*")) == []


def test_a_redirect_is_followed(server, tmp_path):
    def elsewhere(handler):
        if handler.path == "/file.zip":
            handler.send_response(302)
            handler.send_header("Location", "/there")
            handler.end_headers()
            return True
        return False

    server.behave = elsewhere
    assert download(server.url, tmp_path / "file.zip", SHA256).read_bytes() == CONTENT


def test_other_content_than_published_is_never_taken(server, tmp_path):
    server.content = CONTENT[:-1] + b"x"
    with pytest.raises(DownloadError, match="not the published"):
        download(server.url, tmp_path / "file.zip", SHA256)
    assert list(tmp_path.glob("file.zip*")) == []
