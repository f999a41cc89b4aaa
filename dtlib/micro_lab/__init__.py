"""The micro-lab: one training step, five ways, with logs that hold claims to account.

`sentiment` and `encoder`, something to learn and who learns it; `pretrained`, the real thing;
`step_log`; `engines`; `runs`; `claims`.
"""

from typing import TYPE_CHECKING

from dtlib.lazy import face

# fmt: off
if TYPE_CHECKING:
    from dtlib.micro_lab.encoder import EncoderSpec, encoder_specs, Encoder
# fmt: on

__getattr__, __dir__, __all__ = face(__name__)
