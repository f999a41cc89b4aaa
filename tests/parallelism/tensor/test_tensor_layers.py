"""Divided layers by themselves: made from sizes, copied, on streams of any shape, beside torch's.

Functions that run on ranks import what they need themselves.
"""

import pickle

import pytest
import torch
from hypothesis import strategies as st
from torch import nn

from dtlib.foundations import TransformerSpec
from dtlib.parallelism import Cut, KeepsGroups, KeepsHooks
from dtlib.runtime import RanksError, launch

ONE_KEY = TransformerSpec("one key head", layers=1, hidden=8, heads=4, kv_heads=2, vocab=12)


@pytest.fixture(scope="module")
def four():
    with launch(4, timeout=120) as ranks:
        yield ranks


def test_a_head_that_is_tied_is_tied_whatever_the_spec_says(four):
    def shared():
        import torch.distributed as dist

        from dtlib.models import GPT
        from dtlib.parallelism import tensor_parallel

        model = GPT(ONE_KEY)
        model.head.weight = model.embedding.weight
        divided = tensor_parallel(model, dist.group.WORLD)
        return divided.head.weight is divided.embedding.weight

    assert four.run(shared) == [True] * 4


def test_under_autocast_a_layer_has_the_type_of_one_process(four):
    def types():
        import torch.distributed as dist

        from dtlib.parallelism import ColumnParallelLinear, RowParallelLinear

        whole, group = nn.Linear(8, 4), dist.group.WORLD
        x, rank = torch.ones(2, 8), dist.get_rank()
        with torch.autocast("cpu", torch.bfloat16):
            rows = RowParallelLinear(whole, group)(x[:, 2 * rank : 2 * rank + 2])
            return whole(x).dtype, ColumnParallelLinear(whole, group)(x).dtype, rows.dtype

    assert four.run(types) == [(torch.bfloat16,) * 3] * 4


@st.composite
def layers(draw):
    """Sizes of a layer, its options, and the shape of what goes in."""
    P = draw(st.sampled_from([2, 3, 4]))
    kind = draw(st.sampled_from(["columns", "rows", "words"]))
    sequence_parallel = draw(st.booleans())
    tokens = P * draw(st.integers(1, 3)) if sequence_parallel else draw(st.integers(1, 5))
    return {
        "P": P,
        "kind": kind,
        "sizes": (P * draw(st.integers(1, 5)), P * draw(st.integers(1, 9))),
        "bias": draw(st.booleans()),
        "sequence_parallel": sequence_parallel,
        "whole": kind == "rows" and draw(st.booleans()),
        "gather_output": kind == "columns" and draw(st.booleans()),
        "from_sizes": draw(st.booleans()),
        "shape": draw(st.sampled_from([(tokens,), (1, tokens), (3, tokens)])),
        "copied": draw(st.booleans()),
    }


def borders(e):
    """How what enters a layer is cut, and what leaves it."""
    tokens, features = Cut(-2), Cut(-1)
    enters = tokens if e["sequence_parallel"] and e["kind"] == "columns" else Cut()
    enters = features if e["kind"] == "rows" and not e["whole"] else enters
    leaves = tokens if e["sequence_parallel"] and e["kind"] != "columns" else Cut()
    leaves = features if e["kind"] == "columns" and not e["gather_output"] else leaves
    return enters, leaves


