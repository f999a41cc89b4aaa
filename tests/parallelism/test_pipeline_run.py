"""Every schedule on real ranks equals one process, in loss, input gradients and every gradient.

The functions that run on the ranks import what they need themselves.
"""

import pytest
import torch

from dtlib.foundations import TransformerSpec
from dtlib.models import GPT, next_token_loss, relative_errors, worst
from dtlib.parallelism.pipeline import (
    PipelineSchedule,
    automatic_schedule,
    dual_pipe,
    dual_pipe_v,
    gpipe,
    interleaved,
    one_f_one_b,
    simulate,
    split,
    stages_of,
    zb_v,
    zero_bubble,
)
from dtlib.parallelism.pipeline.messages import messages
from dtlib.parallelism.pipeline.split import deferring, do_weights
from dtlib.runtime import RanksError, launch

SPEC = TransformerSpec("tiny", layers=8, hidden=16, heads=2, vocab=23, norm="rms", bias=True)
M, ROWS, SEQ = 8, 16, 8
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}


def in_order(p):
    """The schedules that add up the gradients of micro-batches in the same order."""
    zero = [zero_bubble(p, M, c) for c in (1, 1.5, 2)]
    return [
        gpipe(p, M),
        one_f_one_b(p, M),
        interleaved(p, M, 2),
        *zero,
        automatic_schedule(p, M, 2 * p, w=0.5, comm=0.25, kept=0.25),
        zb_v(p, M),
        dual_pipe_v(p, M),
    ]


@pytest.fixture(scope="module")
def pools():
    with launch(2, timeout=60) as two, launch(4, timeout=60) as four:
        yield {2: two, 4: four}


def batch():
    """Tokens and targets of which some do not count, unequally many in the micro-batches."""
    draw = torch.Generator().manual_seed(1)
    x, y = torch.randint(0, SPEC.vocab, (2, ROWS, SEQ), generator=draw)
    y[0, :5] = y[1] = y[7, 3:] = -100
    return x, y


def hidden_batch(dtype):
    """Numbers instead of tokens, whose gradient can be compared."""
    draw = torch.Generator().manual_seed(2)
    x, y = torch.randn(2, ROWS, SEQ, SPEC.hidden, generator=draw, dtype=dtype)
    return x.requires_grad_(), y


def steps(schedules, dtype):
    """On a rank: a GPT's step and the blocks' step by every schedule; all that may be compared."""
    import torch.distributed as dist
    from torch.nn.functional import mse_loss

    from dtlib.models import GPT, gradients, next_token_loss
    from dtlib.parallelism import counted
    from dtlib.parallelism.pipeline import run, stages_of

    found, group = [], dist.group.WORLD
    with_numbers = (group.size() == 4) == (dtype == torch.float64)
    for schedule in schedules:
        model = GPT(SPEC, dtype=dtype)
        with counted(group) as log:
            whole = run(
                schedule, stages_of(model, schedule.stages), *batch(), next_token_loss, group
            )
        sends = log.calls.get("send", 0), log.bytes.get("send", 0)
        blocks = GPT(SPEC, dtype=dtype).blocks
        n = len(blocks) // schedule.stages
        cut = [torch.nn.Sequential(*blocks[s * n : s * n + n]) for s in range(schedule.stages)]
        inner = run(schedule, cut, *hidden_batch(dtype), mse_loss, group) if with_numbers else None
        given = inner and (inner.loss, gradients(blocks), inner.input_gradients)
        found.append((whole.loss, gradients(model), given, sends, whole.timeline))
    return found


def one_process(dtype):
    model = GPT(SPEC, dtype=dtype)
    x, y = batch()
    loss = next_token_loss(model(x), y)
    loss.backward()
    blocks = GPT(SPEC, dtype=dtype).blocks
    x, y = hidden_batch(dtype)
    inner = torch.nn.functional.mse_loss(torch.nn.Sequential(*blocks)(x), y)
    inner.backward()
    gradients = [{n: p.grad for n, p in m.named_parameters()} for m in (model, blocks)]
    return loss.item(), gradients[0], (inner.item(), gradients[1], x.grad)


def joined(parts):
    """The ranks' dictionaries as one; where several ranks have a name, they must agree."""
    whole = {}
    for part in parts:
        for name, value in part.items():
            assert torch.equal(whole.setdefault(name, value), value)
    return whole


