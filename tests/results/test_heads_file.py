import json
from dataclasses import replace

import numpy as np
import pytest

from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.results.heads import HeadsFile, heads_file
from qt_bert.results.probe import HeadScores, ModelRef
from qt_bert.results.quantities import QUANTITIES
from qt_bert.shipped import GRADED, shipped
from tests.results.made_heads import matching, redundancy

VERSIONS = {"torch": "2", "qt_bert": "1"}


def test_it_keeps_four_digits_of_the_scores_that_something_reads():
    table = heads_file([redundancy()], VERSIONS).probes[0]
    ends = {"ci_low": -0.02389, "ci_high": -0.003889}
    assert table.rows()["L0H0"] == {"change": -0.01389, "q": 0.2, "kl": 0.0001235} | ends
    assert table.rows()["L1H1"]["change"] is None


def test_a_file_of_an_older_version_is_read(tmp_path):
    path = tmp_path / "heads.json"
    heads_file([redundancy()], VERSIONS).write(path)
    stored = json.loads(path.read_text(encoding="utf-8"))
    stored["probes"][0] |= {"claims": [{"id": "one"}], "metric": None, "summary": "它"}
    path.write_text(json.dumps(stored), encoding="utf-8")
    (table,) = HeadsFile.read(path).probes
    assert table.sets["harmful"] == ("L1H0",)


def test_the_file_that_ships_is_read():
    probes = HeadsFile.read(shipped(f"{GRADED}/heads.json")).probes
    tables = {table.probe: table for table in probes}
    assert tables["matching"].sets["matching"]


def test_what_is_written_is_read_again_and_the_same_figures_give_the_same_bytes(tmp_path):
    stored = heads_file([redundancy(), matching()], VERSIONS)
    stored.write(tmp_path / "one.json")
    assert HeadsFile.read(tmp_path / "one.json") == stored
    again = heads_file([matching(), redundancy()], dict(reversed(VERSIONS.items())))
    again.write(tmp_path / "two.json")
    text = (tmp_path / "one.json").read_text(encoding="utf-8")
    assert (tmp_path / "two.json").read_text(encoding="utf-8") == text
    assert "[-0.01389,-0.02389,-0.003889,0.2,0.0001235]" in text.replace(" ", "")


def test_144_heads_with_every_score_take_less_than_150_kb(tmp_path):
    rng = np.random.default_rng(0)
    results = []
    for probe in dict.fromkeys(quantity.probe for quantity in QUANTITIES):
        scores = [quantity.scores for quantity in QUANTITIES if quantity.probe == probe]
        names = set().union(*scores)
        heads = tuple(
            HeadScores(
                head=f"L{layer}H{head}", scores={name: float(-rng.random() / 1e3) for name in names}
            )
            for layer in range(12)
            for head in range(12)
        )
        results.append(replace(redundancy(), probe=probe, heads=heads))
    heads_file(results, VERSIONS).write(tmp_path / "heads.json")
    assert (tmp_path / "heads.json").stat().st_size <= 150_000


def test_results_of_no_probe_or_of_two_models_are_refused():
    with pytest.raises(ArgumentError, match="no probe"):
        heads_file([], VERSIONS)
    other = replace(matching(), model=ModelRef(name="other", sha256="55"))
    with pytest.raises(ArgumentError, match="different models"):
        heads_file([redundancy(), other], VERSIONS)


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("kind", "study", "kind"),
        ("schema", 2, "schema"),
        ("heads", ["L0H0", "L0H1", "L1H0"], "does not hold"),
        ("windows", [None], "windows of 1 layers"),
        ("heads", ["L0H0", "L0H0", "L1H0", "L1H1"], "twice"),
        ("heads", ["L0H0", "<img src=x>", "L1H0", "L1H1"], "is no head"),
        ("sets", {"harmful": ["H3"]}, "is no head"),
        ("values", [[1.0], [2.0], [3.0], [4.0]], "does not hold"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, key, value, word):
    path = tmp_path / "heads.json"
    heads_file([redundancy()], VERSIONS).write(path)
    stored = json.loads(path.read_text(encoding="utf-8"))
    place = stored if key in stored else stored["probes"][0]
    place[key] = value
    path.write_text(json.dumps(stored), encoding="utf-8")
    with pytest.raises(RunFolderError, match=word):
        HeadsFile.read(path)