def layer_errors(examples):
    """On a rank: for each example the largest error of Y, dX and all gradients, and its name."""
    from copy import deepcopy

    import torch.distributed as dist

    from dtlib import parallelism as p
    from dtlib.models import gradients, relative_errors, worst

    groups = {P: dist.new_group(range(4 - P, 4)) for P in (2, 3, 4)}  # most do not start at 0
    kinds = {
        "columns": (nn.Linear, p.ColumnParallelLinear, Cut(0)),
        "rows": (nn.Linear, p.RowParallelLinear, Cut(1)),
        "words": (nn.Embedding, p.VocabParallelEmbedding, Cut(0)),
    }

    def judge(e):
        group, (torchs, ours, cut) = groups[e["P"]], kinds[e["kind"]]
        rank, P = dist.get_rank(group), e["P"]
        options = {} if e["kind"] == "words" else {"bias": e["bias"]}
        torch.manual_seed(11)
        whole = torchs(*e["sizes"], dtype=torch.float64, **options)
        left = torch.get_rng_state()
        how = {"sequence_parallel": e["sequence_parallel"]}
        how |= {"gather_output": True} if e["gather_output"] else {}
        how |= {"input_is_parallel": False} if e["whole"] else {}
        if e["from_sizes"]:
            torch.manual_seed(11)
            layer = ours(*e["sizes"], group=group, dtype=torch.float64, **options, **how)
            assert torch.equal(torch.get_rng_state(), left)
        else:
            layer = ours(whole, group, **how)
        assert torch.equal(layer.weight, cut.part(whole.weight, rank, P))
        layer = deepcopy(layer) if e["copied"] else layer
        generator = torch.Generator().manual_seed(5)
        if e["kind"] == "words":
            x = torch.randint(e["sizes"][0], e["shape"], generator=generator)
        else:
            shape = (*e["shape"], e["sizes"][0])
            x = torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
        y = whole(x)
        toward = torch.randn(y.shape, generator=generator, dtype=torch.float64)
        (y * toward).sum().backward()
        enters, leaves = borders(e)
        own_x = enters.part(x, rank, P)
        own_x = own_x if e["kind"] == "words" else own_x.requires_grad_()
        own_y = layer(own_x)
        (own_y * leaves.part(toward, rank, P)).sum().backward()
        found, expected = {"Y": own_y}, {"Y": leaves.part(y, rank, P)}
        if e["kind"] != "words":
            found |= {"dX": own_x.grad}
            expected |= {"dX": enters.part(x.grad, rank, P)}
        for name, gradient in gradients(whole).items():
            part = cut if name == "weight" or e["kind"] == "columns" else Cut()
            expected[name] = part.part(gradient, rank, P)
        return worst(relative_errors(found | gradients(layer), expected))

    return [
        judge(e) if dist.get_rank(groups[e["P"]]) >= 0 else ("not a member", 0.0) for e in examples
    ]


def test_any_divided_layer_equals_torchs_own_in_value_and_gradients(four, examples):
    drawn = examples(layers(), 80)
    for errors in four.run(layer_errors, drawn):
        for example, (name, error) in zip(drawn, errors, strict=True):
            assert error <= 1e-12, (name, error, example)


def forget_sum(module):
    """Sabotage of `enter`: dX is this rank's share."""
    module.entered = True


def drawn_errors(forget=False):
    """On a rank: our two layers against torch's own styles, made of the same undivided ones."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor import parallel as native

    from dtlib.models import relative_errors
    from dtlib.parallelism import ColumnParallelLinear, RowParallelLinear

    P, group = dist.get_world_size(), dist.group.WORLD
    torch.manual_seed(2)
    theirs = nn.Sequential(nn.Linear(5, 12), nn.GELU(), nn.Linear(12, 7)).double()
    ours = nn.Sequential(
        ColumnParallelLinear(theirs[0], group, gather_output=True),
        nn.GELU(),
        RowParallelLinear(theirs[2], group, input_is_parallel=False),
    )
    if forget:
        forget_sum(ours[0])
    plan = {"0": native.ColwiseParallel(output_layouts=Replicate())}
    plan |= {"2": native.RowwiseParallel(input_layouts=Replicate())}
    native.parallelize_module(theirs, init_device_mesh("cpu", (P,)), plan)
    x = torch.randn(3, 5, dtype=torch.float64)
    found, expected = {}, {}
    for model, results in ((ours, found), (theirs, expected)):
        own_x = x.clone().requires_grad_()
        y = model(own_x)
        y.sin().sum().backward()
        results |= {"Y": y.detach(), "dX": own_x.grad}
        for name, parameter in model.named_parameters():
            gradient = parameter.grad
            results[name] = gradient.to_local() if hasattr(gradient, "to_local") else gradient
    return relative_errors(found, expected)


def test_gathered_columns_and_taken_rows_are_those_of_torchs_own_styles(four):
    for errors in four.run(drawn_errors):
        assert max(errors.values()) <= 1e-12, errors
    for errors in four.run(drawn_errors, forget=True):
        assert {name for name, error in errors.items() if error > 1e-3} == {"dX"}


def largest_tensors(run):
    """On a rank: the most numbers of a tensor that is made, by our layers and by torch's own."""
    import torch.distributed as dist
    from torch.utils._python_dispatch import TorchDispatchMode

    from dtlib.parallelism import ColumnParallelLinear, RowParallelLinear
    from dtlib.parallelism.tensor import cuts

    class Largest(TorchDispatchMode):
        numbers = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor) and out.device.type == "cpu":
                self.numbers = max(self.numbers, out.numel())
            return out

    cuts.RUN, usual = run, cuts.RUN
    found = []
    try:
        for build in (ColumnParallelLinear, RowParallelLinear, nn.Linear):
            with Largest() as largest:
                build(64, 96, **({"group": dist.group.WORLD} if build is not nn.Linear else {}))
            found.append(largest.numbers)
    finally:
        cuts.RUN = usual
    return found


