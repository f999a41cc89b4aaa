"""A model by its `config.json`, as Hugging Face's transformers saves it."""

import json
from collections.abc import Mapping
from pathlib import Path

from dtlib.formulas.require import require
from dtlib.models.spec import MoE, TransformerSpec

_LLAMA = {"norm": "rms", "gated": True, "bias": False}
_FAMILIES = {
    "gpt2": {"norm": "layer", "tied": True},
    "llama": _LLAMA,
    "mistral": _LLAMA,
    "mixtral": _LLAMA,
    "qwen2": _LLAMA | {"qkv_bias": True},
}
_NAMES = {
    "layers": ("num_hidden_layers", "n_layer"), "hidden": ("hidden_size", "n_embd"),
    "heads": ("num_attention_heads", "n_head"), "vocab": ("vocab_size",),
    "ffn": ("intermediate_size", "n_inner"), "kv_heads": ("num_key_value_heads",),
    "head_dim": ("head_dim",), "context": ("max_position_embeddings", "n_positions"),
    "tied": ("tie_word_embeddings",),
}  # fmt: skip
_NEEDED = ("layers", "hidden", "heads", "vocab")


def read_model(path: str | Path) -> TransformerSpec:
    """The model that a config.json describes.

    Arguments: `path` of the file, of the families gpt2, llama, mistral, mixtral and qwen2. Returns
    a TransformerSpec. Raises ValueError, naming the file and the field, for another family, a field
    that is missing and text that is no JSON; OSError where there is no such file.
    Source: the configuration classes of transformers.
    """
    text = Path(path).read_text(encoding="utf-8")
    try:
        config = json.loads(text)
    except json.JSONDecodeError as wrong:
        raise ValueError(f"{path}: no JSON, {wrong}") from None
    require(isinstance(config, dict), str(path), "the file", text[:20], "a config.json, an object")
    family, allowed = config.get("model_type"), f"one of {', '.join(_FAMILIES)}"
    require(family in _FAMILIES, str(path), "model_type", family, allowed)
    found = {name: _first(config, keys) for name, keys in _NAMES.items()}
    for name in _NEEDED:
        allowed = f"given, a size, as {' or '.join(_NAMES[name])}"
        require(found[name] is not None, str(path), name, None, allowed)
    fields = {name: value for name, value in found.items() if value is not None}
    if family == "gpt2":
        fields["positions"] = found["context"] or 0
    if family == "mixtral":
        of = {"experts": "num_local_experts", "active": "num_experts_per_tok"}
        fields["moe"] = MoE(
            **{name: config.get(key) for name, key in of.items()}, ffn=fields["ffn"]
        )
    return TransformerSpec(Path(path).name, **_FAMILIES[family] | fields, source=str(path))


def _first(config: Mapping, keys: tuple[str, ...]):
    return next((config[key] for key in keys if config.get(key) is not None), None)
