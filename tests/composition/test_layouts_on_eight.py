"""Whatever a layout of eight ranks allows equals one process; `--examples 5000` tries all."""

from itertools import product
from random import Random

from hybrid_cases import errors_of, on_ranks, one_process, wrong

from dtlib.layout import Layout
from dtlib.runtime import launch

RANKS, SEQUENCES, SEQ = 8, 16, 16
AXES = ("dp", "cp", "pp", "tp")


def all_layouts() -> list[tuple[str, Layout]]:
    """Every way to lay a model on eight ranks, with the kind of model that it is for."""
    sizes = [s for s in product((1, 2, 4, 8), repeat=4) if s[0] * s[1] * s[2] * s[3] == RANKS]
    found = []
    for (dp, cp, pp, tp), ep, zero, divided, interleave, micro_batch, recompute in product(
        sizes, (1, 2, 4, 8), range(4), (False, True), (1, 2), (1, 2), ("none", "selective", "full")
    ):
        if dp * cp % ep or (interleave > 1 and pp == 1) or (divided and tp == 1):
            continue
        layout = Layout(
            dp=dp, cp=cp, pp=pp, tp=tp, ep=ep, zero=zero, sequence_parallel=divided,
            interleave=interleave, micro_batch=micro_batch, recompute=recompute,
        )  # fmt: skip
        found.append(("many experts" if ep > 1 else "wide", layout))
    return found


def drawn_layouts(wanted: int) -> list[tuple[str, Layout]]:
    """So many of them, or all, in an order that is the same in every run."""
    layouts = all_layouts()
    return Random(0).sample(layouts, min(wanted, len(layouts)))


def tried(chosen) -> list:
    """What this rank finds for each layout, or what it is told of one that cannot be."""
    found = []
    for kind, layout in chosen:
        try:
            found.append(on_ranks(kind, layout, AXES, SEQUENCES, SEQ, steps=1))
        except ValueError as error:
            found.append(str(error))
    return found


REFUSED = (
    "zero is 3, but must be below 3",
    "the number of stages is 16, but must be a divisor of layers, which is 8",
    "interleaved needs m a multiple of p",
)


def test_there_are_as_many_layouts_as_factors_say():
    """Twenty ways to split 2^3 among four axes; each other field multiplies them."""
    assert len({(x.dp, x.cp, x.pp, x.tp) for _, x in all_layouts()}) == 20


def test_whatever_eight_ranks_allow_equals_one_process(request):
    chosen = drawn_layouts(request.config.getoption("examples") or 50)
    refused = []
    with launch(RANKS, timeout=240) as ranks:
        for first in range(0, len(chosen), 10):
            some = chosen[first : first + 10]
            for (kind, layout), found in zip(some, ranks.run(tried, some)[0], strict=True):
                if isinstance(found, str):
                    refused.append((layout, found))
                    continue
                due = one_process(kind, SEQUENCES, SEQ, 1)
                assert wrong(errors_of(found, due), 1e-11) == {}, (kind, layout)
    unknown = [pair for pair in refused if not any(says in pair[1] for says in REFUSED)]
    assert unknown == []
    assert len(refused) < len(chosen) / 3
