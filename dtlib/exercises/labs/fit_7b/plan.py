"""Plans of the lab 'Fit a 7B model into a budget': what one needs, what it costs, which are best.

The nouns: a `Job` is what is to be trained and on what machines; a plan says how, and is a `Layout`
whose replicas have a GPU each. The lab's reader writes the functions that judge a plan; those here
judge the reader.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from dtlib.foundations import GB, GiB, TransformerSpec, catalog
from dtlib.layout import AWAY, Layout, divisors
from dtlib.memory.account.allocator import output_bytes
from dtlib.memory.account.gpt import gpt_kept_tensors
from dtlib.memory.account.layers import activation_bytes
from dtlib.memory.account.state import (
    held_gradient_bytes,
    held_optimizer_bytes,
    held_weight_bytes,
)
from dtlib.memory.zero.cost import zero_sent_bytes

USABLE = 0.9
TURNED = ("zero", "micro_batch", "recompute", "offload")


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


def state_terms(plan: Layout, job: Job) -> dict[str, float]:
    """Bytes of weights, gradients and optimizer on one GPU, before anything is sent away."""
    share = {"zero": plan.zero, "dp": plan.dp}
    return {
        "weights": held_weight_bytes(job.params, job.weight_bytes, **share),
        "gradients": held_gradient_bytes(job.params, job.gradient_bytes, **share),
        "optimizer": held_optimizer_bytes(job.params, job.optimizer_bytes, **share),
    }


def memory_terms(plan: Layout, job: Job) -> dict[str, float]:
    """Every term of the equation, in bytes of one GPU."""
    terms = state_terms(plan, job)
    kept = plan.micro_batch * (job.input_bytes if plan.recompute == "full" else job.kept_bytes)
    terms["gathered"] = 2 * job.weight_bytes * job.layer_params * (plan.zero == 3)
    terms["activations"] = kept * (2 if "activations" in plan.offload else job.layers)
    again = plan.micro_batch * (job.kept_bytes - job.input_bytes)
    terms["again"] = again if plan.recompute == "full" else 0.0
    terms["head"] = plan.micro_batch * job.head_bytes
    terms["window"] = 0.0
    if "optimizer" in plan.offload:
        terms["optimizer"] = 0.0
        shards = plan.dp if plan.zero else 1
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


def memory_moments(plan: Layout, job: Job) -> dict[str, float]:
    """Bytes of one GPU at the model's end, while a layer is repeated, and in the step."""
    terms = memory_terms(plan, job)
    return {moment: sum(terms[name] for name in names) for moment, names in living_terms().items()}


def peak(plan: Layout, job: Job) -> float:
    """The fullest of the moments."""
    return max(memory_moments(plan, job).values())


def time_terms(plan: Layout, job: Job) -> dict[str, float]:
    """Seconds of one step, by cause; together they are the step."""
    m = plan.micro_batches(job.batch)
    forward, backward, again = (
        plan.micro_batch * flops / job.rate
        for flops in (job.forward_flops, job.backward_flops, job.repeated_flops)
    )
    again = again if plan.recompute == "full" else 0.0
    waiting = state = 0.0
    if "activations" in plan.offload:
        kept = job.input_bytes if plan.recompute == "full" else job.kept_bytes
        moving = plan.micro_batch * job.layers * kept / job.link
        waiting = max(0.0, moving - forward) + max(0.0, moving - backward - again)
    if "optimizer" in plan.offload:
        state = state_terms(plan, job)["optimizer"] / job.link
    sent = zero_sent_bytes(job.params, plan.zero, plan.dp, m, job.gradient_bytes)
    return {
        "computing": m * (forward + backward),
        "repeating": m * again,
        "waiting": m * waiting,
        "network": sent / job.network,
        "optimizer": state,
    }


def step_seconds(plan: Layout, job: Job) -> float:
    """How long a step takes."""
    return sum(time_terms(plan, job).values())


def all_plans(job: Job, gpus: int) -> Iterator[Layout]:
    """Every plan on at most so many GPUs that divides the batch."""
    choices = [(), ("optimizer",), ("activations",), AWAY]
    for count in range(1, gpus + 1):
        if job.batch % count == 0:
            sizes = divisors(job.batch // count)
            for rest in itertools.product(range(4), sizes, ("none", "full"), choices):
                yield Layout(dp=count, **dict(zip(TURNED, rest, strict=True)))


def usable(gib: float) -> float:
    """Bytes of a GPU that a plan may fill: nine tenths; the allocator has the rest."""
    return USABLE * gib * GiB


def best_plan(job: Job, gpus: int, memory: float) -> Layout | None:
    """The fastest plan that fits into so many bytes of each GPU; None where none does."""
    fitting = [plan for plan in all_plans(job, gpus) if peak(plan, job) <= memory]
    return min(fitting, key=lambda plan: step_seconds(plan, job), default=None)
