"""A run whose folder is an address."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qt_bert.cluster.storage import LocalStorage, PlaceStorage, Storage, part_file, storage_of
from qt_bert.errors import RunFolderError
from tests.cluster.ledger_runs import complete, contents, open_run, some_parts, work

PARTS = some_parts(3)
REJECTED = {2: 1, 10: 2}


@pytest.fixture
def there(tmp_path: Path) -> Storage:
    return storage_of((tmp_path / "there").as_uri())


def test_a_path_grows_its_manifest_and_an_address_does_not(tmp_path: Path, there: Storage) -> None:
    assert storage_of(str(tmp_path)) == LocalStorage(tmp_path)
    assert isinstance(there, PlaceStorage)
    assert not there.appends
    with pytest.raises(OSError, match="cannot grow"):
        there.append("x", b"")


def test_an_address_gets_the_same_files_as_a_path(tmp_path: Path, there: Storage) -> None:
    out = tmp_path / "there"
    complete(open_run(there, PARTS), out, REJECTED)
    complete(open_run(tmp_path / "here", PARTS), tmp_path / "here", REJECTED)
    assert contents(out) == contents(tmp_path / "here")
    assert len(list((out / "manifest").iterdir())) == 3
    assert open_run(there, PARTS, resume=True).record.complete


def test_a_run_at_an_address_goes_on(tmp_path: Path, there: Storage) -> None:
    out = tmp_path / "there"
    ledger = open_run(there, PARTS)
    ledger.done(work(out, PARTS[0], 1), work(out, PARTS[1]))
    work(out, PARTS[2], 2)  # killed before its line arrived
    path = out / part_file(PARTS[1].name())
    path.write_bytes(path.read_bytes()[:-1])
    again = open_run(there, PARTS, resume=True)
    assert again.missing() == PARTS[1:]
    assert {file.name for file in (out / "parts").iterdir()} == {f"part-{PARTS[0].name()}.parquet"}
    complete(again, out, REJECTED)
    assert json.loads((out / "run.json").read_text())["totals"]["rejected"] == 3


def test_a_run_at_an_address_is_replaced(tmp_path: Path, there: Storage) -> None:
    out = tmp_path / "there"
    complete(open_run(there, PARTS), out, REJECTED)
    with pytest.raises(RunFolderError, match=r"^file://.*there holds a finished scoring run"):
        open_run(there, PARTS)
    assert open_run(there, PARTS, overwrite=True).missing() == PARTS
    assert set(contents(out)) == {"run.json", "partitions.jsonl"}


def test_something_else_at_an_address_is_not_touched(tmp_path: Path, there: Storage) -> None:
    assert there.is_vacant()
    out = tmp_path / "there"
    out.mkdir()
    (out / ".run.json.12.tmp").write_bytes(b"")
    assert there.is_vacant()
    (out / "thesis.txt").write_bytes(b"x")
    with pytest.raises(RunFolderError, match="holds no scoring run"):
        open_run(there, PARTS, overwrite=True)
    a_file = storage_of((out / "thesis.txt").as_uri())
    with pytest.raises(RunFolderError, match="is no folder"):
        open_run(a_file, PARTS)