@pytest.fixture(scope="module")
def results(pools):
    """Everything that the tests below look at, by P and dtype: schedule -> what each rank found."""
    found = {}
    for p in (2, 4):
        schedules = [*in_order(p), dual_pipe(p, M)]
        for dtype in TOLERANCE:
            on_ranks = pools[p].run(steps, schedules, dtype)
            found[p, dtype] = list(zip(schedules, zip(*on_ranks, strict=True), strict=True))
    return found


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("p", [2, 4])
def test_every_schedule_equals_one_process(results, p, dtype):
    loss, grads, (inner_loss, inner_grads, dx) = one_process(dtype)
    close = {"rel": 1e-12 if dtype == torch.float64 else 1e-6}
    for schedule, ranks in results[p, dtype]:
        losses, gradients, given, _, _ = zip(*ranks, strict=True)
        assert losses == pytest.approx((loss,) * p, **close), schedule
        name, error = worst(relative_errors(joined(gradients), grads))
        assert error < TOLERANCE[dtype], (schedule, name)
        if given[0] is None:
            continue
        losses, gradients, input_gradients = zip(*given, strict=True)
        assert losses == pytest.approx((inner_loss,) * p, **close), schedule
        name, error = worst(relative_errors(joined(gradients), inner_grads))
        assert error < TOLERANCE[dtype], (schedule, name)
        by_batch = joined(input_gradients)
        found_dx = torch.cat([by_batch[i] for i in range(M)])
        assert (found_dx - dx).abs().max() <= TOLERANCE[dtype] * dx.abs().max(), schedule


@pytest.mark.parametrize("p", [2, 4])
def test_schedules_that_add_in_the_same_order_give_the_same_bits(results, p):
    first, *others = [
        ranks for schedule, ranks in results[p, torch.float32] if schedule.name != "DualPipe"
    ]
    ours = joined(found[1] for found in first)
    for ranks in others:
        assert ranks[0][0] == first[0][0]
        theirs = joined(found[1] for found in ranks)
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_another_order_gives_other_bits(pools):
    """The sabotage of the test above: GPipe with its backward passes in reverse."""
    backwards = [[f"{r}F{i}" for i in range(M)] + [f"{r}BW{i}" for i in reversed(range(M))]
                 for r in range(2)]  # fmt: skip
    reverse = PipelineSchedule(backwards, M, name="GPipe in reverse")
    ranks = zip(*pools[2].run(steps, [gpipe(2, M), reverse], torch.float32), strict=True)
    ours, theirs = (joined(f[1] for f in found) for found in ranks)
    assert any(not torch.equal(ours[name], theirs[name]) for name in ours)
    assert worst(relative_errors(ours, theirs))[1] < 1e-5


@pytest.mark.parametrize("p", [2, 4])
def test_messages_and_bytes_are_those_of_the_borders_between_ranks(results, p):
    for schedule, ranks in results[p, torch.float32]:
        sent = [found[3] for found in ranks]
        of_rank = [sum(m.src == r for m in messages(schedule)) for r in range(p)]
        n = ROWS // M * SEQ * SPEC.hidden * 4
        if schedule.name == "DualPipe":  # and at the end each rank's two stages, to its partner
            extra = [sum(v.nbytes for name, v in found[1].items()) for found in ranks]
            assert sent == [(k + 1, k * n + e) for k, e in zip(of_rank, extra, strict=True)]
        else:
            assert sent == [(k, k * n) for k in of_rank]
            turning = 1 if schedule.name in ("ZB-V", "DualPipeV") else 0  # on one rank
            assert sum(of_rank) == 2 * M * (schedule.stages - 1 - turning)


def test_the_measured_timeline_has_every_action_in_the_order_of_its_row(results):
    for schedule, ranks in results[4, torch.float32]:
        for found in ranks:  # all ranks have the spans of all
            for rank in range(4):
                names = [span.name for span in found[4].of(rank)]
                assert names == [str(action) for action in schedule.actions(rank)]
        assert ranks[0][4].peak_activations == simulate(schedule).peak_activations


