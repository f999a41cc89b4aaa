"""The passes of one micro-batch through all layers of a model, for many layouts at once.

Each pass is the longer of two times: what the GPU computes and sends, and what the host needs to
start all that. The GPU's part is a sum of causes: products, attention, streams (what lies between
them moves bytes through memory), and what the ranks that share a layer send.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from dtlib.composition.planner.machine import Machine
from dtlib.composition.planner.software import WARP_PEAK, WARP_SHARE, Software
from dtlib.formulas.require import require
from dtlib.foundations.roofline.gemm import gemm_time
from dtlib.foundations.roofline.pace import product_times
from dtlib.layouts import Layouts
from dtlib.models.activations import kept_tensors, layer_bytes
from dtlib.models.spec import TransformerSpec


@dataclass(frozen=True)
class Passes:
    """What the layers of one micro-batch take on one rank, as columns.

    `tokens` are those of a rank's micro-batch.
    """

    spec: TransformerSpec
    machine: Machine
    software: Software
    layouts: Layouts
    seq: int
    dtype: str = "bf16"

    @cached_property
    def tokens(self) -> np.ndarray:
        return self.layouts.micro_batch * self.seq // self.layouts.cp

    @cached_property
    def products_alone(self) -> np.ndarray:
        """Rows forward, backward, head forward, head backward: seconds at the speed of single ones.

        A step sustains a share of that speed.
        """
        columns = self.layouts.tp, self.layouts.ep, self.tokens
        found = self.software.slowness * self._unique(_product_times, columns)
        grouped = found[4:] / self.software.kernels.grouped_share
        return np.concatenate([found[:2] + grouped, found[2:4]])

    @property
    def products(self) -> np.ndarray:
        """The same rows, in a step."""
        return self.products_alone / self.machine.sustained

    @cached_property
    def attention(self) -> np.ndarray:
        """Rows forward, backward: seconds of attention in all layers.

        Fused attention works at a share of the peak, on the half that the mask leaves, and its
        backward pass has five products for two. Otherwise scores are products, all of them.
        """
        of, share = self.layouts, self._attention_share
        fused, plain = self._unique(_attention_times, (of.tp, of.cp, of.micro_batch))
        plain = plain / self.machine.sustained
        forward = np.where(of.flash, fused / share, plain)
        backward = np.where(of.flash, 2.5 * fused / share, 2 * plain)
        return self.software.slowness * np.stack([forward, backward])

    @property
    def _attention_share(self) -> float:
        """The share of the peak that fused attention reaches with heads of this model."""
        kernels, numbers = self.software.kernels, self.spec.key_dim + self.spec.value_dim
        peak = self.machine.gpu.peak(_attention_dtype(self.dtype))
        old = self.software.warp_attention and peak > WARP_PEAK
        long = numbers / (numbers + 2 * kernels.attention_start)
        return kernels.attention_fraction * long * (WARP_SHARE if old else 1.0)

    @cached_property
    def kept(self) -> np.ndarray:
        """Rows all, core of attention: bytes that the forward pass of all layers writes."""
        of = self.layouts
        columns = (of.tp, of.cp, of.sequence_parallel, of.flash)
        return self._unique(_kept_bytes, columns) * of.micro_batch

    @cached_property
    def sums(self) -> np.ndarray:
        """Seconds in which a micro-batch's gradients of the layers are added to those before."""
        spec, software = self.spec, self.software
        rate = self.machine.gpu.hbm_bandwidth * software.kernels.bandwidth_fraction
        width = 2 * software.gradient_bytes if software.sums_locally else 0
        return width * layer_params(spec, self.layouts).sum(axis=0) / rate

    @property
    def stream(self) -> np.ndarray:
        """Bytes of the residual stream of a micro-batch, which ranks of a layer exchange."""
        return 2 * self.tokens * self.spec.hidden

    @cached_property
    def tensor(self) -> np.ndarray:
        """Rows forward, backward: seconds of the collectives among the ranks of a layer.

        Each waits for the last of its ranks, as `straggling_time` says.
        """
        of, time = self.layouts, self.machine.collective
        whole = time("all_reduce", self.stream, of.tp, 1)
        gather, scatter = (
            time(operation, self.stream, of.tp, 1) for operation in ("all_gather", "reduce_scatter")
        )
        parts = of.sequence_parallel
        forward = 2 * np.where(parts, gather + scatter, whole)
        backward = 2 * np.where(parts, 2 * gather + scatter, whole)
        moving = np.stack([forward, backward]) + self._shared_calls * self._arrival(of.tp)
        return (1 - self.software.tensor_overlap) * self.spec.layers * moving

    @property
    def calls(self) -> np.ndarray:
        """Rows forward, backward: collectives and messages in a layer."""
        of, hops = self.layouts, self.layouts.cp - 1
        return self._shared_calls + 2 * (of.ep > 1) + np.stack([hops, 2 * hops])

    @property
    def _shared_calls(self) -> np.ndarray:
        """Rows forward, backward: collectives in a layer among the ranks that share it."""
        parts = self.layouts.sequence_parallel
        return (self.layouts.tp > 1) * np.stack([np.where(parts, 4, 2), np.where(parts, 6, 2)])

    def _arrival(self, ranks) -> np.ndarray:
        """Seconds until the last of some ranks is there."""
        return self.software.kernels.arrival * np.sqrt(2 * np.log(ranks))

    @cached_property
    def experts(self) -> np.ndarray:
        """Rows forward, backward: seconds in which tokens travel to experts and back."""
        of, moe = self.layouts, self.spec.moe
        if moe is None:
            return np.zeros((2, len(of)))
        n = self.stream * moe.active / np.where(of.sequence_parallel, of.tp, 1)
        one = self.machine.collective("all_to_all", n, of.ep, of.tp)
        return np.stack([2 * self.spec.expert_layers * one] * 2)

    @cached_property
    def context(self) -> np.ndarray:
        """Rows forward, backward: seconds in which keys and values travel, as far as they show.

        A hop hides under the attention of a block; that the ranks do not arrive together, does not.
        """
        of, spec = self.layouts, self.spec
        numbers = self.tokens * spec.kv_heads * (spec.key_dim + spec.value_dim)
        n = 2 * numbers / np.minimum(of.tp, spec.kv_heads)
        hops = spec.layers * (of.cp - 1)
        moving = hops * self.machine.message(n, of.tp * of.cp)
        waiting = hops * self._arrival(of.cp)
        moving, waiting = (np.stack([time, 2 * time]) for time in (moving, waiting))
        return np.maximum(0.0, moving - self.attention) + waiting

    def _unique(self, rows, columns) -> np.ndarray:
        """The function's rows for each layout, computed once for each combination of columns."""
        keys, places = _combinations(columns)
        return rows(self.spec, self.machine.gpu, self.seq, self.dtype, keys)[:, places]


