"""Stages of any kind on real ranks: what crosses their borders, and what is added where.

The reference is one process that calls the same stages one after the other.
"""

import contextlib
import copy
from itertools import pairwise

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from dtlib.parallelism.pipeline import (
    PipelineSchedule,
    dual_pipe,
    dual_pipe_v,
    gpipe,
    interleaved,
    one_f_one_b,
    zb_v,
    zero_bubble,
)
from dtlib.parallelism.pipeline.copies import Copies
from dtlib.runtime import RanksError, launch

M, WIDTH, VOCAB = 4, 6, 11
TWO = [
    gpipe(2, M),
    one_f_one_b(2, M),
    interleaved(2, M, 2),
    zero_bubble(2, M, 1),
    zb_v(2, M),
    dual_pipe(2, M),
    dual_pipe_v(2, M),
]


@pytest.fixture(scope="module")
def pools():
    with launch(2, timeout=60) as two, launch(4, timeout=60) as four:
        yield {2: two, 4: four}


class Encoder(nn.Module):
    """Words of the source become numbers; the target's words and a mask are passed on."""

    def __init__(self):
        super().__init__()
        self.words, self.mix = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, source, target, *, drop=None):
        x = self.words(source)
        x = x if drop is not None and bool(drop.all()) else x + self.mix(x).tanh()
        return x, target, source > 2


class Decoder(nn.Module):
    """Each target word looks at the source; the encoder's output goes on to the next layer too."""

    def __init__(self, first: bool):
        super().__init__()
        self.words = nn.Embedding(VOCAB, WIDTH) if first else None
        self.query, self.mix = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.never = nn.Linear(WIDTH, WIDTH)

    def forward(self, memory, x, mask, *, drop=None):
        x = self.words(x) if self.words is not None else x
        scores = (self.query(x) @ memory.mT).masked_fill(~mask[:, None], -9.0)
        return memory, x + self.mix(scores.softmax(-1) @ memory), mask


class Head(nn.Module):
    """Logits, by the table of words."""

    def __init__(self, words):
        super().__init__()
        self.words = words

    def forward(self, memory, x, mask, *, drop=None):
        return F.linear(x, self.words.weight)


def encoder_decoder(n: int) -> list[nn.Module]:
    """Two or four stages, with one table of words in the first, the second and the last."""
    torch.manual_seed(0)
    parts = [Encoder(), Decoder(True), Decoder(False), Head(None)]
    parts[1].words = parts[3].words = parts[0].words
    parts[2].mix.requires_grad_(False)
    for part in parts:
        part.double()
    if n == 4:
        for s, part in enumerate(parts):
            part.tied = {"words.weight": (0, 1, 3)} if s != 2 else {}
        return parts
    halves = [Pair(parts[0], parts[1]), Pair(parts[2], parts[3])]
    for half, name in zip(halves, ("first.words.weight", "second.words.weight"), strict=True):
        half.tied = {name: (0, 1)}
    return halves


class Pair(nn.Module):
    """Two layers of several tensors, one after the other."""

    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, *xs, **keywords):
        return self.second(*self.first(*xs, **keywords), **keywords)


def sentences():
    """Micro-batches of which the last is smaller, of source and target words, and targets."""
    torch.manual_seed(1)
    rows = [2] * (M - 1) + [1]
    inputs = [tuple(torch.randint(VOCAB, (n, s)) for s in (5, 3)) for n in rows]
    drop = [torch.tensor([i == 2] * n) for i, n in enumerate(rows)]
    return inputs, [torch.randint(VOCAB, (n, 3)) for n in rows], drop


def word_loss(logits, y):
    return F.cross_entropy(logits.flatten(0, 1), y.flatten())


def gradients_of(stages, which) -> dict:
    return {
        f"{s}.{name}": p.grad
        for s in which
        for name, p in stages[s].named_parameters()
        if p.requires_grad
    }


def translate(schedules, forget=False):
    """On a rank: loss and gradients of the encoder-decoder by each schedule, two steps each."""
    from dtlib.parallelism.pipeline import run

    found = []
    for schedule in schedules:
        stages = encoder_decoder(schedule.stages)
        for stage in stages if forget else []:
            stage.tied = {}
        inputs, targets, drop = sentences()
        for _ in range(2):
            done = run(
                schedule, stages, inputs, targets, word_loss, dist.group.WORLD,
                keywords={"drop": drop},
            )  # fmt: skip
        mine = schedule.stages_of(dist.get_rank())
        found.append((done.loss, gradients_of(stages, mine)))
    return found


