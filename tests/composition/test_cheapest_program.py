"""The cheapest block: no program is cheaper, it is right on ranks, and where another one wins."""

import random
from functools import partial
from itertools import product

import pytest
import torch
from test_types import differs, on_ranks, whole_values

from dtlib.composition import Alone, PlacementError, Types, cheapest_program
from dtlib.composition.block import FIRST, SECOND, BlockProgram, SentLine
from dtlib.composition.prices import Price, Prices
from dtlib.composition.programs import Step, square
from dtlib.composition.types import SENT
from dtlib.machines.machine import Link
from dtlib.mesh import Copies, Mesh, Partial, Replicate, Shard
from dtlib.runtime import launch

WIDE, LONG, NARROW = (
    {"tokens": 512, "hidden": 256, "ffn": 1024},
    {"tokens": 4096, "hidden": 256, "ffn": 1024},
    {"tokens": 512, "hidden": 1024, "ffn": 256},
)

# What a line of P ranks costs forward and backward, in (P - 1)/P of what is sent; `turn`, in 1/P.
BY_HAND = {
    "copy_to_ranks": (0, 2), "sum_over_ranks": (2, 0), "own_slice": (0, 1), "gather_slices": (1, 0),
    "all_reduce": (2, 2), "all_gather": (1, 1), "reduce_scatter": (1, 1),
}  # fmt: skip


def price(name, P, n):
    return (P - 1) / P * n * (sum(BY_HAND[name]) if name != "turn" else 2 / P)


@pytest.mark.parametrize("name", SENT)
def test_the_price_of_a_line_is_that_of_its_change_and_of_its_gradients(name):
    before, after = SENT[name]
    kind = {Shard: Shard(0)}
    do = Prices(Mesh.of(tp=4), {"x": (8, 12)})
    made = do.send(name, do.value("x", tp=kind.get(before, before())), "tp", 0,
                   1 if name == "turn" else None)  # fmt: skip
    assert type(made["tp"]) is after
    assert sum(do.prices[made.name].sent_bytes(4)) == pytest.approx(price(name, 4, 8 * 12 * 4))


def chains(do, value, most=2):
    """Every run of lines that may be sent of a value, and how dear the lines are."""
    yield value, ()
    if most:
        for name, dim in product(SENT, (0, 1)):
            try:
                made = do.send(name, value, "tp", dim, 1 - dim if name == "turn" else None)
            except PlacementError:
                continue
            for last, names in chains(do, made, most - 1):
                yield last, (name, *names)


def typed(line, *values):
    try:
        return [line(*values)]
    except PlacementError:
        return []


def products(do, spec, values, weights, shared):
    for (x, sent), (w, more) in product(values, weights):
        if not shared or Shard in (type(x["tp"]), type(w["tp"])):
            for made in typed(do.einsum, spec, x, w):
                yield made, (*sent, *more)


def tagged(found, n):
    return [(value, [(name, n) for name in names]) for value, names in found]


def every_price(P, tokens, hidden, ffn, stored, stream, shared=True):
    """The bytes of every program, tried one after the other, with two lines at most at a place."""
    do, n_x, n_w, n_z = Types(["tp"]), tokens * hidden * 2, hidden * ffn * 2, tokens * ffn * 2
    weights = [w for one in stored for w in tagged(chains(do, do.value("w", tp=one)), n_w)]
    values = tagged(chains(do, do.value("x", tp=stream)), n_x)
    for z, sent in [(v, tuple(s)) for v, s in products(do, FIRST, values, weights, shared)]:
        for last, more in tagged(chains(do, z), n_z):
            for curved in typed(do.pointwise, "gelu", last):
                inner = [(curved, (*sent, *more))]
                for y, all_sent in products(do, SECOND, inner, weights, shared):
                    for out, rest in tagged(chains(do, y), n_x):
                        if out["tp"] == stream:
                            yield sum(price(name, P, n) for name, n in (*all_sent, *rest))


def spent(program):
    return sum(program.sent_bytes)


@pytest.mark.parametrize("sizes", [WIDE, LONG, NARROW], ids=["wide", "long", "narrow"])
@pytest.mark.parametrize("stream", [Replicate(), Shard(0), Shard(1)], ids=str)
def test_no_program_is_cheaper(sizes, stream):
    found = cheapest_program(Mesh.of(tp=4), **sizes, given={"x": {"tp": stream}})
    tried = [*every_price(4, **sizes, stored=[Shard(0), Shard(1)], stream=stream)]
    assert len(tried) > 5000
    assert spent(found) == pytest.approx(min(tried))


