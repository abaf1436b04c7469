"""Archives are fetched, resumed, checked and unpacked."""

import hashlib
import os
import random
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from resus.data.datasets import download as fetching
from resus.data.datasets.download import download, unpack
from resus.errors import DataError, DownloadError

CONTENT = bytes(range(256)) * 4000
CHECKSUM = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
CUT = 300_000


class Publisher(BaseHTTPRequestHandler):
    """Paths choose the behaviour: /whole, /cut (breaks off once per range), /no-range, /absent, /other-range."""

    asked: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.asked.append(asked)
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.path != "/no-range" else 0
        if self.path == "/absent":
            self.send_error(404)
            return
        if start >= len(CONTENT):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(CONTENT)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.path == "/other-range" and asked:
            start += 1
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        end = start + CUT if self.path == "/cut" else len(CONTENT)
        self.wfile.write(CONTENT[start:end])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the parent's name for it
        pass


@pytest.fixture
def site() -> Iterator[str]:
    Publisher.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Publisher) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_fetches_with_progress_and_only_once(site: str, tmp_path: Path) -> None:
    target = tmp_path / "deep" / "file.zip"
    steps: list[tuple[str, int, int | None]] = []
    for _ in range(2):
        assert download(f"{site}/whole", target, checksum=CHECKSUM, progress=lambda *step: steps.append(step))
    assert target.read_bytes() == CONTENT
    assert Publisher.asked == [None]
    assert steps[0] == ("file.zip", 0, len(CONTENT))
    assert steps[-1] == ("file.zip", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in steps] == sorted(done for _, done, _ in steps)
    assert [path.name for path in target.parent.iterdir()] == ["file.zip"]


def test_goes_on_where_it_broke_off(site: str, tmp_path: Path) -> None:
    target = tmp_path / "file.zip"
    breaks = (len(CONTENT) - 1) // CUT
    for step in range(breaks):
        with pytest.raises(DownloadError, match="broke off after"):
            download(f"{site}/cut", target, checksum=CHECKSUM)
        assert (tmp_path / "file.zip.part").stat().st_size == (step + 1) * CUT
        assert not target.exists()
    download(f"{site}/cut", target, checksum=CHECKSUM)
    assert target.read_bytes() == CONTENT
    assert Publisher.asked == [None, *(f"bytes={CUT * step}-" for step in range(1, breaks + 1))]


@pytest.mark.parametrize(
    ("page", "part"),
    [
        ("no-range", CONTENT[:1000]),
        ("other-range", CONTENT[:1000]),
        ("whole", CONTENT + b"longer than the file"),
        ("whole", CONTENT),
    ],
)
def test_starts_again_where_the_part_is_of_no_use(site: str, tmp_path: Path, page: str, part: bytes) -> None:
    target = tmp_path / "file.zip"
    (tmp_path / "file.zip.part").write_bytes(part)
    download(f"{site}/{page}", target, checksum=CHECKSUM)
    assert target.read_bytes() == CONTENT
    assert not (tmp_path / "file.zip.part").exists()


def test_a_corrupt_file_is_deleted_and_said(site: str, tmp_path: Path) -> None:
    target = tmp_path / "file.zip"
    (tmp_path / "file.zip.part").write_bytes(b"not the beginning")
    with pytest.raises(DownloadError, match=r"checksum sha256:.* deleted"):
        download(f"{site}/whole", target, checksum=CHECKSUM)
    assert list(tmp_path.iterdir()) == []
    download(f"{site}/whole", target, checksum=f"md5:{hashlib.md5(CONTENT).hexdigest()}")
    assert target.read_bytes() == CONTENT


def test_an_absent_page_and_a_dead_server_are_one_sentence(site: str, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"/absent could not be fetched .*404.* path=$"):
        download(f"{site}/absent", tmp_path / "file.zip", checksum=CHECKSUM)
    with pytest.raises(DownloadError, match=r"could not be fetched .* path=$"):
        download("http://127.0.0.1:9/file.zip", tmp_path / "file.zip", checksum=CHECKSUM)


def test_only_wanted_members_are_written_and_never_outside(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as stored:
        for name in ("set/../../evil.dat", "set/rows.dat", "set/README"):
            stored.writestr(name, name)
    folder = unpack(archive, ["set/rows.dat", "set/../../evil.dat"], tmp_path / "deep" / "out")
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.dat")} == {
        "deep/out/rows.dat",
        "deep/out/evil.dat",
    }
    assert (folder / "rows.dat").read_text() == "set/rows.dat"


