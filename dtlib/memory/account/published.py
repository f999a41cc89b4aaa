"""Published peaks of memory, a few rows, cited, and the textbook's equation to stand beside them.

Eight of the 1,027 runs of nanotron's Ultra-Scale Playbook (2025) that finished: sorted by the
SHA-256 of their configurations, the first of each eighth. `benchmarks/memory/memory_account.py`
judges the account on all of them, for whoever has the table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dtlib.formulas.units import GiB
from dtlib.memory.account.allocator import AllocatorModel
from dtlib.memory.account.formulas import (
    logit_bytes,
    model_state_bytes,
    pipeline_activation_bytes,
    rank_params,
)
from dtlib.memory.account.rank import rank_memory
from dtlib.models.spec import TransformerSpec

_LLAMA = {"gated": True, "norm": "rms", "bias": False}
_MODELS = {
    "1B": TransformerSpec("1B", 16, 2048, 32, 131072, ffn=8192, tied=True, **_LLAMA),
    "8B": TransformerSpec("8B", 32, 4096, 32, 131072, ffn=14336, **_LLAMA),
}


@dataclass(frozen=True)
class PublishedPeak:
    """A run as its authors describe it, and the peak of its first rank that they measured.

    `options` are those of `rank_memory`. The gradients are of 16 bits and added in 32.
    """

    spec: TransformerSpec
    options: Mapping = field(hash=False)
    bytes: float

    @property
    def name(self) -> str:
        return self.spec.name

    def account(self, allocator: AllocatorModel | None) -> float:
        """What `rank_memory` says of the first rank, with an allocator's reserve or without."""
        return rank_memory(self.spec, recipe="passing", allocator=allocator, **self.options)[
            "memory"
        ]


def textbook_bytes(spec: TransformerSpec, options: Mapping) -> float:
    """The equation as texts have it, for a rank of a run.

    Equation: 16 bytes per parameter, divided by ZeRO, what the layers of all micro-batches under
    way keep, 6 bytes for each logit; everything divided evenly among the stages.
    Arguments: `spec`; `options` of `rank_memory`, of which ZeRO's part is `stage` and `dp` x `cp`.
    Returns bytes. Raises KeyError without `seq`.
    Source: Rajbhandari et al. 2020; Korthikanti et al. 2023; Narayanan et al. 2021.

    >>> run = published_peaks[0]
    >>> round(textbook_bytes(run.spec, run.options) / run.bytes, 2)
    0.67
    """
    get = options.get
    tp, pp, b = get("tp", 1), get("pp", 1), get("micro_batch", 1)
    seq, policy = options["seq"] // get("cp", 1), get("recompute", "none")
    policy = policy if isinstance(policy, str) else "none"
    kept = spec.activation_bytes(seq, b, tp, tp > 1, policy)
    own = rank_params(spec.params(), tp, pp)
    return (
        model_state_bytes(own, get("stage", 0), get("dp", 1) * get("cp", 1))
        + pipeline_activation_bytes(kept, pp, get("micro_batches") or pp, 1)
        + logit_bytes(b, seq, spec.vocab, tp)
    )


def _peak(model, dp, tp, pp, micro_batch, micro_batches, stage, stages, gib) -> PublishedPeak:
    options = {
        "seq": 4096, "dp": dp, "tp": tp, "pp": pp, "micro_batch": micro_batch,
        "micro_batches": micro_batches, "stage": stage, "stages": stages,
    }  # fmt: skip
    return PublishedPeak(_MODELS[model], options, gib * GiB)


published_peaks = (
    _peak("8B", 128, 2, 1, 2, 1, 1, (32,), 62.7),
    _peak("8B", 2, 4, 1, 1, 128, 1, (32,), 36.1),
    _peak("1B", 256, 1, 2, 1, 1, 1, (11, 5), 13.0),
    _peak("8B", 2, 16, 4, 2, 64, 1, (9, 9, 8, 6), 8.3),
    _peak("8B", 16, 16, 1, 1, 16, 0, (32,), 14.3),
    _peak("8B", 16, 8, 2, 4, 4, 1, (18, 14), 19.1),
    _peak("8B", 8, 4, 4, 4, 8, 1, (9, 9, 8, 6), 36.3),
    _peak("1B", 2, 8, 2, 2, 64, 1, (11, 5), 3.7),
)