def noted(schedule, spoil=False):
    """On a rank: its forward passes by a clock of their own, the timeline, and what was gathered.

    Spoilt, every action has the times of the next one in its row.
    """
    import contextlib
    import time
    from unittest import mock

    import torch.distributed as dist
    from torch.nn.functional import mse_loss

    from dtlib.parallelism import counted
    from dtlib.parallelism.pipeline import execute

    right, group, notes = execute._spans, dist.group.WORLD, []
    stages = [torch.nn.Linear(3, 3) for _ in range(schedule.stages)]
    for stage in stages:
        stage.register_forward_hook(lambda *_: notes.append(time.perf_counter()))
    x, y = torch.randn(2, 2 * schedule.m, 3)

    def next_ones(schedule, times):
        return right(schedule, [when[2:] + when[:2] for when in times])

    spoilt = mock.patch.object(execute, "_spans", next_ones) if spoil else contextlib.nullcontext()
    with spoilt, counted(group) as log:
        timeline = execute.run(schedule, stages, x, y, mse_loss, group).timeline
    gathered = [event for event in log.events if event.operation == "all_gather"]
    return notes, timeline, [event.bytes for event in gathered]


@pytest.mark.parametrize("schedule", [one_f_one_b(4, M), zero_bubble(4, M, 1)])
@pytest.mark.parametrize("spoil", [False, True])
def test_every_rank_has_the_times_that_the_others_measured(pools, schedule, spoil):
    ranks = pools[4].run(noted, schedule, spoil)
    longest = max(len(schedule.actions(rank)) for rank in range(4))
    for _, timeline, gathered in ranks:
        assert timeline.spans == ranks[0][1].spans
        assert gathered == [3 * 8 * (1 + M + 2 * longest)]  # one message, to three others
        for rank, (notes, _, _) in enumerate(ranks):
            spans = [span for span in timeline.of(rank) if span.kind == "forward"]
            within = [s.start < t < s.stop for s, t in zip(spans, notes, strict=True)]
            assert all(within) is not spoil


def test_a_run_leaves_nothing_behind(pools):
    """A message's handle that outlives its process group ends the process with an error."""

    def step():
        import gc

        import torch.distributed as dist

        from dtlib.models import GPT, next_token_loss
        from dtlib.parallelism.pipeline import execute, gpipe, post, run, stages_of

        gc.collect()
        gc.disable()
        try:
            run(gpipe(2, M), stages_of(GPT(SPEC), 2), *batch(), next_token_loss, dist.group.WORLD)
            kinds = (execute._Worker, post.Post, dist.Work)
            return [type(x).__name__ for x in gc.get_objects() if isinstance(x, kinds)]
        finally:
            gc.enable()

    assert pools[2].run(step) == [[], []]


def test_uneven_stages_and_micro_batches_of_different_sizes(pools):
    def step():
        import torch.distributed as dist

        from dtlib.models import GPT, gradients, next_token_loss
        from dtlib.parallelism.pipeline import run, stages_of, zero_bubble

        model = GPT(SPEC, dtype=torch.float64)
        stages = stages_of(model, 4, layers=[1, 3, 3, 1])
        schedule = zero_bubble(4, 3, 1)  # 16 sequences: 6, 5, 5
        result = run(schedule, stages, *batch(), next_token_loss, dist.group.WORLD)
        return result.loss, gradients(model)

    loss, grads, _ = one_process(torch.float64)
    ranks = pools[4].run(step)
    assert [found[0] for found in ranks] == pytest.approx([loss] * 4, rel=1e-12)
    assert worst(relative_errors(joined(f[1] for f in ranks), grads))[1] < 1e-12


@pytest.mark.parametrize("builder", [dual_pipe, zb_v, gpipe])
def test_a_second_step_adds_to_the_gradients_of_the_first(pools, builder):
    def steps(count):
        import torch.distributed as dist

        from dtlib.models import GPT, gradients, next_token_loss
        from dtlib.parallelism.pipeline import run, stages_of

        model, schedule = GPT(SPEC, dtype=torch.float64), builder(2, M)
        stages = stages_of(model, schedule.stages)
        for _ in range(count):
            run(schedule, stages, *batch(), next_token_loss, dist.group.WORLD)
        return gradients(model)

    once, twice = (joined(pools[2].run(steps, count)) for count in (1, 2))
    assert worst(relative_errors(twice, {n: 2 * g for n, g in once.items()}))[1] < 1e-12


def test_a_micro_batch_without_a_target_adds_nothing(pools):
    def step():
        import torch.distributed as dist

        from dtlib.models import GPT, gradients, next_token_loss
        from dtlib.parallelism.pipeline import one_f_one_b, run, stages_of

        model, (x, y) = GPT(SPEC, dtype=torch.float64), batch()
        y[:4] = -100
        result = run(
            one_f_one_b(2, M), stages_of(model, 2), x, y, next_token_loss, dist.group.WORLD
        )
        return result.loss, gradients(model)

    model, (x, y) = GPT(SPEC, dtype=torch.float64), batch()
    loss = next_token_loss(model(x[4:]), y[4:])
    loss.backward()
    ranks = pools[2].run(step)
    assert ranks[0][0] == pytest.approx(loss.item(), rel=1e-12)
    grads = {n: p.grad for n, p in model.named_parameters()}
    assert worst(relative_errors(joined(f[1] for f in ranks), grads))[1] < 1e-12


