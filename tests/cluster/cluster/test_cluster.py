"""The private cluster: alone on its machine, closed to others, and gone whatever becomes of its owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from qt_bert.cluster import ray
from qt_bert.cluster.processes import clear_stale, owned_folder
from qt_bert.cluster.ray import (
    Cluster,
    EngineError,
    available_cpus,
    cluster,
    cpus_of,
    private_folder,
)
from qt_bert.cluster.watchdog import working_in
from qt_bert.errors import ArgumentError
from tests.cluster.calls import address_of_ray, dies, folder_of_ray
from tests.cluster.planted import ROOT
from tests.cluster.rays import are_gone, hears_ctrl_c, waited

pytestmark = pytest.mark.usefixtures("alone_with_ray")

HOLD = """
import time
from qt_bert.cluster.ray import cluster
from tests.cluster.calls import folder_of_ray
with cluster(cpus=1) as there:
    print(there.call(folder_of_ray), flush=True)
    time.sleep(1000)
"""
STRANGER = """
import sys
from ray._raylet import GcsClient
print(GcsClient(address=sys.argv[1]).internal_kv_keys(b"", None, timeout=5))
"""


def start(script: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=ROOT, preexec_fn=hears_ctrl_c, **(pipes | options))


def test_it_is_private_while_it_lives_and_gone_when_it_is_left() -> None:
    with cluster(cpus=2) as there:
        folder = Path(there.call(folder_of_ray))
        assert (there.own, there.cpus, len(there.nodes)) == (True, 2, 1)
        assert folder.parent.stat().st_mode & 0o777 == 0o700
        _only_this_machine(str(folder))
        _refuses_strangers(there.call(address_of_ray))
        assert "ray" not in sys.modules, "the process that may be ended is another one"
    assert not folder.parent.exists()
    assert not list(working_in(str(folder.parent), {os.getpid()}))


def test_where_its_connection_is_lost_it_is_told_and_there_is_another() -> None:
    with cluster(cpus=1) as there:
        folder = Path(there.call(folder_of_ray))
        heard = there.stream(dies, "exit")
        assert next(heard) == "alive"
        with pytest.raises(
            EngineError,
            match=r"--engine ray: the cluster does not answer \(exit status 1: the last words\)",
        ):
            next(heard)
        assert there.cpus == 1
        assert not folder.parent.exists() and there.call(folder_of_ray) != str(folder)
        with pytest.raises(ArgumentError, match=r"does not answer \(exit status 3\)"):
            there.call(os._exit, 3)
    with pytest.raises(RuntimeError, match="was left"):
        there.call(folder_of_ray)


def test_an_address_that_is_lost_gets_time_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    there, tries = Cluster("127.0.0.1:1", 1), []

    def refused() -> None:
        tries.append(time.monotonic())
        raise ArgumentError("nobody answers")

    monkeypatch.setattr(there, "connect", refused)
    monkeypatch.setattr(ray, "_COME_BACK_SECONDS", 0.5)
    monkeypatch.setattr(ray, "_EVERY_SECONDS", 0.1)
    with pytest.raises(EngineError, match="nobody answers"):
        list(there.stream(dies, "exit"))
    assert len(tries) >= 2 and tries[-1] - tries[0] <= 5


def _only_this_machine(folder: str) -> None:
    at_work = [psutil.Process(one) for one in working_in(folder, {os.getpid()})]
    heard = {
        one.laddr.ip.removeprefix("::ffff:")
        for process in at_work
        for one in process.net_connections(kind="inet")
        if one.status == psutil.CONN_LISTEN
    }
    assert heard == {"127.0.0.1"}


def _refuses_strangers(address: str) -> None:
    left = {n: v for n, v in os.environ.items() if not n.startswith("RAY_AUTH")}
    left["HOME"] = "/nonexistent"
    without = left | {"RAY_AUTH_MODE": "disabled"}
    another = left | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}
    for stranger in [start(STRANGER, address, env=env) for env in (without, another)]:
        _, errors = stranger.communicate(timeout=60)
        assert stranger.returncode != 0
        assert "auth" in errors.lower(), errors


def test_nothing_is_left_of_it_when_its_owner_is_killed() -> None:
    owner = start(HOLD)
    assert owner.stdout is not None
    folder = Path(owner.stdout.readline().strip()).parent
    assert folder.name.startswith("qtb-")
    at_work = list(working_in(str(folder), {owner.pid}))
    assert len(at_work) >= 3
    owner.kill()
    assert owner.communicate() == ("", "")
    assert waited(lambda: not folder.exists(), 30)
    assert waited(lambda: are_gone(at_work), 30)


@pytest.mark.slow
def test_ctrl_c_takes_it_down_too() -> None:
    owner = start(HOLD, start_new_session=True)
    assert owner.stdout is not None
    folder = Path(owner.stdout.readline().strip()).parent
    os.killpg(owner.pid, signal.SIGINT)
    owner.communicate(timeout=60)
    assert owner.returncode != 0 and not folder.exists()


def test_the_folder_of_a_dead_owner_is_cleared_and_that_of_a_living_one_is_not(
    tmp_path: Path,
) -> None:
    dead, alive, new, far = (tmp_path / f"qtb-{n}" for n in ("dead", "alive", "new", "far"))
    for folder in (dead, alive, new, far):
        folder.mkdir()
    here = _owner().split(" ", 2)[2]
    (dead / "owner").write_text(f"999999999 1 {here}")
    (far / "owner").write_text("999999999 1 another-machine pid:[4026531836]")
    (alive / "owner").write_text(_owner())
    left = start("import time; time.sleep(1000)", env=os.environ | {"IN": f"{dead}/r"})
    spared = start("import time; time.sleep(1000)", env=os.environ | {"IN": f"{alive}/r"})
    try:
        assert waited(lambda: left.pid in working_in(str(dead), set()), 10)
        clear_stale(tmp_path)
        assert left.wait(10) == -signal.SIGKILL and spared.poll() is None
        assert not dead.exists() and alive.exists() and new.exists() and far.exists()
    finally:
        for process in (left, spared):
            process.kill()
            process.communicate()


def _owner() -> str:
    with owned_folder() as folder:
        return (folder / "owner").read_text()


def test_a_number_that_another_process_has_now_is_no_owner(tmp_path: Path) -> None:
    (tmp_path / "qtb-old").mkdir()
    here = _owner().split(" ", 2)[2]
    (tmp_path / "qtb-old" / "owner").write_text(f"{os.getpid()} 1 {here}")
    clear_stale(tmp_path)
    assert not (tmp_path / "qtb-old").exists()


@pytest.mark.parametrize("said", ["", "nobody", "\xe4"])
def test_an_owner_that_could_not_be_written_is_none_after_a_minute(
    tmp_path: Path, said: str
) -> None:
    new, old = tmp_path / "qtb-new", tmp_path / "qtb-old"
    for folder in (new, old):
        folder.mkdir()
        (folder / "owner").write_text(said, encoding="latin-1")
    os.utime(old, (time.time() - 100,) * 2)
    clear_stale(tmp_path)
    assert new.exists() and not old.exists()


def test_a_folder_without_room_for_its_owner_is_not_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*rest: Any, **options: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "tempdir", tempfile.mkdtemp(dir="/tmp", prefix="q"))
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space"), owned_folder():
        pass
    assert os.listdir(tempfile.gettempdir()) == []
    os.rmdir(tempfile.gettempdir())


def test_the_folder_is_short_and_closed_wherever_temporary_files_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("deep" * 20)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with private_folder() as folder:
        assert len(str(folder)) <= 40
        started = time.monotonic()
    assert not folder.parent.exists() and time.monotonic() - started < 25


@pytest.mark.parametrize(
    "address", ["nowhere", "ray://127.0.0.1:1", "host:port", "host:²", "s3://a/b:1"]
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ArgumentError, match="HOST:PORT"), cluster(address):
        pass


def test_an_address_where_nobody_answers_is_refused_at_once() -> None:
    with pytest.raises(ArgumentError, match="127.0.0.1:1: nobody answers"), cluster("127.0.0.1:1"):
        pass


@pytest.mark.parametrize("host", ["head..cluster", "x" * 70])
def test_a_host_that_can_be_none_is_refused(host: str) -> None:
    with pytest.raises(ArgumentError, match="nobody answers"), cluster(f"{host}:6379"):
        pass


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, *rest: Any) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.delitem(sys.modules, "ray", raising=False)
    monkeypatch.setattr(ray, "import_module", missing)
    with pytest.raises(ArgumentError, match=r"pip install 'qt-bert\[ray\]'"):
        ray.load_ray(private=False)


def test_processors_that_may_be_used_are_counted() -> None:
    assert 1 <= available_cpus() <= (os.cpu_count() or 1)


def test_nodes_that_are_dead_or_lend_nothing_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def node(name: str, cpus: float, alive: bool = True) -> dict[str, Any]:
        resources = {"CPU": cpus} if cpus else {}
        address = "10.0.0." + name
        return {
            "NodeID": name,
            "NodeManagerAddress": address,
            "Alive": alive,
            "Resources": resources,
        }

    class Ray:
        @staticmethod
        def nodes() -> list[dict[str, Any]]:
            return [node("3", 4.0), node("1", 0), node("2", 8.0), node("4", 2.0, alive=False)]

    monkeypatch.setattr(ray, "load_ray", lambda private: Ray)
    found = ray.lending_nodes()
    assert [(one.address, one.cpus) for one in found] == [("10.0.0.2", 8), ("10.0.0.3", 4)]
    there = Cluster("10.0.0.1:6379", 1)
    monkeypatch.setattr(there, "call", lambda function: function())
    assert there.nodes == found and there.cpus == 12


def test_what_ray_raises_when_it_is_asked_for_nodes_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Ray:
        @staticmethod
        def nodes() -> None:
            raise RuntimeError("Failed to connect to GCS")

    monkeypatch.setattr(ray, "load_ray", lambda private: Ray)
    with pytest.raises(ArgumentError, match="what machines it has .Failed to connect to GCS"):
        ray.lending_nodes()


def test_a_cluster_that_lends_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Cluster("10.0.0.1:6379", 1)
    monkeypatch.setattr(there, "call", lambda function: [])
    with pytest.raises(ArgumentError, match="--address 10.0.0.1:6379: no machine"):
        cpus_of(there)
