"""Every check of the 1F1B lab: the solution passes; the stub, wrong answers, dtlib's fail."""

import torch
from exercise_cases import Case, EveryExercise

from dtlib.parallelism import pipeline
from dtlib.parallelism.pipeline import Action, PipelineSchedule


def predicted(**changes):
    right = {"idle": 3 / 11, "gpipe_holds": [8] * 4, "one_f_one_b_holds": [4, 3, 2, 1]}
    return right | {"messages": 48} | changes


def gpipe(p, m, order=1):
    batches = range(m)[::order]
    rows = [[f"{r}F{i}" for i in range(m)] + [f"{r}BW{i}" for i in batches] for r in range(p)]
    return PipelineSchedule(rows, m)


def gpipe_in_two_orders(p, m):
    rows = [gpipe(p, m).rows[r] for r in range(p)]
    return PipelineSchedule([row[:m][:: (-1) ** r] + row[m:] for r, row in enumerate(rows)], m)


def one_f_one_b(p, m, ahead=lambda p, r: p - 1 - r):
    rows = []
    for r in range(p):
        first = min(ahead(p, r), m)
        row = [f"{r}F{i}" for i in range(first)]
        for i in range(m):
            row += [f"{r}F{first + i}"] * (first + i < m) + [f"{r}BW{i}"]
        rows.append(row)
    return PipelineSchedule(rows, m)


def one_f_one_b_backward_first(p, m):
    """B before W at once, which is no slower: other rows, as good."""
    rows = one_f_one_b(p, m).rows
    split = [
        [part for a in row for part in ([a._replace(kind="B"), a._replace(kind="W")]
                                        if a.kind == "BW" else [a])]
        for row in rows
    ]  # fmt: skip
    return PipelineSchedule(split, m)


def one_stage_at_a_time(p, m):
    rows = [[f"{r}{kind}{i}" for i in range(m) for kind in ("F", "BW")] for r in range(p)]
    return PipelineSchedule(rows, m)


def without_the_last(p, m):
    rows = one_f_one_b(p, m).rows
    return PipelineSchedule([*rows[:-1], rows[-1][:-1]], m)


def late(p, m, c=1, lag=None, extra=0):
    """c micro-batches ahead for each rank below, W a fixed number of micro-batches late."""
    rows = []
    for r in range(p):
        ahead, behind = c * (p - 1 - r) + 1 + extra, c * r if lag is None else lag(r)
        row = [f"{r}F{i}" for i in range(min(ahead, m))]
        for i in range(m):
            row += [f"{r}B{i}"] + [f"{r}W{i - behind}"] * (i >= behind)
            row += [f"{r}F{ahead + i}"] * (ahead + i < m)
        rows.append(row + [f"{r}W{i}" for i in range(max(0, m - behind), m)])
    return PipelineSchedule(rows, m)


def zb_h1(p, m):
    return late(p, m)


def zb_h2(p, m):
    return late(p, m, c=2)


def zb_h2_with_actions(p, m):
    rows = [[Action(a.kind, a.stage, a.micro_batch) for a in row] for row in zb_h2(p, m).rows]
    return PipelineSchedule(rows, m)


def weights_last(p, m):
    return late(p, m, lag=lambda r: m)


def shares(targets):
    counts = [int((part != -100).sum()) for part in targets]
    return [count / sum(counts) for count in counts]


def input_gradient(dy, weight):
    return dy @ weight


def weight_gradient(dy, x):
    return dy.flatten(0, -2).T @ x.flatten(0, -2)


def one_f_one_b_of_a_helper(p, m):
    from dtlib.parallelism.pipeline import builders

    both = [[[f"{r}{kind}{i}" for i in range(m)] for kind in ("F", "BW")] for r in range(p)]
    return PipelineSchedule([builders._alternate(*both[r], min(p - 1 - r, m)) for r in range(p)], m)


def shares_of_a_tensor(targets, dtype=torch.float32):
    counts = torch.stack([(part != -100).sum() for part in targets]).to(dtype)
    return counts / counts.sum()


def weight_gradient_of_dtlib(dy, x):
    from dtlib.parallelism.pipeline import split

    weight = torch.zeros(dy.shape[-1], x.shape[-1], dtype=dy.dtype, requires_grad=True)
    with split.deferring() as put_off:
        y = torch.nn.functional.linear(x.detach().requires_grad_(), weight)
    y.backward(dy)
    split.do_weights(put_off)
    return weight.grad


