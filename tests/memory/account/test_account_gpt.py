"""The account against autograd: every byte that the reference model keeps, and why."""

from dataclasses import replace

import pytest
import torch

from dtlib.foundations import MoE, TransformerSpec
from dtlib.memory import gpt_kept_tensors
from dtlib.models import GPT, next_token_loss

LLAMA = {"norm": "rms", "bias": False, "gated": True}
SPECS = {
    "classical": TransformerSpec("classical", 2, 64, 4, 100, positions=64, dropout=False),
    "turned": TransformerSpec("turned", 1, 48, 3, 70, dropout=False, ffn=100, tied=True),
    "llama": TransformerSpec("llama", 2, 64, 4, 100, **LLAMA),
    "grouped": TransformerSpec("grouped", 3, 64, 8, 50, kv_heads=2, ffn=72, **LLAMA),
    "narrow": TransformerSpec("narrow", 1, 40, 4, 50, head_dim=6, kv_heads=1, **LLAMA),
    "experts": TransformerSpec("experts", 2, 32, 4, 60, moe=MoE(4, 2, 24, shared=1), **LLAMA),
    "switch": TransformerSpec(
        "switch", 3, 32, 2, 60, moe=MoE(4, 1, 24, dense_layers=1), dropout=False
    ),
}
SHAPES = [(1, 8), (2, 32), (3, 17)]
each_spec = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)


def kept_by_torch(spec, sequences, seq, dtype):
    """An own count, beside the library's meter: storages that hooks see, each once."""
    model = GPT(spec, dtype=dtype)
    tokens, targets = torch.randint(0, spec.vocab, (2, sequences, seq))
    there = {p.untyped_storage().data_ptr() for p in (*model.parameters(), tokens, targets)}
    storages = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = (storage.nbytes(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        next_token_loss(model(tokens), targets)
    return sum(size for at, (size, _) in storages.items() if at not in there)


def listed(spec, sequences, seq, width=2):
    return sum(row.bytes for row in gpt_kept_tensors(spec, seq, sequences, width))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize(("sequences", "seq"), SHAPES, ids=str)
@each_spec
def test_the_list_is_what_autograd_keeps_to_the_byte(spec, sequences, seq, dtype):
    assert listed(spec, sequences, seq, dtype.itemsize) == kept_by_torch(
        spec, sequences, seq, dtype
    )


@pytest.mark.parametrize(("sequences", "seq"), SHAPES, ids=str)
@pytest.mark.parametrize("name", ["classical", "turned", "llama", "grouped", "narrow"])
def test_what_needs_no_reason_is_the_account_of_the_layers(name, sequences, seq):
    rows = gpt_kept_tensors(SPECS[name], seq, sequences)
    account = SPECS[name].activation_bytes(seq, sequences, flash=False)
    assert sum(row.bytes for row in rows if not row.reason) == account


@pytest.mark.parametrize(
    "changes", [{"gated": True}, {"ffn": 3 * 64}, {"norm": "rms"}, {"positions": 0}, {"vocab": 99}]
)
def test_sabotage_the_list_of_another_model_does_not_fit(changes):
    spec = SPECS["classical"]
    other = replace(spec, **changes)
    assert listed(other, 2, 32) != kept_by_torch(spec, 2, 32, torch.bfloat16)


@each_spec
def test_sabotage_every_row_counts(spec):
    rows = [
        row.bytes for row in gpt_kept_tensors(spec, 16) if row.name != "copies of keys and values"
    ]
    zero = [size for size in rows if size <= 0]
    assert not zero or spec.norm == "rms"


def test_a_width_that_is_none_is_refused():
    with pytest.raises(ValueError, match="element_bytes is 3, but must be 2 or 4"):
        gpt_kept_tensors(SPECS["llama"], 8, element_bytes=3)
