"""Lifted layers: what starts as what, and that the layers below hand on what they get."""

from __future__ import annotations

import pytest
import torch

from qt_bert.errors import ArgumentError
from qt_bert.models.families import FAMILIES
from qt_bert.models.loading import open_for_tuning
from qt_bert.training.model import lift_layers, listed_layers

SHAPE = {"layers": 4, "heads": 2, "hidden": 32}


def opened(folder):
    """A model, its family, and its layers."""
    model, family = open_for_tuning(folder, 5)
    return model.eval(), family, getattr(model, family.backbone).encoder.layer


def test_upper_layers_start_as_the_chosen_ones_in_their_order(checkpoint_of):
    model, family, layers = opened(checkpoint_of(**SHAPE))
    before = [layer.attention.self.query.weight.clone() for layer in layers]
    lift_layers(model, family, [2, 0], 2)
    after = [layer.attention.self.query.weight for layer in layers]
    for place, source in enumerate([0, 1, 2, 0]):  # the lower ones keep their own
        assert torch.equal(after[place], before[source]), place
    layers[3].attention.self.query.weight.data.zero_()  # copies, not the same tensors
    assert torch.equal(layers[0].attention.self.query.weight, before[0])


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_lower_layers_hand_on_what_they_get(checkpoint_of, name):
    model, family, _ = opened(checkpoint_of(name, **SHAPE))
    backbone = getattr(model, family.backbone)
    ids = torch.arange(10, 30)[None]
    lift_layers(model, family, [0, 1], 2)
    with torch.inference_mode():
        states = backbone(input_ids=ids, output_hidden_states=True).hidden_states
    # The first layer's norm scales each token a little, and more where the embeddings are projected
    # (ELECTRA), whose numbers vary together; the second has nothing left to do.
    assert torch.nn.functional.cosine_similarity(states[0], states[2], dim=-1).mean() > 0.98
    assert (states[2].norm(dim=-1) / states[0].norm(dim=-1) - 1).abs().mean() < 0.15
    torch.testing.assert_close(states[1], states[2], atol=1e-5, rtol=1e-5)


def test_with_a_norm_of_one_weight_they_hand_on_exactly(checkpoint_of):
    model, family, _ = opened(checkpoint_of(**SHAPE))
    backbone = getattr(model, family.backbone)
    backbone.embeddings.LayerNorm.weight.data.fill_(0.7)
    backbone.embeddings.LayerNorm.bias.data.fill_(-0.2)
    lift_layers(model, family, [0, 1], 2)
    with torch.inference_mode():
        states = backbone(input_ids=torch.arange(10, 30)[None], output_hidden_states=True)
    torch.testing.assert_close(
        states.hidden_states[0], states.hidden_states[2], atol=1e-5, rtol=1e-5
    )


def test_what_they_would_add_learns_from_the_first_step(checkpoint_of):
    model, family, layers = opened(checkpoint_of(**SHAPE))
    lift_layers(model, family, [0, 1], 2)
    model(input_ids=torch.arange(10, 30)[None]).logits.square().sum().backward()
    for layer in layers[:2]:
        assert layer.attention.output.dense.weight.grad.abs().max() > 0
        assert layer.output.dense.weight.grad.abs().max() > 0


@pytest.mark.parametrize(
    ("lifted", "said"),
    [([0], "names 1 layers; above 2 of 4 layers there are 2"), ([0, 4], "4: the base has layers")],
)
def test_layers_that_do_not_fit_are_refused_before_anything_changes(checkpoint_of, lifted, said):
    model, family, layers = opened(checkpoint_of(**SHAPE))
    before = layers[0].output.dense.weight.clone()
    with pytest.raises(ArgumentError, match=said):
        lift_layers(model, family, lifted, 2)
    assert torch.equal(layers[0].output.dense.weight, before)


def test_the_list_of_layers():
    assert listed_layers("0, 1,4") == [0, 1, 4]
    for text in ("", "0-3", "L0,L1"):
        with pytest.raises(ArgumentError, match="give layers of the base"):
            listed_layers(text)
