"""The normalising tokenizer: what it maps, that nothing else moves, what it refuses."""

import json

import pytest
from transformers import AutoTokenizer

from experiments.normalisation.run import main, normalised, replacements
from qt_bert.errors import CheckpointError, RunFolderError
from qt_bert.models.folder import verify_folder
from qt_bert.models.tokenizer import open_tokenizer


@pytest.fixture
def both(checkpoint_of, tmp_path):
    folder = checkpoint_of("bert")
    normalised(folder, tmp_path / "out")
    return open_tokenizer(folder), open_tokenizer(tmp_path / "out")


def test_characters_are_read_as_those_of_the_vocabulary(both):
    plain, mapping = both
    assert mapping("電影關閉", "Ａ１") == mapping("电影关闭", "a1") == plain("电影关闭", "a1")
    assert plain.unk_token_id in plain("電影關閉")["input_ids"]


def test_places_are_those_of_the_given_text(both):
    encoded = both[1]("電影 Ａ１", return_offsets_mapping=True)
    assert encoded["offset_mapping"] == [(0, 0), (0, 1), (1, 2), (3, 4), (4, 5), (0, 0)]


def test_a_saved_copy_maps_too(both, tmp_path):
    both[1].save_pretrained(tmp_path / "saved")
    again = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert again("電影", "關閉") == both[1]("電影", "關閉")
    assert "token_type_ids" in again("電影", "關閉")


def test_what_stays():
    mapping = replacements({"后", "体", "干", "，", "a"})
    assert mapping["後"] == "后" and mapping["體"] == "体" and mapping["ａ"] == "a"
    assert mapping["！"] == "!"  # a sign that the vocabulary lacks
    assert not {"乾", "后", "，", "這"} & mapping.keys()


def test_the_folder_is_whole(checkpoint_of, tmp_path, capsys):
    folder = checkpoint_of("bert")
    main(["--model", str(folder), "--out", str(tmp_path / "out")])
    verify_folder(tmp_path / "out")
    assert "characters are read as others" in capsys.readouterr().out
    stored = json.loads((tmp_path / "out/tokenizer.json").read_text("utf-8"))
    types = [part["type"] for part in stored["normalizer"]["normalizers"]]
    assert types == ["Precompiled", "BertNormalizer"]


def test_what_is_refused(checkpoint_of, tmp_path):
    normalised(checkpoint_of("bert"), tmp_path / "out")
    with pytest.raises(CheckpointError):
        normalised(tmp_path / "out", tmp_path / "again")
    with pytest.raises(RunFolderError):
        normalised(checkpoint_of("bert"), tmp_path / "out")
    with pytest.raises(CheckpointError):
        normalised(checkpoint_of("xlm-roberta"), tmp_path / "other")
    with pytest.raises(SystemExit, match="2"):
        main(["--model", str(tmp_path / "none"), "--out", str(tmp_path / "x")])
