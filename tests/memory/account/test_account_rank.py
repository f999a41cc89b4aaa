"""The memory equation of a rank: its terms, its stages, and schedules as the second witness."""

from dataclasses import replace

import pytest

from dtlib.foundations import MoE, TransformerSpec, catalog, published_models
from dtlib.layout import Layout
from dtlib.memory import (
    AllocatorModel,
    Chain,
    LayerCost,
    Life,
    LiveSet,
    ZeroStep,
    activation_bytes,
    check_fits,
    check_recompute,
    gpt_kept_tensors,
    gpt_lives,
    launch_queue,
    model_state_bytes,
    parameter_groups,
    pipeline_memory,
    rank_memory,
    recipes,
    square_gap,
    stage_params,
    token_bytes,
    training_lives,
)
from dtlib.parallelism.pipeline import gpipe, interleaved, one_f_one_b, simulate, zero_bubble

LLAMA = published_models["llama-3.1-8b"]
MIXTRAL = published_models["mixtral-8x7b"]
SMALL = TransformerSpec("small", 8, 64, 4, 128, norm="rms", bias=False, gated=True)
EXACT = {"rel": 1e-12}


@pytest.mark.parametrize("stage", range(4))
def test_the_state_of_one_rank_is_the_zero_formula_of_its_parameters(stage):
    rank = rank_memory(LLAMA, seq=512, tp=2, dp=16, zero=stage)
    own = stage_params(LLAMA, tp=2).total
    assert rank["state"] == pytest.approx(model_state_bytes(own, stage, 16), **EXACT)


@pytest.mark.parametrize(("recipe", "width"), [("mixed", 2), ("32-bit", 4)])
def test_gathered_layers_have_the_width_of_the_weights(recipe, width):
    rank = rank_memory(LLAMA, seq=512, dp=8, zero=3, recipe=recipe)
    own = stage_params(LLAMA).layers
    assert rank["gathered"] == pytest.approx(2 * width * own / LLAMA.layers, **EXACT)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tp": 4, "zero": 1, "dp": 8},
        {"tp": 2, "cp": 4, "sequence_parallel": True, "recompute": "full", "segment": 2},
        {"tp": 2, "sequence_parallel": True, "allocator": AllocatorModel()},
        {"pp": 4, "place": 1, "recipe": "passing", "zero": 3, "dp": 2},
    ],
    ids=str,
)
def test_the_terms_add_up_to_the_memory_and_none_is_negative(options):
    rank = rank_memory(LLAMA, seq=1024, **options)
    assert sum(rank.terms().values()) == pytest.approx(rank["memory"], **EXACT)
    assert all(value >= 0 for value in rank.terms().values())


@pytest.mark.parametrize("spec", [LLAMA, MIXTRAL, published_models["deepseek-v3"]], ids=repr)
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_the_activations_of_one_rank_are_the_exact_list(spec, recompute):
    rank = rank_memory(
        spec, seq=2048, micro_batch=2, tp=4, sequence_parallel=True, recompute=recompute
    )
    exact = activation_bytes(spec, 2048, 2, tp=4, sequence_parallel=True, recompute=recompute)
    found = rank["activations"] + rank.terms().get("expert_activations", 0)
    assert found == pytest.approx(exact, **EXACT)


def test_what_is_repeated_is_the_layer_that_needs_most():
    """Full recomputation holds one whole layer while it repeats it, and the inputs of all."""
    spec = replace(SMALL, moe=MoE(8, 2, 128, dense_layers=2))
    rank = rank_memory(spec, seq=64, recompute="full")
    one = [
        activation_bytes(spec, 64, layers=1, first_layer=at, recompute=r)
        for at in (0, 7)
        for r in ("none", "full")
    ]
    assert rank["again"] == max(one[0] - one[1], one[2] - one[3])


