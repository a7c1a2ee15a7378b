import pytest


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--engine", "spark"], "--engine spark: give one of local, ray"),
        (["--actors", "2"], "--actors goes with --engine ray"),
        (["--address", "auto"], "--address goes with --engine ray"),
        (["--rows-per-partition", "9"], "--rows-per-partition goes with --engine ray"),
        (["--rows", "9"], "--rows and --price-per-hour go with --dry-run"),
        (["--engine", "ray", "--heads-out", "L0H0"], "--heads-out and --engine ray"),
        (["--engine", "ray", "--price-per-hour", "2"], "--price-per-hour go with --dry-run"),
        (["--engine", "ray", "--actors", "0"], "--actors 0: give at least 1"),
        (["--engine", "ray", "--rows-per-partition", "0"], "--rows-per-partition 0: give at least"),
        (["--engine", "ray", "--address", "nowhere"], "--address nowhere: give the cluster's HOST"),
        (["--engine", "ray", "--model", "no-such-folder"], "no-such-folder"),
        (["other.tsv"], "--engine ray scores many"),
        (["gopher://bucket//day", "--engine", "ray"], "gopher://bucket//day"),
    ],
)
def test_bad_options(refused, pair_file, checkpoint_of, tmp_path, options, words):
    model = [] if "--model" in options else ["--model", checkpoint_of()]
    ended = refused(words, "score", pair_file, *model, "--out", tmp_path / "out", *options)
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1 or "reading the inputs" in ended.err


def test_the_dry_run_estimates_a_run(run, pair_file, checkpoint_of, tmp_path):
    arguments = ("score", pair_file, "--engine", "ray", "--model", checkpoint_of(), "--dry-run")
    ended = run(*arguments, "--out", tmp_path / "out", "--actors", "2", "--price-per-hour", "3.5")
    assert ended.status == 0, ended.err
    assert "rows           8\n" in ended.out and "partitions     1 of 2,048 rows\n" in ended.out
    assert "workers        1 on 1 machine" in ended.out and "MB a worker\n" in ended.out
    assert "at 3.5 a machine-hour" in ended.out and "assumes" in ended.out
    assert not (tmp_path / "out").exists()
    assert "cost" not in run(*arguments, "--out", tmp_path / "out").out


def test_the_estimate_for_one_machine_needs_no_file_and_no_out(
    run, refused, pair_file, checkpoint_of, tmp_path
):
    before = set(tmp_path.iterdir())
    command = ("score", "--model", checkpoint_of(), "--dry-run", "--price-per-hour", "2")
    ended = run(*command, pair_file, "--rows", "10000000")
    assert ended.status == 0, ended.err
    shown = dict(line.split("  ", 1) for line in ended.out.splitlines()[:-1])
    assert shown["rows"].strip() == "10,000,000" and shown["workers"].strip().startswith("1 on")
    assert shown["partitions"].strip() == "4,883 of 2,048 rows"
    rate = float(shown["sample"].split(": ")[1].removesuffix(" rows/s").replace(",", ""))
    assert float(shown["machine-hours"]) == pytest.approx(1e7 / rate / 3600, rel=0.02)
    assert float(shown["cost"].split()[0]) == pytest.approx(2e7 / rate / 3600, rel=0.02)
    assert set(tmp_path.iterdir()) == before
    assert run(*command, "--rows", "5").status == 0  # pairs that ship are the sample
    refused("give a file of pairs", *command)
    refused("give --out FILE", "score", pair_file, "--model", checkpoint_of())


COUNTS = {"pairs": 1, "rejected": 0, "truncated_titles": 0, "truncated_queries": 0}


@pytest.fixture
def ended(run, pair_file, checkpoint_of, tmp_path, monkeypatch):
    """`ended(report, *options)`: the command where the cluster reports this."""
    from qt_bert.cluster import score as module

    def call(report, *options):
        monkeypatch.setattr(module, "score_on_ray", lambda *_, **__: module.RayReport(**report))
        command = ("score", pair_file, "--engine", "ray", "--model", checkpoint_of(), *options)
        return run(*command, "--out", tmp_path / "o")

    return call


@pytest.mark.parametrize("already", [False, True])
@pytest.mark.parametrize(
    ("skipped", "options", "status"), [(12, [], 1), (2, ["--skip-others"], 0), (0, [], 0)]
)
def test_skipped_files_are_named_last(ended, skipped, options, status, already):
    names = [f"day/{i}.x" for i in range(skipped)]
    result = ended({"counts": COUNTS, "skipped": names, "already": already}, *options)
    assert result.status == status
    *shown, last = result.err.splitlines()
    assert sum(line.startswith("skipped: day/") for line in shown) == min(skipped, 10)
    assert ("run.json" in last) == bool(skipped)
    assert not skipped or last.startswith(f"{skipped} files")


def test_a_partition_that_failed_ends_with_status_1(ended):
    failed = {"3.l2": "it changed (on x)"}
    result = ended({"counts": COUNTS, "skipped": (), "failed": failed})
    assert result.status == 1 and "error: partition 3.l2: it changed (on x)" in result.err
