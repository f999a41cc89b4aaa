"""The memory of many layouts is the account of each of them, to the last bit."""

import random
from functools import cache

import numpy as np
import pytest

from dtlib.foundations import MLA, MoE, TransformerSpec, published_models
from dtlib.layout import POLICIES, Layout, even_stages
from dtlib.layouts import Layouts
from dtlib.memory import AllocatorModel, launch_queue, pipeline_memory, rank_memories, recipes
from dtlib.memory.account import many

BATCH, SEQ = 192, 2048
LLAMA = published_models["llama-3.1-8b"]
HALF = TransformerSpec(  # a first layer without experts, latent attention, layers that no 2 divides
    "half", 13, 512, 16, 4096, norm="rms", gated=True, bias=False,
    moe=MoE(16, 2, 128, shared=1, dense_layers=3), mla=MLA(96, 64, 16, 32, 32),
)  # fmt: skip
MODELS = {
    name: published_models[name]
    for name in ("gpt-3", "llama-3.1-70b", "llama-3.1-405b", "mixtral-8x7b", "deepseek-v3")
} | {"half": HALF}


def drawn(random: random.Random, spec) -> Layout:
    """A layout of whatever fields, legal or not."""
    pp = random.choice((1, 2, 3, 4, 6, 8))
    return Layout(
        tp=random.choice((1, 2, 4, 8, 16)), cp=random.choice((1, 1, 2, 4)), pp=pp,
        dp=random.choice((1, 2, 4, 8)), ep=random.choice((1, 2, 4)), zero=random.randrange(4),
        interleave=random.choice((1, 1, 2, 3)), micro_batch=random.choice((1, 2, 3)),
        sequence_parallel=random.random() < 0.5, flash=random.random() < 0.8,
        recompute=random.choice(POLICIES),
        stages=drawn_stages(random, spec.layers, pp),
    )  # fmt: skip


def drawn_stages(random: random.Random, layers: int, pp: int):
    """As even as can be, or as uneven as chance has it, or none where they divide."""
    if pp > 1 and random.random() < 0.3:
        cuts = sorted(random.randint(0, layers) for _ in range(pp - 1))
        return [b - a for a, b in zip([0, *cuts], [*cuts, layers], strict=True)]
    return even_stages(layers, pp) if layers % pp else None


def one_by_one(spec, layout: Layout, **options) -> float:
    """The fullest stage."""
    micro_batches = layout.micro_batches(BATCH)
    ranks = pipeline_memory(spec, layout, seq=SEQ, micro_batches=micro_batches, **options)
    return max(rank["memory"] for rank in ranks)


@cache
def accounts(name: str, recipe: str, reserved=None, program=None, count: int = 60) -> tuple:
    """Legal layouts of a model, and what the account of each of them says."""
    chance, found = random.Random(name), {}
    options = {"recipe": recipe, "allocator": AllocatorModel() if reserved is True else reserved}
    options["program"] = program
    while len(found) < count:
        try:
            layout = drawn(chance, MODELS[name])
            found[layout] = one_by_one(MODELS[name], layout, **options)
        except ValueError:
            continue
    return list(found), np.array(list(found.values())), options


def all_at_once(name: str, layouts: list[Layout], **options) -> np.ndarray:
    spec = MODELS[name]
    columns = Layouts.of(layouts, spec.layers)
    return rank_memories(spec, columns, batch=BATCH, seq=SEQ, **options)


@pytest.mark.parametrize(
    "kind",
    [("mixed",), ("passing", True), ("passing", launch_queue), ("32-bit sums", True, "megatron")],
    ids=lambda kind: f"{len(kind)} {kind[-1]}"[:12],
)
@pytest.mark.parametrize("name", MODELS)
def test_many_layouts_at_once_need_exactly_what_each_needs(name, kind):
    layouts, one, options = accounts(name, *kind)
    assert (all_at_once(name, layouts, **options) == one).all()
    assert len({(x.pp, x.zero, x.recompute, x.interleave) for x in layouts}) > 20


