"""A layout counts its ranks, fills a cluster, deals out layers, and refuses what cannot be."""

from dataclasses import FrozenInstanceError, fields
from itertools import product

import pytest

from dtlib.layout import ONE_RANK, Layout, even_stages, require_zero


@pytest.mark.parametrize(("tp", "cp", "pp"), list(product((1, 2, 8), (1, 4), (1, 3))))
def test_a_replica_is_repeated_until_every_rank_has_its_place(tp, cp, pp):
    """Every rank has one coordinate on each axis: as many ranks as there are tuples of them."""
    layout = Layout(tp=tp, cp=cp, pp=pp).on(tp * cp * pp * 5)
    axes = (layout.tp, layout.cp, layout.pp, layout.dp)
    assert layout.ranks == len(list(product(*map(range, axes)))) == tp * cp * pp * 5
    assert layout.on(layout.ranks) == layout


def test_sabotage_a_count_that_forgets_an_axis_is_seen(monkeypatch):
    monkeypatch.setattr(Layout, "ranks", property(lambda self: self.tp * self.pp * self.dp))
    with pytest.raises(AssertionError):
        test_a_replica_is_repeated_until_every_rank_has_its_place(2, 4, 3)


def test_every_sequence_of_a_batch_is_computed_once():
    layout = Layout(tp=2, dp=4, micro_batch=3)
    rows = [
        (replica, number, row)
        for replica in range(4)
        for number in range(layout.micro_batches(batch=60))
        for row in range(3)
    ]
    assert len(rows) == 60


@pytest.mark.parametrize(
    ("layout", "layers", "found"),
    [
        (ONE_RANK, 7, (7,)),
        (Layout(pp=4), 8, (2, 2, 2, 2)),
        (Layout(pp=2, interleave=3), 12, (6, 6)),
        (Layout(pp=3, stages=[5, 3, 0]), 8, (5, 3, 0)),
        (Layout(pp=2, stages=(4, 2), interleave=2), 6, (4, 2)),
    ],
    ids=str,
)
def test_every_layer_lies_on_one_stage(layout, layers, found):
    assert layout.stage_layers(layers) == found and sum(found) == layers


@pytest.mark.parametrize(
    ("layers", "pp", "stages"),
    [(4, 4, [1, 1, 1, 1]), (5, 2, [3, 2]), (6, 4, [1, 2, 2, 1]), (9, 4, [2, 3, 2, 2]), (3, 1, [3])],
)
def test_stages_that_do_not_divide_are_shorter_at_the_ends_the_last_one_first(layers, pp, stages):
    assert even_stages(layers, pp) == stages
    assert list(Layout(pp=pp, stages=stages).stage_layers(layers)) == stages


EVERYTHING = Layout(
    tp=2, cp=4, pp=2, dp=3, ep=6, zero=1, interleave=2, stages=[4, 2], micro_batch=8,
    sequence_parallel=True, flash=False, recompute="full", segment=2,
    offload=["activations", "optimizer"],
)  # fmt: skip


def test_its_one_line_names_every_field_that_is_not_plain_and_no_other():
    assert str(ONE_RANK) == "one rank" and repr(ONE_RANK) == "Layout()"
    assert str(EVERYTHING) == (
        "tp 2, cp 4, pp 2, dp 3, ep 6, ZeRO stage 1, 2 parts of a stage, stages of 4 + 2 layers, "
        "8 sequences at a time, sequence parallelism, scores stored, recompute full, "
        "segments of 2 layers, optimizer and activations away"
    )
    assert str(Layout(recompute=["keys", "softmax"])) == "one rank, recompute keys and softmax"


def test_every_field_changes_the_line_and_the_code():
    for field in fields(Layout):
        other = ONE_RANK | ({"dp": 6} if field.name == "ep" else {})
        other |= {"pp": 2} if field.name in ("interleave", "stages") else {}
        other |= {"recompute": "full"} if field.name == "segment" else {}
        changed = other | {field.name: getattr(EVERYTHING, field.name)}
        assert str(changed) != str(other) and repr(changed) != repr(other), field.name


def test_its_code_makes_it_again_and_equal_layouts_are_one_key():
    again = eval(repr(EVERYTHING), {"Layout": Layout})
    assert again == EVERYTHING and {again: 1}[EVERYTHING] == 1
    assert Layout(offload=[]) | {"tp": 1} == ONE_RANK