@pytest.mark.parametrize("stored", [Replicate(), Shard(0), Shard(1)], ids=str)
def test_nor_is_one_where_weights_are_given_or_work_is_not_divided(stored):
    for shared in (True, False):
        given = {"x": {"tp": Replicate()}, "w1": {"tp": stored}, "w2": {"tp": stored}}
        found = cheapest_program(Mesh.of(tp=3), **LONG, given=given, divide_work=shared)
        tried = every_price(3, **LONG, stored=[stored], stream=Replicate(), shared=shared)
        assert spent(found) == pytest.approx(min(tried))


def least(P, tokens, hidden, ffn):
    """Of the stream, a weight and the inner activation the smallest travels four times."""
    return 4 * (P - 1) / P * 2 * min(tokens * hidden, hidden * ffn, tokens * ffn)


def test_the_matrix_without_the_largest_length_travels():
    draw = random.Random(1)
    for _ in range(200):
        P, (b, h, f) = draw.choice([2, 3, 4, 8, 64]), (draw.randint(1, 999) for _ in range(3))
        found = cheapest_program(Mesh.of(tp=P), tokens=b, hidden=h, ffn=f)
        assert spent(found) == pytest.approx(least(P, b, h, f)), (P, b, h, f)


def names(program):
    return {place: [line.name for line in lines] for place, lines in program.sent.items()}


MEGATRON = {"x": ["copy_to_ranks"], "y": ["sum_over_ranks"]}
GATHERED = {"w1": ["all_gather"], "w2": ["all_gather"]}


@pytest.mark.parametrize("P", [2, 3, 4, 8, 64])
def test_the_border_lies_where_there_are_as_many_tokens_as_the_block_is_wide(P):
    for tokens, sent in ((1023, MEGATRON), (1024, MEGATRON), (1025, GATHERED)):
        found = cheapest_program(Mesh.of(tp=P), tokens=tokens, hidden=256, ffn=1024)
        assert names(found) == sent
    replicated = {"x": {"tp": Replicate()}}  # who gathers weights must cut the stream and join it
    for tokens, sent in ((2048, MEGATRON), (2049, GATHERED)):
        found = cheapest_program(
            Mesh.of(tp=P), tokens=tokens, hidden=256, ffn=1024, given=replicated
        )
        assert sent.items() <= names(found).items()


def test_megatron_divides_by_columns_and_then_by_rows():
    found = cheapest_program(Mesh.of(tp=4), **WIDE)
    assert found.given == {
        "x": {"tp": Replicate()},
        "w1": {"tp": Shard(1)},
        "w2": {"tp": Shard(0)},
    }
    assert found.weight_bytes == 2 * 256 * 1024 * 2 / 4
    given = {"x": {"tp": Shard(0)}}
    assert names(cheapest_program(Mesh.of(tp=4), **WIDE, given=given)) == {
        "x": ["all_gather"],
        "y": ["reduce_scatter"],
    }


def test_a_narrow_block_goes_rows_first():
    found = cheapest_program(Mesh.of(tp=4), **NARROW)
    assert names(found) == {"z": ["all_reduce"]}
    assert (found.given["w1"]["tp"], found.given["w2"]["tp"]) == (Shard(0), Shard(1))


@pytest.mark.parametrize("sizes", [WIDE, LONG, NARROW], ids=["wide", "long", "narrow"])
def test_whole_weights_save_nothing_and_undivided_work_saves_everything(sizes):
    mesh = Mesh.of(tp=4)
    divided = cheapest_program(mesh, **sizes)
    whole = {"w1": {"tp": Replicate()}, "w2": {"tp": Replicate()}}
    assert spent(cheapest_program(mesh, **sizes, divide_weights=False)) == spent(divided)
    assert spent(cheapest_program(mesh, **sizes, given=whole)) >= spent(divided)
    undivided = cheapest_program(mesh, **sizes, given=whole, divide_work=False)
    assert (spent(undivided), undivided.work_share) == (0, 1)
    assert divided.work_share == 1 / 4