def test_equal_weights_for_unequal_micro_batches_are_noticed(pools):
    def step():
        import torch.distributed as dist

        from dtlib.models import GPT, next_token_loss
        from dtlib.parallelism.pipeline import gpipe, run, stages_of

        stages, equal = stages_of(GPT(SPEC, dtype=torch.float64), 2), [1 / M] * M
        x, y = batch()
        y[1, 0] = 3  # a micro-batch without a target has no mean
        group = dist.group.WORLD
        return [
            run(gpipe(2, M), stages, x, y, next_token_loss, group, weights).loss
            for weights in (None, equal)
        ]

    right, wrong = pools[2].run(step)[0]
    assert abs(wrong - right) > 1e-3


@pytest.mark.parametrize("builder", [one_f_one_b, dual_pipe])
def test_a_first_stage_may_be_frozen(pools, builder):
    """As in fine-tuning: nothing in it has a gradient, all else has the one of one process."""

    def frozen():
        model = GPT(SPEC, dtype=torch.float64)
        model.embedding.requires_grad_(False)
        for block in model.blocks[:4]:
            block.requires_grad_(False)
        return model

    def step():
        import torch.distributed as dist

        from dtlib.models import gradients, next_token_loss
        from dtlib.parallelism.pipeline import run, stages_of

        model = frozen()
        run(builder(2, M), stages_of(model, 2), *batch(), next_token_loss, dist.group.WORLD)
        return gradients(model)

    model = frozen()
    x, y = batch()
    next_token_loss(model(x), y).backward()
    expected = {n: p.grad for n, p in model.named_parameters() if p.requires_grad}
    found = joined(pools[2].run(step))
    assert worst(relative_errors({n: found[n] for n in expected}, expected))[1] < 1e-12
    assert all(not found[n].any() for n in set(found) - set(expected))


@pytest.mark.parametrize("sabotage", [False, True])
def test_a_weight_that_is_computed_gets_its_gradient_in_b(monkeypatch, sabotage):
    """Sabotage: put its gradient off, and B hands on a gradient without the part through it."""

    def loss():
        weight = layer.weight * x.mean()  # of parameters, by weight normalisation, and of x
        return torch.nn.functional.linear(x, weight, layer.bias).square().sum() + layer(x).sum()

    layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 3).double())
    x = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    loss().backward()
    reference = {n: p.grad for n, p in layer.named_parameters()}
    dx, x.grad = x.grad, None
    layer.zero_grad()
    if sabotage:
        monkeypatch.setattr(split, "_is_a_parameter", lambda p: True)
    with deferring() as put_off:
        y = loss()
    y.backward()
    assert torch.allclose(x.grad, dx, rtol=1e-12, atol=0) is not sabotage
    if not sabotage:
        do_weights(put_off)
        found = {n: p.grad for n, p in layer.named_parameters()}
        assert worst(relative_errors(found, reference))[1] < 1e-12


def test_a_rank_without_a_parameter_is_refused(pools):
    def step():
        import torch.distributed as dist

        from dtlib.parallelism.pipeline import gpipe, run

        bare, x = torch.nn.Tanh(), torch.ones(2, 3)
        run(gpipe(2, 1), [bare, bare], x, x, torch.nn.functional.mse_loss, dist.group.WORLD)

    with pytest.raises(RanksError, match="must have a parameter"):
        pools[2].run(step)


def test_a_stage_whose_gradient_is_not_collected_is_noticed(pools):
    """Sabotage: W is left out for one stage and micro-batch; the loss alone does not see it."""

    def step():
        import torch.distributed as dist

        from dtlib.models import GPT, gradients, next_token_loss
        from dtlib.parallelism.pipeline import execute, run, stages_of, zero_bubble

        def forgetful(jobs):
            calls.append(1)
            return None if len(calls) == 3 else before(jobs)

        calls, before = [], execute.do_weights
        model = GPT(SPEC, dtype=torch.float64)
        try:
            if dist.get_rank() == 1:
                execute.do_weights = forgetful
            args = stages_of(model, 2), *batch(), next_token_loss, dist.group.WORLD
            return run(zero_bubble(2, M, 1), *args).loss, gradients(model)
        finally:
            execute.do_weights = before

    loss, grads, _ = one_process(torch.float64)
    ranks = pools[2].run(step)
    assert ranks[0][0] == pytest.approx(loss, rel=1e-12)
    assert worst(relative_errors(joined(f[1] for f in ranks), grads))[1] > 1e-3