def test_a_damaged_archive_leaves_nothing_behind(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as stored:
        stored.writestr("rows.dat", "0123456789" * 100)
        stored.writestr("more.dat", "9876543210" * 100)
    whole = archive.read_bytes()
    with pytest.raises(DataError, match=r"has no member other\.dat"):
        unpack(archive, ["rows.dat", "other.dat"], tmp_path / "out")
    archive.write_bytes(whole.replace(b"9876543210", b"9876543211", 1))
    with pytest.raises(DataError, match="not a whole zip archive"):
        unpack(archive, ["rows.dat", "more.dat"], tmp_path / "out")
    archive.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="not a whole zip archive"):
        unpack(archive, ["rows.dat"], tmp_path / "out")
    with pytest.raises(DataError, match="does not exist"):
        unpack(tmp_path / "no.zip", ["rows.dat"], tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def zipped(path: Path, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as stored:
        stored.writestr("rows.dat", content)
    return path


def refused(archive: Path, out: Path) -> str:
    with pytest.raises(DataError) as caught:
        unpack(archive, ["rows.dat"], out)
    assert "\n" not in str(caught.value)
    assert str(archive) in str(caught.value)
    assert not out.exists()
    return str(caught.value)


def test_an_archive_that_unpacks_to_a_thousand_times_its_size_is_refused(tmp_path: Path) -> None:
    bomb = zipped(tmp_path / "bomb.zip", bytes(1 << 25))
    assert bomb.stat().st_size < 1 << 16
    assert "more than 200 times its size" in refused(bomb, tmp_path / "out")


def test_a_member_that_lies_about_its_packed_size_is_refused(tmp_path: Path) -> None:
    bomb = zipped(tmp_path / "bomb.zip", bytes(1 << 25))
    content = bytearray(bomb.read_bytes())
    packed = content.rindex(b"PK\x01\x02") + 20
    content[packed : packed + 4] = (1 << 24).to_bytes(4, "little")
    bomb.write_bytes(content)
    assert "more than 200 times its size" in refused(bomb, tmp_path / "out")


def test_a_member_that_is_longer_than_it_says_is_refused(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a.zip", b"rows\n" * 1000)
    content = bytearray(archive.read_bytes())
    for record, place in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        start = content.rindex(record) + place
        content[start : start + 4] = (10).to_bytes(4, "little")
    archive.write_bytes(content)
    assert "not a whole zip archive" in refused(archive, tmp_path / "out")


def test_an_encrypted_archive_is_refused(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "a.zip", b"rows")
    content = bytearray(archive.read_bytes())
    for record, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.rindex(record) + place] |= 1
    archive.write_bytes(content)
    assert "is encrypted: unpack it yourself" in refused(archive, tmp_path / "out")


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_an_archive_of_another_kind_is_refused(tmp_path: Path, method: int) -> None:
    assert "packed in another way" in refused(zipped(tmp_path / "a.zip", b"rows", method), tmp_path / "out")


def test_what_is_not_a_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.zip")
    (tmp_path / "zero.zip").symlink_to("/dev/zero")
    (tmp_path / "folder.zip").mkdir()
    assert "it is a named pipe" in refused(tmp_path / "pipe.zip", tmp_path / "out")
    assert "it is a device" in refused(tmp_path / "zero.zip", tmp_path / "out")
    assert "it is a folder" in refused(tmp_path / "folder.zip", tmp_path / "out")


def test_a_damaged_archive_is_one_sentence_or_the_rows(tmp_path: Path) -> None:
    rows = b"".join(b"%d::%d::5\n" % (number, number * 7 % 13) for number in range(300))
    archive = zipped(tmp_path / "a.zip", rows)
    content = archive.read_bytes()
    for seed in range(400):
        draw = random.Random(seed)
        bent = bytearray(content)
        for _ in range(draw.choice([1, 2, 6])):
            bent[draw.randrange(len(bent))] = draw.randrange(256)
        if seed % 5 == 0:
            del bent[draw.randrange(len(bent)) :]
        archive.write_bytes(bent)
        out = tmp_path / f"out{seed}"
        try:
            unpack(archive, ["rows.dat"], out)
        except DataError:
            continue
        assert (out / "rows.dat").read_bytes() == rows


def test_a_server_that_never_stops_sending_is_refused(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "MAX_DOWNLOAD_BYTES", len(CONTENT) - 1)
    with pytest.raises(DownloadError, match="sends more than"):
        download(f"{site}/whole", tmp_path / "file.zip", checksum=CHECKSUM)
    assert (tmp_path / "file.zip.part").stat().st_size == 0