def layer_params(spec: TransformerSpec, of: Layouts) -> np.ndarray:
    """Rows others, experts: parameters of all layers that a rank of those who divide them has."""
    tables = ("embedding", "positions", "head")
    held = {w: w.size * w.held for w in spec.weights() if w.part not in tables}
    experts = sum(size for w, size in held.items() if w.name.startswith("expert "))
    return np.stack([(sum(held.values()) - experts) / of.tp, experts / (of.tp * of.ep)])


def _combinations(columns) -> tuple[tuple[tuple[int, ...], ...], np.ndarray]:
    """The different rows of some columns of small numbers, and where each layout's is."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, places = np.unique(column, return_inverse=True)
        code = code * len(values) + places
    _, first, places = np.unique(code, return_index=True, return_inverse=True)
    rows = np.stack([np.asarray(column)[first] for column in columns], axis=1)
    return tuple(tuple(row) for row in rows.tolist()), places


@lru_cache(maxsize=256)
def _product_times(spec, gpu, seq, dtype, keys) -> np.ndarray:
    return product_times(spec, keys, gpu, dtype)


def _attention_dtype(dtype: str) -> str:
    """Scores keep 16 bits where products have 8."""
    return "bf16" if dtype == "fp8" else dtype


@lru_cache(maxsize=256)
def _attention_times(spec, gpu, seq, dtype, keys) -> np.ndarray:
    """Seconds of attention forward for each (tp, cp, micro_batch): fused at the peak, plain."""
    tp, cp, micro_batch = np.array(keys, float).T
    dtype = _attention_dtype(dtype)
    fused = spec.score_flops(seq) * micro_batch * seq / (tp * cp) / gpu.peak(dtype)
    rows = micro_batch * spec.heads / tp * seq / cp
    score = gemm_time(rows, seq, spec.key_dim, gpu, dtype)
    value = gemm_time(rows, spec.value_dim, seq, gpu, dtype)
    return np.stack([fused, spec.layers * (score + value)])


@lru_cache(maxsize=256)
def _kept_bytes(spec, gpu, seq, dtype, keys) -> np.ndarray:
    """Bytes that all layers keep of one sequence, for each (tp, cp, sequence parallel, flash).

    Two rows: all, and the core of attention.
    """
    counts = {False: spec.layers - spec.expert_layers, True: spec.expert_layers}
    found = np.zeros((2, len(keys)))
    for place, (tp, cp, apart, flash) in enumerate(keys):
        divided = {"tokens": seq // cp, "tp": tp, "sequence_parallel": bool(apart)}
        for experts, count in counts.items():
            rows = kept_tensors(spec, seq, experts=experts, flash=bool(flash)) if count else ()
            core = [row for row in rows if row.core]
            found[:, place] += [
                count * layer_bytes(spec, some, **divided, recompute="none")
                for some in (rows, core)
            ]
    return found


def check_shapes(spec: TransformerSpec, layouts: Layouts, seq: int) -> None:
    """Raise ValueError for the first layout that the model's sizes do not allow."""
    keys, experts = spec.kv_heads, spec.moe.experts if spec.moe else 1
    rules = (
        ("tp", layouts.tp, spec.heads % layouts.tp == 0, f"a divisor of the {spec.heads} heads"),
        (
            "tp", layouts.tp, (keys % layouts.tp == 0) | (layouts.tp % keys == 0),
            f"a divisor or a multiple of the {keys} key heads",
        ),
        ("cp", layouts.cp, seq % layouts.cp == 0, f"a divisor of the {seq} tokens of a sequence"),
        ("ep", layouts.ep, experts % layouts.ep == 0, f"a divisor of the {experts} experts"),
    )  # fmt: skip
    for name, values, good, allowed in rules:
        wrong = np.flatnonzero(~good)
        value = int(values[wrong[0]]) if len(wrong) else None
        require(value is None, "a step", name, value, allowed)
