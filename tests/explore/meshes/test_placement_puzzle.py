"""The puzzle shows the library's types and bytes, and its best is what the search finds."""

import pytest

from dtlib.composition import PlacementError, cheapest_program
from dtlib.explore import PlacementPuzzle, Task
from dtlib.explore.kit.still import still
from dtlib.explore.placement_puzzle.outcomes import CHOICES, block, states
from dtlib.mesh import Mesh, Replicate, Shard

WIDE = {"tokens": 4096, "hidden": 8192, "ffn": 32768}
LONG = {"tokens": 65536, "hidden": 8192, "ffn": 32768}
NARROW = {"tokens": 4096, "hidden": 8192, "ffn": 1024}


def puzzle(**options) -> PlacementPuzzle:
    start = {"x": "copied", "w1": "columns", "w2": "columns"}
    return PlacementPuzzle(**{"title": "What would you divide?"} | start | WIDE | options)


def typed(shown) -> dict[tuple, dict]:
    named = {tuple(state.values()): shown.names(**state) for state in states()}
    return {state: names for state, names in named.items() if names["typed"]}


@pytest.mark.parametrize("P", [2, 4, 8])
@pytest.mark.parametrize("sizes", [WIDE, LONG, NARROW], ids=["wide", "long", "narrow"])
def test_the_best_that_a_reader_can_find_is_what_the_search_finds(sizes, P):
    sent = [n["sent"] for n in typed(puzzle(**sizes, P=P)).values() if n["divided"] == 2]
    assert min(sent) == pytest.approx(sum(cheapest_program(Mesh.of(tp=P), **sizes).sent_bytes))


def test_a_state_is_typed_if_and_only_if_the_library_types_it():
    shown, mesh, right = puzzle(), Mesh.of(tp=4), 0
    for state in states():
        program = block(mesh, {"b": 4096, "h": 8192, "f": 32768}, state, 2)
        try:
            program.check()
        except PlacementError as error:
            seen = shown._outcomes[tuple(state.values())]
            assert seen["why"].partition(" of ")[0] == str(error).partition(" of ")[0]
            assert shown.names(**state)["typed"] == 0
            continue
        right += 1
        names = shown.names(**state)
        assert (names["forward"], names["backward"]) == program.sent_bytes
        assert (names["held"], names["work"]) == (program.weight_bytes, program.work_share)
    assert right == len(typed(shown)) > 12


def test_every_state_of_the_page_is_that_of_the_table():
    shown = puzzle()
    for state in [*states()][::17]:
        expected = shown.names(**state)
        names = still(shown, **state)["names"]
        assert {one: names[one] for one in expected} == pytest.approx(expected), state


def test_all_strategies_of_the_book_are_among_the_choices():
    n = 3 / 4 * 2 * 4096 * 8192  # what an all-gather of the stream sends
    found = typed(puzzle())
    megatron = found["copied", "columns", "nothing", "rows"]
    sequence = found["gathered", "columns", "nothing", "rows"]
    data = found["tokens", "copied", "nothing", "copied"]
    sharded = found["tokens", "gathered", "nothing", "gathered"]
    assert (megatron["forward"], megatron["backward"]) == (2 * n, 2 * n)
    assert megatron["sent"] == sequence["sent"] == megatron["least"]
    assert data["sent"] == sharded["sent"] == 8 * megatron["sent"]
    assert (data["held"], sharded["held"]) == (4 * megatron["held"], megatron["held"])
    alone = found["replicated", "whole", "nothing", "whole"]
    assert (alone["sent"], alone["work"], alone["divided"]) == (0, 1, 0)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({}, "Refused. bf,fh->bh of gelu(z), w2, on tp: cut along f and h, only blocks"),
        ({"x": "replicated"}, "of x, whose gradient would be a summand that nobody adds"),
        ({"x": "hidden", "w1": "rows"}, "gelu of a sum is not the sum of gelu of its summands"),
        ({"w1": "copied", "w2": "copied"}, "the loss, on tp: every rank would begin with"),
        ({"z": "added"}, "all_reduce of z, on tp: it takes partial, and gets sharded 1"),
        ({"w2": "rows"}, "It types. Each rank sends 201 MB in a forward and backward pass"),
    ],
)
def test_what_is_refused_is_so_in_the_words_of_the_library(state, said):
    assert said in still(puzzle(), **state)["said"]


def test_sabotage_a_table_of_other_states_is_noticed():
    shown = puzzle()
    shown.spec = shown.spec | {"table": shown.spec["table"][1:] + shown.spec["table"][:1]}
    state = {"x": "copied", "w1": "columns", "z": "nothing", "w2": "rows"}
    assert still(shown, **state)["names"]["typed"] != shown.names(**state)["typed"]


def test_at_the_start_it_types_sends_nothing_and_every_rank_does_all():
    said = still(PlacementPuzzle(title="What would you divide?", **WIDE))["said"]
    assert said.startswith("It types. Each rank sends 0 B")
    assert said.endswith("keeps 1.07 GB of 1.07 GB of the weights, and does 100 % of the products.")


def test_the_choices_are_placements_of_the_calculus():
    for ways in (CHOICES["x"], CHOICES["w1"]):
        assert {placed for _, placed, _ in ways.values()} == {Replicate(), Shard(0), Shard(1)}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"P": 3}, "PlacementPuzzle: P is 3, but must be one of 2, 4, 8"),
        ({"w1": "diagonal"}, "w1: 'diagonal', but must be one of whole, copied, rows"),
        ({"tokens": 0}, "tokens is 0"),
        ({"task": Task("", "typed == 0", {})}, "met already at the start"),
        ({"task": Task("", "sent > 0 and sent < least", {})}, "is not met by its solution"),
    ],
)
def test_what_would_mislead_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        puzzle(**options)