@pytest.mark.parametrize(("p", "m"), [(4, 16), (4, 2), (8, 8)])
def test_micro_batches_under_way_are_those_that_the_schedule_holds(p, m):
    peaks = simulate(one_f_one_b(p, m)).peak_activations
    ranks = pipeline_memory(SMALL, pp=p, seq=64, micro_batches=m)
    assert [rank["in_flight"] for rank in ranks] == peaks
    one = activation_bytes(SMALL, 64, layers=8 // p)
    assert [rank["activations"] for rank in ranks] == [one * peak for peak in peaks]


@pytest.mark.parametrize("v", [2, 4])
def test_interleaved_stages_hold_what_their_schedule_holds(v):
    peaks = simulate(interleaved(4, 64, v)).peak_activations
    ranks = pipeline_memory(replace(SMALL, layers=16), pp=4, seq=64, interleave=v)
    assert [rank["in_flight"] for rank in ranks] == pytest.approx([float(x) for x in peaks])
    assert ranks[0]["in_flight"] == 4 * (1 + 3 / (4 * v))


@pytest.mark.parametrize("schedule", [gpipe(4, 8), zero_bubble(4, 8, 1), zero_bubble(4, 8, 2)])
def test_any_schedules_peaks_can_be_counted(schedule):
    peaks = simulate(schedule).peak_activations
    ranks = pipeline_memory(SMALL, pp=4, seq=64, in_flight=peaks)
    one = activation_bytes(SMALL, 64, layers=2)
    assert [rank["activations"] for rank in ranks] == [one * peak for peak in peaks]


def test_a_full_queue_of_launches_holds_the_same_for_every_number_of_layers():
    """Two tensors as wide as the stream for 16 layers, half of them beyond a node."""
    full = 2 * 1024 * LLAMA.hidden
    for tp, tensors in ((2, 32), (8, 32), (16, 16)):
        for layers in (8, 32):
            spec = replace(LLAMA, layers=layers, kv_heads=16)
            options = {"tp": tp, "seq": 1024, "sequence_parallel": True}
            rank = rank_memory(spec, allocator=launch_queue, **options)
            assert rank["ahead"] == tensors * full
            plain = rank_memory(spec, allocator=AllocatorModel(), **options)
            assert plain["ahead"] == layers * full
            assert "workspaces" not in plain.terms() and rank.terms()["workspaces"] == 2**26
            assert sum(rank.terms().values()) == pytest.approx(rank["memory"], **EXACT)
    assert "workspaces of products" in repr(rank)
    known = rank_memory(LLAMA, seq=1024, allocator=launch_queue, program="megatron")
    assert repr(known).count("workspaces of products") == 1


def test_stages_differ_by_their_tables_and_by_what_is_under_way():
    first, middle, _, last = pipeline_memory(LLAMA, pp=4, seq=4096, tp=2)
    assert "logits" in last.terms() and "logits" not in first.terms() | middle.terms()
    table = LLAMA.vocab * LLAMA.hidden / 2
    assert first["rank_params"] - middle["rank_params"] == table
    assert last["rank_params"] - middle["rank_params"] == table + LLAMA.hidden
    assert [rank["activations"] / last["activations"] for rank in (first, middle)] == [4, 3]


def test_a_short_step_on_a_large_vocabulary_is_fullest_at_the_end():
    """The first rank is not always the fullest: with few micro-batches the logits decide."""
    wide = replace(SMALL, vocab=200_000)
    ranks = pipeline_memory(wide, pp=4, seq=256, micro_batches=1)
    memory = [rank["memory"] for rank in ranks]
    assert memory.index(max(memory)) == 3


def test_stages_may_be_unequal_and_an_empty_one_holds_its_table_only():
    ranks = pipeline_memory(SMALL, pp=3, seq=64, stages=[5, 3, 0])
    assert [rank["activations"] for rank in ranks][2] == 0
    assert ranks[2]["rank_params"] == SMALL.vocab * SMALL.hidden + SMALL.hidden


@pytest.mark.parametrize("ep", [1, 4, 8])
def test_experts_are_divided_and_their_state_shared_by_fewer_replicas(ep):
    """ep times fewer experts, held by ep times fewer replicas: under ZeRO-3 nothing changes."""
    rank = rank_memory(MIXTRAL, seq=512, dp=8, ep=ep, zero=3)
    whole = rank_memory(MIXTRAL, seq=512, dp=8, zero=3)
    assert rank["state"] == pytest.approx(whole["state"], **EXACT)
    plain = rank_memory(MIXTRAL, seq=512, dp=8, ep=ep)
    held = 16 * stage_params(MIXTRAL).experts / ep
    assert sum(v for n, v in plain.terms().items() if n in _EXPERT_STATE) == held


_EXPERT_STATE = {f"expert_{part}" for part in ("weights", "gradients", "master", "moments")}


@pytest.mark.parametrize("cp", [2, 8])
def test_context_parallel_ranks_share_the_state_and_divide_the_tokens(cp):
    one = rank_memory(LLAMA, seq=8192, dp=2, zero=1)
    many = rank_memory(LLAMA, seq=8192, dp=2, cp=cp, zero=1)
    assert many["activations"] * cp == one["activations"]
    assert many["logits"] * cp == one["logits"]
    assert many["moments"] * cp == one["moments"] and many["weights"] == one["weights"]


@pytest.mark.parametrize("name", list(recipes))
def test_every_recipe_is_the_sum_of_its_lines(name):
    rank = rank_memory(SMALL, seq=64, recipe=name, dp=4, zero=2)
    per_parameter = recipes[name].per_parameter(2, 4)
    assert rank["state"] == pytest.approx(per_parameter * SMALL.params(), **EXACT)


def test_an_allocator_reserves_a_share_of_what_moves_and_nothing_of_the_state():
    plain = rank_memory(LLAMA, seq=2048, tp=2, sequence_parallel=True)
    rank = rank_memory(
        LLAMA, seq=2048, tp=2, sequence_parallel=True, allocator=AllocatorModel(0.2, 2)
    )
    ahead = 2 * 32 * 2048 * 4096
    assert rank["ahead"] == ahead and rank["moving"] == plain["moving"] + ahead
    assert rank["reserve"] == pytest.approx(0.2 * rank["moving"], **EXACT)
    assert rank["state"] == plain["state"]


def test_only_sequence_parallelism_without_a_pipeline_holds_messages():
    divided = {"tp": 2, "sequence_parallel": True}
    assert "ahead" in rank_memory(LLAMA, seq=512, allocator=AllocatorModel(), **divided).terms()
    for options in (divided | {"tp": 1}, {"tp": 2}, divided | {"pp": 2}):
        rank = rank_memory(LLAMA, seq=512, allocator=AllocatorModel(), **options)
        assert "ahead" not in rank.terms()


def test_memory_that_was_allocated_on_b200s_is_met_without_any_fitted_constant():
    """SimuMax's measurement: Llama 3 70B with 12 layers on 8 tensor-parallel ranks, 28.29 GiB."""
    spec = replace(published_models["llama-3.1-70b"], layers=12)
    rank = rank_memory(spec, seq=4096, tp=8, sequence_parallel=True, recipe="32-bit sums", zero=1)
    assert rank["memory"] / 2**30 == pytest.approx(28.29, rel=0.03)


def test_logits_of_a_large_vocabulary_weigh_4_gb_in_32_bits_and_their_gradient_as_much():
    one, two = (rank_memory(LLAMA, seq=8192, logit_bytes=width)["logits"] for width in (4, 8))
    assert (two - one) / 1e9 == pytest.approx(4.2, abs=0.01)


def test_whether_it_fits_is_asked_of_a_gpu():
    gpu = catalog["h100-sxm"]
    assert rank_memory(LLAMA, seq=4096, tp=8, gpu=gpu).fits
    assert not rank_memory(LLAMA, seq=4096, gpu=gpu).fits
    with pytest.raises(ValueError, match="gpu is None, but must be given"):
        _ = rank_memory(LLAMA, seq=4096).fits


@pytest.mark.parametrize("forgotten", ["logits", "activations", "master", "moments"])
def test_sabotage_a_forgotten_term_is_missed(forgotten):
    rank = rank_memory(LLAMA, seq=8192, dp=8, zero=1)
    rest = sum(value for name, value in rank.terms().items() if name != forgotten)
    assert rest < 0.97 * rank["memory"]


def test_a_layout_and_its_fields_by_name_are_the_same_rank():
    layout = Layout(tp=2, dp=8, zero=1)
    account = dict(rank_memory(LLAMA, layout, seq=512, dp=4))
    assert account == dict(rank_memory(LLAMA, seq=512, tp=2, dp=4, zero=1))
    assert account != dict(rank_memory(LLAMA, layout, seq=512))


def test_a_sheet_opens_prints_and_varies():
    rank = rank_memory(LLAMA, seq=4096, tp=4, dp=8, zero=1, allocator=AllocatorModel())
    shown = repr(rank)
    assert "activations under way" in shown and "allocator's reserve" in shown
    twice = rank.replaced(micro_batch=2)
    assert twice["activations"] == 2 * rank["activations"] and twice["state"] == rank["state"]
    assert rank.exponents("activations")["seq"] == pytest.approx(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pp": 3}, "pp is 3, but must be a divisor of the 32 layers"),
        ({"pp": 2, "stages": [16, 15]}, "stages is .16, 15., but must be counts that add up to 32"),
        ({"pp": 2, "stages": [32]}, "stages is .32., but must be 2 counts, one for each stage"),
        (
            {"pp": 4, "interleave": 3},
            "interleave is 3, but must be a divisor of the layers of each",
        ),
        ({"offload": ["optimizer"]}, "offload is .*, but must be .*: nothing else is counted"),
        ({"pp": 2, "place": 2}, "place is 2, but must be below 2"),
        ({"zero": 5}, "zero is 5, but must be a stage: 0, 1, 2 or 3"),
        ({"dp": 2, "ep": 4}, "ep is 4, but must be a divisor of dp x cp, which is 2"),
        ({"micro_batches": 0}, "micro_batches is 0, but must be a whole number of at least 1"),
        ({"in_flight": -1}, "in_flight is -1, but must be a positive number"),
        ({"tp": 5}, "tp is 5, but must be a divisor of heads"),
        ({"cp": 3}, "cp is 3, but must be a divisor of seq"),
        ({"recompute": "most"}, "recompute is 'most', but must be"),
    ],
)
def test_what_cannot_be_is_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        rank_memory(LLAMA, seq=1024, **options)


