"""Tensor parallelism equals the undivided model on real ranks: loss, logits, dX, every gradient.

Functions that run on ranks import what they need themselves.
"""

from dataclasses import replace

import pytest
import torch

from dtlib.collectives import ring_all_reduce_sent_bytes
from dtlib.foundations import TransformerSpec
from dtlib.runtime import RanksError, launch

CLASSIC = TransformerSpec("classic", layers=2, hidden=16, heads=4, vocab=24, positions=8)
LLAMA = TransformerSpec(
    "llama", layers=2, hidden=16, heads=8, kv_heads=2, vocab=24, gated=True, norm="rms", bias=False
)
SHARED_KEYS = replace(LLAMA, kv_heads=1, bias=True, head_dim=4, ffn=24, name="one key head")
TIED = replace(CLASSIC, tied=True, positions=0, qkv_bias=False, name="tied")
SPECS = (CLASSIC, LLAMA, SHARED_KEYS, TIED)
NORM = ("attention_norm.weight", "attention_norm.bias")
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}


@pytest.fixture(scope="module", params=[1, 2, 4])
def ranks(request):
    with launch(request.param, timeout=60) as ranks:
        yield ranks


def model_errors(spec, dtype, sequence_parallel, reduction="mean"):
    """On a rank: how far loss, logits and every gradient are from those of the whole model."""
    import torch.distributed as dist

    from dtlib.models import GPT, gradients, next_token_loss, relative_errors
    from dtlib.parallelism import gather_slices, tensor_parallel, vocab_parallel_cross_entropy
    from dtlib.parallelism.tensor.model import cut_of

    group = dist.group.WORLD
    rank, P = dist.get_rank(), dist.get_world_size()
    generator = torch.Generator().manual_seed(7)
    tokens, targets = torch.randint(spec.vocab, (2, 3, 8), generator=generator)
    targets[0, 2] = -100
    whole = GPT(spec, seed=3, dtype=dtype)
    logits = whole(tokens)
    loss = next_token_loss(logits, targets, reduction)
    loss.backward()
    divided = tensor_parallel(whole, group, sequence_parallel)
    own_logits = divided(tokens)
    own_loss = vocab_parallel_cross_entropy(own_logits, targets, group, reduction)
    own_loss.backward()
    found = gradients(divided) | {"loss": own_loss, "logits": gather_slices(own_logits, group, -1)}
    expected = {
        name: cut_of(name, spec.kv_heads, P).part(gradient, rank, P)
        for name, gradient in gradients(whole).items()
    }
    return relative_errors(found, expected | {"loss": loss, "logits": logits})


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("sequence_parallel", [False, True], ids=["plain", "sequence"])
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_a_divided_model_equals_the_whole_one(ranks, spec, sequence_parallel, dtype):
    for errors in ranks.run(model_errors, spec, dtype, sequence_parallel):
        assert errors.pop("loss") <= (1e-6 if dtype == torch.float32 else 1e-12)
        assert max(errors.values()) <= TOLERANCE[dtype], max(errors.items(), key=lambda e: e[1])


def test_a_summed_loss_is_divided_as_well(four):
    for errors in four.run(model_errors, CLASSIC, torch.float64, True, "sum"):
        assert max(errors.values()) <= 1e-12