def translate_alone(n):
    stages = encoder_decoder(n)
    inputs, targets, drop = sentences()
    count = sum(y.numel() for y in targets)
    for _ in range(2):
        whole = 0
        for given, y, dropped in zip(inputs, targets, drop, strict=True):
            for stage in stages:
                given = stage(*given, drop=dropped)
            loss = word_loss(given, y) * y.numel() / count
            loss.backward()
            whole += loss.item()
    return whole, gradients_of(stages, range(n))


def gap(found: dict, right: dict) -> float:
    """The largest difference of any gradient; a gradient that is missing must be missing in both.

    A parameter that another rank has too may have zeros, or nothing, where nobody uses it.
    """
    largest = 0.0
    for name, gradient in found.items():
        expected = right[name]
        if gradient is None or expected is None:
            assert gradient is None and expected is None, name
        else:
            largest = max(largest, (gradient - expected).abs().max().item())
    return largest


@pytest.mark.parametrize("p", [2, 4])
def test_an_encoder_decoder_cut_into_stages_equals_one_process(pools, p):
    """Several tensors at a border, some of them words and masks, one passed through; a table of
    words on two or three ranks; a frozen and an unused layer; a layer dropped in one micro-batch;
    a smaller last micro-batch."""
    schedules = [s for s in TWO if s.stages in (2, 4)] if p == 2 else [
        gpipe(4, M), one_f_one_b(4, M), zero_bubble(4, M, 1), zero_bubble(4, M, 2)
    ]  # fmt: skip
    ranks = pools[p].run(translate, schedules)
    for i, schedule in enumerate(schedules):
        loss, right = translate_alone(schedule.stages)
        for on_rank in ranks:
            found_loss, found = on_rank[i]
            assert found_loss == pytest.approx(loss, rel=1e-12), schedule
            assert gap(found, right) < 1e-12, schedule


def test_sabotage_a_table_of_words_on_three_ranks_is_wrong_without_its_sum(pools):
    _, right = translate_alone(4)
    on_ranks = pools[4].run(translate, [one_f_one_b(4, M)], forget=True)
    for rank in (0, 1, 3):
        found = on_ranks[rank][0][1]
        assert gap({f"{rank}.words.weight": found[f"{rank}.words.weight"]}, right) > 1e-3


def test_a_weight_that_is_tied_on_one_rank_only_is_named_on_all(pools):
    def step():
        from dtlib.parallelism.pipeline import run

        stages = layers([4] * 5)
        stages[0].tied = {"0.weight": (0, 3)}
        x, y = numbers([4, 4], 2 * M)
        try:
            run(one_f_one_b(4, M), stages, x, y, F.mse_loss, dist.group.WORLD)
        except ValueError as error:
            return str(error)

    message = "ranks 0, 3 must have the same weights in common: rank 0 has {((0, 3), 'tied 0'):"
    assert all(found.startswith(message) for found in pools[4].run(step))


def test_what_cannot_be_added_is_refused():
    one, other = layers([4, 4]) + layers([4, 4])
    one.tied = other.tied = {"0.weight": (0, 3)}
    with pytest.raises(
        ValueError, match="stages 0, 3 tie a weight; where one rank has two of them"
    ):
        Copies(zb_v(2, M), {0: one, 3: other}, 0)
    other[0].weight = one[0].weight
    assert Copies(zb_v(2, M), {0: one, 3: other}, 0).by_ranks == {}
    one.releases_weights = True
    with pytest.raises(ValueError, match=r"0\.weight is tied to stages \(0, 3\) and lies in a mod"):
        Copies(one_f_one_b(4, M), {0: one}, 0)


def layers(widths):
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(a, b), nn.Tanh()) for a, b in pairwise(widths)]


def numbers(widths, rows):
    torch.manual_seed(3)
    return torch.randn(rows, widths[0]), torch.randn(rows, widths[-1])


def with_widths(cases, autocast=None):
    """On a rank: loss and gradients of stages of unequal widths."""
    from dtlib.parallelism import counted
    from dtlib.parallelism.pipeline import run

    found = []
    for schedule, widths in cases:
        stages = layers(widths)
        x, y = numbers(widths, 2 * M)
        with torch.autocast("cpu", torch.bfloat16, enabled=bool(autocast)), counted() as log:
            done = run(schedule, stages, x, y, F.mse_loss, dist.group.WORLD)
        mine = schedule.stages_of(dist.get_rank())
        found.append((done.loss, gradients_of(stages, mine), log.calls, log.bytes))
    return found


