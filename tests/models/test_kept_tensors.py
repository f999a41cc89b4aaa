"""What a block keeps for its backward pass, byte for byte against the account of chapter 19.

The account lists what the derivatives need. Torch keeps some more, and each of it has a reason.
"""

import pytest
import torch

from dtlib.foundations import TransformerSpec
from dtlib.models import Block

SEQUENCES, TOKENS, HIDDEN, HEADS = 2, 32, 64, 4
ROWS = SEQUENCES * TOKENS


def kept_bytes(spec):
    """Bytes of the storages that the forward pass of a block saves, weights not counted."""
    block = Block(spec, dtype=torch.bfloat16)
    weights = {weight.untyped_storage().data_ptr() for weight in block.parameters()}
    storages = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = (storage.nbytes(), tensor)
        return tensor

    x = torch.randn(SEQUENCES, TOKENS, HIDDEN, dtype=torch.bfloat16, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        block(x)
    return sum(size for at, (size, _) in storages.items() if at not in weights)


def account(spec):
    return spec.activation_bytes(TOKENS, SEQUENCES, flash=False)


MASK = TOKENS * TOKENS  # one byte for each pair of tokens, shared by all heads
LAYER_NORMS = 2 * ROWS * 2 * 2  # mean and deviation of each token, which the account neglects
RMS_NORMS = 2 * ROWS * (2 * HIDDEN * 4 + 4 - HIDDEN * 2)  # on a CPU: its input twice, in 32 bits


def test_a_classical_block_keeps_what_the_account_lists():
    spec = TransformerSpec("classical", 1, HIDDEN, HEADS, 100, positions=64, dropout=False)
    assert kept_bytes(spec) == account(spec) + LAYER_NORMS + MASK


def test_a_block_with_shared_keys_keeps_them_once_for_each_query_head():
    kind = {"norm": "rms", "bias": False, "gated": True, "kv_heads": 2}
    spec = TransformerSpec("llama", 1, HIDDEN, HEADS, 100, **kind)
    copies = 2 * ROWS * (HEADS - 2) * spec.head_dim * 2
    angles = 4 * TOKENS * spec.head_dim // 2 * 2  # cos and sin for the queries, and for the keys
    assert kept_bytes(spec) == account(spec) + RMS_NORMS + MASK + copies + angles


@pytest.mark.parametrize("changes", [{"ffn": 3 * HIDDEN}, {"gated": True}, {"dropout": True}])
def test_an_account_of_another_block_does_not_fit(changes):
    spec = TransformerSpec("classical", 1, HIDDEN, HEADS, 100, positions=64, dropout=False)
    other = TransformerSpec(
        "other", 1, HIDDEN, HEADS, 100, positions=64, **{"dropout": False} | changes
    )
    assert kept_bytes(spec) != account(other) + LAYER_NORMS + MASK
