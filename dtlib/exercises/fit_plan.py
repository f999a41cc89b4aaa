"""Plans of the lab 'Fit a 7B model into a budget': what one needs, what it costs, which are best.

The nouns: a `Job` is what is to be trained and on what machines; a `Plan` says how. The lab's
reader writes the functions that judge a plan; those here judge the reader.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from dtlib.formulas.require import require, require_count
from dtlib.foundations import GB, GiB, TransformerSpec, catalog
from dtlib.memory.account.allocator import output_bytes
from dtlib.memory.account.gpt import gpt_kept_tensors
from dtlib.memory.account.layers import activation_bytes
from dtlib.memory.account.state import (
    held_gradient_bytes,
    held_optimizer_bytes,
    held_weight_bytes,
)
from dtlib.memory.zero.cost import zero_sent_bytes

AWAY = ("optimizer", "activations")
USABLE = 0.9


@dataclass(frozen=True)
class Plan:
    """How a job is trained: on how many GPUs, with what divided, repeated and sent away.

    `gpus` are replicas, `stage` is ZeRO's; a GPU computes `micro_batch` sequences at a time.
    `recompute` keeps only the input of each layer. `offload` names what waits in the host's
    memory: "optimizer", "activations", both or nothing.
    Raises ValueError, naming argument, value and rule, for what cannot be.

    >>> Plan(gpus=8, stage=3, offload=["activations"])
    Plan(gpus=8, stage=3, micro_batch=1, recompute=False, offload=('activations',))
    """

    gpus: int
    stage: int = 0
    micro_batch: int = 1
    recompute: bool = False
    offload: tuple[str, ...] = ()

    def __post_init__(self):
        require_count("Plan", gpus=self.gpus, micro_batch=self.micro_batch)
        require(self.stage in range(4), "Plan", "stage", self.stage, "0, 1, 2 or 3")
        good = isinstance(self.recompute, bool)
        require(good, "Plan", "recompute", self.recompute, "True or False")
        away = self.offload
        good = not isinstance(away, str) and set(away) <= set(AWAY)
        require(good, "Plan", "offload", away, f"a list of names out of {', '.join(AWAY)}")
        object.__setattr__(self, "offload", tuple(name for name in AWAY if name in away))


@dataclass(frozen=True)
class Job:
    """What is trained, and on what. Bytes and FLOP of activations are those of one sequence.

    `weight_bytes`, `gradient_bytes` and `optimizer_bytes` are for one parameter; `layer_params` is
    one layer's share of `params`. A layer keeps `kept_bytes` for its backward pass, of which
    `input_bytes` are its input; the head keeps `head_bytes`. `batch` sequences make a step.
    `rate` FLOP/s are reached; `network` and `link` are bytes/s of a GPU, in each direction: to the
    other GPUs, and to the host.
    """

    name: str
    spec: TransformerSpec
    seq: int
    batch: int
    weight_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    kept_bytes: float
    input_bytes: float
    head_bytes: float
    rate: float
    network: float
    link: float

    @cached_property
    def params(self) -> int:
        return self.spec.params()

    @cached_property
    def layers(self) -> int:
        return self.spec.layers

    @cached_property
    def layer_params(self) -> int:
        parts = self.spec.parameter_parts()
        return (parts["attention"] + parts["feed-forward"]) // self.layers + 2 * self.spec.hidden

    @cached_property
    def forward_flops(self) -> float:
        return self.seq * self.spec.flops_per_token(self.seq, backward=False)

    @cached_property
    def backward_flops(self) -> float:
        return self.seq * self.spec.flops_per_token(self.seq) - self.forward_flops

    @cached_property
    def repeated_flops(self) -> float:
        """The forward pass of all layers, without the head."""
        again = self.seq * self.spec.flops_per_token(self.seq, recompute="full")
        return again - self.forward_flops - self.backward_flops


def seven_b(seq: int = 4096, batch: int = 64, link: float = 32 * GB) -> Job:
    """A model of Llama 2's shape on A100s that reach half of their peak."""
    spec = TransformerSpec(
        "7B", layers=32, hidden=4096, heads=32, vocab=32000, ffn=11008, gated=True, norm="rms",
        bias=False, dropout=False, context=4096,
    )  # fmt: skip
    head = output_bytes(
        micro_batch=1, seq=seq, vocab=spec.vocab, hidden=spec.hidden, tp=1, cp=1, stream_ranks=1,
        element_bytes=10,
    )  # fmt: skip
    gpu = catalog["a100-sxm"]
    return Job(
        "7B", spec, seq, batch, 2, 2, 12, activation_bytes(spec, seq) / spec.layers,
        activation_bytes(spec, seq, recompute="full") / spec.layers, head,
        0.5 * gpu.peak("bf16"), gpu.link.beta, link,
    )  # fmt: skip


