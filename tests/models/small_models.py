"""One spec for each thing that a GPT may have, and a model with tokens in 64 bits."""

import torch

from dtlib.foundations import TransformerSpec
from dtlib.models import GPT
from dtlib.models.spec import MoE

SIZE = {"layers": 2, "hidden": 16, "heads": 4, "vocab": 29}
SPECS = [
    TransformerSpec("classical", **SIZE, positions=12),
    TransformerSpec("tied", **SIZE, positions=12, tied=True),
    TransformerSpec("llama", **SIZE, kv_heads=2, gated=True, norm="rms", bias=False, ffn=24),
    TransformerSpec("query bias", **SIZE, kv_heads=1, norm="rms", bias=False, qkv_bias=True),
    TransformerSpec("wide heads", **SIZE, head_dim=6, bias=False, tied=True),
    TransformerSpec("experts", **SIZE, gated=True, norm="rms", bias=False, moe=MoE(4, 2, 12)),
    TransformerSpec("one expert", **SIZE, positions=12, moe=MoE(3, 1, 12, dense_layers=1)),
    TransformerSpec("shared expert", **SIZE, norm="rms", moe=MoE(4, 2, 12, shared=1)),
]
each_spec = {"argvalues": SPECS, "ids": [spec.name for spec in SPECS]}


def small_model(spec, seed=0):
    return GPT(spec, seed=seed, dtype=torch.float64)


def some_tokens(sequences=2, tokens=8, vocab=29, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(vocab, (sequences, tokens), generator=generator)
