"""The model's part of Megatron-Core's arguments: every dimension of a `TransformerSpec`.

Source: as `megatron`.
"""

from dtlib.models.spec import TransformerSpec

LAYERS = "--num-layers"
MODEL_OPTIONS = (
    LAYERS, "--hidden-size", "--num-attention-heads", "--ffn-hidden-size", "--vocab-size",
    "--max-position-embeddings", "--position-embedding-type", "--normalization",
    "--attention-dropout", "--hidden-dropout", "--group-query-attention", "--num-query-groups",
    "--kv-channels", "--swiglu", "--untie-embeddings-and-output-weights", "--disable-bias-linear",
    "--add-qkv-bias", "--num-experts", "--moe-router-topk", "--moe-ffn-hidden-size",
    "--moe-layer-freq", "--moe-shared-expert-intermediate-size", "--multi-latent-attention",
    "--q-lora-rank", "--kv-lora-rank", "--qk-head-dim", "--qk-pos-emb-head-dim", "--v-head-dim",
)  # fmt: skip


def model_options(spec: TransformerSpec, seq: int) -> dict:
    """The options that describe a model to Megatron-Core, which trains it on `seq` tokens.

    >>> model_options(TransformerSpec("tiny", 2, 8, 2, 50, norm="rms"), 16)["--normalization"]
    'RMSNorm'
    """
    positions = spec.positions or max(seq, spec.context or 0)
    found = {
        LAYERS: spec.layers,
        "--hidden-size": spec.hidden,
        "--num-attention-heads": spec.heads,
        "--ffn-hidden-size": spec.ffn,
        "--vocab-size": spec.vocab,
        "--max-position-embeddings": positions,
        "--position-embedding-type": "learned_absolute" if spec.positions else "rope",
        "--normalization": "RMSNorm" if spec.norm == "rms" else "LayerNorm",
    }
    if not spec.dropout:
        found |= {"--attention-dropout": 0.0, "--hidden-dropout": 0.0}
    if spec.kv_heads != spec.heads and not spec.mla:
        found |= {"--group-query-attention": True, "--num-query-groups": spec.kv_heads}
    if spec.head_dim != spec.hidden // spec.heads and not spec.mla:
        found["--kv-channels"] = spec.head_dim
    flags = {
        "--swiglu": spec.gated,
        "--untie-embeddings-and-output-weights": not spec.tied,
        "--disable-bias-linear": not spec.bias,
        "--add-qkv-bias": spec.qkv_bias and not spec.bias,
    }
    return found | {name: True for name, there in flags.items() if there} | _write_mixture(spec)


def _write_mixture(spec: TransformerSpec) -> dict:
    """The options of a mixture of experts, and of latent attention."""
    found = {}
    if moe := spec.moe:
        dense = moe.dense_layers
        found = {
            "--num-experts": moe.experts,
            "--moe-router-topk": moe.active,
            "--moe-ffn-hidden-size": moe.ffn,
            "--moe-layer-freq": f"([0]*{dense}+[1]*{spec.layers - dense})" if dense else 1,
        }
        if moe.shared:
            found["--moe-shared-expert-intermediate-size"] = moe.shared * moe.ffn
    if mla := spec.mla:
        found |= {
            "--multi-latent-attention": True,
            "--q-lora-rank": mla.q_rank,
            "--kv-lora-rank": mla.kv_rank,
            "--qk-head-dim": mla.nope_dim,
            "--qk-pos-emb-head-dim": mla.rope_dim,
            "--v-head-dim": mla.value_dim,
        }
    return found