def widths_alone(widths, autocast=None):
    stages = layers(widths)
    xs, ys = (t.tensor_split(M) for t in numbers(widths, 2 * M))
    whole = 0
    for x, y in zip(xs, ys, strict=True):
        with torch.autocast("cpu", torch.bfloat16, enabled=bool(autocast)):
            for stage in stages:
                x = stage(x)
            loss = 1 / M * F.mse_loss(x, y)
        loss.backward()
        whole += loss.item()
    return whole, gradients_of(stages, range(len(stages)))


@pytest.mark.parametrize("autocast", [False, True], ids=["fp32", "bf16"])
def test_stages_of_any_widths_give_the_bits_of_one_process(pools, autocast):
    """Under autocast too, where no weight tells the dtype of what a stage gives."""
    cases = [(s, [4, 6, 3, 8, 2][: s.stages + 1]) for s in TWO if s.name != "DualPipe"]
    ranks = pools[2].run(with_widths, cases, autocast)
    for i, (schedule, widths) in enumerate(cases):
        loss, right = widths_alone(widths, autocast)
        for on_rank in ranks:
            assert on_rank[i][0] == loss, schedule
            for name, gradient in on_rank[i][1].items():
                assert torch.equal(gradient, right[name]), (schedule, name)


def test_each_border_has_one_header_beside_its_messages(pools):
    case = [(one_f_one_b(4, M), [4, 6, 3, 8, 2])]
    rows, found = 2, [on_rank[0] for on_rank in pools[4].run(with_widths, case)]
    widths = [(6,), (3, 6), (8, 3), (8,)]  # forward to the right, gradients to the left
    for (_, _, calls, sent), sends in zip(found, widths, strict=True):
        assert calls.get("header", 0) == (0 if sends == (8,) and calls is found[3][2] else 1)
        assert calls["send"] == M * len(sends)
        assert sent["send"] == sum(M * rows * width * 4 for width in sends)
        assert sent.get("header", 512) == 512


def wrong_layout():
    """On the ranks: receive a border's message in the first parameter's dtype, as it once was."""
    from dtlib.parallelism.pipeline import border, one_f_one_b, post

    def in_fp32(header):
        return tuple(layout._replace(dtype=torch.float32) for layout in border.read_header(header))

    post.read_header = in_fp32
    try:
        return with_widths([(one_f_one_b(2, M), [4, 4, 4])], autocast=True)[0][0]
    finally:
        post.read_header = border.read_header


def test_sabotage_a_border_that_takes_the_weights_dtype_reads_other_numbers(pools):
    with launch(2, timeout=20) as apart:
        try:
            wrong = apart.run(wrong_layout)[0]
        except RanksError:
            return
    assert wrong != widths_alone([4, 4, 4], autocast=True)[0]


class Moody(nn.Module):
    """Gives another shape in its third forward pass; or a word; or what its boundary denies."""

    def __init__(self, mood):
        super().__init__()
        self.linear, self.mood, self.calls = nn.Linear(4, 4), mood, 0
        if mood == "boundary":
            self.boundary = lambda x: (len(x), 5)

    def forward(self, x):
        self.calls += 1
        if self.mood == "word":
            return {"hidden": x}
        return self.linear(x)[:, : 3 if self.mood == "shape" and self.calls > 2 else 4]


@pytest.mark.parametrize(
    ("mood", "message"),
    [
        ("shape", "stage 0 gives float32[2, 3] for micro-batch 2, but gave float32[2, 4] for one"),
        ("word", "stage 0: what it gives is {'hidden': "),
        ("boundary", "stage 0 gives (2, 4), its boundary says (2, 5)"),
    ],
)
def test_what_a_stage_may_not_give_is_named(pools, mood, message):
    def step():
        from dtlib.parallelism.pipeline import gpipe, run

        stages = [Moody(mood), nn.Linear(4, 4)]
        x, y = numbers([4, 4], 2 * M)
        run(gpipe(2, M), stages, x, y, F.mse_loss, dist.group.WORLD)

    with pytest.raises(RanksError) as caught:
        pools[2].run(step)
    assert message in str(caught.value)