def test_no_rank_ever_holds_a_whole_matrix(four):
    """The state of the generator, of which ranks compare a hash, is larger than any part or run."""
    for columns, rows, whole in four.run(largest_tensors, 1024):
        assert whole == 64 * 96
        assert max(columns, rows) == torch.get_rng_state().numel() < whole
    for columns, rows, whole in four.run(largest_tensors, 2**20):  # sabotage: all in one run
        assert columns == rows == whole


def drawn_apart(run, rows=None):
    """On a rank: which layers differ, drawn in runs of `run` numbers (sabotage: of some rows)."""
    import torch.distributed as dist

    from dtlib.parallelism.tensor import cuts

    rank, P, differ = dist.get_rank(), dist.get_world_size(), set()
    kept, usual = cuts.RUN, cuts.Undivided._runs

    def of_rows(self, whole):
        for first in range(0, len(whole), rows):
            numbers = torch.empty(whole[first : first + rows].shape, dtype=whole.dtype)
            yield first, self._draw(numbers, self.layer)

    cuts.RUN, cuts.Undivided._runs = run, of_rows if rows else usual
    try:
        for kind in (nn.Linear, nn.Embedding):
            for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
                for sizes in ((24, 132), (4, 4), (60, 72)):
                    torch.manual_seed(5)
                    whole = kind(*sizes, dtype=dtype)
                    left = torch.get_rng_state()
                    for cut in (Cut(0), Cut(0, copies=2), Cut(1)):
                        torch.manual_seed(5)
                        parts = cuts.Undivided(kind, sizes, dist.group.WORLD, dtype=dtype)
                        for name, own in (("weight", cut), ("bias", Cut(0))):
                            if hasattr(whole, name):
                                part = own.part(getattr(whole, name), rank, P)
                                same = torch.equal(parts.parameter(name, own), part)
                                same &= name == "weight" or torch.equal(left, torch.get_rng_state())
                                differ |= set() if same else {kind.__name__}
    finally:
        cuts.RUN, cuts.Undivided._runs = kept, usual
    return differ


def test_parts_drawn_in_runs_have_the_bits_of_one_process(four):
    for run in (64, 300):
        assert four.run(drawn_apart, run) == [set()] * 4
    assert four.run(drawn_apart, 64, rows=15) == [{"Embedding"}] * 4  # normal numbers: by sixteens


def sized(kind, *sizes, seed=None, rank_seeds=False, **options):
    import torch.distributed as dist

    from dtlib import parallelism

    torch.manual_seed(dist.get_rank() if rank_seeds else 0)
    layer = getattr(parallelism, kind)(*sizes, group=dist.group.WORLD, **options)
    return (
        repr(layer),
        layer.pieces,
        [tuple(p.shape) for p in layer.parameters()],
        str(layer.weight.device),
    )


