"""What a program allocates besides what the equation needs: its kernels, and what it keeps ready.

The equation of memory knows a model and a layout. A program of a certain version has fused kernels
that keep less, placeholders, and workspaces; all of it can be read in its source, and none of it is
fitted. The noun is `Program`, and `programs` has those that are known.
"""

from dataclasses import dataclass

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import maximum
from dtlib.formulas.require import require_not_negative
from dtlib.formulas.units import MiB

LOGIT_BYTES = 10  # of the product 2, of its copy in 32 bits 4, of the softmax 4
_SOURCE = "Megatron-LM with Transformer Engine 2.11"


@dataclass(frozen=True)
class Program:
    """What the kernels of a program keep, and what lies ready for them.

    `fused` names kept tensors that its kernels make again inside the backward pass, or never need;
    `logit_bytes` are those of one logit with its gradient; `placeholder_bytes` those of a number of
    the tensors that it returns for a weight's gradient after it was added up elsewhere: one that
    stays for each shape of weights in its layers, and one for the head while it is used.
    `workspace` are bytes that a library of products keeps for itself: one, one more for the head,
    and `expert_streams` of them where experts are computed side by side. `all_to_all` says that the
    ranks of a sequence exchange heads, and not keys in a ring.
    Raises ValueError for a number below 0.

    >>> programs["megatron"].logit_bytes
    2
    """

    name: str
    fused: tuple[str, ...] = ()
    logit_bytes: float = LOGIT_BYTES
    placeholder_bytes: float = 0
    workspace: float = 0
    expert_streams: int = 0
    all_to_all: bool = False
    source: str = ""

    def __post_init__(self):
        names = ("logit_bytes", "placeholder_bytes", "workspace", "expert_streams")
        values = {name: getattr(self, name) for name in names}
        require_not_negative(f"Program {self.name!r}", **values)


class _Programs(dict):
    def __missing__(self, name):
        raise KeyError(f"no program {name!r}; known: {', '.join(self)}")


programs = _Programs(
    megatron=Program(
        "megatron",
        fused=(
            "gate after its activation function",  # SwiGLU repeats it
            "rows that the experts return",  # weighted inside the experts
            "order of the rows by expert",
            "token of each row",
        ),
        logit_bytes=2,  # the gradient is written over the logits
        placeholder_bytes=2,
        workspace=32 * MiB,
        expert_streams=4,
        all_to_all=True,
        source=_SOURCE,
    )
)


@formula(r"M_\text{stream}", "B", "counting", "16 bits")
def streams_bytes(streams, seq, micro_batch, hidden, cp, stream_ranks):
    """Some tensors as wide as the stream, of one micro-batch.

    Two bytes for each number of each of them.

    >>> streams_bytes(streams=3, seq=4096, micro_batch=1, hidden=8192, cp=1, stream_ranks=2) / 2**20
    96.0
    """
    return 2 * streams * seq * micro_batch * hidden / (cp * stream_ranks)


@formula(
    r"M_\text{back}",
    "B",
    "counting",
    "16 bits; what a layer kept goes as soon as its gradient is there",
)
def backward_work_bytes(seq, micro_batch, cp, hidden, stream_ranks, inner_bytes, tp, streams):
    """What the backward pass of one layer holds besides what was kept.

    The gradient of the stream, and either those of the inner numbers before their activation
    function, or the gathered tensors that sequence parallelism needs, whichever is more.

    >>> backward_work_bytes(seq=4096, micro_batch=1, cp=1, hidden=8192, stream_ranks=1,
    ...                     inner_bytes=4 * 28672, tp=1, streams=0) / 2**20
    512.0
    """
    return (
        seq * micro_batch / cp
        * (2 * hidden / stream_ranks + maximum(inner_bytes / tp, 2 * streams * hidden))
    )  # fmt: skip
