"""A transformer, described once: its parameters, arithmetic and activation memory follow exactly.

The noun is `TransformerSpec`, with `MoE` for a mixture of experts and `MLA` for latent attention.
A spec lists its weights, each with how many copies the model holds, how many of them one token
uses, and with how many a token is multiplied; and it lists the tensors that a layer keeps for the
backward pass. Every count is a sum over one of the two lists.
"""

from dataclasses import KW_ONLY, dataclass

from dtlib.formulas.require import require, require_count, require_divisor
from dtlib.models.activations import kept_tensors, layer_bytes
from dtlib.models.weights import Weight, list_weights
from dtlib.models.work import (  # noqa: F401 (the formulas belong to this address too)
    adam_state_bytes,
    attention_flops_fraction,
    causal_attention_flops_fraction,
    dense_params,
    hardware_flops_utilisation,
    layer_activation_bytes,
    model_flops_utilisation,
    training_flops,
    training_time,
)

RECOMPUTE = ("none", "selective", "full")


@dataclass(frozen=True)
class MoE:
    """A mixture of experts: `active` of `experts` feed-forward blocks of width `ffn` per token.

    `shared` blocks of the same width see every token; the first `dense_layers` layers have one
    ordinary block, of the spec's own width, in place of the mixture.
    Raises ValueError for counts that are not whole, or more active experts than there are.
    """

    experts: int
    active: int
    ffn: int
    shared: int = 0
    dense_layers: int = 0

    def __post_init__(self):
        require_count("MoE", experts=self.experts, active=self.active, ffn=self.ffn)
        require_count("MoE", 0, shared=self.shared, dense_layers=self.dense_layers)
        allowed = f"at most experts, {self.experts}"
        require(self.active <= self.experts, "MoE", "active", self.active, allowed)


@dataclass(frozen=True)
class MLA:
    """Multi-head latent attention: queries, and keys with values, come from two short latents.

    Queries come from a latent of `q_rank` numbers, keys and values from one of `kv_rank`, each
    with an RMS norm. A head's key has `nope_dim` numbers of its own and `rope_dim` rotary ones,
    which all heads share; its value has `value_dim`. Source: DeepSeek-AI 2024.
    Raises ValueError for a count that is not a whole number of at least 1.
    """

    q_rank: int
    kv_rank: int
    rope_dim: int
    nope_dim: int
    value_dim: int

    def __post_init__(self):
        require_count("MLA", **vars(self))