@pytest.mark.parametrize("name", ["llama-3.1-70b", "half"])
def test_a_wrong_line_or_a_forgotten_stage_is_seen(name, monkeypatch):
    """Sabotage: the first stage alone; a table that the first stage lacks."""
    layouts, one, options = accounts(name, "mixed")
    stages, params = many._unlike_stages, many.divided_params

    def only_the_first(spec, layouts):
        columns = stages(spec, layouts)
        return tuple(column[columns[1] == 0] for column in columns)

    def without_tokens(*counts, first, **others):
        return params(*counts, first=np.zeros_like(first), **others)

    for attribute, wrong in (
        ("_unlike_stages", only_the_first), ("divided_params", without_tokens),
    ):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(many, attribute, wrong)
            assert (all_at_once(name, layouts, **options) < one).any()


def test_of_two_kinds_of_repeated_layers_the_one_that_needs_more_counts(monkeypatch):
    layouts, one, options = accounts("half", "mixed")
    monkeypatch.setattr(many.Stages, "fullest", lambda self, candidates, given, lines: "again")
    assert (all_at_once("half", layouts, **options) < one).any()


def test_it_does_not_matter_how_many_are_counted_together(monkeypatch):
    layouts, one, options = accounts("deepseek-v3", "mixed")
    monkeypatch.setattr(many, "AT_ONCE", 3)
    assert (all_at_once("deepseek-v3", layouts, **options) == one).all()
    assert all_at_once("deepseek-v3", layouts[:1], **options) == one[:1]
    assert len(all_at_once("deepseek-v3", [], **options)) == 0


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        ({"tp": 3}, "tp is 3, but must be a divisor of heads, which is 32"),
        ({"tp": 16}, "tp is 16, but must be a divisor or a multiple of kv_heads"),
        ({"cp": 3}, "cp is 3, but must be a divisor of seq, which is 2048"),
        ({"ep": 2, "dp": 2}, "ep is 2, but must be a divisor of experts, which is 1"),
        ({"pp": 4, "interleave": 3}, "interleave is 3, but must be a divisor of the layers"),
        ({"pp": 8, "dp": 48, "interleave": 2}, "micro_batches is 4, but must be a multiple of pp"),
        ({"dp": 5}, "batch is 192, but must be a multiple of dp x micro_batch, which is 5"),
    ],
)
def test_a_layout_that_cannot_be_is_named_by_field_value_and_rule(layout, said):
    layouts = Layouts.of([Layout(), Layout(**layout), Layout(dp=2)], LLAMA.layers)
    if "kv_heads" in said:
        spec = TransformerSpec("odd", 32, 96, 32, 128, kv_heads=32, ffn=100)
        said = "tp is 16, but must be a divisor of ffn, which is 100"
    else:
        spec = LLAMA
    with pytest.raises(ValueError, match=said):
        rank_memories(spec, layouts, batch=BATCH, seq=SEQ)


def test_columns_that_no_layout_has_are_refused():
    some = Layouts.of([Layout(dp=4)], LLAMA.layers)
    with pytest.raises(ValueError, match="layers is 32, but must be 80, the model's"):
        rank_memories(published_models["llama-3.1-70b"], some, batch=4, seq=SEQ)
    with pytest.raises(ValueError, match="zero is 4"):
        wrong = many.replace(some, zero=np.array([4]))
        rank_memories(LLAMA, wrong, batch=4, seq=SEQ)
    with pytest.raises(ValueError, match="ep is 3, but must be a divisor of dp x cp, which is 4"):
        rank_memories(LLAMA, many.replace(some, ep=np.array([3])), batch=4, seq=SEQ)
    with pytest.raises(TypeError, match="but must be a Layouts"):
        rank_memories(LLAMA, [Layout()], batch=4, seq=SEQ)
    with pytest.raises(KeyError, match="no recipe 'none'; known: mixed"):
        rank_memories(LLAMA, some, batch=4, seq=SEQ, recipe="none")
    assert "mixed" in recipes
