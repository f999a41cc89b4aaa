r"""An estimate of a training run from its description: memory, time and cost, before anything runs.

    >>> from dtlib.foundations import Cluster, catalog, format_quantity, published_models
    >>> run = estimate(published_models["llama-3.1-8b"], Cluster(catalog["dgx-h100"], 8),
    ...                batch=512, seq=8192, zero=3, recompute="full")
    >>> run.fits, format_quantity(run["memory"], "B"), format_quantity(run["step"], "s")
    (True, '13 GB', '8.8 s')

An `Estimate` is a `Sheet`: each line is a formula of the library, fed by quantities and by lines
above it. So it can be printed, opened, differentiated and doubted. `LEAVES_OUT` says what it lacks.
"""

from dataclasses import dataclass

from dtlib.collectives.cost.ring_and_tree import ring_all_reduce_time
from dtlib.formulas.require import (
    is_number,
    require,
    require_count,
    require_divisor,
    require_type,
)
from dtlib.formulas.sheet import Given, Line, Sheet, line, total
from dtlib.formulas.sheet_table import sheet_tables
from dtlib.formulas.table import Tables
from dtlib.foundations.cost.steps import (
    all_steps_cost,
    all_steps_time,
    step_flops,
    tokens_per_second,
)
from dtlib.foundations.roofline.pace import (
    PaceModel,
    arithmetic_time,
    gap_time,
    products_time,
    stage_time,
    streaming_time,
)
from dtlib.machines.machine import Cluster
from dtlib.memory import (
    gathered_bytes,
    logit_bytes,
    model_state_bytes,
    pipeline_activation_bytes,
    rank_params,
    weight_bytes,
)
from dtlib.models.spec import TransformerSpec
from dtlib.models.work import model_flops_utilisation, training_flops
from dtlib.parallelism import (
    activation_message_bytes,
    exposed_time,
    last_backward_time,
    micro_batch_count,
    pipeline_bubble_time,
    pipeline_send_time,
    sharded_exchange_time,
    tensor_parallel_time,
)

LEAVES_OUT = (
    "the optimizer's own step, loading data, evaluation, writing checkpoints and failures",
    "buffers of the communication library, fragmentation and the driver's share of memory",
    "experts that are loaded unevenly, and their all-to-all",
    "uneven stages: the tables at both ends are spread over all of them",
    "networks with less than full bandwidth between any two nodes",
)
_SHAPE = {
    *("params", "matmul_params", "layers", "rank_layers", "hidden", "vocab", "seq", "micro_batch"),
    *("P", "tp", "p", "v", "dp", "stage", "reductions", "passes"),
    *("element_bytes", "weight_width"),
}
_COUNTED, _PACE = "counted by the spec", PaceModel()


