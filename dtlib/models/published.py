"""Published models, each with the source of its dimensions; tests compare the counts it printed.

Attention is counted over the whole sequence, also where a model looks at a window only: every
second layer of GPT-3, and Mistral 7B beyond 4,096 tokens.
"""

from dtlib.models.spec import MLA, MoE, TransformerSpec


class _Models(dict):
    def __missing__(self, name):
        raise KeyError(f"no model {name!r} among the published ones; known: {', '.join(self)}")


_LLAMA = {"gated": True, "norm": "rms", "bias": False}
_LLAMA_3 = _LLAMA | {
    "vocab": 128256,
    "kv_heads": 8,
    "context": 131072,
    "source": "config.json and parameter count of meta-llama/Llama-3.1-{}",
    "date": "2024",
}
_MISTRAL = _LLAMA | {"vocab": 32000, "kv_heads": 8}


def _llama_3(size: str, layers: int, hidden: int, heads: int, ffn: int) -> TransformerSpec:
    rest = _LLAMA_3 | {"source": _LLAMA_3["source"].format(size)}
    return TransformerSpec(
        f"llama-3.1-{size.lower()}", layers=layers, hidden=hidden, heads=heads, ffn=ffn, **rest
    )


_MODELS = (
    TransformerSpec(
        "gpt2", layers=12, hidden=768, heads=12, vocab=50257, tied=True, positions=1024,
        source="config.json of openai-community/gpt2; Radford et al. 2019", date="2019",
    ),
    TransformerSpec(
        "gpt-3", layers=96, hidden=12288, heads=96, vocab=50257, tied=True, positions=2048,
        source="Brown et al. 2020, table 2.1; vocabulary and tied tables as in GPT-2", date="2020",
    ),
    TransformerSpec(
        "llama-2-70b", layers=80, hidden=8192, heads=64, vocab=32000, ffn=28672, kv_heads=8,
        context=4096, **_LLAMA,
        source="config.json of meta-llama/Llama-2-70b-hf; Touvron et al. 2023", date="2023",
    ),
    _llama_3("8B", layers=32, hidden=4096, heads=32, ffn=14336),
    _llama_3("70B", layers=80, hidden=8192, heads=64, ffn=28672),
    _llama_3("405B", layers=126, hidden=16384, heads=128, ffn=53248),
    TransformerSpec(
        "mistral-7b", layers=32, hidden=4096, heads=32, ffn=14336, context=8192, **_MISTRAL,
        source="Jiang et al. 2023, table 1; config.json of mistralai/Mistral-7B-v0.1", date="2023",
    ),
    TransformerSpec(
        "mixtral-8x7b", layers=32, hidden=4096, heads=32, context=32768, **_MISTRAL,
        moe=MoE(experts=8, active=2, ffn=14336),
        source="config.json of mistralai/Mixtral-8x7B-v0.1",
        date="2024",
    ),
    TransformerSpec(
        "mixtral-8x22b", layers=56, hidden=6144, heads=48, context=65536, **_MISTRAL,
        moe=MoE(experts=8, active=2, ffn=16384),
        source="config.json of mistral-community/Mixtral-8x22B-v0.1", date="2024",
    ),
    TransformerSpec(
        "deepseek-v3", layers=61, hidden=7168, heads=128, vocab=129280, ffn=18432, context=131072,
        moe=MoE(experts=256, active=8, ffn=2048, shared=1, dense_layers=3),
        mla=MLA(q_rank=1536, kv_rank=512, rope_dim=64, nope_dim=128, value_dim=128), **_LLAMA,
        source="DeepSeek-AI 2024 and its inference/configs/config_671B.json", date="2024",
    ),
)  # fmt: skip

published_models = _Models({model.name: model for model in _MODELS})
