"""What an estimate is asked for: a model, a cluster, a layout, and what is known or assumed."""

from dataclasses import dataclass, field, replace

from dtlib.composition.planner.software import Software
from dtlib.formulas.require import is_number, require, require_count
from dtlib.layout import Layout, even_stages
from dtlib.machines.machine import Cluster
from dtlib.models.spec import TransformerSpec


@dataclass(frozen=True)
class TrainingRun:
    """A run on the whole of a cluster; the fields are the arguments of `estimate`.

    Layers that do not divide lie on its stages as evenly as can be, and a vocabulary that does not
    is padded, as Megatron-LM does it: to a multiple of 128 words for each rank of a layer.
    Raises ValueError, naming argument, value and rule, for sequences that do not divide and for
    shares outside (0, 1].
    """

    spec: TransformerSpec
    cluster: Cluster
    layout: Layout
    batch: int
    seq: int
    software: Software
    dtype: str
    mfu: float | None
    efficiency: float | None
    overlap: float | None
    tokens: float | None
    price: float | None
    padded: bool = field(init=False, default=False)

    def __post_init__(self):
        layout, layers, vocab = self.layout, self.spec.layers, self.spec.vocab
        padded = vocab % layout.tp > 0
        object.__setattr__(self, "padded", padded)
        if padded:
            at_once = 128 * layout.tp
            spec = replace(self.spec, vocab=-(-vocab // at_once) * at_once)
            object.__setattr__(self, "spec", spec)
        if layout.stages is None and layers % layout.pp:
            layout |= {"stages": even_stages(layers, layout.pp)}
            object.__setattr__(self, "layout", layout)
        layout.stage_layers(layers)
        self._check_shares()

    @property
    def gpu(self):
        return self.cluster.node.gpu

    @property
    def micro_batches(self) -> int:
        """How many a rank computes in a step."""
        return self.layout.micro_batches(self.batch)

    def _check_shares(self):
        if self.mfu is not None and self.efficiency is not None:
            raise ValueError(
                f"estimate: mfu is {self.mfu!r} and efficiency is {self.efficiency!r}, but an MFU "
                "contains what the efficiency leaves out: give at most one of them"
            )
        for name, least, allowed in (
            ("overlap", 0, "a share from 0 to 1"),
            ("mfu", None, "a share above 0, to 1"),
            ("efficiency", None, "a share above 0, to 1"),
        ):
            share = getattr(self, name)
            good = share is None or (is_number(share) and (0 < share <= 1 or share == least))
            require(good, "estimate", name, share, allowed)
        for name in ("tokens", "price"):
            amount = getattr(self, name)
            good = amount is None or (is_number(amount) and amount > 0)
            require(good, "estimate", name, amount, "a positive number")
        if self.price is not None:
            require(self.tokens is not None, "estimate", "tokens", None, "given, where price is")


def tokens_of(spec: TransformerSpec, seq: int | None) -> int:
    """Tokens in a sequence, by default as many as the model was made for."""
    seq = spec.context if seq is None else seq
    require(seq is not None, "estimate", "seq", seq, "given, as the spec has no context")
    require_count("estimate", seq=seq)
    if spec.positions:
        allowed = f"at most the model's {spec.positions} learned positions"
        require(seq <= spec.positions, "estimate", "seq", seq, allowed)
    return seq


def sequences_of(batch: int | None, batch_tokens: int | None, seq: int) -> int:
    """The sequences of one step, from either way of giving them."""
    if (batch is None) == (batch_tokens is None):
        raise ValueError(
            f"estimate: batch is {batch!r} and batch_tokens is {batch_tokens!r}, "
            "but exactly one of them must be given"
        )
    if batch is None:
        whole = is_number(batch_tokens) and batch_tokens > 0 and batch_tokens % seq == 0
        allowed = f"a positive multiple of seq, which is {seq}"
        require(whole, "estimate", "batch_tokens", batch_tokens, allowed)
        batch = int(batch_tokens) // seq
    require_count("estimate", batch=batch)
    return batch
