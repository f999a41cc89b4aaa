"""Published peaks of memory, a few rows, cited, and the textbook's equation to stand beside them.

Eight of the 1,027 runs of nanotron's Ultra-Scale Playbook (2025) that finished: sorted by the
SHA-256 of their configurations, the first of each eighth. `benchmarks/memory/memory_account.py`
judges the account on all of them, for whoever has the table.
"""

from dataclasses import dataclass

from dtlib.formulas.units import GiB
from dtlib.layout import Layout
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

    A step has `micro_batches`; the gradients are of 16 bits and added in 32.
    """

    spec: TransformerSpec
    layout: Layout
    micro_batches: int
    bytes: float
    seq: int = 4096

    @property
    def name(self) -> str:
        return self.spec.name

    def account(self, allocator: AllocatorModel | None, recipe: str = "passing") -> float:
        """What `rank_memory` says of the first rank, with an allocator's reserve or without."""
        return rank_memory(
            self.spec, self.layout, seq=self.seq, micro_batches=self.micro_batches, recipe=recipe,
            allocator=allocator,
        )["memory"]  # fmt: skip

    def textbook(self) -> float:
        """What the equation of the texts says."""
        return textbook_bytes(self.spec, self.layout, self.seq, self.micro_batches)


def textbook_bytes(
    spec: TransformerSpec, layout: Layout, seq: int, micro_batches: int | None = None
) -> float:
    """The equation as texts have it, for a rank of a run.

    Equation: 16 bytes per parameter, divided by ZeRO, what the layers of all micro-batches under
    way keep, 6 bytes for each logit; everything divided evenly among the stages.
    Arguments: `spec`; `layout`; `seq` tokens in a sequence; `micro_batches` of a step (as many as
    there are stages). Returns bytes. Raises ValueError for a layer that does not divide.
    Source: Rajbhandari et al. 2020; Korthikanti et al. 2023; Narayanan et al. 2021.

    >>> round(published_peaks[0].textbook() / published_peaks[0].bytes, 2)
    0.67
    """
    tp, pp, b, seq = layout.tp, layout.pp, layout.micro_batch, seq // layout.cp
    policy = layout.recompute if isinstance(layout.recompute, str) else "none"
    kept = spec.activation_bytes(seq, b, tp, layout.sequence_parallel, policy)
    own = rank_params(spec.params(), tp, pp)
    return (
        model_state_bytes(own, layout.zero, layout.dp * layout.cp)
        + pipeline_activation_bytes(kept, pp, micro_batches or pp, 1)
        + logit_bytes(b, seq, spec.vocab, tp)
    )


def _peak(model, dp, tp, pp, micro_batch, micro_batches, zero, stages, gib) -> PublishedPeak:
    layout = Layout(
        dp=dp, tp=tp, pp=pp, micro_batch=micro_batch, zero=zero, stages=stages,
        sequence_parallel=tp > 1,
    )  # fmt: skip
    return PublishedPeak(_MODELS[model], layout, micro_batches, gib * GiB)


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
