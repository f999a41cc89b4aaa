"""Attention on shares under any mask, of any shape, in any order: torch's own over the whole.

The reference builds its mask pair by pair from numbers of documents, and knows nothing of ranks.
The functions that run on the ranks import what they need themselves.
"""

from contextlib import contextmanager

import pytest
import torch
from groups_tried import GROUPS
from hypothesis import strategies as st

from dtlib.parallelism.sequence.masks import (
    causal_mask,
    document_mask,
    document_numbers,
    window_mask,
)
from dtlib.runtime import RanksError, launch

METHODS = ("ring", "lean ring", "all-gather", "ulysses")


@st.composite
def cases(draw):
    """One call: who takes part, sizes, where the tokens lie, and who sees whom."""
    members = draw(st.sampled_from(GROUPS))
    method, P = draw(st.sampled_from(METHODS)), len(members)
    kv_heads, least = draw(st.integers(1, 3)), 1
    if method == "ulysses":  # P ranks and m key heads divide each other, and both divide the heads
        kv_heads = draw(
            st.sampled_from([m for m in (1, 2, 3, 4, 6, 8) if m % P == 0 or P % m == 0])
        )
        least = max(1, P // kv_heads)
    tokens, sequences = draw(st.integers(1, 7)), draw(st.integers(1, 2))
    number = st.integers(-1, 2)
    table = st.lists(
        st.lists(number, min_size=tokens * P, max_size=tokens * P),
        min_size=sequences, max_size=sequences,
    )  # fmt: skip
    return {
        "members": members, "method": method, "tokens": tokens, "sequences": sequences,
        "kv_heads": kv_heads, "heads": kv_heads * least * draw(st.integers(1, 2)),
        "width": draw(st.integers(1, 5)), "value_width": draw(st.integers(1, 5)),
        "tiles": draw(st.integers(1, 4)), "seed": draw(st.integers(0, 9)),
        "order": draw(st.permutations(range(tokens * P))),
        "causal": draw(st.booleans()), "window": draw(st.none() | st.integers(1, 5)),
        "documents": draw(st.none() | table),
    }  # fmt: skip


def seen_pairs(case):
    """The reference's mask, (b, 1, tokens, tokens): every pair on its own; None for all."""
    seq = len(case["order"])
    numbers = case["documents"] or [[0] * seq] * case["sequences"]

    def sees(document, i, j):
        near = case["window"] is None or abs(i - j) < case["window"]
        return document[i] == document[j] >= 0 and near and (i >= j or not case["causal"])

    return torch.tensor(
        [[[sees(document, i, j) for j in range(seq)] for i in range(seq)] for document in numbers]
    )[:, None]


def mask_of(case):
    """The library's."""
    parts = [causal_mask] if case["causal"] else []
    parts += [window_mask(case["window"])] if case["window"] else []
    parts += [document_mask(torch.tensor(case["documents"]))] if case["documents"] else []
    whole = parts[0] if parts else None
    for part in parts[1:]:
        whole = whole & part
    return whole


def judge(listed, spoil=None):
    """The errors of every case, with the library as it is or spoilt, on a rank."""
    with spoilt(spoil):
        return errors_of(listed)


def errors_of(listed):
    """On a rank, for each case it takes part in: the worst error of result, dq, dk, dv."""
    import torch.distributed as dist

    from dtlib.models import relative_errors, worst
    from dtlib.parallelism.sequence import attention as sequence
    from dtlib.parallelism.sequence import lean

    functions = {
        "ring": sequence.ring_attention, "lean ring": lean.lean_ring_attention,
        "all-gather": sequence.all_gather_attention, "ulysses": sequence.ulysses_attention,
    }  # fmt: skip
    groups = {tuple(members): dist.new_group(members) for members in GROUPS}
    errors = []
    for case in listed:
        members = case["members"]
        if dist.get_rank() not in members:
            errors.append(("not here", 0.0))
            continue
        b, d = case["sequences"], case["width"]
        seq, place = len(case["order"]), members.index(dist.get_rank())
        drawn = torch.Generator().manual_seed(case["seed"])
        q, k, v, g = (
            torch.randn(b, heads, seq, width, generator=drawn, dtype=torch.float64)
            for heads, width in (
                (case["heads"], d), (case["kv_heads"], d),
                (case["kv_heads"], case["value_width"]), (case["heads"], case["value_width"]),
            )
        )  # fmt: skip
        whole = [x.clone().requires_grad_() for x in (q, k, v)]
        expected = torch.nn.functional.scaled_dot_product_attention(
            *whole, attn_mask=seen_pairs(case), enable_gqa=True
        )
        expected.backward(g)
        table = torch.tensor(case["order"]).view(len(members), -1)
        own, mask = table[place], mask_of(case)
        share = [x[:, :, own].clone().requires_grad_() for x in (q, k, v)]
        out = functions[case["method"]](
            *share, None if mask is None else table, groups[tuple(members)], case["tiles"], mask
        )
        out.backward(g[:, :, own])
        right = {"out": expected.detach()} | dict(zip("qkv", (x.grad for x in whole), strict=True))
        right = {name: x[:, :, own] for name, x in right.items()}
        found = {"out": out.detach()} | dict(zip("qkv", (x.grad for x in share), strict=True))
        errors.append(worst(relative_errors(found, right)))
    return errors


@contextmanager
def spoilt(how):
    """Break the library on this rank, which may stay when the block has failed.

    `lean` takes names of `attention` when it is imported: before, so that none is broken.
    """
    from dtlib.parallelism.sequence import attention as sequence
    from dtlib.parallelism.sequence import lean, masks  # noqa: F401

    allowed, looked_up, attends = sequence.allowed, masks._looked_up, sequence.tile_state
    joined = sequence.with_gradients
    if how == "left out":
        sequence.with_gradients = lambda result, *inputs: result
    if how == "causal only":
        sequence.allowed = lambda places, queries, keys, mask=None: allowed(places, queries, keys)
    if how == "documents counted from this rank's first token":
        masks._looked_up = lambda table, positions: looked_up(table, positions - positions.min())
    if how == "a row without keys sees all":
        sequence.tile_state = lambda q, k, v, seen=None: attends(
            q, k, v, None if seen is None else seen | ~seen.any(-1, keepdim=True)
        )

    try:
        yield
    finally:
        sequence.allowed, masks._looked_up, sequence.tile_state = allowed, looked_up, attends
        sequence.with_gradients = joined


def wrong(results, listed):
    """The cases, with what is wrong, that any rank judged so."""
    return [
        (case, name, error)
        for case, judged in zip(listed, zip(*results, strict=True), strict=True)
        for name, error in judged
        if error > 1e-12
    ]


def test_attention_under_any_mask_equals_torch_in_result_and_gradients(four, examples):
    listed = examples(cases(), 40)
    assert not wrong(four.run(judge, listed), listed)


def packed(method, **other):
    """Two sequences on all four ranks: documents of 3, 7 and 4 tokens; one of 9, and padding."""
    documents = [document_numbers([3, 7, 4], 16).tolist(), document_numbers([9], 16).tolist()]
    return {
        "members": [0, 1, 2, 3], "method": method, "tokens": 4, "sequences": 2, "kv_heads": 4,
        "heads": 8, "width": 4, "value_width": 6, "tiles": 2, "seed": 1,
        "order": [0, 1, 14, 15, 2, 3, 12, 13, 4, 5, 10, 11, 6, 7, 8, 9],
        "causal": True, "window": None, "documents": documents, **other,
    }  # fmt: skip


def test_packed_documents_and_padding_with_values_of_another_width_by_every_method(four):
    listed = [packed(method) for method in METHODS]
    listed += [packed(method, causal=False, window=3) for method in METHODS]
    assert not wrong(four.run(judge, listed), listed)


@pytest.mark.parametrize(
    ("spoil", "methods"),
    [
        ("causal only", METHODS),
        ("documents counted from this rank's first token", ("ring", "lean ring", "all-gather")),
        ("a row without keys sees all", METHODS),
    ],
)
def test_sabotage_is_noticed_by_every_method(four, spoil, methods):
    listed = [packed(method) for method in methods]
    found = wrong(four.run(judge, listed, spoil), listed)
    assert {case["method"] for case, _, error in found if error > 1e-3} == set(methods)


def sees_nothing(method):
    """Of 16 tokens in order, documents are on the first rank only: the others see nothing."""
    only = [document_numbers([4], 16).tolist()] * 2
    return packed(method, order=list(range(16)), documents=only)


def test_a_rank_that_sees_nothing_gives_zeros_and_takes_part_in_the_backward_pass(four):
    listed = [sees_nothing(method) for method in METHODS]
    assert not wrong(four.run(judge, listed), listed)


def test_sabotage_a_rank_that_sees_nothing_leaves_the_backward_pass():
    with launch(4, timeout=5) as doomed, pytest.raises(RanksError, match="not require grad"):
        doomed.run(judge, [sees_nothing("all-gather")], "left out")


def tiles_computed(documents):
    """How many tiles a rank computes of eight times eight, in contiguous order."""
    import torch.distributed as dist

    from dtlib.parallelism.sequence import attention as sequence
    from dtlib.parallelism.sequence import layouts

    computed, attends = [], sequence.tile_state
    sequence.tile_state = lambda *args: computed.append(1) or attends(*args)
    q = torch.ones(1, 1, 16, 2)
    mask = causal_mask & document_mask(documents) if documents is not None else None
    try:
        sequence.ring_attention(q, q, q, layouts.contiguous(64, 4), dist.group.WORLD, 8, mask)
    finally:
        sequence.tile_state = attends
    return len(computed)


def tiles_computed_again(documents):
    """How many tiles the lean ring's backward pass computes, of the same blocks."""
    import torch.distributed as dist

    from dtlib.parallelism.sequence import layouts, lean

    computed, adds = [], lean._by_kv_head
    q = torch.ones(1, 1, 16, 2, requires_grad=True)
    mask = causal_mask & document_mask(documents) if documents is not None else None
    out = lean.lean_ring_attention(q, q, q, layouts.contiguous(64, 4), dist.group.WORLD, 8, mask)
    lean._by_kv_head = lambda *args: computed.append(1) or adds(*args)
    try:
        out.sum().backward()
    finally:
        lean._by_kv_head = adds
    return len(computed) / 2  # the gradients of keys and of values


@pytest.mark.parametrize("computed", [tiles_computed, tiles_computed_again])
def test_blocks_that_no_pair_is_seen_of_are_not_computed(four, computed):
    """Of 8 x 8 tiles a triangle has 36. Documents of two ranks: what lies before them is left out,
    and those of one rank need no other rank's keys at all."""
    assert four.run(computed, None) == [36, 36 + 64, 36 + 128, 36 + 192]
    by_two = document_numbers([32, 32], 64)
    assert four.run(computed, by_two) == [36, 36 + 64, 36, 36 + 64]
    assert four.run(computed, document_numbers([16] * 4, 64)) == [36] * 4
    assert four.run(computed, document_numbers([16], 64)) == [36, 0, 0, 0]


def test_a_mask_is_what_it_says_pair_by_pair():
    whole = torch.arange(6)
    document = torch.tensor([[0, 0, 0, 1, 1, -1], [2, 2, -1, -1, 0, 0]])
    both = (causal_mask & window_mask(2) & document_mask(document))(whole, whole)
    for b in range(2):
        for i in range(6):
            for j in range(6):
                one = document[b, i] == document[b, j] >= 0
                assert both[b, 0, i, j] == (one and 0 <= i - j < 2)
    assert document_numbers(torch.tensor([0, 3, 7]).diff(), 8).tolist() == [0] * 3 + [1] * 4 + [-1]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: window_mask(0), "tokens is 0, but must be a whole number of at least 1"),
        (lambda: document_mask(torch.zeros(1, 2, 3)), r"shape of document_s is \(1, 2, 3\)"),
        (lambda: document_numbers([3, -1], 8), r"lengths is \[3, -1\], but must be whole"),
        (lambda: document_numbers([3, 6], 8), "8 together at the most"),
        (
            lambda: document_mask(torch.zeros(4))(torch.arange(5), torch.arange(5)),
            "a position is 4, but must be below 4",
        ),
    ],
)
def test_a_wrong_mask_is_named_with_its_rule(wrong, says):
    with pytest.raises(ValueError, match=says):
        wrong()