def test_a_validation_gives_loss_and_outputs_and_leaves_no_gradient(pools):
    def validate():
        from dtlib.parallelism.pipeline import run

        found = []
        for schedule in TWO:
            stages = layers([4] * (schedule.stages + 1))
            x, y = numbers([4, 4], 2 * M)
            group, forward = dist.group.WORLD, schedule.forward_only
            done = run(forward, stages, x, y, F.mse_loss, group, keep_outputs=True)
            used = run(forward, stages, x, None, None, group, keep_outputs=True)
            bare = run(forward, stages, x, y, F.mse_loss, group)
            assert used.loss is None and bare.outputs == {} and bare.loss == done.loss
            assert all(torch.equal(used.outputs[i], done.outputs[i]) for i in done.outputs)
            assert all(p.grad is None for stage in stages for p in stage.parameters())
            assert all(not out.requires_grad for out in done.outputs.values())
            found.append((done.loss, done.outputs))
        return found

    ranks = pools[2].run(validate)
    for i, schedule in enumerate(TWO):
        x, y = numbers([4, 4], 2 * M)
        expected = nn.Sequential(*layers([4] * (schedule.stages + 1)))(x)
        outputs = {k: out for on_rank in ranks for k, out in on_rank[i][1].items()}
        assert sorted(outputs) == list(range(M))
        whole = torch.cat([outputs[k] for k in range(M)])
        assert torch.allclose(whole, expected, rtol=1e-6)
        for on_rank in ranks:
            assert on_rank[i][0] == pytest.approx(F.mse_loss(expected, y).item(), rel=1e-6)


def test_training_keeps_outputs_only_if_asked_and_gives_gradients_of_several_inputs(pools):
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4).double()

        def forward(self, x, factor):
            return self.linear(x) * factor

    def step(keep):
        from dtlib.parallelism.pipeline import one_f_one_b, run

        torch.manual_seed(0)
        stages = [Sum(), nn.Linear(4, 4).double()]
        xs = [tuple(torch.randn(2, 2, 4).double().requires_grad_().unbind()) for _ in range(M)]
        xs = [tuple(x.detach().requires_grad_() for x in pair) for pair in xs]
        ys = torch.ones(2 * M, 4).double()
        done = run(
            one_f_one_b(2, M), stages, xs, ys, F.mse_loss, dist.group.WORLD, keep_outputs=keep
        )
        for (a, b), y in zip(xs, ys.tensor_split(M), strict=True):
            (F.mse_loss(stages[1](stages[0](a, b)), y) / M).backward()
        gaps = [
            (mine - x.grad).abs().max().item()
            for i, pair in done.input_gradients.items()
            for mine, x in zip(pair, xs[i], strict=True)
        ]
        return gaps, sorted(done.outputs)

    (gaps, none), (_, kept) = pools[2].run(step, True)
    assert len(gaps) == 2 * M and max(gaps) < 1e-15 and none == [] and kept == list(range(M))
    assert pools[2].run(step, False)[1][1] == []


