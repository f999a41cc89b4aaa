"""The models that the strategies parallelise, what others must have, and how two runs are compared.

Torch is imported when a name that needs it is first asked for.
"""

from dtlib.lazy import on_demand

__all__ = [
    "GPT",
    "Block",
    "DecoderBlock",
    "DecoderModel",
    "Encoder",
    "EncoderSpec",
    "ExpertMixture",
    "HeadedAttention",
    "MixingAttention",
    "WidenedFeedForward",
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
        "protocols": (
            "DecoderBlock",
            "DecoderModel",
            "ExpertMixture",
            "HeadedAttention",
            "MixingAttention",
            "WidenedFeedForward",
        ),
    },
)
