"""What is trained: models as numbers, and one small model for real.

`spec` is a transformer's shape, with its `weights`, `activations` and `work`; `published`, models
whose sizes are known. `gpt` is the model that every strategy divides; `protocols`, what another
must have; `equality`, how two runs are compared.
"""

from typing import TYPE_CHECKING

from dtlib.lazy import face

# fmt: off
if TYPE_CHECKING:
    from dtlib.models.gpt import GPT, Block, next_token_loss
    from dtlib.models.protocols import (
        DecoderModel, DecoderBlock, HeadedAttention, WidenedFeedForward, MixingAttention,
        ExpertMixture,
    )
    from dtlib.models.equality import gradients, relative_errors, worst
# fmt: on

__getattr__, __dir__, __all__ = face(__name__)
