"""Members of archives: damage, bombs, encryption, and how often an archive is read."""

import os
import struct
import tarfile
import zipfile

import pytest
from makers.media import open_here, picture_bytes, read_one, write_tar, write_zip

from mmrl.data import archives
from mmrl.data.archives import MAX_MEMBER_BYTES, members, read_member
from mmrl.data.locations import ArchiveMember
from mmrl.errors import MediaError


def error_of(place):
    with pytest.raises(MediaError) as caught:
        read_member(place)
    return str(caught.value)


def patch(path, old, new, *, last=False):
    raw = path.read_bytes()
    at = raw.rindex(old) if last else raw.index(old)
    path.write_bytes(raw[:at] + new + raw[at + len(old) :])
    archives._members.cache_clear()
    archives._open_zip.cache_clear()


def test_members_are_the_files(tmp_path):
    folder = write_zip(tmp_path / "a.zip", {"d/": b"", "d/x": b"12", "y": b""})
    assert {name: found.size for name, found in members(folder).items()} == {"d/x": 2, "y": 0}
    tar = write_tar(tmp_path / "a.tar", {"./d/x": b"12", "y": b"", "z": b"1"})
    with tarfile.open(tar, "a") as opened:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        opened.addfile(link)
    assert {name: found.size for name, found in members(tar).items()} == {"d/x": 2, "y": 0, "z": 1}
    assert read_member(ArchiveMember(tar, "d/x")) == b"12"


@pytest.mark.parametrize("write", [write_zip, write_tar])
def test_every_member_is_its_own(tmp_path, write):
    files = {f"日本/{number}.bin": os.urandom(number * 100) for number in range(1, 40)}
    path = write(tmp_path / "a", files)
    assert {name: read_member(ArchiveMember(path, name)) for name in files} == files


def test_an_archive_is_listed_once_and_again_when_it_changes(tmp_path):
    path = write_tar(tmp_path / "a.tar", {"x": b"1"})
    archives._members.cache_clear()
    for _ in range(5):
        read_member(ArchiveMember(path, "x"))
    assert archives._members.cache_info().misses == 1
    write_tar(path, {"x": b"22", "y": b"3"})
    assert read_member(ArchiveMember(path, "x")) == b"22" and archives._members.cache_info().misses == 2


def test_a_promise_of_too_much_is_not_read(tmp_path):
    path = write_zip(tmp_path / "bomb.zip", {"x.png": b"0" * 1000})
    patch(path, struct.pack("<I", 1000), struct.pack("<I", MAX_MEMBER_BYTES + 1), last=True)
    assert error_of(ArchiveMember(path, "x.png")) == (
        f"{path}::x.png: {MAX_MEMBER_BYTES + 1} bytes unpacked, above the limit of {MAX_MEMBER_BYTES}; unpack it"
    )


def test_a_member_that_unpacks_to_more_than_it_promises_is_damaged(tmp_path):
    path = write_zip(tmp_path / "bomb.zip", {"x.png": b"0" * 1_000_000})
    patch(path, struct.pack("<I", 1_000_000), struct.pack("<I", 1000), last=True)
    message = error_of(ArchiveMember(path, "x.png"))
    assert message.startswith(f"{path}::x.png: ") and message.endswith(" (the archive is damaged)")


def test_flipped_bits_in_a_zip_are_found_by_its_checksum(tmp_path):
    path = write_zip(tmp_path / "a.zip", {"x.png": picture_bytes()}, deflate=False)
    patch(path, b"IDAT", b"IDAX")
    assert error_of(ArchiveMember(path, "x.png")) == (
        f"{path}::x.png: BadZipFile: Bad CRC-32 for file 'x.png' (the archive is damaged)"
    )


def test_a_cut_tar_is_found(tmp_path):
    path = write_tar(tmp_path / "a.tar", {"x.png": picture_bytes()})
    path.write_bytes(path.read_bytes()[:2000])
    assert error_of(ArchiveMember(path, "x.png")) == (
        f"{path}: not a readable archive (zip, or tar without compression): unexpected end of data"
    )


def test_encrypted_members(tmp_path):
    path = write_zip(tmp_path / "a.zip", {"x.png": picture_bytes()})
    raw = bytearray(path.read_bytes())
    raw[raw.rindex(b"PK\x01\x02") + 8] |= 1  # the flag of the directory's entry
    path.write_bytes(raw)
    assert error_of(ArchiveMember(path, "x.png")) == (
        f"{path}::x.png: encrypted; repack it as .zip or as an uncompressed .tar without a password"
    )


def test_no_archive_and_no_member(tmp_path):
    path = tmp_path / "a.zip"
    path.write_bytes(b"PK\x03\x04 and nothing more")
    assert error_of(ArchiveMember(path, "x")) == f"{path}: not a readable zip archive: File is not a zip file"
    assert error_of(ArchiveMember(tmp_path / "gone.zip", "x")) == f"{tmp_path}/gone.zip: No such file or directory"
    write_zip(path, {"photo.png": b"1"})
    assert error_of(ArchiveMember(path, "phoot.png")) == (
        f"{path}::phoot.png: no such member; {path} holds 1 files, none called 'phoot.png'; did you mean 'photo.png'?"
    )


def test_nothing_is_written_to_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("../../evil.png", picture_bytes())
    open_here(read_one("a.zip::../../evil.png", tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]
    assert not (tmp_path.parent.parent / "evil.png").exists()
