"""The check: the batches it makes up, the figures it finds, and what it refuses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from qt_bert.errors import EquivalenceError
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.planning import export as check_module
from qt_bert.planning.export import check_export, made_up_cases
from qt_bert.planning.export_session import MODEL, differences


@dataclass
class Named:
    name: str


class Doubling:
    """Logits of a row: twice its first two tokens."""

    def get_inputs(self):
        return [Named("input_ids")]

    def run(self, outputs, inputs):
        assert outputs is None
        return [inputs["input_ids"][:, :2] * 2.0]


def test_differences_by_hand():
    cases = {
        "0/input_ids": np.array([[1, 2, 3]]),
        "0/logits": np.array([[2.0, 4.0]]),
        "1/input_ids": np.array([[1, 2], [3, 4]]),
        "1/logits": np.array([[2.0, 4.5], [6.0, 7.0]]),
    }
    assert differences(Doubling(), cases) == [0.0, 1.0]


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_cases_go_from_five_tokens_to_the_limit_alone_and_in_sevens(checkpoint_of, family):
    checkpoint = open_checkpoint(checkpoint_of(family))
    cases = made_up_cases(checkpoint)
    shapes = [case.input_ids.shape for case in cases]
    assert (1, 5) in shapes and (7, 5) in shapes and (1, 64) in shapes
    assert shapes.count((7, 64)) == 2
    padded = [case for case in cases if case.padded]
    assert len(padded) == len({case.input_ids.shape[1] for case in cases}) - 1
    for case in cases:
        real = case.attention_mask == 1
        assert (case.input_ids[real] != checkpoint.pad).all()
        assert (case.input_ids[~real] == checkpoint.pad).all()
        assert (case.attention_mask.sum(1) >= 5).all() and case.attention_mask[0].all()
        assert case.token_type_ids.max() == (1 if family == "bert" else 0)


def test_another_models_file_is_refused_with_the_figure(exported, checkpoint_of):
    _, folder = exported("bert")
    other = open_checkpoint(checkpoint_of("bert", seed=1))
    with pytest.raises(
        EquivalenceError, match=r"differs from torch by [0-9.]+ .* rows of \d+ tokens"
    ):
        check_export(other, folder / MODEL)


def test_a_difference_that_is_no_number_is_refused(exported, monkeypatch):
    checkpoint, folder = exported("bert")
    found = [0.0, float("nan"), *[0.0] * 12]
    monkeypatch.setattr(check_module, "_in_a_new_process", lambda _path, stored: found)
    with pytest.raises(EquivalenceError, match="by nan in a logit, at 7 rows of 5 tokens"):
        check_export(checkpoint, folder / MODEL)


def test_a_file_that_does_not_run_is_refused_with_the_reason(checkpoint_of, tmp_path):
    broken = tmp_path / MODEL
    broken.write_bytes(b"no graph")
    with pytest.raises(
        EquivalenceError, match="does not run in onnxruntime: .*(Protobuf|protobuf)"
    ):
        check_export(open_checkpoint(checkpoint_of("bert")), broken)
