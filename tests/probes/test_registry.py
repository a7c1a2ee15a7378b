"""Which probes there are, and that a new one is one file."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from qt_bert.errors import ArgumentError
from qt_bert.probes.registry import probe_named, probes


def test_every_probe_speaks_both_languages() -> None:
    for probe in probes():
        assert all((probe.title.zh, probe.title.en, probe.question.zh, probe.question.en))
        assert probe.quick_seconds > 0


def test_a_probe_that_a_file_declares_is_found(fake_probe: None) -> None:
    names = [probe.name for probe in probes()]
    assert names.count("fake") == 1
    assert probe_named("fake").question.en == "Is the model good?"


def test_probes_stand_in_the_order_of_the_report(fake_probe: None) -> None:
    orders = [probe.order for probe in probes()]
    assert orders == sorted(orders)


def test_an_unknown_probe_lists_the_names(fake_probe: None) -> None:
    with pytest.raises(ArgumentError, match=r"no probe 'fale'; there are .*fake"):
        probe_named("fale")


@pytest.mark.parametrize("name", ["", "Order", "a b", "../a", "7up"])
def test_a_name_is_a_file_name(fake_probe: None, name: str) -> None:
    with pytest.raises(ArgumentError, match="names no probe"):
        replace(probe_named("fake"), name=name)


def test_listing_the_probes_loads_no_torch() -> None:
    code = (
        "import sys\n"
        "from qt_bert.probes.registry import probes\n"
        "probes()\n"
        "heavy = {'torch', 'transformers', 'pandas', 'sklearn', 'jieba', 'altair'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