def test_a_border_of_words_only_has_nothing_to_send_back(pools):
    def step():
        from dtlib.parallelism import counted
        from dtlib.parallelism.pipeline import one_f_one_b, run

        class Rounded(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(1, 1)

            def forward(self, x):
                return (x > 0).long()

        torch.manual_seed(0)
        stages, (x, y) = [Rounded(), nn.Embedding(2, 4)], numbers([4, 4], 2 * M)
        y = y[:, None].expand(-1, 4, -1)
        with counted() as log:
            done = run(one_f_one_b(2, M), stages, x, y, F.mse_loss, dist.group.WORLD)
        loss = F.mse_loss(stages[1]((x > 0).long()), y)
        return done.loss - loss.item(), log.calls.get("send", 0)

    (gap, forward), (_, back) = pools[2].run(step)
    assert abs(gap) < 1e-6 and (forward, back) == (M, 0)


def test_what_cannot_be_run_says_why(pools):
    def errors():
        from dtlib.parallelism.pipeline import gpipe, run

        stages, (x, y), group = layers([4] * 3), numbers([4, 4], 2 * M), dist.group.WORLD
        targets, found = list(zip(y.chunk(M), y.chunk(M), strict=True)), []
        calls = [
            lambda: run(gpipe(2, M), stages, x, y, None, group),
            lambda: torch.no_grad()(run)(gpipe(2, M), stages, x, y, F.mse_loss, group),
            lambda: run(gpipe(2, M), stages, x, targets, F.mse_loss, group),
            lambda: run(gpipe(2, M), stages, x, 0 * y.long() - 100, F.cross_entropy, group),
            lambda: run(gpipe(2, M), stages, [(x, "four")] * M, y, F.mse_loss, group),
            lambda: run(gpipe(2, M), stages, x, y, F.mse_loss, group, keywords={"mask": [x]}),
        ]
        for call in calls:
            try:
                call()
            except (TypeError, ValueError) as error:
                found.append(str(error))
        return found

    expected = [
        "run: loss is None, but must be given: GPipe has backward passes; forward_only has none",
        "run: the mode of gradients is 'off', but must be on (no torch.no_grad): GPipe has",
        "weights are None, but must be given where targets are no tensors",
        "targets must have one that counts; all of them are -100",
        "run: an input is 'four', but must be a Tensor",
        "mask must be m = 4 micro-batches; got 1",
    ]
    for found in pools[2].run(errors):
        assert [f[: len(e)] for f, e in zip(found, expected, strict=True)] == expected


def test_a_rank_with_nothing_to_do_takes_part(pools):
    def step():
        from dtlib.parallelism.pipeline import run

        schedule = PipelineSchedule(["0F0 0BW0 0F1 0BW1", ""], m=2, stages=1)
        stages, (x, y) = layers([4, 4]), numbers([4, 4], 4)
        done = run(schedule, stages, x, y, F.mse_loss, dist.group.WORLD)
        return done.loss, done.timeline.ranks, done.timeline.bubble_fraction

    for loss, ranks, idle in pools[2].run(step):
        x, y = numbers([4, 4], 4)
        assert loss == pytest.approx(F.mse_loss(layers([4, 4])[0](x), y).item(), rel=1e-6)
        assert ranks == [0, 1] and 0.5 <= idle < 1


WRAPPERS = ["DataParallel", "ShardedOptimizer", "FullySharded"]


def replicated(how, builders, once=True, by_hand=False):
    """On a rank of 2 x 2: errors of the mean gradients of stages that data parallelism wraps."""
    from unittest import mock

    from dtlib.mesh import Mesh, make_groups
    from dtlib.parallelism.pipeline import execute

    changed = {} if once else {"_reducing_once": contextlib.nullcontext}
    if by_hand:
        changed["do_weights"] = write_gradients
    groups = make_groups(Mesh.of(dp=2, pp=2))
    with mock.patch.multiple(execute, **changed) if changed else contextlib.nullcontext():
        return {name: update_error(how, builder(2), groups) for name, builder in builders.items()}


@torch.no_grad()
def write_gradients(put_off):
    """As it once was: into .grad, past autograd's accumulator and its hooks."""
    from dtlib.parallelism.pipeline import split

    for half in put_off:
        _, *gradients = split._ForWeights.backward(half.grad_fn, None)
        for (edge, _), gradient in zip(half.grad_fn.next_functions, gradients, strict=True):
            p = edge.variable
            p.grad = gradient if p.grad is None else p.grad + gradient
    put_off.clear()


def update_error(how, schedule, groups) -> float:
    """A step of gradient descent with rate 1 by this schedule, against the mean gradient."""
    from dtlib.parallelism.pipeline import run

    d, r = divmod(dist.get_rank(), 2)
    torch.manual_seed(0)
    stages = [
        nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 3)).double() for _ in range(schedule.stages)
    ]
    right = copy.deepcopy(stages)
    x, y = torch.randn(2, 2, 2 * M, 3, dtype=torch.float64)
    for i in range(2):
        (F.mse_loss(nn.Sequential(*right)(x[i]), y[i]) / 2).backward()
    own, optimizers = {}, []
    for s in schedule.stages_of(r):
        own[s], optimizer = wrapped(how, stages[s], groups["dp"])
        optimizers.append(optimizer)
    run(schedule, own, x[d], y[d], F.mse_loss, groups["pp"])
    for optimizer in optimizers:
        optimizer.step()
    gaps = []
    for s, stage in own.items():
        state = {key.removeprefix("module."): value for key, value in stage.state_dict().items()}
        for key, p in right[s].named_parameters():
            gaps.append((p - p.grad - state[key]).abs().max().item())
    return max(gaps)


def wrapped(how, stage, group):
    """The stage in a strategy, and an optimizer of rate 1."""
    from dtlib.memory import FullySharded, ShardedOptimizer
    from dtlib.parallelism import DataParallel

    if how == "ShardedOptimizer":
        sgd = torch.optim.SGD
        return stage, ShardedOptimizer(stage.parameters(), sgd, group, zero=2, lr=1.0)
    stage = (FullySharded if how == "FullySharded" else DataParallel)(stage, group)
    return stage, torch.optim.SGD(stage.parameters(), lr=1.0)


