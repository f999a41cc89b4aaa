"""What an estimate is asked for: a model, a cluster, a layout, and what is known or assumed."""

from dataclasses import dataclass

from dtlib.formulas.require import is_number, require, require_count
from dtlib.foundations.roofline.pace import PaceModel
from dtlib.layout import Layout
from dtlib.machines.machine import Cluster
from dtlib.models.spec import TransformerSpec


@dataclass(frozen=True)
class TrainingRun:
    """A run on the whole of a cluster; the fields are the arguments of `estimate`.

    Raises ValueError, naming argument, value and rule, for what does not divide, for fields of the
    layout that have no line in an estimate, and for shares outside (0, 1].
    """

    spec: TransformerSpec
    cluster: Cluster
    layout: Layout
    batch: int
    seq: int
    dtype: str
    mfu: float | None
    efficiency: float | None
    overlap: float
    tokens: float | None
    price: float | None
    pace: PaceModel

    def __post_init__(self):
        self.layout.require_plain("estimate", "cp", "ep", "stages", "segment", "offload")
        whole = isinstance(self.layout.recompute, str)
        allowed = "'none', 'selective' or 'full'"
        require(whole, "estimate", "recompute", self.layout.recompute, allowed)
        self.layout.stage_layers(self.spec.layers)
        self.layout.micro_batches(self.batch)
        self._check_shares()

    @property
    def gpu(self):
        return self.cluster.node.gpu

    def kept(self, recompute: str) -> int:
        """Bytes that one micro-batch leaves in all layers, on one of the ranks of a layer."""
        layout = self.layout
        shape = self.seq, layout.micro_batch, layout.tp, layout.sequence_parallel
        return self.spec.activation_bytes(*shape, recompute, layout.flash)

    def link(self, size: int, stride: int) -> tuple[float, float, str]:
        """Latency, bandwidth and name of what joins `size` ranks that are `stride` ranks apart.

        Inside a node it is the node's link. A ring across nodes leaves each node once in a round,
        through the ports of all its members in the node; so do the other groups beside it.
        """
        node = self.cluster.node
        if size * stride <= node.gpus:
            link = node.link
            return link.alpha, link.beta * self.pace.line_fraction, link.name
        members = max(1, node.gpus // stride)
        ports = members * node.nics / node.gpus
        beta = min(node.link.beta, ports * node.nic.beta)
        name = node.nic.name if ports == 1 else f"{ports:g} x {node.nic.name}"
        return node.nic.alpha, beta * self.pace.line_fraction, name

    def _check_shares(self):
        share = is_number(self.overlap) and 0 <= self.overlap <= 1
        require(share, "estimate", "overlap", self.overlap, "a share from 0 to 1")
        if self.mfu is not None and self.efficiency is not None:
            raise ValueError(
                f"estimate: mfu is {self.mfu!r} and efficiency is {self.efficiency!r}, but an MFU "
                "contains what the efficiency leaves out: give at most one of them"
            )
        for name in ("mfu", "efficiency"):
            share = getattr(self, name)
            good = share is None or (is_number(share) and 0 < share <= 1)
            require(good, "estimate", name, share, "a share above 0, to 1")
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