def test_b_and_w_together_do_the_work_of_one_backward_pass_and_no_more():
    from torch.utils.flop_counter import FlopCounterMode

    def flops(work):
        with FlopCounterMode(display=False) as counter:
            result = work()
        return counter.get_total_flops(), result

    block = GPT(SPEC).blocks[0]
    x, _ = hidden_batch(torch.float32)
    _, y = flops(lambda: block(x).sum())
    usual, _ = flops(y.backward)
    reference = {n: p.grad.clone() for n, p in block.named_parameters()}
    block.zero_grad()
    with deferring() as put_off:
        y = block(x).sum()
    b, _ = flops(y.backward)
    linear = {n for n, p in block.named_parameters() if "norm" not in n}
    assert all(p.grad is None for n, p in block.named_parameters() if n in linear)
    w, _ = flops(lambda: do_weights(put_off))
    assert b + w == usual and put_off == []
    assert w == 2 * ROWS * SEQ * sum(p.numel() for p in block.parameters() if p.dim() == 2)
    assert (
        worst(relative_errors({n: p.grad for n, p in block.named_parameters()}, reference))[1]
        < 1e-6
    )


def test_torchs_own_pipelines_give_the_same_gradients(pools):
    def step():
        import torch.distributed as dist
        from torch.distributed import pipelining as native

        from dtlib import parallelism
        from dtlib.models import GPT, gradients, next_token_loss, relative_errors, worst

        ours, group, rank = parallelism.pipeline, dist.group.WORLD, dist.get_rank()
        x, y = batch()
        y[:] = y.clamp(min=0)  # torch weighs micro-batches equally
        pairs = {
            ours.gpipe(2, M): native.ScheduleGPipe,
            ours.one_f_one_b(2, M): native.Schedule1F1B,
            ours.interleaved(2, M, 2): native.ScheduleInterleaved1F1B,
            ours.zb_v(2, M): native.schedules.ScheduleZBVZeroBubble,
        }
        gaps = []
        for schedule, theirs in pairs.items():
            mine, other = (GPT(SPEC, dtype=torch.float64) for _ in range(2))
            result = ours.run(
                schedule, ours.stages_of(mine, schedule.stages), x, y, next_token_loss, group
            )
            cut = ours.stages_of(other, schedule.stages)
            parts = [
                native.PipelineStage(cut[s], s, schedule.stages, torch.device("cpu"), group=group)
                for s in schedule.stages_of(rank)
            ]
            multi = len(parts) > 1
            runner = theirs(parts if multi else parts[0], M, loss_fn=next_token_loss)
            last, losses = schedule.stages - 1 in schedule.stages_of(rank), []
            runner.step(
                *[x] * (rank == 0),
                **({"target": y, "losses": losses} if last else {}),
            )
            theirs_loss = sum(losses).item() / M if last else result.loss
            errors = relative_errors(gradients(mine), gradients(other))
            gaps.append((worst(errors)[1], abs(theirs_loss - result.loss), len(errors)))
        return gaps

    for gaps in pools[2].run(step):
        for gap, loss_gap, compared in gaps:
            assert gap < 1e-12 and loss_gap < 1e-12 and compared > 10


def test_a_wrong_configuration_is_named_with_its_rule(pools):
    def errors():
        import torch.distributed as dist

        from dtlib.models import GPT, next_token_loss
        from dtlib.parallelism.pipeline import gpipe, run, stages_of

        x, y = batch()
        stages, group = stages_of(GPT(SPEC), 2), dist.group.WORLD
        one = {1 - dist.get_rank(): stages[1 - dist.get_rank()]}
        calls = [
            (gpipe(4, M), stages, x, y),
            (gpipe(2, M), stages[:1], x, y),
            (gpipe(2, M), one, x, y),
            (gpipe(2, 17), stages, x, y),
            (gpipe(2, M), stages, [x], y),
            (gpipe(2, M), stages, x, y, [1.0]),
        ]
        found = []
        for schedule, parts, inputs, targets, *weights in calls:
            try:
                run(schedule, parts, inputs, targets, next_token_loss, group, *weights)
            except ValueError as error:
                found.append(str(error))
        return found

    found = pools[2].run(errors)[0]
    for text, rule in zip(
        found,
        [
            "schedule must be for the group's 2 ranks; GPipe has p = 4",
            "stages must be the 2 of GPipe; got 1",
            "stages must have those of rank 0; missing are [0]",
            "inputs must have a row for each of m = 17 parts; got 16",
            "inputs must be m = 8 micro-batches; got 1",
            "weights must be m = 8 numbers; got 1",
        ],
        strict=True,
    ):
        assert text == rule