REFUSED = [
    ({"uneven": True}, ValueError,
     "numbers of tokens of the ranks is [4, 5, 6, 7], but must be the same for all"),
    ({"positions": [range(4), range(4, 9), range(9, 12), range(12, 16)]}, ValueError,
     "lengths of the rows of positions is [4, 5, 3, 4], but must be the same for all"),
    ({"positions": range(16)}, ValueError, "the shape of positions is (16,), but must be (4, 4)"),
    ({"mask": causal_mask}, ValueError, "positions is None, but must be given where a mask is"),
    ({"mask": torch.zeros(4, 16)}, TypeError, "mask is a Tensor, but must be a Mask of positions"),
    ({"k": (2, 4, 4, 2), "v": (2, 4, 4, 2)}, ValueError,
     "the shape of k is (2, 4, 4, 2), but must be (1, 4, 4, 2)"),
    ({"v": (1, 4, 5, 2)}, ValueError,
     "the shape of v is (1, 4, 5, 2), but must be (1, 4, 4, 2)"),
    ({"v": (1, 2, 4, 2)}, ValueError,
     "the shape of v is (1, 2, 4, 2), but must be (1, 4, 4, 2)"),
    ({"k": (1, 4, 4, 3)}, ValueError, "the shape of k is (1, 4, 4, 3), but must be (1, 4, 4, 2)"),
    ({"q": (4, 4, 2)}, ValueError, "the shape of q is (4, 4, 2), but must be (sequences,"),
]  # fmt: skip


