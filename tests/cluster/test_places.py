import pytest
from pyarrow import fs

from qt_bert.cluster.places import Place
from qt_bert.errors import ArgumentError


@pytest.fixture(params=["path", "address"])
def folder(request, tmp_path) -> Place:
    """A folder of this machine, as a path and through a file system of pyarrow's."""
    if request.param == "path":
        return Place.of(tmp_path)
    return Place("store://bucket", fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), "")


def test_what_is_written_is_read_listed_and_removed(folder):
    folder.join("b/two.tsv").write(b"22")
    folder.join("a.tsv").write(b"1")
    folder.join("a.tsv").write(b"333")
    assert folder.files() == {"a.tsv": 3, "b/two.tsv": 2}
    assert folder.join("b/two.tsv").read() == b"22"
    with folder.join("a.tsv").open_input() as handle:
        handle.seek(1)
        assert handle.read() == b"33"
    assert folder.join("b").size() == -1 and folder.join("c").size() is None
    folder.join("b").remove()
    folder.join("a.tsv").remove()
    folder.join("never").remove()
    assert folder.files() == {}


def test_what_is_missing_is_an_os_error(folder):
    with pytest.raises(OSError):
        folder.join("gone.tsv").read()
    with pytest.raises(OSError):
        folder.join("gone").files()


def test_names_of_an_address_keep_its_settings(tmp_path):
    there = Place("store://bucket/day?region=x", fs.LocalFileSystem(), str(tmp_path))
    assert str(there.join("a b.tsv")) == "store://bucket/day/a%20b.tsv?region=x"
    assert there.join("a b.tsv").path == f"{tmp_path}/a b.tsv"


def test_the_same_file_has_one_key(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert Place.of(tmp_path / "link").key == Place.of(f"file://{tmp_path}/real").key
    assert Place.of(tmp_path / "other").key != Place.of(tmp_path / "real").key


def test_links_are_followed(tmp_path):
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "a.tsv").write_text("x")
    (tmp_path / "day").mkdir()
    (tmp_path / "day" / "link").symlink_to(tmp_path / "in" / "deep")
    (tmp_path / "day" / "dead.tsv").symlink_to(tmp_path / "nowhere")
    assert list(Place.of(tmp_path / "day").files()) == ["dead.tsv", "link/a.tsv"]


def test_an_unknown_address_is_refused():
    with pytest.raises(ArgumentError, match="cannot be reached"):
        Place.of("nothing://bucket/x")
    assert Place.of("s3//:").filesystem is None