def test_other_mistakes_are_named_too():
    with pytest.raises(TypeError, match="spec is 'llama', but must be a TransformerSpec"):
        rank_memory("llama", seq=1024)
    with pytest.raises(ValueError, match=r"in_flight is \[1, 2\], but must be one number for each"):
        pipeline_memory(LLAMA, pp=4, seq=64, in_flight=[1, 2])
    with pytest.raises(
        ValueError, match="reserve_fraction is -1, but must be a number of at least"
    ):
        AllocatorModel(reserve_fraction=-1)


TINY = TransformerSpec("tiny", 2, 64, 4, 100, positions=64)
DEEPSEEK = published_models["deepseek-v3"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: rank_memory(TINY, seq=8, stages=3), "stages is 3, but must be a Sequence"),
        (lambda: rank_memory(TINY, seq=8, stages=["x"]), "layers of stage 0 is 'x'"),
        (lambda: rank_memory(TINY, seq=8, recompute=3), "recompute is 3, but must be 'none'"),
        (lambda: activation_bytes(3, 8), "spec is 3, but must be a TransformerSpec"),
        (lambda: activation_bytes(TINY, 8, layers=3), "layers is 3, but must be at most 2"),
        (lambda: activation_bytes(TINY, 8, first_layer=3, layers=0), "must be at most -1"),
        (lambda: activation_bytes(TINY, 8, flash="no"), "flash is 'no', but must be a bool"),
        (lambda: token_bytes(TINY, experts=True), "experts is True, but must be False"),
        (lambda: token_bytes("tiny"), "spec is 'tiny', but must be a TransformerSpec"),
        (lambda: gpt_kept_tensors("gpt2", seq=32), "spec is 'gpt2', but must be a Transformer"),
        (lambda: gpt_kept_tensors(TINY, 0), "seq is 0, but must be a whole number of at least 1"),
        (lambda: gpt_kept_tensors(TINY, 8, 0), "micro_batch is 0, but must be a whole number"),
        (lambda: gpt_kept_tensors(DEEPSEEK, 8), r"mla is MLA\(.*, but must be None: GPT has no"),
        (lambda: gpt_kept_tensors(TINY, 65), "seq is 65, but must be at most 64, the rows"),
        (lambda: stage_params(TINY, "x"), "first_layer is 'x', but must be a whole number"),
        (lambda: parameter_groups(3), "spec is 3, but must be a TransformerSpec"),
        (lambda: check_fits(gpt_lives(TINY, 8, 1), "80 GB"), "capacity is '80 GB', but must be a"),
        (lambda: check_fits(3, 4), "live is 3, but must be a LiveSet"),
        (lambda: check_fits(gpt_lives(TINY, 8, 1), -1), "capacity is -1, but must be a number of"),
        (lambda: training_lives("gpt2", 1, 1), "spec is 'gpt2', but must be a TransformerSpec"),
        (lambda: training_lives(TINY, "x", 1), "layer_bytes is 'x', but must be a number of at"),
        (lambda: training_lives(TINY, 1, -1), "loss_bytes is -1, but must be a number of at"),
        (lambda: training_lives(TINY, 1, 1, recipe=3), "recipe is 3, but must be a StateRecipe"),
        (lambda: LiveSet([3], ["a"]), "a life is 3, but must be a Life"),
        (lambda: LiveSet([Life("x", "loss", "9", 0, 1)], ["a"]), "with at least 0 bytes"),
        (lambda: activation_bytes(TINY, 8, 0), "micro_batch is 0, but must be a whole number"),
        (lambda: activation_bytes(TINY, 8, sequence_parallel=1), "sequence_parallel is 1, but"),
        (lambda: rank_memory(TINY, seq=8, place=1), "place is 1, but must be below 1, the stages"),
        (lambda: rank_memory(TINY, seq=8, in_flight=0), "in_flight is 0, but must be a positive"),
        (lambda: rank_memory(TINY, seq=8, logit_bytes="x"), "logit_bytes is 'x', but must be a"),
        (lambda: rank_memory(TINY, seq=8, micro_batches=0), "micro_batches is 0, but must be a"),
        (lambda: pipeline_memory(TINY, seq=8, pp=0), "pp is 0, but must be a whole number"),
        (lambda: Chain((3,)), "layer 0 is 3, but must be a LayerCost"),
        (lambda: Chain((LayerCost(1, 1),), -1), "output_bytes is -1"),
        (lambda: check_recompute(3), "schedule is 3, but must be a RecomputeSchedule"),
        (lambda: ZeroStep(zero=1, P=2, units=3), "units is 3, but must be a Sequence"),
        (lambda: square_gap(3), "make_optimizer is 3, but must be a Callable"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_no_mistake_is_reported_from_the_inside(call, said):
    with pytest.raises((ValueError, TypeError), match=said):
        call()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"gpu": "h100-sxm"}, "gpu is 'h100-sxm', but must be a GPU"),
        ({"allocator": 0.1}, "allocator is 0.1, but must be a AllocatorModel"),
        ({"layout": "tp 8"}, "layout is 'tp 8', but must be a Layout"),
        ({"recipe": 16}, "recipe is 16, but must be a StateRecipe"),
    ],
)
def test_another_kind_of_thing_is_named(options, said):
    with pytest.raises(TypeError, match=said):
        rank_memory(published_models["llama-3.1-8b"], seq=8192, **options)