@dataclass(frozen=True)
class TransformerSpec:
    """A decoder-only transformer by its dimensions; what is not given is the classical GPT.

    Arguments: `layers`, `hidden`, `heads` and `vocab`; `ffn`, the inner width of the feed-forward
    block (4 x hidden); `kv_heads`, heads with keys and values of their own (all); `head_dim`
    (hidden / heads); `gated`, a third feed-forward matrix, as in SwiGLU; `tied`, one table for
    input and output; `norm`, "layer" or "rms"; `bias`, in linear layers and layer norms (an RMS
    norm has none), `qkv_bias` where the projections of attention differ; `positions`, rows of a
    learned table (0: rotary); `context`, the longest sequence, for information; `moe`; `mla`;
    `dropout`, which only activation memory sees (default: with layer norms, not with RMS norms,
    as in the published models); `source` and `date`.
    Raises ValueError for dimensions that do not fit each other.
    Source: Vaswani et al. 2017; Radford et al. 2019 for the order of the norms.

    >>> gpt2 = TransformerSpec("gpt2", 12, 768, 12, 50257, tied=True, positions=1024)
    >>> gpt2.params()
    124439808
    >>> gpt2.flops_per_token(seq=1024)
    797815296
    """

    name: str
    layers: int
    hidden: int
    heads: int
    vocab: int
    _: KW_ONLY
    ffn: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    gated: bool = False
    tied: bool = False
    norm: str = "layer"
    bias: bool = True
    qkv_bias: bool | None = None
    positions: int = 0
    context: int | None = None
    moe: MoE | None = None
    mla: MLA | None = None
    dropout: bool | None = None
    source: str = ""
    date: str = ""

    def __post_init__(self):
        self._check()
        defaults = {
            "ffn": 4 * self.hidden,
            "kv_heads": self.heads,
            "head_dim": self.hidden // self.heads,
            "qkv_bias": self.bias,
            "context": self.positions or None,
            "dropout": self.norm == "layer",
        }
        for name, value in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)

    @property
    def key_dim(self) -> int:
        """Numbers in one head's query and key."""
        return self.mla.nope_dim + self.mla.rope_dim if self.mla else self.head_dim

    @property
    def value_dim(self) -> int:
        """Numbers in one head's value."""
        return self.mla.value_dim if self.mla else self.head_dim

    @property
    def expert_layers(self) -> int:
        """Layers whose feed-forward block is a mixture of experts."""
        return self.layers - self.moe.dense_layers if self.moe else 0

    def weights(self) -> tuple[Weight, ...]:
        """Every kind of weight, with its number of copies: what all counts are sums of.

        >>> for w in TransformerSpec("tiny", 2, 8, 2, 50, bias=False, norm="rms").weights()[:3]:
        ...     print(w.part, w.name, w.shape, w.held)
        embedding tokens (50, 8) 1
        attention query (8, 8) 2
        attention key (8, 8) 2
        """
        return tuple(list_weights(self))

    def params(self) -> int:
        """Parameters that the model holds: exactly those of its weights.

        Not counted: modules that predict further tokens (DeepSeek-V3 has one, of 11.5 B), and
        numbers that no gradient changes, such as rotary angles or an expert's routing offset.
        """
        return sum(w.size * w.held for w in self.weights())

    def active_params(self) -> int:
        """Parameters without the experts that one token is not sent to.

        The tables count whole, as Mistral AI counts; DeepSeek-AI leaves out the input table.
        """
        return sum(w.size * w.active for w in self.weights())

    def matmul_params(self) -> int:
        """Parameters that one token is multiplied with: no input table, no norms, no biases.

        The output matrix counts, also where it is tied to the input table.
        """
        return sum(w.size * w.multiplied for w in self.weights())

    def parameter_parts(self) -> dict[str, int]:
        """Parameters of each part of the model; together they are `params()`."""
        parts = dict.fromkeys((w.part for w in self.weights()), 0)
        for w in self.weights():
            parts[w.part] += w.size * w.held
        return parts

    def score_flops(self, seq: int, causal: bool = True) -> int:
        """Forward FLOP per token of the attention scores, in all layers: Q K' and the sum of V.

        Every token meets `seq` keys; a causal mask leaves half of them. Exactly it leaves
        (seq + 1) / 2 on average: the convention, which published formulas and FlashAttention's own
        counts share, drops the half on the diagonal, a share of 1 / seq.
        """
        full = 2 * self.layers * self.heads * seq * (self.key_dim + self.value_dim)
        return full // 2 if causal else full

    def flops_per_token(
        self, seq: int, causal: bool = True, backward: bool = True, recompute: str = "none"
    ) -> int:
        """FLOP per token of a step: 2 for each weight and token, and the attention scores.

        Equation: backward twice the forward pass; `recompute` adds what is done again: "selective"
        the scores, "full" the forward pass of all layers (the output matrix is not repeated).
        Not counted: norms, softmax, activation functions and biases, which multiply no matrices.
        Arguments: `seq` tokens in a sequence; `causal`, whether the mask halves the scores;
        `backward`, False for the forward pass alone. Returns FLOP.
        Raises ValueError for an unknown `recompute`, or one without a backward pass.
        Source: Narayanan et al. 2021; Korthikanti et al. 2023 for "selective".

        >>> gpt = TransformerSpec("tiny", layers=1, hidden=8, heads=2, vocab=10)
        >>> [gpt.flops_per_token(seq=4, recompute=r) for r in ("none", "selective", "full")]
        [5280, 5344, 6880]
        """
        self._check_recompute(recompute, backward)
        head = 2 * sum(w.size * w.multiplied for w in self.weights() if w.part == "head")
        scores = self.score_flops(seq, causal)
        layers = 2 * self.matmul_params() - head + scores
        again = {"none": 0, "selective": scores, "full": layers}[recompute]
        return (layers + head) * (3 if backward else 1) + again

    def activation_bytes(
        self,
        seq: int,
        micro_batch: int = 1,
        tp: int = 1,
        sequence_parallel: bool = False,
        recompute: str = "none",
        flash: bool = True,
    ) -> int:
        """Bytes that one of `tp` ranks keeps of the forward pass of all layers, in 16 bits.

        Equation: the rows of `kept_tensors`, for each layer, each divided among its ranks.
        "selective" keeps no scores; "full" keeps the input of each layer, and while it repeats one
        layer it needs the tensors of that layer on top, which are not counted here. Nor are the
        tables at both ends, of which the logits (vocab numbers for every token) are the largest.
        A mixture of experts is taken as evenly loaded, with every token sent; what a fused kernel
        saves (a SwiGLU need not keep its gate twice) is not taken off.
        Arguments: `seq` tokens in a sequence, `micro_batch` sequences, `tp` ranks that share each
        layer, `sequence_parallel` if they also divide what is between the matrices, `recompute`,
        `flash` for FlashAttention. Returns bytes.
        Raises ValueError for a `recompute` that is unknown and for what `tp` does not divide.
        Source: Korthikanti et al. 2023.

        >>> gpt = TransformerSpec("tiny", layers=1, hidden=8, heads=2, vocab=10)
        >>> gpt.activation_bytes(seq=4, flash=False) == 4 * 8 * (34 + 5 * 2 * 4 // 8)
        True
        """
        self._check_recompute(recompute)
        self._check_division(seq, tp, sequence_parallel)
        layers = {False: self.layers - self.expert_layers, True: self.expert_layers}
        return sum(
            count
            * layer_bytes(
                self,
                kept_tensors(self, seq, experts=experts, flash=flash),
                tokens=seq * micro_batch,
                tp=tp,
                sequence_parallel=sequence_parallel,
                recompute=recompute,
            )
            for experts, count in layers.items()
            if count
        )

    @property
    def _owner(self) -> str:
        return f"TransformerSpec {self.name!r}"

    def _check(self):
        owner, hidden, heads = self._owner, self.hidden, self.heads
        require_count(owner, layers=self.layers, hidden=hidden, heads=heads, vocab=self.vocab)
        require_count(owner, 0, positions=self.positions)
        given = {name: getattr(self, name) for name in ("ffn", "kv_heads", "head_dim", "context")}
        require_count(owner, **{name: v for name, v in given.items() if v is not None})
        require(self.norm in ("layer", "rms"), owner, "norm", self.norm, "'layer' or 'rms'")
        if self.head_dim is None and self.mla is None:
            require_divisor(owner, "heads", heads, "hidden", hidden)
        if self.kv_heads is not None:
            require_divisor(owner, "kv_heads", self.kv_heads, "heads", heads)
        if self.moe:
            dense, allowed = self.moe.dense_layers, f"at most layers, {self.layers}"
            require(dense <= self.layers, owner, "moe.dense_layers", dense, allowed)

    def _check_recompute(self, recompute, backward=True):
        good = recompute in RECOMPUTE and (backward or recompute == "none")
        allowed = f"one of {RECOMPUTE}" if backward else "'none' without a backward pass"
        require(good, self._owner, "recompute", recompute, allowed)

    def _check_division(self, seq, tp, sequence_parallel):
        require_divisor(self._owner, "tp", tp, "heads", self.heads)
        whole = max(tp, self.kv_heads) % min(tp, self.kv_heads) == 0
        allowed = f"a divisor or a multiple of kv_heads, which is {self.kv_heads}"
        require(whole, self._owner, "tp", tp, allowed)
        if self.layers > self.expert_layers:
            require_divisor(self._owner, "tp", tp, "ffn", self.ffn)
        if self.expert_layers:
            require_divisor(self._owner, "tp", tp, "moe.ffn", self.moe.ffn)
        if sequence_parallel:
            require_divisor(self._owner, "tp", tp, "seq", seq)

    def __repr__(self) -> str:
        size = f"{self.layers} layers, {self.hidden} wide, {self.heads} heads"
        active = f", {self.active_params():,} active" if self.moe else ""
        return f"TransformerSpec({self.name}: {size}, {self.params():,} parameters{active})"
