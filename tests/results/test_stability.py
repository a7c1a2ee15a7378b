from dataclasses import replace

import pytest

from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.results.probe import ProbeResult, verdict_of
from tests.results.made_heads import matching
from tests.results.made_stability import LOOSE


@pytest.mark.parametrize(
    ("overlap", "halves", "chance", "verdict"),
    [
        (0.5, 0.4, 0.2, "stable"),
        (0.5, 0.2, 0.2, "not stable"),  # at chance's 95th percentile
        (0.2, 0.9, 0.2, "not stable"),
        (0.5, None, 0.2, "undecided"),
        (1.0, 1.0, 1.0, "undecided"),  # no overlap could be above
        (0.9, 0.4, 1.0, "not stable"),
    ],
)
def test_both_overlaps_must_exceed_chance(overlap, halves, chance, verdict):
    assert verdict_of(overlap, halves, chance) == verdict


def test_what_is_written_is_read_again(tmp_path):
    result = replace(matching(), stability={"matching": LOOSE})
    result.write(tmp_path / "matching.json")
    assert ProbeResult.read(tmp_path / "matching.json") == result


def test_shares_and_sets_are_checked(tmp_path):
    with pytest.raises(ArgumentError, match="from 0 to 1"):
        replace(LOOSE, overlap=1.2)
    with pytest.raises(ArgumentError, match="none of the sets"):
        replace(matching(), stability={"others": LOOSE})
    path = tmp_path / "matching.json"
    replace(matching(), stability={"matching": LOOSE}).write(path)
    path.write_text(path.read_text(encoding="utf-8").replace("not stable", "so so"), "utf-8")
    with pytest.raises(RunFolderError, match="verdict"):
        ProbeResult.read(path)
