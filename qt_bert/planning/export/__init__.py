"""A classifier as ONNX: the graph, the check against torch, eight bits, and scoring without torch.

    checkpoint ─▶ graph ─▶ to_onnx ─▶ model.onnx ─┬─▶ check (replay, in a new process)
                                                  └─▶ int8 ─▶ model.int8.onnx ─▶ loss

`session` and `replay` run such files and know no torch.
"""