CASES = {
    "ex-lab-pp-predict": Case(
        solution=predicted(),
        wrong=[
            (predicted(idle=3 / 8), "idle: that is on top of the work"),
            (predicted(idle=27.27), "not in percent"),
            (predicted(idle=0.75), "eight are under way"),
            (predicted(gpipe_holds=[4] * 4), "gpipe_holds: rank 0: too few"),
            (predicted(one_f_one_b_holds=[1, 2, 3, 4]), "upside down"),
            (predicted(one_f_one_b_holds=[3, 2, 1, 0]), "one more forward pass"),
            (predicted(one_f_one_b_holds=[4, 4, 4, 4]), "rank 1: too many"),
            (predicted(messages=24), "what travels up"),
            (predicted(messages=64), "the borders between ranks"),
            (3 / 11, "keys idle, gpipe_holds"),
        ],
        secret=[48],
    ),
    "ex-lab-pp-gpipe": Case(
        solution=gpipe,
        also_right=[lambda p, m: gpipe(p, m, -1)],
        wrong=[
            (one_f_one_b, "goes back before it has done all its forward passes"),
            (zb_h2, "goes back before it has done all its forward passes"),
            (one_stage_at_a_time, "goes back before it has done all its forward passes"),
            (gpipe_in_two_orders, "legal, but slow: if F, B and W take 1, 1 and 1"),
            (without_the_last, "nobody does"),
            (lambda p, m: gpipe(p, m).rows, "return a PipelineSchedule, got tuple"),
            (lambda p, m: gpipe(p, m + 1), "micro-batches, asked are"),
            (lambda p, m: gpipe(p + 1, m), "ranks, asked are"),
            (lambda p, m: PipelineSchedule(["0F0 0F0 0BW0"], 1), "0F0 is done twice"),
            (pipeline.gpipe, "the library's own gpipe: write the rows yourself"),
        ],
    ),
    "ex-lab-pp-one-f-one-b": Case(
        solution=one_f_one_b,
        also_right=[one_f_one_b_backward_first],
        wrong=[
            (gpipe, "as fast as GPipe, but rank 0 holds"),
            (lambda p, m: one_f_one_b(p, m, lambda p, r: r), "never ends: ranks"),
            (lambda p, m: one_f_one_b(p, m, lambda p, r: p - r), "rank . holds . micro-batches"),
            (one_stage_at_a_time, "legal, but slow"),
            (without_the_last, "nobody does"),
            (lambda p, m: pipeline.one_f_one_b(p, m).named("mine"), "library's own one_f_one_b"),
            (lambda p, m: pipeline.zero_bubble(p, m, 1), "library's own zero_bubble"),
            (one_f_one_b_of_a_helper, "library's own _alternate"),
        ],
    ),
    "ex-lab-pp-weights": Case(
        solution=shares,
        also_right=[lambda targets: shares_of_a_tensor(targets, torch.float64)],
        wrong=[
            (lambda targets: [1 / len(targets)] * len(targets), "a mean of means"),
            (lambda targets: [part.numel() for part in targets], "a mean of means"),
            (
                lambda targets: [int((t != -100).sum()) for t in targets],
                "do not add up",
            ),
            (shares_of_a_tensor, "to seven digits only"),
            (lambda targets: shares(targets)[::-1], "are not the micro-batches' shares"),
            (lambda targets: [1.0], "must have 3 items"),
        ],
    ),
    "ex-lab-pp-halves": Case(
        solution=(input_gradient, weight_gradient),
        also_right=[
            (
                lambda dy, w: (w.T @ dy.mT).mT if dy.dim() > 1 else dy @ w,
                lambda dy, x: (
                    (dy.mT @ x).sum(dim=tuple(range(dy.dim() - 2))) if dy.dim() > 2 else dy.T @ x
                ),
            ),
        ],
        wrong=[
            (
                (input_gradient, lambda dy, x: x.flatten(0, -2).T @ dy.flatten(0, -2)),
                "has the shape",
            ),
            ((input_gradient, lambda dy, x: dy.mT @ x), "weight_gradient, for x with 3 .* has the"),
            ((lambda dy, w: -dy @ w, weight_gradient), "input_gradient, .* the right shape, but"),
            ((input_gradient, weight_gradient_of_dtlib), "the work of dtlib.parallelism"),
            ((lambda dy, w: 1.0, weight_gradient), "input_gradient returns float"),
            ((weight_gradient, input_gradient), "input_gradient, for x with 2 dimensions: "),
            (input_gradient, "must have 2 items"),
        ],
    ),
    "ex-lab-pp-zb-h1": Case(
        solution=zb_h1,
        wrong=[
            (one_f_one_b, "is not split into B and W"),
            (one_f_one_b_backward_first, "waits longer than one unit for each stage|ends late"),
            (weights_last, "rank . holds . micro-batches at once, more than the fullest"),
            (zb_h2, "more than the fullest rank of 1F1B"),
            (lambda p, m: late(p, m, lag=lambda r: 0), "waits longer|ends late"),
            (lambda p, m: late(p, m, lag=lambda r: -1), "0W1 does not exist"),
            (lambda p, m: pipeline.zero_bubble(p, m, 1), "library's own zero_bubble"),
        ],
    ),
    "ex-lab-pp-zb-h2": Case(
        solution=zb_h2,
        also_right=[zb_h2_with_actions],
        wrong=[
            (zb_h1, "legal, but rank . still waits"),
            (lambda p, m: late(p, m, c=3), "no rank waits, but rank . holds"),
            (lambda p, m: late(p, m, c=2, lag=lambda r: m), "still waits|micro-batches at once"),
            (lambda p, m: late(p, m, c=2, extra=1), "micro-batches at once, more than it takes"),
            (gpipe, "is not split"),
        ],
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES
