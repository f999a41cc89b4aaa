"""The models that the strategies parallelise, and how two runs of it are compared.

Both need torch, which is imported when one of these names is first asked for.
"""

from dtlib.lazy import on_demand

__all__ = [
    "GPT",
    "Block",
    "Encoder",
    "EncoderSpec",
    "encoder_specs",
    "gradients",
    "next_token_loss",
    "relative_errors",
    "worst",
]

__getattr__ = on_demand(
    __name__,
    {
        "encoder": ("Encoder", "EncoderSpec", "encoder_specs"),
        "equality": ("gradients", "relative_errors", "worst"),
        "gpt": ("GPT", "Block", "next_token_loss"),
    },
)