@dataclass(frozen=True)
class _Plan:
    """A run's description after every argument was checked; see `estimate` for the fields."""

    spec: TransformerSpec
    cluster: Cluster
    seq: int
    batch: int
    tp: int
    pp: int
    dp: int
    micro_batch: int
    interleave: int
    zero: int
    recompute: str
    sequence_parallel: bool
    flash: bool
    dtype: str
    mfu: float | None
    efficiency: float | None
    overlap: float
    tokens: float | None
    price: float | None
    pace: PaceModel

    @property
    def gpu(self):
        return self.cluster.node.gpu

    def kept(self, recompute: str) -> int:
        """Bytes that one micro-batch leaves in all layers, on one of the ranks of a layer."""
        shape = self.seq, self.micro_batch, self.tp, self.sequence_parallel
        return self.spec.activation_bytes(*shape, recompute, self.flash)

    def link(self, size: int, stride: int) -> tuple[float, float, str]:
        """Latency, bandwidth and name of what joins `size` ranks that are `stride` ranks apart.

        Inside a node it is the node's link. A ring across nodes leaves each node once in a round,
        through the ports of all its members in the node; so do the other groups beside it.
        """
        node = self.cluster.node
        if size * stride <= node.gpus:
            link = node.link
            return link.alpha, link.beta * self.pace.line_share, link.name
        members = max(1, node.gpus // stride)
        ports = members * node.nics / node.gpus
        beta = min(node.link.beta, ports * node.nic.beta)
        name = node.nic.name if ports == 1 else f"{ports:g} x {node.nic.name}"
        return node.nic.alpha, beta * self.pace.line_share, name


class Estimate(Sheet):
    """A `Sheet` of a training run. Its lines, as far as the run has them, by name:

    `memory` of one rank (`state`, `activations`, `logits`, ...), `step` (`computing`, `tensor`,
    `bubble`, `sends`, `exposed`), `speed`, `mfu` unless it was given, `run` and `cost`.
    """

    def __init__(self, plan: _Plan, given, lines, groups):
        super().__init__(given, lines)
        self.plan, self.groups = plan, groups

    @property
    def fits(self) -> bool:
        """Whether a rank's memory holds what is counted."""
        return self["memory"] <= self["hbm"]

    def sensitivity(self, output: str = "step") -> dict[str, float]:
        """How a line grows with what is measured or assumed: d log(line) / d log(input).

        Left out are inputs that do not matter, and the shape of the model and of the cluster where
        counts depend on it (products, kept activations): for another shape, make another estimate.
        Argument: `output`, the name of a line. Returns exponents, the largest first.
        Raises KeyError for a name that is no line.
        """
        if output not in self.lines:
            raise KeyError(f"no line {output!r}; there are {', '.join(self.lines)}")
        fixed = () if self.plan.mfu is not None else _SHAPE
        found = self.exponents(output).items()
        return {name: x for name, x in found if abs(x) > 5e-4 and name not in fixed}

    def tables(self) -> Tables:
        """One table for memory, one for the step, one for the run."""
        return sheet_tables(self, self.groups)

    def _heading(self) -> str:
        plan = self.plan
        split = f"tp {plan.tp}, pp {plan.pp}, dp {plan.dp}, ZeRO stage {plan.zero}"
        batch = f"{plan.batch:,} sequences of {plan.seq:,} tokens, {plan.micro_batch} at a time"
        return f"{plan.spec.name} on {plan.cluster.ranks:,} x {plan.gpu.name}: {split}; {batch}"

    def __repr__(self) -> str:
        return f"{self._heading()}\n{self.tables()!r}"

    def _repr_markdown_(self) -> str:
        return f"{self._heading()}\n\n{self.tables()._repr_markdown_()}"


def estimate(
    spec: TransformerSpec,
    cluster: Cluster,
    *,
    batch: int | None = None,
    batch_tokens: int | None = None,
    seq: int | None = None,
    tp: int = 1,
    pp: int = 1,
    dp: int | None = None,
    micro_batch: int = 1,
    interleave: int = 1,
    zero: int = 0,
    recompute: str = "none",
    sequence_parallel: bool = False,
    flash: bool = True,
    dtype: str = "bf16",
    mfu: float | None = None,
    efficiency: float | None = None,
    overlap: float = 0.5,
    tokens: float | None = None,
    price: float | None = None,
    pace: PaceModel = _PACE,
) -> Estimate:
    """Memory, step time, speed and cost of a training run, each with its terms.

    Equation: a step is the arithmetic of a rank, what tensor parallelism sends between, the bubble
    of the pipeline, its messages, and what of the gradients' exchange no arithmetic hides.
    Arguments: `spec` and `cluster`; `batch` sequences of one step of all ranks, or `batch_tokens`;
    `seq` tokens in a sequence (the spec's context); `tp` ranks share a layer, `pp` stages of
    `interleave` parts each, `dp` replicas (what remains of the cluster); `micro_batch` sequences
    at a time; `zero` stage 0 to 3; `recompute`, `sequence_parallel` and `flash` as for
    `TransformerSpec.activation_bytes`; `dtype` of the products.
    Three ways to the arithmetic: `mfu`, measured or assumed, in which everything else is contained
    already; `efficiency`, the share of the peak while arithmetic runs; or neither, and the time is
    built of products, attention, streams and gaps by the constants of `pace`.
    `overlap` is the share of the gradients' exchange that hides where there is arithmetic to hide
    under; `tokens` of the run and `price` (USD/s of one GPU) give its duration and cost.
    Returns an `Estimate`. Raises ValueError, naming argument, value and rule, for what does not
    divide and for shares outside (0, 1], TypeError for a `spec`, `cluster` or `pace` that is none.
    Source: the formulas of its lines.
    """
    require_type("estimate", TransformerSpec, spec=spec)
    require_type("estimate", Cluster, cluster=cluster)
    require_type("estimate", PaceModel, pace=pace)
    seq = _sequence(spec, seq)
    batch, dp = _sequences(batch, batch_tokens, seq), _replicas(cluster, tp, pp, dp)
    plan = _Plan(
        spec, cluster, seq, batch, tp, pp, dp, micro_batch, interleave, zero, recompute,
        sequence_parallel, flash, dtype, mfu, efficiency, overlap, tokens, price, pace,
    )  # fmt: skip
    _check(plan)
    given = _given(plan)
    memory, work = _memory(plan, given), _work(plan)
    step, run = _step(plan, given), _run(plan, given)
    groups = {
        "memory of one rank": list(memory),
        "one step": [*work, *step],
        "the run": list(run),
    }
    return Estimate(plan, given, memory | work | step | run, groups)


def _given(plan: _Plan) -> dict[str, Given | float]:
    spec, gpu = plan.spec, plan.gpu
    return {
        "params": Given(spec.params(), "", "parameters", _COUNTED),
        "matmul_params": Given(spec.matmul_params(), "", "parameters that multiply", _COUNTED),
        "layers": spec.layers,
        "rank_layers": Given(spec.layers / plan.pp, "", "layers of one rank"),
        "hidden": spec.hidden,
        "vocab": spec.vocab,
        "seq": plan.seq,
        "batch_tokens": plan.batch * plan.seq,
        "micro_batch": plan.micro_batch,
        "P": plan.cluster.ranks,
        "tp": plan.tp,
        "p": plan.pp,
        "v": plan.interleave,
        "dp": plan.dp,
        "stage": plan.zero,
        "hbm": Given(gpu.hbm_bytes, "B", f"memory of one {gpu.name}", gpu.source),
        "peak": Given(gpu.peak(plan.dtype), "FLOP/s", f"peak of one {gpu.name}", gpu.source),
        "kept": Given(plan.kept(plan.recompute), "B", "activations of one micro-batch", _COUNTED),
        "attention_flops": Given(
            3 * spec.score_flops(plan.seq), "FLOP", "attention of one token", _COUNTED
        ),
    }


def _memory(plan: _Plan, given: dict) -> dict[str, Line]:
    lines = {
        "rank_params": line(rank_params, label="parameters of one rank"),
        "m": line(micro_batch_count, label="micro-batches of one rank"),
        "state": line(
            model_state_bytes, label="weights, gradients, optimizer", params="rank_params"
        ),
        "activations": line(pipeline_activation_bytes, kept_bytes="kept"),
        "logits": line(logit_bytes),
    }
    parts = ["state", "activations", "logits"]
    if plan.recompute == "full":
        one_layer = plan.kept("none") / plan.spec.layers
        given["at_work"] = Given(one_layer, "B", "the layer that is repeated", _COUNTED)
        parts.append("at_work")
    if plan.zero == 3:
        given["weight_width"] = Given(2, "B", "bytes of one weight")
        lines["gathered"] = line(
            gathered_bytes, label="gathered layers",
            params="rank_params", layers="rank_layers", element_bytes="weight_width",
        )  # fmt: skip
        parts.append("gathered")
    return lines | {"memory": total(*parts, within="hbm")}


def _work(plan: _Plan) -> dict[str, Line]:
    return {
        "matrix_work": line(
            training_flops, label="work of the matrices",
            params="matmul_params", tokens="batch_tokens",
        ),
        "attention_work": line(
            step_flops, label="work of the attention scores", token_flops="attention_flops"
        ),
        "work": total("matrix_work", "attention_work", label="work of the model"),
    }  # fmt: skip


def _step(plan: _Plan, given: dict) -> dict[str, Line]:
    if plan.mfu is not None:
        given["mfu"] = Given(plan.mfu, "", "MFU", "assumed")
        label = "step, all that an MFU contains"
        return {"step": line(arithmetic_time, label=label, flops="work", peak_fraction="mfu")}
    lines = _computing(plan, given)
    busy, parts = "computing", ["computing"]
    if plan.tp > 1:
        lines |= _tensor(plan, given)
        lines["busy"] = total("computing", "tensor", label="computing and tensor parallelism")
        busy, parts = "busy", [*parts, "tensor"]
    if plan.pp > 1:
        lines |= _pipeline(plan, given, busy)
        parts += ["bubble", "sends"]
    if plan.dp > 1:
        lines |= _exchange(plan, given)
        parts.append("exposed")
    lines["step"] = total(*parts)
    lines["mfu"] = line(model_flops_utilisation, label="MFU", flops="work", time="step")
    return lines


def _computing(plan: _Plan, given: dict) -> dict[str, Line]:
    spec, pace = plan.spec, plan.pace
    per_token = spec.flops_per_token(plan.seq, recompute=plan.recompute)
    if plan.efficiency is not None:
        given["done_flops"] = Given(per_token, "FLOP", "work for one token, repeats included")
        given["efficiency"] = Given(plan.efficiency, "", "share of the peak", "assumed")
        return {
            "done": line(step_flops, label="work, repeats included", token_flops="done_flops"),
            "computing": line(arithmetic_time, flops="done", peak_fraction="efficiency"),
        }
    forward, backward = products_time(
        spec, plan.seq * plan.micro_batch, plan.gpu, tp=plan.tp, dtype=plan.dtype
    )
    again, passes = (forward, 4) if plan.recompute == "full" else (0.0, 3)
    given |= {
        "products_micro": Given(
            forward + backward + again, "s", "products of one micro-batch", "gemm_time"
        ),
        "attention_fraction": Given(pace.attention_fraction, "", "", "fitted"),
        "touches": Given(pace.touches * passes / 3, "", "", "fitted"),
        "kept_once": Given(plan.kept("none"), "B", "bytes that stream", _COUNTED),
        "bandwidth": Given(plan.gpu.hbm_bandwidth, "B/s", "", plan.gpu.source),
        "bandwidth_fraction": Given(0.86, "", "", "fitted to products"),
        "idle": Given(pace.idle, "s", "", "fitted"),
        "passes": passes,
    }
    lines, scored = {"products": line(stage_time, micro_time="products_micro")}, "attention_work"
    if plan.recompute != "none":
        scores = 4 * spec.score_flops(plan.seq)
        given["scores"] = Given(scores, "FLOP", "attention of one token, and again", _COUNTED)
        scored, label = "attention_done", "work of the scores, and again"
        lines[scored] = line(step_flops, label=label, token_flops="scores")
    return lines | {
        "attention": line(arithmetic_time, flops=scored, peak_fraction="attention_fraction"),
        "streams": line(streaming_time, kept_bytes="kept_once"),
        "gaps": line(gap_time),
        "computing": total("products", "attention", "streams", "gaps"),
    }


def _link(given: dict, plan: _Plan, prefix: str, size: int, stride: int) -> dict[str, str]:
    """Gives a link's latency and bandwidth under names of its own; returns how to feed them."""
    alpha, beta, name = plan.link(size, stride)
    share = f"{plan.pace.line_share:.0%} of the line rate"
    given[f"{prefix}_alpha"] = Given(alpha, "s", f"latency of {name}", "assumed")
    given[f"{prefix}_beta"] = Given(beta, "B/s", f"bandwidth of {name}", share)
    return {"alpha": f"{prefix}_alpha", "beta": f"{prefix}_beta"}


def _tensor(plan: _Plan, given: dict) -> dict[str, Line]:
    given["reductions"] = 6 if plan.recompute == "full" else 4
    feeds = _link(given, plan, "tp", plan.tp, 1)
    return {
        "layer_output": line(activation_message_bytes, label="one layer's output"),
        "tensor": line(tensor_parallel_time, label="tensor parallelism", n="layer_output", **feeds),
    }


def _pipeline(plan: _Plan, given: dict, busy: str) -> dict[str, Line]:
    feeds = _link(given, plan, "pp", plan.pp, plan.tp * plan.dp)
    return {
        "bubble": line(pipeline_bubble_time, computing=busy),
        "stage_output": line(activation_message_bytes, label="one stage's output"),
        "sends": line(pipeline_send_time, label="messages of the pipeline", n="stage_output",
                      **feeds),
    }  # fmt: skip


def _exchange(plan: _Plan, given: dict) -> dict[str, Line]:
    given["element_bytes"] = Given(2, "B", "bytes of one gradient")
    given["overlap_share"] = Given(plan.overlap, "", "", "assumed")
    feeds = _link(given, plan, "dp", plan.dp, plan.tp)
    lines = {"gradients": line(weight_bytes, params="rank_params")}
    if plan.zero == 3:
        exchange = line(sharded_exchange_time, n="gradients", layers="rank_layers", **feeds)
        hiding = "computing"
    else:
        exchange = line(ring_all_reduce_time, n="gradients", P="dp", **feeds)
        lines["last_backward"] = line(last_backward_time)
        hiding = "last_backward"
    lines["exchange"] = exchange
    lines["exposed"] = line(
        exposed_time, label="exchange that is not hidden", comm="exchange", hiding=hiding
    )
    return lines


def _run(plan: _Plan, given: dict) -> dict[str, Line]:
    lines = {"speed": line(tokens_per_second)}
    if plan.tokens is not None:
        given["tokens"] = plan.tokens
        lines["run"] = line(all_steps_time, label="the whole run")
        if plan.price is not None:
            given["price"] = plan.price
            lines["cost"] = line(all_steps_cost)
    return lines


def _sequence(spec: TransformerSpec, seq: int | None) -> int:
    seq = spec.context if seq is None else seq
    require(seq is not None, "estimate", "seq", seq, "given, as the spec has no context")
    require_count("estimate", seq=seq)
    if spec.positions:
        allowed = f"at most the model's {spec.positions} learned positions"
        require(seq <= spec.positions, "estimate", "seq", seq, allowed)
    return seq


def _sequences(batch: int | None, batch_tokens: int | None, seq: int) -> int:
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


def _replicas(cluster: Cluster, tp: int, pp: int, dp: int | None) -> int:
    require_count("estimate", tp=tp, pp=pp)
    require_divisor("estimate", "tp * pp", tp * pp, "the cluster's ranks", cluster.ranks)
    rest = cluster.ranks // (tp * pp)
    allowed = f"ranks / (tp * pp) = {cluster.ranks} / {tp * pp} = {rest}"
    require(dp is None or dp == rest, "estimate", "dp", dp, allowed)
    return rest


def _check(plan: _Plan) -> None:
    """Raises ValueError for what does not divide and for shares that are none."""
    require_count("estimate", micro_batch=plan.micro_batch, interleave=plan.interleave)
    require_type("estimate", bool, sequence_parallel=plan.sequence_parallel, flash=plan.flash)
    alone = "1 where pp is 1: one stage has nobody to take turns with"
    require(plan.pp > 1 or plan.interleave == 1, "estimate", "interleave", plan.interleave, alone)
    require_divisor("estimate", "pp", plan.pp, "the model's layers", plan.spec.layers)
    stages = plan.pp * plan.interleave
    require_divisor("estimate", "pp * interleave", stages, "the model's layers", plan.spec.layers)
    both = f"dp * micro_batch, which is {plan.dp * plan.micro_batch}"
    whole = plan.batch % (plan.dp * plan.micro_batch) == 0
    require(whole, "estimate", "batch", plan.batch, f"a multiple of {both}")
    stage = is_number(plan.zero) and plan.zero in (0, 1, 2, 3)
    require(stage, "estimate", "zero", plan.zero, "a stage: 0, 1, 2 or 3")
    share = is_number(plan.overlap) and 0 <= plan.overlap <= 1
    require(share, "estimate", "overlap", plan.overlap, "a share from 0 to 1")
    if plan.mfu is not None and plan.efficiency is not None:
        raise ValueError(
            f"estimate: mfu is {plan.mfu!r} and efficiency is {plan.efficiency!r}, but an MFU "
            "contains what the efficiency leaves out: give at most one of them"
        )
    for name in ("mfu", "efficiency"):
        share = getattr(plan, name)
        good = share is None or (is_number(share) and 0 < share <= 1)
        require(good, "estimate", name, share, "a share above 0, to 1")
    for name in ("tokens", "price"):
        amount = getattr(plan, name)
        good = amount is None or (is_number(amount) and amount > 0)
        require(good, "estimate", name, amount, "a positive number")
    if plan.price is not None:
        require(plan.tokens is not None, "estimate", "tokens", None, "given, where price is")