BUILDERS = {
    "1F1B": lambda p: one_f_one_b(p, M),
    "zero bubble": lambda p: zero_bubble(p, M, 1),
    "ZB-V": lambda p: zb_v(p, M),
    "DualPipeV": lambda p: dual_pipe_v(p, M),
}


@pytest.mark.parametrize("how", WRAPPERS)
def test_a_stage_in_data_parallelism_has_the_mean_gradient_by_every_schedule(pools, how):
    for found in pools[4].run(replicated, how, BUILDERS):
        assert max(found.values()) < 1e-12, (how, found)


@pytest.mark.parametrize("by_hand", [False, True])
def test_sabotage_weight_gradients_that_pass_hooks_by_are_not_averaged(pools, by_hand):
    """Where DataParallel reduces in every pass, as anybody's hooks would, it must see W's too."""
    zero = {"zero bubble": BUILDERS["zero bubble"]}
    for found in pools[4].run(replicated, "DataParallel", zero, once=False, by_hand=by_hand):
        assert found["zero bubble"] > 1e-3 if by_hand else found["zero bubble"] < 1e-12


def test_data_parallelism_round_a_stage_reduces_once_in_a_run(pools):
    def calls():
        from dtlib.mesh import Mesh, make_groups
        from dtlib.parallelism import DataParallel, counted
        from dtlib.parallelism.pipeline import run

        groups, r = make_groups(Mesh.of(dp=2, pp=2)), dist.get_rank() % 2
        own = {r: DataParallel(layers([4, 4])[0], groups["dp"])}
        x, y = numbers([4, 4], 2 * M)
        with counted(groups["dp"]) as log:
            run(zero_bubble(2, M, 1), own, x, y, F.mse_loss, groups["pp"])
        return log.calls

    assert pools[4].run(calls) == [{"all_reduce": 1}] * 4


@pytest.mark.parametrize("sabotage", [False, True])
def test_a_tied_weight_in_data_parallelism_collects_over_two_steps(pools, sabotage):
    """Sabotage: set aside the gradient itself, which is a view of a bucket that is filled anew."""

    def step():
        from unittest import mock

        from dtlib.mesh import Mesh, make_groups
        from dtlib.parallelism import DataParallel
        from dtlib.parallelism.pipeline import copies, run

        groups, (d, r) = make_groups(Mesh.of(dp=2, pp=2)), divmod(dist.get_rank(), 2)
        stages, right = layers([4, 4, 4]), layers([4, 4, 4])
        for both in stages, right:
            both[1][0].weight = both[0][0].weight
        for stage in stages:
            stage.tied = {"0.weight": (0, 1)}
        x, y = torch.randn(2, 4, 2 * M, 4)
        for i in range(4):
            (F.mse_loss(nn.Sequential(*right)(x[i]), y[i]) / 2).backward()
        own = {r: DataParallel(stages[r], groups["dp"])}
        itself = mock.patch.object(copies, "_copied", lambda gradient: gradient)
        with itself if sabotage else contextlib.nullcontext():
            for i in (d, d + 2):
                run(one_f_one_b(2, M), own, x[i], y[i], F.mse_loss, groups["pp"])
        return (stages[r][0].weight.grad - right[0][0].weight.grad).abs().max().item()

    for gap in pools[4].run(step):
        assert (gap > 1e-3) if sabotage else (gap < 1e-6)


def test_hooks_of_a_weight_see_the_gradient_that_w_gives():
    from dtlib.parallelism.pipeline.split import deferring, do_weights

    layer, seen = nn.Linear(2, 1), []
    layer.weight.register_hook(lambda gradient: 2 * gradient)
    layer.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
    with deferring() as put_off:
        y = layer(torch.ones(3, 2)).sum()
    y.backward()
    assert seen == []
    do_weights(put_off)
    assert seen == [[[6.0, 6.0]]] and put_off == []


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_in_a_stage_is_right_under_a_split_backward_pass(reentrant):
    from torch.utils.checkpoint import checkpoint

    from dtlib.parallelism.pipeline.split import deferring, do_weights

    net, x = nn.Sequential(*layers([4, 3, 5])), torch.randn(2, 4, requires_grad=True)
    net(x).sum().backward()
    right = [p.grad for p in (x, *net.parameters())]
    x.grad = None
    net.zero_grad()
    with deferring() as put_off:
        y = checkpoint(net, x, use_reentrant=reentrant).sum()
    y.backward()
    do_weights(put_off)
    assert all(map(torch.equal, [p.grad for p in (x, *net.parameters())], right))
