"""The registered probes, and the context of one: discovery, validation, settings."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from qt_bert.data.reader import ReaderOptions
from qt_bert.data.splits import half_of
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.probes.base import Context, probe_named, probes, run_probe

Make = Callable[..., Context]


@pytest.fixture
def context(context_of, checkpoint_of) -> Make:
    """A context around a tiny model and the eight pairs, any of its fields changed by keyword."""
    return lambda **changes: context_of(checkpoint_of(), **changes)


def test_a_file_is_halved_by_query(context):
    made = context()
    assert {half_of(pair.query) for pair in made.discovery} == {"discovery"}
    assert {half_of(pair.query) for pair in made.validation} == {"validation"}
    assert len(made.discovery) + len(made.validation) == 8


def test_a_discovery_file_leaves_the_pairs_whole(context, pair_file, tmp_path):
    dev = tmp_path / "dev.tsv"
    dev.write_text("query\ttitle\tgrade\n狗\t猫\t1\nno grade\tx\t\n", encoding="utf-8")
    made = context(discovery=dev, reader=ReaderOptions(max_rejects=0.5))
    assert ([pair.query for pair in made.discovery], len(made.validation)) == (["狗"], 8)
    assert made.settings()["discovery"]["n_pairs"] == 1
    assert made.settings()["rejected"] == 1


def test_a_half_without_pairs_is_refused(context, tmp_path):
    path = tmp_path / "one.tsv"
    path.write_text("query\ttitle\tgrade\n狗追猫\t猫\t1\n", encoding="utf-8")
    with pytest.raises(PairFileError, match="validation half of the queries has no graded pair"):
        _ = context(pairs=path).validation


def test_no_query_is_chosen_on_and_tested_on(context, pair_file, write):
    dev = write("dev.tsv", "query\ttitle\tgrade\n 狗追猫 \t狗\t1\n大象\t狗\t1\n")
    with pytest.raises(
        ArgumentError, match=r"1 queries to choose on \(of dev.tsv\), such as '狗追猫'"
    ):
        _ = context(discovery=dev).validation
    with pytest.raises(
        ArgumentError, match=r"queries to choose on \(of pairs.tsv\).*also in dev.tsv"
    ):
        _ = context(held_out=[dev]).held_out


def test_held_out_files_of_one_name_are_numbered(context, pair_file, more_pairs, tmp_path):
    other = tmp_path / "other" / pair_file.name
    other.parent.mkdir()
    head, first, *_ = pair_file.read_text(encoding="utf-8").splitlines(keepends=True)
    other.write_text(head + first, encoding="utf-8")
    made = context(held_out=[other, pair_file], discovery=more_pairs)
    found = [(name, len(pairs)) for name, pairs in made.held_out]
    assert found == [(other.name, 1), (f"{other.name} (2)", 8)]


def test_running_fills_in_what_all_probes_share(context, fake_probe):
    result = run_probe(probe_named("fake"), context(seed=3))
    assert (result.probe, result.order) == ("fake", 3)
    assert result.title is not None and result.title.en == "Fake"
    assert (result.settings["seed"], result.settings["profile"]) == (3, "quick")
    assert (result.settings["sample"], result.settings["guards"]) == (2, {"difference": 1e-6})
    assert [one.id for one in result.measurements] == ["above"]


def test_a_declared_probe_is_in_its_place(fake_probe):
    assert [probe.name for probe in probes()].count("fake") == 1
    assert probe_named("fake").question.en == "Is the model good?"
    orders = [probe.order for probe in probes()]
    assert orders == sorted(orders)
    with pytest.raises(ArgumentError, match=r"no probe 'fale'; there are .*fake"):
        probe_named("fale")


@pytest.mark.parametrize("name", ["golds", "seed", "files"])
def test_what_a_probe_uses_is_an_input(fake_probe, name):
    with pytest.raises(ArgumentError, match=f"fake: uses '{name}', which is no input"):
        replace(probe_named("fake"), uses=("gold", name))