def test_a_layer_says_its_sizes_the_ranks_share_and_into_how_many_pieces_it_is_cut(four):
    said = [
        (("ColumnParallelLinear", 6, 12), {"copies": 2},
         "in_features=6, out_features=12, bias=True",
         "columns 6 to 11 on rank 2 of 4", {"weight": 2, "bias": 2}, [(6, 6), (6,)]),
        (("RowParallelLinear", 8, 5), {"bias": False}, "in_features=8, out_features=5, bias=False",
         "rows 4 to 5 on rank 2 of 4", {"weight": 4}, [(5, 2)]),
        (("VocabParallelEmbedding", 8, 5), {}, "8, 5", "words 4 to 5 on rank 2 of 4",
         {"weight": 4}, [(2, 5)]),
    ]  # fmt: skip
    for arguments, options, sizes, share, pieces, shapes in said:
        expected = (f"{arguments[0]}({sizes}, {share})", pieces, shapes, "cpu")
        assert four.run(sized, *arguments, **options)[2] == expected


def test_a_layer_without_memory_has_shapes_and_draws_nothing(four):
    def untouched():
        import torch.distributed as dist

        from dtlib.parallelism import VocabParallelEmbedding

        before = torch.get_rng_state()
        VocabParallelEmbedding(8, 4, device="meta", group=dist.group.WORLD)
        return torch.equal(before, torch.get_rng_state())

    assert four.run(untouched) == [True] * 4
    with_sizes = four.run(sized, "ColumnParallelLinear", in_features=4, out_features=8,
                          device="meta", rank_seeds=True)  # fmt: skip
    assert with_sizes[1][2:] == ([(2, 4), (2,)], "meta")


def test_ranks_that_would_draw_other_numbers_are_told_so_all_of_them(four):
    with pytest.raises(RanksError, match=r"ranks 0-3 failed.*Linear: the state of torch's gener"):
        four.run(sized, "RowParallelLinear", 8, 5, rank_seeds=True)
    with pytest.raises(RanksError, match=r"P is 4, but must be a divisor of out_features"):
        four.run(sized, "ColumnParallelLinear", 8, 6)
    with pytest.raises(RanksError, match=r"gather_output is True, but must be False where ranks"):
        four.run(sized, "ColumnParallelLinear", 8, 8, copies=2, gather_output=True)
    with pytest.raises(RanksError, match=r"copies is 3, but must be a divisor of P, which is 4"):
        four.run(sized, "ColumnParallelLinear", 8, 8, copies=3)
    with pytest.raises(RanksError, match=r"options is {'bias': False}, but must be none"):
        four.run(sized, "ColumnParallelLinear", nn.Linear(4, 4), bias=False)


def streams(kind, shape):
    import torch.distributed as dist

    from dtlib import parallelism

    group = dist.group.WORLD
    torch.manual_seed(0)
    if kind == "enter":
        return parallelism.enter(torch.ones(shape), group, sequence_parallel=True).shape
    if kind == "words":
        table = parallelism.VocabParallelEmbedding(8, 6, group=group, sequence_parallel=True)
        return table(torch.zeros(shape, dtype=torch.long)).shape
    layer = parallelism.RowParallelLinear(16, 6, bias=False, group=group, sequence_parallel=True)
    return layer(torch.ones(shape)).shape


def test_a_divided_stream_is_cut_by_tokens_with_a_batch_or_without(four):
    torch.manual_seed(0)
    for kind, shape, expected in (
        ("words", (8,), (2, 6)), ("words", (3, 8), (3, 2, 6)), ("enter", (2, 6), (8, 6)),
        ("enter", (3, 2, 6), (3, 8, 6)), ("rows", (8, 4), (2, 6)), ("rows", (3, 8, 4), (3, 2, 6)),
    ):  # fmt: skip
        assert four.run(streams, kind, shape) == [expected] * 4
    for kind, shape, said in (
        ("rows", (4,), r"the shape of the stream is \(6,\), but must be \(sequences, tokens, wid"),
        ("rows", (2, 3, 8, 4), r"the shape of the stream is \(2, 3, 8, 6\), but must be"),
        ("enter", (6,), r"enter: the shape of the stream is \(6,\)"),
        ("rows", (3, 10, 4), "P is 4, but must be a divisor of the tokens, which is 10"),
        ("words", (10,), "P is 4, but must be a divisor of the tokens, which is 10"),
    ):
        with pytest.raises(RanksError, match=said):
            four.run(streams, kind, shape)


