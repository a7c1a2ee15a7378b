"""What the heads do: of a run, of the file beside the model, or unknown."""

from dataclasses import replace

import pytest

from qt_bert.errors import RunFolderError
from qt_bert.planning.task import functions_of
from qt_bert.results.heads import heads_file
from tests.results.made_heads import matching, redundancy
from tests.results.made_stability import LOOSE

SHA = matching().model.sha256


def test_heads_json_counts_where_it_is_of_these_weights(tmp_path):
    heads_file([matching(), redundancy()], {}).write(tmp_path / "heads.json")
    functions = functions_of(tmp_path, SHA)
    assert functions.source == "heads.json"
    assert functions.sets["matching"] == matching().sets["matching"]
    assert functions_of(tmp_path, "other").source == "none"


def test_sets_that_are_not_stable_are_known(tmp_path):
    told = replace(matching(), stability={"matching": LOOSE})
    heads_file([told], {}).write(tmp_path / "heads.json")
    assert functions_of(tmp_path, SHA).unstable == {"matching"}
    # A run comes before the file.
    matching().write(tmp_path / "run" / "probes" / "matching.json")
    functions = functions_of(tmp_path, SHA, tmp_path / "run")
    assert functions.source == "run" and functions.unstable == frozenset()
    assert functions.sets["matching"] == matching().sets["matching"]


def test_a_run_of_another_model_or_without_probes_is_refused(tmp_path):
    with pytest.raises(RunFolderError, match="no finished probe"):
        functions_of(tmp_path, SHA, tmp_path)
    other = replace(matching(), model=replace(matching().model, sha256="ff"))
    other.write(tmp_path / "probes" / "matching.json")
    with pytest.raises(RunFolderError, match="whose weights are not those"):
        functions_of(tmp_path, SHA, tmp_path)