@pytest.mark.parametrize(
    ("n", "layers", "message"),
    [
        (9, None, "n must be from 1 to the model's 8 layers; got n = 9"),
        (3, None, "n must divide the model's 8 layers, or layers must say how many"),
        (3, [4, 4], "layers must be n = 3 numbers of at least 1 that add up to 8"),
        (2, [8, 0], "layers must be n = 2 numbers of at least 1"),
        (2, [3, 4], "that add up to 8; got \\[3, 4\\]"),
    ],
)
def test_cuts_that_do_not_fit_are_refused(n, layers, message):
    with pytest.raises(ValueError, match=message):
        stages_of(GPT(SPEC), n, layers)


TIED = TransformerSpec("tied", layers=8, hidden=16, heads=2, vocab=23, norm="rms", tied=True)


def tied_steps(schedules, forget=False):
    """On a rank: a tied GPT's gradients by every schedule, with the weight that two stages have."""
    import torch.distributed as dist

    from dtlib.models import GPT, gradients, next_token_loss
    from dtlib.parallelism.pipeline import run, stages_of

    found = []
    for schedule in schedules:
        model = GPT(TIED, dtype=torch.float64)
        stages = stages_of(model, schedule.stages)
        if forget:
            for stage in stages:
                stage.tied.clear()
        for _ in range(2):  # a second step adds to the first
            run(schedule, stages, *batch(), next_token_loss, dist.group.WORLD)
        held = schedule.stages_of(dist.get_rank())
        names = {name for s in held for name, _ in stages[s].named_parameters()}
        names |= {"embedding.weight"} if "head.weight" in names else set()
        found.append({n: g for n, g in gradients(model).items() if n in names})
    return found


def tied_in_one_process():
    model = GPT(TIED, dtype=torch.float64)
    x, y = batch()
    for _ in range(2):
        next_token_loss(model(x), y).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("p", [2, 4])
def test_a_tied_model_has_every_gradient_of_one_process_on_both_of_its_stages(pools, p):
    schedules = [*in_order(p), dual_pipe(p, M)]
    right = tied_in_one_process()
    found = pools[p].run(tied_steps, schedules)
    for i, schedule in enumerate(schedules):
        whole = joined([on_rank[i] for on_rank in found])  # the copies are equal to the last bit
        assert whole.keys() == right.keys()
        assert worst(relative_errors(whole, right))[1] < 1e-12, schedule.name


def test_sabotage_without_the_sum_the_two_copies_of_a_tied_weight_part_company(pools):
    apart, on_one_rank = one_f_one_b(4, M), zb_v(4, M)
    right = tied_in_one_process()
    found = pools[4].run(tied_steps, [apart, on_one_rank], forget=True)
    first, last = found[0][0], found[3][0]
    for copy in first, last:
        wrong = relative_errors(copy, {n: right[n] for n in copy})
        assert [n for n, e in wrong.items() if e > 1e-12] == ["embedding.weight"]
    both = first["embedding.weight"] + last["embedding.weight"]
    assert relative_errors({"both": both}, {"both": right["embedding.weight"]})["both"] < 1e-12
    folded = {n: g for on_rank in found for n, g in on_rank[1].items()}  # nothing to be added
    assert worst(relative_errors(folded, right))[1] < 1e-12


def test_only_a_tied_model_of_several_stages_says_that_it_is():
    assert [stage.tied for stage in stages_of(GPT(TIED), 1)] == [{}]
    assert [stage.tied for stage in stages_of(GPT(SPEC), 2)] == [{}, {}]
    assert [stage.tied for stage in stages_of(GPT(TIED), 4)] == [
        {"embedding.weight": (0, 3)},
        {},
        {},
        {"head.weight": (0, 3)},
    ]


def test_the_stages_have_the_models_parameters_once_each_under_its_names():
    model = GPT(SPEC)
    names = [n for stage in stages_of(model, 4) for n, _ in stage.named_parameters()]
    assert sorted(names) == sorted(n for n, _ in model.named_parameters())
