"""Whatever a layout of eight ranks allows equals one process; `--examples 5000` tries all.

To each layout a model and a schedule are drawn. What cannot be is known beforehand, and is refused.
"""

from functools import partial
from itertools import product
from random import Random

import torch.distributed as dist
from hybrid_cases import errors_of, on_ranks, one_process, wrong

from dtlib.foundations import MoE, TransformerSpec
from dtlib.layout import Layout
from dtlib.parallelism import pipeline
from dtlib.runtime import launch

RANKS, SEQ = 8, 16
AXES = ("dp", "cp", "pp", "tp")
SCHEDULES = {
    1: (None, pipeline.gpipe, partial(pipeline.zero_bubble, c=1), pipeline.dual_pipe),
    2: (None, pipeline.zb_v, pipeline.dual_pipe_v),
}


def all_layouts() -> list[Layout]:
    """Every way to lay a model on eight ranks."""
    sizes = [s for s in product((1, 2, 4, 8), repeat=4) if s[0] * s[1] * s[2] * s[3] == RANKS]
    return [
        Layout(dp=dp, cp=cp, pp=pp, tp=tp, ep=ep, zero=zero, sequence_parallel=divided,
               interleave=interleave, micro_batch=micro_batch, recompute=recompute)
        for (dp, cp, pp, tp), ep, zero, divided, interleave, micro_batch, recompute in product(
            sizes, (1, 2, 4, 8), range(4), (False, True), (1, 2), (1, 2),
            ("none", "selective", "full"))
        if dp * cp % ep == 0 and (pp > 1 or interleave == 1) and (tp > 1 or not divided)
    ]  # fmt: skip


def drawn(wanted: int) -> list[tuple]:
    """(model, layout, schedule, sequences) of so many layouts, or all; the same in every run."""
    layouts, draw = all_layouts(), Random(5)
    return [example(layout, draw) for layout in draw.sample(layouts, min(wanted, len(layouts)))]


def example(layout: Layout, draw: Random) -> tuple:
    """As few layers, sequences and micro-batches as the layout and the schedule can do with."""
    experts = layout.ep > 1 or draw.random() < 0.2
    spec = TransformerSpec(
        "drawn", max(2, layout.pp * layout.interleave), 16, 8, 32,
        ffn=16, kv_heads=draw.choice((2, 4, 8)), gated=draw.random() < 0.5,
        norm=draw.choice(("rms", "layer")), bias=draw.random() < 0.5,
        tied=draw.random() < 0.5, positions=draw.choice((0, SEQ)),
        moe=MoE(experts=8, active=2, ffn=8, shared=draw.choice((0, 1))) if experts else None,
    )  # fmt: skip
    schedule = draw.choice(SCHEDULES[layout.interleave]) if layout.pp > 1 else None
    two_ways = schedule in (pipeline.dual_pipe, pipeline.dual_pipe_v)
    micro_batches = layout.pp * 2 if two_ways else max(2, layout.pp)
    return spec, layout, schedule, layout.dp * layout.micro_batch * micro_batches


def refusal(spec, layout: Layout) -> str | None:
    """What is said of a layout that this model cannot have."""
    if layout.zero == 3 and layout.ep > 1:
        return "zero is 3, but must be below 3: an expert"
    if layout.zero == 3 and layout.pp > 1 and spec.tied:
        return "zero is 3, but must be below 3: a table"
    return None


def tried(examples) -> list:
    """What the ranks find for each example, or are told of one that cannot be; the first one says.

    The others have compared their own weights with what it says, bit by bit.
    """
    found = []
    for spec, layout, schedule, sequences in examples:
        try:
            found.append(on_ranks(spec, layout, AXES, sequences, SEQ, 1, schedule=schedule))
        except ValueError as error:
            found.append(str(error))
    return found if dist.get_rank() == 0 else []


def test_there_are_as_many_layouts_as_factors_say():
    """Twenty ways to split 2^3 among four axes; each other field multiplies them."""
    assert len({(x.dp, x.cp, x.pp, x.tp) for x in all_layouts()}) == 20
    assert len(all_layouts()) == len(set(all_layouts())) == 2304


def test_a_draw_has_every_strategy_and_every_schedule():
    examples = drawn(50)
    for name in ("dp", "cp", "pp", "tp", "ep"):
        assert {getattr(layout, name) for _, layout, *_ in examples} >= {1, 2, 4}
    assert {layout.zero for _, layout, *_ in examples} == {0, 1, 2, 3}
    assert {schedule for *_, schedule, _ in examples} == {*SCHEDULES[1], *SCHEDULES[2]}


def test_whatever_eight_ranks_allow_equals_one_process(request):
    examples, at_once = drawn(request.config.getoption("examples") or 50), 10
    with launch(RANKS, timeout=240) as ranks:
        for some in (examples[i : i + at_once] for i in range(0, len(examples), at_once)):
            for case, found in zip(some, ranks.run(tried, some)[0], strict=True):
                spec, layout, _, sequences = case
                said = refusal(spec, layout)
                if said or isinstance(found, str):
                    assert said and said in found, case
                else:
                    due = one_process(spec, sequences, SEQ, 1)
                    assert wrong(errors_of(found, due), 1e-11) == {}, case
