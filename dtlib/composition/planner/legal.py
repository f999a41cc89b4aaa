"""Which layouts a model, a batch and a number of GPUs allow, and the rules that the others break.

    >>> from dtlib.foundations import TransformerSpec
    >>> gpt = TransformerSpec("small", layers=12, hidden=768, heads=12, vocab=50304)
    >>> legal = legal_layouts(gpt, gpus=8, batch=64, seq=1024)
    >>> len(legal), legal[0], max(legal.tp).item()
    (1030, Layout(dp=8), 4)

A `Rule` is a sentence and its test on columns. So the same rule leaves out a thousand layouts,
counts them (`funnel`), and says of one of them why it is not legal (`broken_rules`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product

import numpy as np

from dtlib.formulas.require import require, require_count, require_type
from dtlib.layout import POLICIES, Layout, divisors
from dtlib.layouts import Layouts
from dtlib.models.spec import TransformerSpec


@dataclass(frozen=True)
class Workload:
    """What is to be trained with: a model, sequences of one step, tokens of one sequence."""

    spec: TransformerSpec
    batch: int
    seq: int


@dataclass(frozen=True)
class Rule:
    """What must hold of a layout for a workload, in words and as a test of columns."""

    name: str
    says: str
    holds: Callable[[Workload, Layouts], np.ndarray]


def _divides(part, whole) -> np.ndarray:
    return whole % part == 0


def _heads(work: Workload, of: Layouts) -> np.ndarray:
    keys = work.spec.kv_heads
    return _divides(of.tp, work.spec.heads) & (_divides(of.tp, keys) | _divides(keys, of.tp))


def _widths(work: Workload, of: Layouts) -> np.ndarray:
    spec = work.spec
    widths = [spec.ffn] if spec.layers > spec.expert_layers else []
    widths += [spec.moe.ffn] if spec.moe else []
    return np.logical_and.reduce([_divides(of.tp, width) for width in widths])


def _experts(work: Workload, of: Layouts) -> np.ndarray:
    experts = work.spec.moe.experts if work.spec.moe else 1
    return _divides(of.ep, experts) & _divides(of.ep, of.dp * of.cp)


def _tokens(work: Workload, of: Layouts) -> np.ndarray:
    """Pieces of equal work: under a causal mask each of cp ranks takes one early and one late."""
    pieces = np.where(of.cp > 1, 2 * of.cp, 1)
    return _divides(pieces * np.where(of.sequence_parallel, of.tp, 1), work.seq)


def _rounds(work: Workload, of: Layouts) -> np.ndarray:
    m = work.batch // (of.dp * of.micro_batch)
    return (of.interleave == 1) | _divides(of.pp, m)


RULES = (
    Rule("heads", "tp divides the heads, and divides or is a multiple of those of keys", _heads),
    Rule("words", "tp divides the vocabulary, which may be padded",
         lambda work, of: _divides(of.tp, work.spec.vocab)),
    Rule("widths", "tp divides the width of each feed-forward block", _widths),
    Rule("experts", "ep divides the experts, and dp x cp", _experts),
    Rule("layers", "there are no more stages than layers",
         lambda work, of: of.pp <= work.spec.layers),
    Rule("parts", "stages of several parts are equal, and so are their parts",
         lambda work, of: (of.interleave == 1)
         | (of.pp > 1) & _divides(of.pp * of.interleave, work.spec.layers)),
    Rule("tokens", "the tokens of a sequence divide into 2 cp pieces, and those among tp", _tokens),
    Rule("batch", "the sequences divide among dp replicas and into micro-batches",
         lambda work, of: _divides(of.dp * of.micro_batch, work.batch)),
    Rule("rounds", "interleaved stages take micro-batches in rounds of pp", _rounds),
)  # fmt: skip


def candidate_layouts(
    spec: TransformerSpec,
    gpus: int,
    *,
    zero: Iterable[int] = (0, 1, 3),
    micro_batch: Iterable[int] = (1, 2, 4, 8, 16),
    interleave: Iterable[int] = (1, 2, 3, 4, 6, 8),
    recompute: Iterable[str] = ("none", "full"),
) -> Layouts:
    """Every way to write the GPUs as tp x pp x cp x dp, with every choice of the other fields.

    Equation: for 2^k GPUs C(k + 3, 3) ways, times the choices. Left out is what is the same as
    another candidate: ZeRO among one replica, parts of a stage that is alone. Where `tp` is more
    than 1 its ranks divide the stream, too; attention stores no scores.
    Arguments: `spec`; `gpus`; the values of `zero`, `micro_batch`, `interleave` and `recompute` to
    try. Returns `Layouts`, of which many break a rule.
    Raises ValueError for GPUs that are no count, or a policy that is unknown.
    """
    require_type("candidate_layouts", TransformerSpec, spec=spec)
    require_count("candidate_layouts", gpus=gpus)
    policies = [_policy_index(policy) for policy in recompute]
    axes = np.array(list(factorisations(gpus, 4)))
    ep = divisors(spec.moe.experts) if spec.moe else [1]
    rest = np.array(list(product(ep, zero, interleave, micro_batch, policies)))
    tp, pp, cp, dp = np.repeat(axes, len(rest), axis=0).T
    ep, zero, interleave, micro_batch, policy = np.tile(rest, (len(axes), 1)).T
    every = Layouts(
        spec.layers, tp=tp, cp=cp, pp=pp, dp=dp, ep=ep, zero=zero, interleave=interleave,
        micro_batch=micro_batch, sequence_parallel=tp > 1, flash=np.ones(len(tp), bool),
        recompute=policy,
    )  # fmt: skip
    same = (interleave > 1) & (pp == 1) | (zero > 0) & (dp * cp == 1)
    return every[~same]


def _policy_index(policy: str) -> int:
    require(policy in POLICIES, "candidate_layouts", "recompute", policy, f"in {POLICIES}")
    return POLICIES.index(policy)


def funnel(work: Workload, candidates: Layouts) -> tuple[dict[str, int], Layouts]:
    """How many candidates are left after each rule, and those that are left after all.

    Raises ValueError, naming the rule, where one leaves none.

    >>> from dtlib.foundations import TransformerSpec
    >>> gpt = TransformerSpec("small", layers=12, hidden=768, heads=12, vocab=50304)
    >>> candidates = candidate_layouts(gpt, 16)
    >>> left, legal = funnel(Workload(gpt, 64, 1024), candidates)
    >>> len(candidates) > left["heads"] > left["layers"] > left["parts"] > left["batch"]
    True
    """
    left, counts = candidates, {}
    for rule in RULES:
        left = left[rule.holds(work, left)]
        counts[rule.name] = len(left)
        if not len(left):
            raise ValueError(
                f"plan: no layout of {work.spec.name!r} for {work.batch} sequences of {work.seq} "
                f"tokens is left by the rule {rule.name!r}: {rule.says}"
            )
    return counts, left


def legal_layouts(spec: TransformerSpec, gpus: int, *, batch: int, seq: int, **choices) -> Layouts:
    """The candidates that break no rule, for `batch` sequences of a step, of `seq` tokens each.

    Other arguments and errors as for `candidate_layouts`; ValueError where no layout is left.
    """
    require_count("legal_layouts", batch=batch, seq=seq)
    return funnel(Workload(spec, batch, seq), candidate_layouts(spec, gpus, **choices))[1]


def broken_rules(work: Workload, layout: Layout) -> list[Rule]:
    """The rules that a layout breaks, which are none where it is legal.

    >>> from dtlib.foundations import TransformerSpec
    >>> gpt = TransformerSpec("small", layers=12, hidden=768, heads=12, vocab=50304)
    >>> [rule.name for rule in broken_rules(Workload(gpt, 64, 1024), Layout(tp=8, pp=16))]
    ['heads', 'layers']
    """
    one = Layouts.of([layout], work.spec.layers)
    return [rule for rule in RULES if not rule.holds(work, one)[0]]


def factorisations(n: int, parts: int) -> Iterable[tuple[int, ...]]:
    """Every way to write n as a product of so many factors, in order.

    >>> from math import comb
    >>> len(list(factorisations(1024, 5))), comb(10 + 4, 4)
    (1001, 1001)
    """
    if parts == 1:
        yield (n,)
        return
    for first in divisors(n):
        for others in factorisations(n // first, parts - 1):
            yield (first, *others)