def test_it_changes_only_into_another_one():
    with pytest.raises(FrozenInstanceError):
        ONE_RANK.tp = 2
    assert (EVERYTHING | {"tp": 4}).tp == 4 and EVERYTHING.tp == 2
    with pytest.raises(TypeError, match="no field 'stage'; there are tp, cp, pp, dp, ep, zero"):
        _ = ONE_RANK | {"stage": 3}
    with pytest.raises(TypeError, match="positional"):
        Layout(8)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tp": 0}, "tp is 0, but must be a whole number of at least 1"),
        ({"pp": 1.5}, "pp is 1.5, but must be a whole number"),
        ({"dp": True}, "dp is True, but must be a whole number"),
        ({"dp": 4, "cp": 2, "ep": 3}, "ep is 3, but must be a divisor of dp x cp, which is 8"),
        ({"zero": 4}, "zero is 4, but must be a stage: 0, 1, 2 or 3"),
        ({"zero": True}, "zero is True"),
        ({"interleave": 2}, "interleave is 2, but must be 1 where pp is 1"),
        ({"recompute": "most"}, "recompute is 'most', but must be 'none', 'selective', 'full' or"),
        ({"recompute": True}, "recompute is True, but must be 'none'"),
        ({"segment": 2}, "segment is 2, but must be 1 unless recompute is 'full'"),
        ({"offload": "optimizer"}, "offload is 'optimizer', but must be a list of names out of"),
        ({"offload": ["weights"]}, "offload is .'weights',., but must be a list of names"),
        ({"offload": 3}, "offload is 3, but must be a list"),
        ({"pp": 2, "stages": [3]}, "stages is .3., but must be 2 counts, one for each stage"),
        ({"pp": 2, "stages": [3, -1]}, "layers of stage 1 is -1, but must be a whole number"),
    ],
)
def test_what_cannot_be_is_refused_with_field_value_and_rule(changes, says):
    with pytest.raises(ValueError, match=f"Layout: {says}"):
        Layout(**changes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sequence_parallel": 1}, "sequence_parallel is 1, but must be a bool"),
        ({"flash": "no"}, "flash is 'no', but must be a bool"),
        ({"stages": 3}, "stages is 3, but must be a Sequence"),
    ],
)
def test_what_is_of_another_kind_is_refused_too(changes, says):
    with pytest.raises(TypeError, match=f"Layout: {says}"):
        Layout(**changes)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (
            lambda: Layout(tp=3).on(8),
            "tp is 3, but must be a divisor of the ranks, which is 8",
        ),
        (lambda: Layout(tp=2, cp=3).on(8), "tp x cp is 6, but must be a divisor of the ranks"),
        (lambda: Layout(tp=2, dp=3).on(8), "dp is 3, but must be 4: 8 ranks in replicas of 2"),
        (lambda: Layout(dp=4).micro_batches(6), "batch is 6, but must be a multiple of dp x micro"),
        (lambda: ONE_RANK.micro_batches(0), "batch is 0, but must be a whole number of at least 1"),
        (lambda: Layout(pp=3).stage_layers(32), "pp is 3, but must be a divisor of the 32 layers"),
        (
            lambda: Layout(pp=2, stages=[16, 15]).stage_layers(32),
            "stages is .16, 15., but must be counts that add up to 32 layers",
        ),
        (
            lambda: Layout(pp=4, interleave=7).stage_layers(60),
            "interleave is 7, but must be a divisor of the layers of each stage, 15",
        ),
        (
            lambda: Layout(cp=2).require_plain("estimate", "ep", "cp"),
            "estimate: cp is 2, but must be 1: nothing else is counted here",
        ),
        (lambda: require_zero("here", "3"), "here: zero is '3', but must be a stage"),
        (lambda: even_stages(4, 5), "even_stages: pp is 5, but must be at most 4, the layers"),
        (lambda: even_stages(4, 0), "even_stages: pp is 0, but must be a whole number"),
    ],
)
def test_what_a_model_or_a_cluster_does_not_allow_is_refused(ask, says):
    with pytest.raises(ValueError, match=says):
        ask()
