from __future__ import annotations

import gzip
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import IO, Any
from urllib.parse import quote

import pytest
from pyarrow import fs

from qt_bert.cluster import places
from qt_bert.cluster.places import LocalPlace, Place, RemotePlace, place_of
from qt_bert.errors import ArgumentError


def in_memory(path: str = "bucket/run") -> RemotePlace:
    """An address whose files are in memory."""
    filesystem = fs._MockFileSystem()
    filesystem.create_dir(path)
    return RemotePlace(f"mock://{path}", filesystem, path)


class _Puts:
    """A file system that counts its puts and cannot move."""

    type_name = "s3"

    def __init__(self) -> None:
        self.inner = fs._MockFileSystem()
        self.inner.create_dir("bucket/run")
        self.puts: list[str] = []

    def open_output_stream(self, path: str, **options: Any) -> Any:
        self.puts.append(path)
        return self.inner.open_output_stream(path, **options)

    def __getattr__(self, name: str) -> Any:
        assert name not in ("move", "create_dir")
        return getattr(self.inner, name)


@pytest.fixture(params=["local", "file://", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty folder of each kind."""
    folder = tmp_path / "日 志%?"
    folder.mkdir()
    if request.param == "memory":
        return in_memory()
    return place_of(str(folder) if request.param == "local" else f"file://{quote(str(folder))}")


def test_what_is_written_is_read(place: Place) -> None:
    place.write("a/b c?%.bin", b"\0\xff")
    place.write_text("a/x.txt", "查询")
    assert place.read_bytes("a/b c?%.bin") == b"\0\xff" == place.join("a/b c?%.bin").read_bytes()
    assert (place.read_text("a/x.txt"), place.size("a/x.txt")) == ("查询", 6)
    assert place.join("a").join("x.txt").name == "x.txt"


def test_writing_replaces_the_file(place: Place) -> None:
    place.write("x", b"a longer text")
    place.write("x", lambda handle: handle.write(b"new"))
    assert place.read_bytes("x") == b"new"
    assert list(place.list()) == ["x"]


def test_a_failed_writing_leaves_the_old_file_alone(place: Place) -> None:
    def fail(handle: IO[bytes]) -> None:
        handle.write(b"half")
        raise ValueError("no more")

    place.write("x", b"old")
    with pytest.raises(ValueError, match="no more"):
        place.write("x", fail)
    assert list(place.list()) == ["x"] and place.read_bytes("x") == b"old"


def test_a_failed_move_leaves_nothing_half_written() -> None:
    class Unmoving(_Puts):
        type_name = "hdfs"

        def create_dir(self, path: str, recursive: bool) -> None: ...

        def move(self, source: str, target: str) -> None:
            raise OSError(28, "No space left on device")

    place = RemotePlace("hdfs://run", Unmoving(), "bucket/run")
    with pytest.raises(OSError, match="No space left"):
        place.write("x", b"new")
    assert place.list() == {}


def test_an_object_store_gets_one_put() -> None:
    store = _Puts()
    place = RemotePlace("s3://bucket/run", store, "bucket/run")
    place.write("part.parquet", lambda handle: [handle.write(b"a"), handle.write(b"b")])
    assert store.puts == ["bucket/run/part.parquet"]
    assert place.read_bytes("part.parquet") == b"ab"


def test_an_object_store_gets_nothing_of_a_failed_writing() -> None:
    store = _Puts()
    with pytest.raises(ZeroDivisionError):
        RemotePlace("s3://bucket/run", store, "bucket/run").write("x", lambda handle: 1 // 0)
    assert store.puts == []


def test_bytes_are_stored_as_they_are(place: Place) -> None:
    packed = gzip.compress(b"text")
    store = RemotePlace("s3://bucket/run", _Puts(), "bucket/run")
    for one in (place, store):
        one.write("x.gz", packed)
        assert one.read_bytes("x.gz") == packed


def test_a_file_is_read_at_any_place(place: Place) -> None:
    place.write("x", b"one\ntwo\nthree")
    with place.open_input("x") as handle:
        assert (handle.readline(), handle.seek(8), handle.read(), handle.tell()) == (
            b"one\n",
            8,
            b"three",
            13,
        )


def test_existence(place: Place) -> None:
    place.write("a/x", b"")
    assert [place.exists(name) for name in ("", "a", "a/x", "a/y")] == [True, True, True, False]
    assert [place.join(name).is_folder() for name in ("a", "a/x", "b")] == [True, False, False]


def test_deleting(place: Place) -> None:
    place.write("x", b"")
    place.delete("x")
    place.delete("x")
    assert not place.exists("x")


def test_a_listing_holds_all_files_by_path(place: Place) -> None:
    for name in ("b", "a/z", "a.txt", ".hidden", "a/.h/x"):
        place.write(name, name.encode())
    found = place.list()
    assert list(found) == [".hidden", "a/.h/x", "a/z", "a.txt", "b"]
    assert all(stored.place.read_bytes() == name.encode() for name, stored in found.items())
    assert found["a/.h/x"].size == 6 and found["b"] == place.join("b").stat()


def test_what_is_not_there_is_an_os_error(place: Place) -> None:
    for read in (place.join("x").stat, place.join("x").open_input, place.join("x").list):
        with pytest.raises(OSError):
            read()


def test_a_place_is_called_what_the_user_wrote() -> None:
    assert str(place_of("./a/../b")) == "./a/../b"
    assert isinstance(place_of("./a/../b").location, Path)
    remote = place_of("file:///a%20b/")
    assert str(remote) == "file:///a%20b/" and remote.location is remote
    assert (str(remote.join("c d")), remote.name) == ("file:///a%20b/c%20d", "a b")


def test_settings_stay_at_the_end_of_an_address() -> None:
    store = place_of("s3://bucket/logs?region=eu-west-1&endpoint_override=127.0.0.1:9")
    joined = store.join("a/x?.tsv")
    assert str(joined) == (
        "s3://bucket/logs/a/x%3F.tsv?region=eu-west-1&endpoint_override=127.0.0.1:9"
    )
    assert isinstance(joined, RemotePlace) and joined.path == "bucket/logs/a/x?.tsv"
    reopened = place_of(str(joined))
    assert isinstance(reopened, RemotePlace) and reopened.path == joined.path
    assert reopened.filesystem == joined.filesystem


@pytest.mark.parametrize("text", ["nope://x/y", "file://relative", "s3:///x", "file:///a b"])
def test_an_address_out_of_reach_is_named(text: str) -> None:
    with pytest.raises(ArgumentError) as found:
        place_of(text)
    assert str(found.value).startswith(f"{text}: ") and "\n" not in str(found.value)


def test_a_path_may_hold_a_colon() -> None:
    assert isinstance(place_of("a:b/c"), LocalPlace)
    assert isinstance(place_of("1://x"), LocalPlace)


def test_equal_keys_are_equal_files(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "x")
    (tmp_path / "x").touch()
    texts = [tmp_path / "x", tmp_path / "y/../x", tmp_path / "link", f"file://{tmp_path}/x"]
    assert len({place_of(str(text)).key for text in texts}) == 1
    assert place_of("s3://b/x?region=a").key != place_of("s3://b/y?region=a").key


def test_links_are_followed_and_loops_are_not(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (outside / "x").touch()
    (inside / "linked").symlink_to(outside)
    (outside / "back").symlink_to(inside)
    (inside / "broken").symlink_to(tmp_path / "none")
    assert list(place_of(str(inside)).list()) == ["broken", "linked/x"]


def test_a_local_folder_is_its_own_copy(tmp_path: Path) -> None:
    assert place_of(str(tmp_path)).local_copy(tmp_path / "cache") == tmp_path
    assert not (tmp_path / "cache").exists()


def model() -> RemotePlace:
    place = in_memory("models/tiny")
    place.write("config.json", b"{}")
    place.write("heads/0.bin", b"\1\2")
    return place


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_remote_folder_is_copied_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = model()
    copy = place.local_copy(tmp_path / "cache")
    assert contents(copy) == {"config.json": b"{}", "heads/0.bin": b"\1\2"}
    assert copy.name.startswith("tiny.") and stat.S_IMODE(copy.stat().st_mode) == 0o755
    monkeypatch.setattr(places, "_copy", None)
    assert place.local_copy(tmp_path / "cache") == copy
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [copy.name]


def test_a_changed_folder_and_another_address_are_copied_anew(tmp_path: Path) -> None:
    place = model()
    first = place.local_copy(tmp_path)
    assert replace(place, text="mock://other").local_copy(tmp_path) != first
    place.write("config.json", b'{"a": 1}')
    second = place.local_copy(tmp_path)
    assert second != first and contents(second)["config.json"] == b'{"a": 1}'


def test_two_that_copy_at_once_get_one_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, both = model(), Barrier(2, timeout=20)
    put = places._put_in_place

    def together(temporary: Path, final: Path) -> None:
        both.wait()
        put(temporary, final)

    monkeypatch.setattr(places, "_put_in_place", together)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: place.local_copy(tmp_path), range(2))
    assert first == second and len(contents(first)) == 2
    assert os.listdir(tmp_path) == [first.name]


def test_a_failed_copy_leaves_nothing(tmp_path: Path) -> None:
    place = model()
    stored = place.list()
    stored["config.json"] = stored["config.json"]._replace(size=3)
    with pytest.raises(OSError, match="changed while it was copied"):
        places.copy_once(place, stored, tmp_path)
    assert os.listdir(tmp_path) == []


def test_what_killed_processes_left_of_a_copy_goes_after_a_day(tmp_path: Path) -> None:
    young, old = tmp_path / ".model.aa.x", tmp_path / ".model.aa.y"
    for one in (young, old):
        one.mkdir()
    os.utime(old, (0, 0))
    copy = model().local_copy(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted([young.name, copy.name])


@pytest.mark.parametrize("kind", ["writable", "link"])
def test_a_cache_that_others_can_write_to_is_refused(tmp_path: Path, kind: str) -> None:
    cache, own = tmp_path / "cache", tmp_path / "own"
    own.mkdir(mode=0o700)
    copy = model().local_copy(own)
    if kind == "link":
        cache.symlink_to(own)
    else:
        own.rename(cache)
        cache.chmod(0o777)
    with pytest.raises(PermissionError, match="others may write to .*cache; remove it"):
        model().local_copy(cache)
    assert (cache / copy.name).is_dir()


def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    place = model()
    with pytest.raises(ArgumentError, match="leads out of the folder"):
        places.copy_once(place, {"a/../../x": place.list()["config.json"]}, tmp_path / "cache")
    assert contents(tmp_path) == {}


def test_there_must_be_something_to_copy(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no such folder"):
        model().join("none").local_copy(tmp_path)
    with pytest.raises(ArgumentError, match="no files"):
        in_memory().local_copy(tmp_path)