def groups_within(extra):
    """On a rank: subgroups made where ranks are in different numbers of groups; what they add."""
    import torch.distributed as dist

    from dtlib.parallelism import copies_group_of, group_within, tensor_parallel

    rank, world = dist.get_rank(), dist.group.WORLD
    if extra:  # all ranks call; two of them are members
        dist.new_group([0, 1])
    if extra and rank == 2:  # and one is in two more, with nobody else
        alone = [dist.new_group([2], use_local_synchronization=True) for _ in range(2)]
        assert len(alone) == 2
    numbers = len(dist.distributed_c10d._world.pg_names)

    def total(group):
        number = torch.tensor([10.0**rank])
        dist.all_reduce(number, group=group)
        return int(number)

    found = [total(copies_group_of(world, 2)) for _ in range(2)]
    pair, three = dist.new_group([0, 2]), dist.new_group([1, 2, 3])
    other = dist.new_group([1, 3])
    pair = pair if rank in (0, 2) else other
    found.append(total(group_within(pair, [0, 1])))  # two groups at once
    if rank > 0:  # rank 0 does not take part
        for _ in range(2):
            made = group_within(three, [0] if rank == 1 else [1, 2])
            found.append(total(made))
            dist.destroy_process_group(made)  # its name is not used again
    from dtlib.models import GPT

    model = tensor_parallel(GPT(ONE_KEY), world)
    model(torch.zeros(1, 3, dtype=torch.long)).sum().backward()
    return numbers, found


@pytest.mark.parametrize("extra", [False, True])
def test_ranks_in_different_numbers_of_groups_find_each_other(four, extra):
    numbers, found = zip(*four.run(groups_within, extra), strict=True)
    assert not extra or len(set(numbers)) > 1  # so torch alone would give them different names
    assert found[0] == [11, 11, 101]
    assert found[1] == [11, 11, 1010, 10, 10]
    assert found[2] == [1100, 1100, 101, 1100, 1100]
    assert found[3] == [1100, 1100, 1010, 1100, 1100]


def test_a_rank_that_is_not_among_the_places_is_told_so(four):
    def elsewhere():
        import torch.distributed as dist

        from dtlib.parallelism import group_within

        group_within(dist.group.WORLD, [7])

    with pytest.raises(RanksError, match=r"group_within: places is \[7\], but must be some with"):
        four.run(elsewhere)


def copies_of_models(unkept=False):
    """On a rank: whether a copy of a model shares its groups, and no weights; what saving says."""
    import io
    from copy import deepcopy

    import torch.distributed as dist

    from dtlib.models import GPT
    from dtlib.parallelism import tensor_parallel

    model = tensor_parallel(GPT(ONE_KEY), dist.group.WORLD, sequence_parallel=True)
    if unkept:
        keeper, KeepsGroups.__deepcopy__ = KeepsGroups.__deepcopy__, None
        del KeepsGroups.__deepcopy__
        try:
            deepcopy(model)
        finally:
            KeepsGroups.__deepcopy__ = keeper
    average = torch.optim.swa_utils.AveragedModel(model)
    copied = average.module
    key, of_copy = model.blocks[0].attention.key, copied.blocks[0].attention.key
    shared = of_copy.group is key.group and of_copy.copies_group is key.copies_group
    with torch.no_grad():
        key.weight.add_(1)
    apart = torch.equal(of_copy.weight + 1, key.weight)
    try:
        torch.save(model, io.BytesIO())
    except TypeError as error:
        return shared, apart, str(error)