def small(layers: int = 6, batch: int = 8) -> Job:
    """The same in small, in 32 bits, as `dtlib.models.GPT` keeps it on a processor."""
    spec = TransformerSpec(
        "small", layers=layers, hidden=64, heads=4, vocab=96, gated=True, norm="rms", bias=False,
        dropout=False,
    )  # fmt: skip
    seq, ends = 32, "no layer: an end of the model"
    rows = gpt_kept_tensors(spec, seq, element_bytes=4)
    head = sum(row.bytes for row in rows if row.reason == ends)
    kept = (sum(row.bytes for row in rows) - head) / layers
    return Job(
        "small", spec, seq, batch, 4, 4, 8, kept, 4 * seq * spec.hidden, head,
        rate=1e9, network=1 * GB, link=1 * GB,
    )  # fmt: skip


def micro_batches(plan: Plan, job: Job) -> int:
    """Of one GPU in one step. Raises ValueError where they do not divide the batch."""
    at_once = plan.gpus * plan.micro_batch
    allowed = f"a divisor of the batch, {job.batch} sequences"
    require(job.batch % at_once == 0, "Plan", "gpus x micro_batch", at_once, allowed)
    return job.batch // at_once


def state_terms(plan: Plan, job: Job) -> dict[str, float]:
    """Bytes of weights, gradients and optimizer on one GPU, before anything is sent away."""
    share = {"stage": plan.stage, "dp": plan.gpus}
    return {
        "weights": held_weight_bytes(job.params, job.weight_bytes, **share),
        "gradients": held_gradient_bytes(job.params, job.gradient_bytes, **share),
        "optimizer": held_optimizer_bytes(job.params, job.optimizer_bytes, **share),
    }


def memory_terms(plan: Plan, job: Job) -> dict[str, float]:
    """Every term of the equation, in bytes of one GPU."""
    terms = state_terms(plan, job)
    kept = plan.micro_batch * (job.input_bytes if plan.recompute else job.kept_bytes)
    terms["gathered"] = 2 * job.weight_bytes * job.layer_params * (plan.stage == 3)
    terms["activations"] = kept * (2 if "activations" in plan.offload else job.layers)
    again = plan.micro_batch * (job.kept_bytes - job.input_bytes)
    terms["again"] = again if plan.recompute else 0.0
    terms["head"] = plan.micro_batch * job.head_bytes
    terms["window"] = 0.0
    if "optimizer" in plan.offload:
        terms["optimizer"] = 0.0
        shards = plan.gpus if plan.stage else 1
        terms["window"] = 3 * job.optimizer_bytes * job.layer_params / shards
    return terms


def living_terms() -> dict[str, tuple[str, ...]]:
    """The terms that live at one time, by the moment."""
    always = "weights", "gradients", "optimizer"
    passes = *always, "gathered", "activations"
    return {
        "head": (*passes, "head"),
        "again": (*passes, "again"),
        "step": (*always, "window"),
    }


def memory_moments(plan: Plan, job: Job) -> dict[str, float]:
    """Bytes of one GPU at the model's end, while a layer is repeated, and in the step."""
    terms = memory_terms(plan, job)
    return {moment: sum(terms[name] for name in names) for moment, names in living_terms().items()}


def peak(plan: Plan, job: Job) -> float:
    """The fullest of the moments."""
    return max(memory_moments(plan, job).values())


def time_terms(plan: Plan, job: Job) -> dict[str, float]:
    """Seconds of one step, by cause; together they are the step."""
    m = micro_batches(plan, job)
    forward, backward, again = (
        plan.micro_batch * flops / job.rate
        for flops in (job.forward_flops, job.backward_flops, job.repeated_flops)
    )
    again = again if plan.recompute else 0.0
    waiting = state = 0.0
    if "activations" in plan.offload:
        kept = job.input_bytes if plan.recompute else job.kept_bytes
        moving = plan.micro_batch * job.layers * kept / job.link
        waiting = max(0.0, moving - forward) + max(0.0, moving - backward - again)
    if "optimizer" in plan.offload:
        state = state_terms(plan, job)["optimizer"] / job.link
    sent = zero_sent_bytes(job.params, plan.stage, plan.gpus, m, job.gradient_bytes)
    return {
        "computing": m * (forward + backward),
        "repeating": m * again,
        "waiting": m * waiting,
        "network": sent / job.network,
        "optimizer": state,
    }


def step_seconds(plan: Plan, job: Job) -> float:
    """How long a step takes."""
    return sum(time_terms(plan, job).values())


def all_plans(job: Job, gpus: int) -> Iterator[Plan]:
    """Every plan on at most so many GPUs that divides the batch."""
    choices = [(), ("optimizer",), ("activations",), AWAY]
    for count in range(1, gpus + 1):
        if job.batch % count == 0:
            own = job.batch // count
            sizes = [size for size in range(1, own + 1) if own % size == 0]
            for rest in itertools.product(range(4), sizes, (False, True), choices):
                yield Plan(count, *rest)


def usable(gib: float) -> float:
    """Bytes of a GPU that a plan may fill: nine tenths; the allocator has the rest."""
    return USABLE * gib * GiB


def best_plan(job: Job, gpus: int, memory: float) -> Plan | None:
    """The fastest plan that fits into so many bytes of each GPU; None where none does."""
    fitting = [plan for plan in all_plans(job, gpus) if peak(plan, job) <= memory]
    return min(fitting, key=lambda plan: step_seconds(plan, job), default=None)