def block_errors(spec, sequence_parallel, change=None):
    """On a rank: dX and every gradient of one block against the whole one, after `change`."""
    import torch.distributed as dist

    from dtlib.models import Block, gradients, relative_errors
    from dtlib.models.gpt import draw_weights
    from dtlib.parallelism import TensorParallelBlock
    from dtlib.parallelism.tensor.model import cut_of

    group = dist.group.WORLD
    rank, P = dist.get_rank(), dist.get_world_size()
    whole = Block(spec, dtype=torch.float64)
    draw_weights(whole, seed=5)
    generator = torch.Generator().manual_seed(1)
    x, toward = torch.randn(2, 3, 8, spec.hidden, generator=generator, dtype=torch.float64)
    x.requires_grad_()
    y = whole(x)
    (y * toward).sum().backward()
    block = TensorParallelBlock(whole, group, sequence_parallel)
    if change:
        change(block)
    own = slice(rank * 8 // P, (rank + 1) * 8 // P) if sequence_parallel else slice(None)
    x_own = x.detach()[:, own].clone().requires_grad_()
    y_own = block(x_own, torch.arange(8))
    (y_own * toward[:, own]).sum().backward()
    expected = {
        name: cut_of(name, spec.kv_heads, P).part(gradient, rank, P)
        for name, gradient in gradients(whole).items()
    }
    found = gradients(block) | {"y": y_own, "dX": x_own.grad}
    return relative_errors(found, expected | {"y": y[:, own], "dX": x.grad[:, own]})


@pytest.mark.parametrize("sequence_parallel", [False, True], ids=["plain", "sequence"])
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_a_divided_block_has_the_same_input_gradient(ranks, spec, sequence_parallel):
    for errors in ranks.run(block_errors, spec, sequence_parallel):
        assert max(errors.values()) <= 1e-12, max(errors.items(), key=lambda e: e[1])


def forget_f(block):
    """Sabotage: the input goes to the ranks' matrices as it is."""
    block.enter = lambda x: x


def add_under_autograd(block):
    """Sabotage: the sum over the ranks is its own transpose, as for a partitioned loss."""
    from dtlib.parallelism import all_reduce

    down = block.feed_forward.down
    down.forward = lambda x: (
        all_reduce(torch.nn.functional.linear(x, down.weight), block.group) + down.bias
    )


def bias_on_every_rank(block):
    """Sabotage: every rank adds the bias before the sum."""
    from dtlib.parallelism import sum_over_ranks

    down = block.feed_forward.down
    down.forward = lambda x: sum_over_ranks(
        torch.nn.functional.linear(x, down.weight, down.bias), block.group
    )


def test_sabotage_forgetting_f_shows_only_upstream(four):
    """y and the gradients of the last matrices are exact; dX is wrong by the order of itself."""
    for errors in four.run(block_errors, CLASSIC, False, forget_f):
        exact = [n for n in errors if n.startswith("feed_forward.") or n == "y"]
        assert len(exact) == 5
        assert max(errors[name] for name in exact) <= 1e-12
        assert errors["dX"] > 0.1
        assert errors["feed_forward_norm.weight"] > 0.1


def test_sabotage_an_all_reduce_that_is_its_own_transpose_makes_gradients_too_large(four):
    """What lies below the sum is P times too large: off by P - 1 times itself."""
    for errors in four.run(block_errors, CLASSIC, False, add_under_autograd):
        assert errors["y"] <= 1e-12
        for name in ("up.weight", "up.bias", "down.weight"):
            assert errors[f"feed_forward.{name}"] == pytest.approx(3, rel=1e-12)


def test_sabotage_a_bias_on_every_rank_is_added_once_per_rank(four):
    for errors in four.run(block_errors, CLASSIC, False, bias_on_every_rank):
        assert errors["y"] > 0.01
        assert errors["feed_forward.down.weight"] <= 1e-12


def forget_shares(block):
    """Sabotage: a norm, and one bias after the sum, get the gradient of own tokens only."""
    from dtlib.parallelism import leave

    down = block.feed_forward.down
    block.attention_norm.lead_in = lambda weight: weight
    down.forward = lambda x: (
        leave(torch.nn.functional.linear(x, down.weight), block.group, True) + down.bias
    )


def test_sabotage_under_sequence_parallelism_gradients_of_copies_are_shares(four):
    """A norm and a bias whose gradient is not added up: they alone are wrong; y, dX are exact."""
    for errors in four.run(block_errors, CLASSIC, True, forget_shares):
        wrong = {name for name, error in errors.items() if error > 1e-12}
        assert wrong == {*NORM, "feed_forward.down.bias"}


def keep_own_keys(block):
    """Sabotage: a key head that two ranks hold is taken for each one's own."""
    from dtlib.parallelism.tensor.layers import Cut

    block.attention.key.cut = Cut(0)


def test_sabotage_shared_key_heads_have_shares_of_a_gradient(four):
    for errors in four.run(block_errors, LLAMA, False, keep_own_keys):
        wrong = {name for name, error in errors.items() if error > 1e-12}
        assert wrong == {"attention.key.weight"}


def test_gelu_of_partial_sums_is_another_function():
    """Elementwise maps commute with concatenation, not with sums."""
    from torch.nn.functional import gelu

    generator = torch.Generator().manual_seed(0)
    x, w = (torch.randn(8, 8, generator=generator, dtype=torch.float64) for _ in range(2))
    whole = gelu(x @ w)
    by_columns = torch.cat([gelu(x @ part) for part in w.chunk(2, dim=1)], dim=1)
    by_rows = sum(
        gelu(a @ part) for a, part in zip(x.chunk(2, dim=1), w.chunk(2, dim=0), strict=True)
    )
    assert torch.allclose(by_columns, whole, rtol=0, atol=1e-14)
    assert (by_rows - whole).abs().max() > 0.1 * whole.abs().max()


def block_log(sequence_parallel):
    import torch.distributed as dist

    from dtlib.models import Block
    from dtlib.parallelism import TensorParallelBlock, counted

    group, P = dist.group.WORLD, dist.get_world_size()
    block = TensorParallelBlock(Block(CLASSIC), group, sequence_parallel)
    x = torch.randn(3, 8 // P if sequence_parallel else 8, 16, requires_grad=True)
    with counted(group) as forward:
        y = block(x, torch.arange(8))
    with counted(group) as backward:
        y.sum().backward()
    return forward, backward


def test_two_all_reduces_forward_and_two_backward_exactly(ranks):
    P = ranks.n
    n = 4 * 3 * 8 * 16  # bytes of the stream
    for forward, backward in ranks.run(block_log, False):
        for log in (forward, backward):
            assert log.calls == {"all_reduce": 2}
            assert log.total_bytes == 2 * ring_all_reduce_sent_bytes(n, P)


def test_sequence_parallelism_sends_the_same_bytes_for_the_stream(ranks):
    """All-reduce = reduce-scatter and all-gather; the gradients of six small copies come on top."""
    P = ranks.n
    n = 4 * 3 * 8 * 16
    for forward, backward in ranks.run(block_log, True):
        assert forward.calls == {"all_gather": 2, "reduce_scatter": 2}
        assert forward.total_bytes == 2 * ring_all_reduce_sent_bytes(n, P)
        assert backward.calls == {"all_gather": 2, "reduce_scatter": 2, "all_reduce": 6}
        small = 6 * ring_all_reduce_sent_bytes(4 * 16, P)
        assert backward.total_bytes == forward.total_bytes + small


def shards_of_model(spec):
    import torch.distributed as dist

    from dtlib.models import GPT
    from dtlib.parallelism import tensor_parallel

    return tensor_parallel(GPT(spec, seed=3), dist.group.WORLD).state_dict()


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_a_state_dict_is_divided_and_merged_bit_for_bit(ranks, spec):
    from dtlib.models import GPT
    from dtlib.parallelism import merge_states, shard_state

    whole = GPT(spec, seed=3).state_dict()
    states = ranks.run(shards_of_model, spec)
    assert [list(s) for s in states] == [list(whole)] * ranks.n
    for rank, state in enumerate(states):
        by_hand = shard_state(whole, spec, rank, ranks.n)
        assert all(torch.equal(state[name], by_hand[name]) for name in whole)
    merged = merge_states(states, spec)
    assert list(merged) == list(whole)
    assert all(torch.equal(merged[name], whole[name]) for name in whole)


def test_sabotage_one_bias_that_missed_an_update_is_found_when_merging():
    from dtlib.models import GPT
    from dtlib.parallelism import merge_states, shard_state

    whole = GPT(CLASSIC, seed=3).state_dict()
    states = [shard_state(whole, CLASSIC, rank, 4) for rank in range(4)]
    states[2]["blocks.1.feed_forward.down.bias"][3] += 1e-7
    with pytest.raises(ValueError, match=r"blocks.1.feed_forward.down.bias differs between ranks"):
        merge_states(states, CLASSIC)


def test_states_of_other_names_or_sizes_are_not_merged_or_cut():
    from dtlib.models import GPT
    from dtlib.parallelism import merge_states, shard_state

    whole = GPT(CLASSIC, seed=3).state_dict()
    states = [shard_state(whole, CLASSIC, rank, 4) for rank in range(4)]
    del states[3]["norm.bias"]
    with pytest.raises(ValueError, match=r"of rank 3 alone, or not is \['norm.bias'\]"):
        merge_states(states, CLASSIC)
    for rank in range(5):  # 24 words; the last ranks alone would notice a shorter part
        with pytest.raises(ValueError, match="must be a divisor of"):
            shard_state(whole, CLASSIC, rank, 5)


def native_errors():
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import parallel as native

    from dtlib.models import GPT, gradients, next_token_loss, relative_errors
    from dtlib.parallelism import tensor_parallel, vocab_parallel_cross_entropy
    from dtlib.parallelism.tensor.model import cut_of

    group, rank, P = dist.group.WORLD, dist.get_rank(), dist.get_world_size()
    tokens, targets = torch.randint(24, (2, 3, 8), generator=torch.Generator().manual_seed(7))
    whole = GPT(CLASSIC, seed=3, dtype=torch.float64)
    divided = tensor_parallel(whole, group)
    loss = vocab_parallel_cross_entropy(divided(tokens), targets, group)
    loss.backward()
    columns, rows = native.ColwiseParallel, native.RowwiseParallel
    plan = {f"blocks.*.attention.{name}": columns() for name in ("query", "key", "value")}
    plan |= {"blocks.*.attention.out": rows(), "blocks.*.feed_forward.up": columns()}
    plan |= {"blocks.*.feed_forward.down": rows()}
    native.parallelize_module(whole, init_device_mesh("cpu", (P,)), plan)
    theirs = next_token_loss(whole(tokens), targets)
    theirs.backward()
    found = gradients(divided) | {"loss": loss}
    expected = {"loss": theirs}
    for name, gradient in gradients(whole).items():
        full = gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient
        expected[name] = cut_of(name, CLASSIC.kv_heads, P).part(full, rank, P)
    return relative_errors(found, expected)


def test_torchs_own_tensor_parallelism_has_the_same_loss_and_gradients():
    with launch(2, timeout=120) as two:
        for errors in two.run(native_errors):
            assert max(errors.values()) <= 1e-12


def native_sequence_errors(forgets=False):
    """torch's own SequenceParallel and loss_parallel, or (sabotage) a norm that we do not add."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor import parallel as native

    from dtlib.models import GPT, gradients, relative_errors
    from dtlib.parallelism import tensor_parallel, vocab_parallel_cross_entropy
    from dtlib.parallelism.tensor.model import cut_of

    group, rank, P = dist.group.WORLD, dist.get_rank(), dist.get_world_size()
    tokens, targets = torch.randint(24, (2, 3, 8), generator=torch.Generator().manual_seed(7))
    targets[0, 2] = -100
    whole = GPT(CLASSIC, seed=3, dtype=torch.float64)
    divided = tensor_parallel(whole, group, sequence_parallel=True)
    if forgets:
        divided.norm.lead_in = lambda weight: weight
    loss = vocab_parallel_cross_entropy(divided(tokens), targets, group)
    loss.backward()
    columns, rows, mine, all_ = (
        native.ColwiseParallel,
        native.RowwiseParallel,
        Shard(1),
        Replicate(),
    )
    enters = native.PrepareModuleInput
    plan = {
        "blocks.0": enters(
            input_layouts=(all_, None), desired_input_layouts=(mine, None), use_local_output=True
        ),
        "blocks.*.attention_norm": native.SequenceParallel(),
        "blocks.*.feed_forward_norm": native.SequenceParallel(),
        "blocks.*.attention": enters(
            input_layouts=(mine, None), desired_input_layouts=(all_, None)
        ),
        "blocks.*.feed_forward": enters(input_layouts=mine, desired_input_layouts=all_),
        "blocks.*.attention.out": rows(output_layouts=mine),
        "blocks.*.feed_forward.up": columns(),
        "blocks.*.feed_forward.down": rows(output_layouts=mine),
        "norm": native.SequenceParallel(),
        "head": columns(input_layouts=mine, output_layouts=Shard(-1), use_local_output=False),
    }
    plan |= {f"blocks.*.attention.{name}": columns() for name in ("query", "key", "value")}
    native.parallelize_module(whole, init_device_mesh("cpu", (P,)), plan)
    logits = whole(tokens)
    with native.loss_parallel():
        theirs = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        theirs.backward()
    expected = {"loss": theirs.full_tensor()}
    for name, gradient in gradients(whole).items():
        full = gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient
        expected[name] = cut_of(name, CLASSIC.kv_heads, P).part(full, rank, P)
    return relative_errors(gradients(divided) | {"loss": loss}, expected)


def test_torchs_own_sequence_and_loss_parallelism_has_the_same_loss_and_gradients(four):
    for errors in four.run(native_sequence_errors):
        assert max(errors.values()) <= 1e-12


def test_sabotage_torchs_own_sees_a_norm_that_was_not_added_up(four):
    for errors in four.run(native_sequence_errors, forgets=True):
        wrong = {name for name, error in errors.items() if error > 1e-12}
        assert wrong == {"norm.weight", "norm.bias"}


def test_a_table_that_is_no_plain_one_is_refused(four):
    """Its gradient would silently be another one: torch leaves out the row of the padding."""

    def build(**options):
        import torch.distributed as dist

        from dtlib.parallelism import VocabParallelEmbedding

        return VocabParallelEmbedding(torch.nn.Embedding(8, 4, **options), dist.group.WORLD).words

    assert four.run(build) == [8] * 4
    for options in ({"padding_idx": 3}, {"max_norm": 1.0}):
        (name,) = options
        with pytest.raises(RanksError, match=f"VocabParallelEmbedding: {name} is .* must be None"):
            four.run(build, **options)


def build(spec, sequence_parallel=False, tokens=8):
    import torch.distributed as dist

    from dtlib.models import GPT
    from dtlib.parallelism import tensor_parallel

    model = tensor_parallel(GPT(spec), dist.group.WORLD, sequence_parallel)
    model(torch.zeros(1, tokens, dtype=torch.long))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            (replace(CLASSIC, heads=2, kv_heads=2, head_dim=8),),
            "P is 4, but must be a divisor of heads, which is 2",
        ),
        (
            (replace(LLAMA, hidden=24, heads=12, kv_heads=6, head_dim=2),),
            "P is 4, but must be a divisor or a multiple of kv_heads, which is 6",
        ),
        (
            (replace(CLASSIC, ffn=30),),
            "P is 4, but must be a divisor of the feed-forward width, which is 30",
        ),
        (
            (replace(CLASSIC, vocab=26),),
            "P is 4, but must be a divisor of the vocabulary, which is 26",
        ),
        ((CLASSIC, True, 6), "P is 4, but must be a divisor of the tokens, which is 6"),
        ((CLASSIC, False, 9), "the last position is 8, but must be below 8: the table has 8 rows"),
    ],
    ids=["heads", "key heads", "width", "words", "tokens", "positions"],
)
def test_what_ranks_cannot_share_equally_is_refused_with_its_rule(four, arguments, said):
    with pytest.raises(RanksError, match=said):
        four.run(build, *arguments)


def test_experts_and_words_that_nobody_has_are_refused(four):
    from dtlib.models.spec import MoE

    with pytest.raises(RanksError, match="moe is MoE"):
        four.run(build, replace(CLASSIC, moe=MoE(experts=4, active=1, ffn=8)))

    def unknown_word():
        import torch.distributed as dist

        from dtlib.parallelism import VocabParallelEmbedding

        table = VocabParallelEmbedding(torch.nn.Embedding(8, 4), dist.group.WORLD)
        table(torch.tensor([8]))

    with pytest.raises(RanksError, match="from 0 to 7"):
        four.run(unknown_word)


def masks():
    import torch.distributed as dist
    from torch.nn.functional import dropout

    from dtlib.parallelism import RandomStreams

    torch.manual_seed(100 + dist.get_rank())
    before = torch.get_rng_state()
    streams, ones, found = RandomStreams(5, dist.group.WORLD), torch.ones(64), {}
    for name in ("replicated", "sharded", "replicated again", "sharded again"):
        with getattr(streams, name.split()[0])():
            found[name] = dropout(ones, 0.5)
    return found, torch.equal(before, torch.get_rng_state())


def copied_streams():
    from copy import deepcopy

    import torch.distributed as dist

    from dtlib.parallelism import RandomStreams

    def draw(streams):
        with streams.sharded():
            return torch.rand(3)

    streams = RandomStreams(5, dist.group.WORLD)
    first, copied = draw(streams), deepcopy(streams)
    return first, draw(copied), draw(streams)


def test_a_copy_of_streams_draws_what_they_would_have_drawn(four):
    for first, of_copy, second in four.run(copied_streams):
        assert torch.equal(of_copy, second)
        assert not torch.equal(first, second)


def test_dropout_is_the_same_on_copies_and_different_on_shards(four):
    found, untouched = zip(*four.run(masks), strict=True)
    assert all(untouched)
    for again in ("", " again"):
        assert all(
            torch.equal(f[f"replicated{again}"], found[0][f"replicated{again}"]) for f in found
        )
        drawn = [f[f"sharded{again}"] for f in found]
        assert all(not torch.equal(a, b) for i, a in enumerate(drawn) for b in drawn[:i])
    for f in found:
        assert not torch.equal(f["replicated"], f["replicated again"])
        assert not torch.equal(f["sharded"], f["sharded again"])