def test_a_divided_model_is_copied_with_its_groups_and_saved_by_its_state(four):
    said = (
        "TensorParallelGPT keeps a process group, which exists in this process only and cannot be "
        "saved: save its state_dict(), and load that into one that is made anew"
    )
    assert four.run(copies_of_models) == [(True, True, said)] * 4
    with pytest.raises(RanksError, match="keeps a process group"):
        four.run(copies_of_models, unkept=True)


def test_a_module_with_hooks_says_what_to_copy_instead():
    from copy import deepcopy

    class Wrapper(KeepsHooks):
        instead = "copy `.module`"

    with pytest.raises(TypeError, match=r"Wrapper has hooks on its parameters.*: copy `.module`"):
        deepcopy(nn.Sequential(Wrapper()))
    with pytest.raises(TypeError, match="save its state_dict"):
        pickle.dumps(Wrapper())


def late_gradients():
    import torch.distributed as dist

    from dtlib.parallelism import sum_gradient

    norm = nn.LayerNorm(2)
    norm.weight.requires_grad_(False)
    for parameter in (norm.weight, norm.bias, None):
        sum_gradient(parameter, dist.group.WORLD)
    assert not norm.weight.requires_grad
    norm.weight.requires_grad_()
    (norm(torch.tensor([[1.0, 2.0]])) * (dist.get_rank() + 1)).sum().backward()
    return norm.bias.grad.tolist(), norm.weight.grad.sign().tolist(), norm.weight.grad.abs().sum()


def test_a_gradient_is_added_up_also_where_the_parameter_was_frozen_before(four):
    for bias, signs, size in four.run(late_gradients):
        assert bias == [10.0, 10.0]  # 1 + 2 + 3 + 4
        assert signs == [-1.0, 1.0]
        assert size == pytest.approx(20.0, rel=1e-3)


def stages_and_names():
    import torch.distributed as dist

    from dtlib.models import GPT, gradients
    from dtlib.parallelism import OnOwnTokens, tensor_parallel
    from dtlib.parallelism.pipeline import stages_of

    whole = GPT(ONE_KEY, dtype=torch.float64)
    tokens = torch.arange(8).view(1, 8)
    (whole(tokens) ** 2).sum().backward()
    divided = tensor_parallel(whole, dist.group.WORLD, sequence_parallel=True)
    (stage,) = stages_of(divided, 1)  # another's forward pass over the same modules
    (stage(tokens) ** 2).sum().backward()
    two = OnOwnTokens(nn.Sequential(nn.LayerNorm(2), nn.Linear(2, 2)), dist.group.WORLD)
    names = [name for name, _ in two.named_parameters()]
    return gradients(whole)["norm.weight"], gradients(divided)["norm.weight"], names, repr(two)


def test_a_norm_on_own_tokens_is_right_whoever_runs_it_and_keeps_its_names(four):
    for expected, found, names, said in four.run(stages_and_names):
        assert torch.allclose(found, expected, rtol=1e-12, atol=1e-14)
        assert names == ["0.weight", "0.bias", "1.weight", "1.bias"]
        assert "LayerNorm((2,)" in said


def piped_errors(spec, spoil=False):
    """On a rank of two stages of two: the worst gradient where W actions give those of weights."""
    import torch.distributed as dist

    from dtlib.mesh import Mesh, make_groups
    from dtlib.models import GPT, gradients, next_token_loss, relative_errors, worst
    from dtlib.parallelism import tensor_parallel, vocab_parallel_cross_entropy
    from dtlib.parallelism.pipeline import run, stages_of, zero_bubble
    from dtlib.parallelism.tensor.model import cut_of

    groups, rank = make_groups(Mesh.of(pipe=2, tp=2)), dist.get_rank()
    tokens, targets = torch.randint(12, (2, 4, 5), generator=torch.Generator().manual_seed(1))
    whole = GPT(spec, dtype=torch.float64)
    next_token_loss(whole(tokens), targets).backward()
    divided = tensor_parallel(whole, groups["tp"])
    if spoil:
        for block in divided.blocks:
            block.attention.value.cut = Cut(0)

    def loss(logits, targets):
        return vocab_parallel_cross_entropy(logits, targets, groups["tp"])

    run(zero_bubble(2, 4, 1), stages_of(divided, 2), tokens, targets, loss, groups["pipe"])
    found = gradients(divided)
    expected = {
        name: cut_of(name, spec.kv_heads, 2).part(gradient, rank % 2, 2)
        for name, gradient in gradients(whole).items()
        if name in found
    }
    return worst(relative_errors(found, expected))