def refusals(listed):
    """On a rank: what every function says to every wrong argument."""
    import torch.distributed as dist

    from dtlib.parallelism.sequence import attention as sequence
    from dtlib.parallelism.sequence import lean

    group, said = dist.group.WORLD, []
    for given, kind, _ in listed:
        tokens = 4 + (dist.get_rank() if given.get("uneven") else 0)
        q, k, v = (torch.zeros(given.get(name, (1, 4, tokens, 2))) for name in "qkv")
        for function in (
            sequence.ring_attention, lean.lean_ring_attention,
            sequence.all_gather_attention, sequence.ulysses_attention,
        ):  # fmt: skip
            try:
                function(q, k, v, given.get("positions"), group, mask=given.get("mask"))
            except kind as error:
                said.append(str(error))
    return said


def test_what_does_not_fit_is_refused_on_every_rank_by_every_method(four):
    expected = [text for _, _, text in REFUSED for _ in METHODS]
    for said in four.run(refusals, REFUSED):
        assert len(said) == len(expected)
        for message, text in zip(said, expected, strict=True):
            assert text in message


def without_a_look_at_the_tokens():
    import torch.distributed as dist

    from dtlib.parallelism.sequence import attention as sequence

    looks, sequence.require_equal_tokens = sequence.require_equal_tokens, lambda *_: None
    q = torch.zeros(1, 1, 4 + dist.get_rank(), 2)
    try:
        sequence.ring_attention(q, q, q, None, dist.group.WORLD)
    finally:
        sequence.require_equal_tokens = looks


def test_sabotage_without_a_look_at_the_tokens_of_others_a_rank_dies():
    with launch(2, timeout=5) as doomed, pytest.raises(RanksError):
        doomed.run(without_a_look_at_the_tokens)
