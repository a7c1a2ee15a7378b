import pytest

from qt_bert.errors import ArgumentError
from qt_bert.run.scorers import split_seeds


def test_models_and_columns_separated_by_commas(write, tmp_path):
    log, model = write("log.tsv", ""), tmp_path / "model"
    model.mkdir()
    assert split_seeds(f"{model},org/name") == [str(model), "org/name"]
    assert split_seeds(f"{log}:s1,{log}:s2") == [f"{log}:s1", f"{log}:s2"]
    # What is no scorer of its own is another column.
    assert split_seeds(f"{log}:p_1,p_2,{model}") == [f"{log}:p_1,p_2", str(model)]
    assert split_seeds(str(write("a,b.tsv", ""))) == [str(log.with_name("a,b.tsv"))]
    with pytest.raises(ArgumentError, match="empty name"):
        split_seeds(f"{model},")
