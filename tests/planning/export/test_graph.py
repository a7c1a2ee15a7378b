"""The traceable forward against the models it is to equal."""

import pytest
import torch

from qt_bert.models.families import FAMILIES
from qt_bert.models.forward import Encoder
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.export import Graph, made_up_cases
from qt_bert.results.kept import KeptLayer
from tests.planning.export.conftest import MIXED


def inputs_of(case, types=True):
    """A case as tensors by name."""
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if types else [])]
    return {name: torch.from_numpy(getattr(case, name)) for name in names}


@pytest.mark.parametrize("family", sorted(FAMILIES))
@torch.inference_mode()
def test_logits_equal_the_hugging_face_model_with_and_without_padding(checkpoint_of, family):
    checkpoint = open_checkpoint(checkpoint_of(family))
    graph = Graph(checkpoint).eval()
    cases = made_up_cases(checkpoint)
    assert {case.padded for case in cases} == {True, False}
    for case in cases:
        inputs = inputs_of(case)
        expected = checkpoint.model(**inputs).logits
        torch.testing.assert_close(graph(**inputs), expected, atol=2e-5, rtol=0)


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
@torch.inference_mode()
def test_padding_that_ends_a_text_is_not_read(checkpoint_of, family):
    """A tokenizer may end every pair with it; the mask then has it."""
    checkpoint = open_checkpoint(checkpoint_of(family))
    graph, pad = Graph(checkpoint).eval(), checkpoint.pad
    for case in made_up_cases(checkpoint):
        case.input_ids[:, -1] = pad
        inputs = inputs_of(case) | {"attention_mask": torch.ones(case.input_ids.shape).long()}
        expected = checkpoint.model(**inputs).logits
        torch.testing.assert_close(graph(**inputs), expected, atol=2e-5, rtol=0)


SHAPES = {
    "mixed": MIXED,
    "a last layer without heads": [KeptLayer(layer=0, heads=(0, 2)), KeptLayer(layer=1, heads=())],
    "one layer": [KeptLayer(layer=1, heads=(0, 1, 2))],
}


@pytest.mark.parametrize("kept", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("family", ["bert", "xlm-roberta", "gte", "modernbert", "deberta-v2"])
@torch.inference_mode()
def test_any_shape_equals_the_encoder(smaller_of, kept, family):
    checkpoint = smaller_of(family, kept)
    encoder = Encoder(checkpoint.model, checkpoint.family)
    graph = Graph(checkpoint).eval()
    for case in made_up_cases(checkpoint):
        inputs = inputs_of(case)
        ids, mask, types = inputs.values()
        torch.testing.assert_close(
            graph(**inputs), encoder.logits(ids, types, mask), atol=2e-5, rtol=0
        )


@torch.inference_mode()
def test_without_types_every_token_has_type_0(checkpoint_of):
    checkpoint = open_checkpoint(checkpoint_of("bert"))
    case = made_up_cases(checkpoint)[1]
    zeros = torch.zeros_like(torch.from_numpy(case.input_ids))
    graph = Graph(checkpoint).eval()
    untyped = inputs_of(case, types=False)
    assert torch.equal(graph(**untyped), graph(**untyped, token_type_ids=zeros))
    assert not torch.equal(graph(**untyped), graph(**inputs_of(case)))
