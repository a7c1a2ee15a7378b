"""A deeper model from a shallow one, its layers repeated (Gong et al. 2019, "Efficient training of BERT
by progressively stacking").

A deep model that starts at random first learns how common characters are, and for long nothing
else; a few layers get over that within minutes, and the deeper model goes on from there.
"""

from __future__ import annotations

import copy
import re

from transformers import AutoModelForPreTraining, BertForPreTraining

from qt_bert.errors import ArgumentError

_LAYER = re.compile(r"(bert\.encoder\.layer\.)(\d+)(\..+)")


def stacked(model: BertForPreTraining, layers: int) -> BertForPreTraining:
    """A model of `layers` layers, of which layer n is a copy of layer n mod the model's; all else too.

    Raises ArgumentError where `layers` is no multiple of the model's.
    """
    held = int(model.config.num_hidden_layers)
    if layers < held or layers % held:
        raise ArgumentError(
            f"{held} layers cannot be stacked to {layers}; give a multiple of {held}"
        )
    config = copy.deepcopy(model.config)
    config.num_hidden_layers = layers
    deeper: BertForPreTraining = AutoModelForPreTraining.from_config(
        config, attn_implementation="eager"
    )
    state = model.state_dict()
    deeper.load_state_dict({name: state[_source(name, held)] for name in deeper.state_dict()})
    return deeper


def _source(name: str, held: int) -> str:
    found = _LAYER.fullmatch(name)
    return name if found is None else f"{found[1]}{int(found[2]) % held}{found[3]}"