def test_data_parallelism_sends_what_gathering_does():
    whole = {"w1": {"tp": Replicate()}, "w2": {"tp": Replicate()}}
    found = cheapest_program(Mesh.of(tp=4), **LONG, given=whole)
    assert names(found) == {"w1": ["copy_to_ranks"], "w2": ["copy_to_ranks"]}
    assert found.sent_bytes[0] == 0
    assert spent(found) == spent(cheapest_program(Mesh.of(tp=4), **LONG))


SLOW, FAST = Link("network", 0, 50e9, "", ""), Link("node", 0, 450e9, "", "")


def test_on_two_axes_the_slow_one_gathers_weights_and_the_fast_one_is_megatron_s():
    found = cheapest_program(
        Mesh.of(dp=8, tp=4),
        tokens=65536,
        hidden=8192,
        ffn=32768,
        links={"dp": SLOW, "tp": FAST},
    )
    sent = {
        place: [(line.name, line.axis) for line in lines] for place, lines in found.sent.items()
    }
    assert sent == {
        "x": [("copy_to_ranks", "tp")],
        "w1": [("all_gather", "dp")],
        "w2": [("all_gather", "dp")],
        "y": [("sum_over_ranks", "tp")],
    }


def found_programs():
    """Programs of one axis and of two, for each stream, with divided and with whole weights."""
    streams = [None, *({"x": {"tp": one}} for one in (Replicate(), Shard(0), Shard(1)))]
    square_mesh, line = Mesh.of(dp=2, tp=2), Mesh.of(tp=2)
    for mesh, sizes, given in product((line, square_mesh), (WIDE, LONG, NARROW), streams):
        yield cheapest_program(mesh, **sizes, given=given)
    whole = {name: {"dp": Replicate(), "tp": Replicate()} for name in ("w1", "w2")}
    yield cheapest_program(square_mesh, **LONG, given=whole)
    given = {"x": {"dp": Shard(0), "tp": Shard(0)}, "w1": {"dp": Shard(1)}}
    yield cheapest_program(square_mesh, **WIDE, given=given)


SHAPES = {"x": (8, 4), "w1": (4, 8), "w2": (8, 4)}


def test_they_are_right_on_ranks_to_the_bit_in_every_gradient():
    steps = [
        Step(partial(one.step, curve=square), one.given, {}, SHAPES) for one in found_programs()
    ]
    with launch(4, timeout=120) as ranks:
        results = ranks.run(on_ranks, steps)
    for number, step in enumerate(steps):
        assert differs(step, [of_rank[number] for of_rank in results]) == [], step.weights


def test_the_block_of_one_process_is_the_block():
    x, w1, w2 = whole_values(SHAPES).values()
    y = cheapest_program(Mesh.of(tp=4), **WIDE)(Alone(), x, w1, w2, square)
    assert torch.equal(y, square(x @ w1) @ w2)


def test_sabotage_without_the_prices_of_the_transposes_another_program_is_found(monkeypatch):
    monkeypatch.setattr(Price, "time", lambda self, *given: Price.sent_bytes(self, 2)[0])
    found = cheapest_program(Mesh.of(tp=4), **WIDE, divide_weights=False)
    assert spent(found) > least(4, **WIDE) * 1.01


def test_a_program_that_does_not_type_is_refused_with_its_line():
    given = {"x": {"tp": Replicate()}, "w1": {"tp": Shard(1)}, "w2": {"tp": Shard(0)}}
    sizes = {"b": 8, "h": 4, "f": 8}
    forgotten = BlockProgram(Mesh.of(tp=4), sizes, given, {})
    with pytest.raises(PlacementError, match=r"bh,hf->bf of x, w1, on tp: .*copy_to_ranks first"):
        forgotten.check()
    copies = {"x": (SentLine("copy_to_ranks", "tp"),), "y": (SentLine("all_reduce", "tp"),)}
    with pytest.raises(PlacementError, match="the loss, on tp"):
        BlockProgram(Mesh.of(tp=4), sizes, given, copies).check()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tokens": 0}, "cheapest_program: tokens is 0"),
        ({"given": {"z": {}}}, "given is 'z', but must be one of x, w1, w2"),
        ({"given": {"x": {"dp": Shard(0)}}}, "given axis of x is 'dp', but must be one of tp"),
        ({"given": {"x": {"tp": Copies()}}}, "given x on tp is Copies.*must be Replicate"),
        ({"given": {"w1": {"tp": Partial()}}}, "given w1 on tp is Partial"),
    ],
)
def test_other_questions_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        cheapest_program(Mesh.of(tp=4), **WIDE | options)
