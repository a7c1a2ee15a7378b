"""A small GTE: it opens, runs on the fast engine, and embeds as an encoder does, in fewer dimensions."""

import numpy as np

from experiments.students.tiny_gte import make
from qt_bert.models.opening import open_checkpoint


def test_embeddings_keep_the_largest_components(checkpoint_of, tmp_path):
    base = checkpoint_of()
    make(base, tmp_path / "gte", layers=2, heads=2, width=8)
    opened, encoder = open_checkpoint(tmp_path / "gte"), open_checkpoint(base)
    assert opened.family.model_type == "gte" and opened.family.fast
    ours, theirs = (
        c.model.get_input_embeddings().weight.detach().numpy() for c in (opened, encoder)
    )
    centred = theirs - theirs.mean(0)
    kept = ours @ np.linalg.lstsq(ours, centred, rcond=None)[0]
    best = (np.linalg.svd(centred, compute_uv=False)[8:] ** 2).sum()
    assert ours.shape == (len(theirs), 8)
    assert best <= ((centred - kept) ** 2).sum() < 1.1 * best