def test_key_heads_that_ranks_share_are_added_up_in_a_pipeline_with_w_actions(four):
    spec = TransformerSpec("one key head", layers=2, hidden=8, heads=4, kv_heads=1, vocab=12)
    for name, error in four.run(piped_errors, spec):
        assert error <= 1e-12, name
    for name, error in four.run(piped_errors, spec, spoil=True):
        assert "value" in name
        assert error > 0.01


def foreign(kind):
    import torch.distributed as dist

    from dtlib.models import GPT
    from dtlib.parallelism import TensorParallelBlock, tensor_parallel

    model = GPT(ONE_KEY)
    if kind == "model":
        tensor_parallel(nn.Sequential(nn.Linear(4, 4)), dist.group.WORLD)
    if kind == "block":
        TensorParallelBlock(nn.Linear(4, 4), dist.group.WORLD)
    if kind == "attention":
        model.blocks[0].attention = nn.MultiheadAttention(8, 2)
        tensor_parallel(model, dist.group.WORLD)
    if kind == "norm of queries":
        model.blocks[0].attention.query_norm = nn.RMSNorm(2)
        tensor_parallel(model, dist.group.WORLD)
    if kind == "one more layer":
        model.middle = nn.Linear(8, 8)
        tensor_parallel(model, dist.group.WORLD)
    if kind == "a block twice":
        model.blocks.append(model.blocks[0])
        tensor_parallel(model, dist.group.WORLD)
    if kind == "an adapter":
        model.blocks[0].attention.query.low_rank = nn.Linear(8, 1)
        tensor_parallel(model, dist.group.WORLD)
    if kind == "another product":
        model.head = type("Doubled", (nn.Linear,), {"forward": lambda self, x: 2 * x})(8, 12)
        tensor_parallel(model, dist.group.WORLD)
    if kind == "a hook":
        model.head.register_forward_hook(lambda module, inputs, output: 2 * output)
        tensor_parallel(model, dist.group.WORLD)
    if kind == "a computed weight":
        nn.utils.parametrizations.weight_norm(model.blocks[0].feed_forward.up)
        tensor_parallel(model, dist.group.WORLD)
    if kind == "positions":
        tensor_parallel(model, dist.group.WORLD)(
            torch.zeros(1, 3, dtype=torch.long), torch.arange(1)
        )


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("model", r"tensor_parallel: model must have .spec, .embedding, .blocks, .norm and .head "
         r"\(a DecoderModel\): Sequential has no .spec, .embedding, .blocks, .norm, .head"),
        ("block", "block must have .attention_norm.*: Linear has no .attention_norm, .attention,"),
        ("attention", "attention must have .heads.*: MultiheadAttention has no .heads, .kv_heads"),
        ("norm of queries", r"parameters of attention is \['query_norm.weight'\], but must be no"),
        ("one more layer", r"beyond a GPT's is \['middle.bias', 'middle.weight'\]"),
        ("a block twice", r"parameters beyond a GPT's is \['blocks.1.attention.key.bias'"),
        ("an adapter", r"layer is Linear\((?s:.)*, but must be a plain Linear: nothing but its"),
        ("another product", r"layer is Doubled\((?s:.)*, but must be a plain Linear: nothing but"),
        ("a hook", r"layer is Linear\((?s:.)*, but must be a plain Linear: nothing but its weight"),
        ("a computed weight", r"layer is ParametrizedLinear\((?s:.)*, but must be a plain Linear"),
        ("positions", r"the shape of positions is \(1,\), but must be \(3,\)"),
    ],
)  # fmt: skip
def test_a_model_that_lacks_a_part_or_has_another_is_told_which(four, kind, said):
    with pytest.raises(RanksError, match=said):
        four.run(foreign, kind)
