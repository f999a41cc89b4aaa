"""Every check of the lab on fitting a model: solutions pass; slips and the library's own fail.

The account that grades is held to the library's own, and a real run on two ranks to the account.
"""

from dataclasses import replace

import pytest
from exercise_cases import Case, EveryExercise

from dtlib import launch
from dtlib.exercises import NotYet, check, fit_plan, shards
from dtlib.exercises.fit_plan import seven_b, small, usable
from dtlib.layout import AWAY, Layout
from dtlib.memory import rank_memory, zero_sent_bytes
from dtlib.memory.account.state import held_weight_bytes

JOB = seven_b()
PSI = JOB.params


def predicted(**changes):
    right = {
        "state_bytes": 16 * PSI,
        "shared_bytes": 2 * PSI,
        "link_seconds": 12 * PSI / JOB.link,
        "sent_bytes": 3 * 8 * 2 * PSI * 7 / 8,
    }
    return right | changes


def state(plan, job):
    N = plan.dp
    return {
        "weights": job.weight_bytes * job.params / (N if plan.zero >= 3 else 1),
        "gradients": job.gradient_bytes * job.params / (N if plan.zero >= 2 else 1),
        "optimizer": job.optimizer_bytes * job.params / (N if plan.zero >= 1 else 1),
    }


def terms(plan, job):
    found = state(plan, job)
    b = plan.micro_batch
    kept = job.input_bytes if plan.recompute == "full" else job.kept_bytes
    layers = 2 if "activations" in plan.offload else job.layers
    found["activations"] = b * layers * kept
    found["again"] = b * (job.kept_bytes - job.input_bytes) if plan.recompute == "full" else 0
    found["head"] = b * job.head_bytes
    found["gathered"] = 2 * job.weight_bytes * job.layer_params if plan.zero == 3 else 0
    found["window"] = 0
    if "optimizer" in plan.offload:
        found["window"] = 3 * found["optimizer"] * job.layer_params / job.params
        found["optimizer"] = 0
    return found


def moments(plan, job):
    t = terms(plan, job)
    always = t["weights"] + t["gradients"] + t["optimizer"]
    passes = always + t["gathered"] + t["activations"]
    return {
        "head": passes + t["head"],
        "again": passes + t["again"],
        "step": always + t["window"],
    }


def step_time(plan, job):
    m = job.batch // (plan.dp * plan.micro_batch)
    b = plan.micro_batch
    forward, backward = b * job.forward_flops / job.rate, b * job.backward_flops / job.rate
    again = b * job.repeated_flops / job.rate if plan.recompute == "full" else 0
    kept = job.input_bytes if plan.recompute == "full" else job.kept_bytes
    moving = b * job.layers * kept / job.link if "activations" in plan.offload else 0
    passes = {0: 2, 1: 2, 2: m + 1, 3: 3 * m}[plan.zero]
    one = (plan.dp - 1) / plan.dp * job.gradient_bytes * job.params
    away = "optimizer" in plan.offload
    return {
        "computing": m * (forward + backward),
        "repeating": m * again,
        "waiting": m * (max(0, moving - forward) + max(0, moving - backward - again)),
        "network": passes * one / job.network,
        "optimizer": state(plan, job)["optimizer"] / job.link if away else 0,
    }


def waits_without_repeats(plan, job):
    """The backward pass hides, and the repeats in it are forgotten."""
    found = step_time(plan, job)
    if "activations" in plan.offload:
        kept = job.input_bytes if plan.recompute == "full" else job.kept_bytes
        moving = job.layers * kept / job.link
        passes = job.forward_flops / job.rate, job.backward_flops / job.rate
        found["waiting"] = job.batch / plan.dp * sum(max(0, moving - one) for one in passes)
    return found


def find_plan(job, gpus, memory, least=min, cost=lambda p, j: sum(step_time(p, j).values())):
    fitting = [
        plan for plan in fit_plan.all_plans(job, gpus) if max(moments(plan, job).values()) <= memory
    ]
    return least(fitting, key=lambda plan: cost(plan, job), default=None)


def held_bytes(tensors):
    storages = {t.untyped_storage()._cdata: t.untyped_storage() for t in tensors}
    return sum(storage.nbytes() for storage in storages.values())


def changed(function, **changes):
    """The reader's function with some of its terms replaced by functions of (value, plan, job)."""

    def wrong(plan, job):
        found = function(plan, job)
        for name, change in changes.items():
            found[name] = change(found[name], plan, job)
        return found

    return wrong


def plans(**changes):
    right = {
        "1 x 40 GiB": Layout(offload=AWAY),
        "8 x 40 GiB": Layout(dp=8, zero=2, offload=["optimizer"]),
        "8 x 24 GiB": Layout(dp=8, zero=3, micro_batch=2, offload=["activations"]),
    }
    return right | {name.replace("_", " "): plan for name, plan in changes.items()}


def plans_with(name, plan):
    return plans() | {name: plan}


def bent(**fields):
    """A plan whose fields were changed after it had been made."""
    plan = Layout(dp=8, zero=3, offload=AWAY)
    for name, value in fields.items():
        object.__setattr__(plan, name, value)
    return plan


class Boast(Layout):
    """A plan with more in it than a layout has."""


def searching(allowed):
    """A search that leaves some plans out."""

    def find(job, gpus, memory):
        fitting = [
            plan
            for plan in fit_plan.all_plans(job, gpus)
            if allowed(plan, gpus) and max(moments(plan, job).values()) <= memory
        ]
        return min(fitting, key=lambda plan: sum(step_time(plan, job).values()), default=None)

    return find


def without(cause):
    """A search that does not see what something costs."""

    def cost(plan, job):
        return sum(seconds for name, seconds in step_time(plan, job).items() if name != cause)

    return lambda job, gpus, memory: find_plan(job, gpus, memory, cost=cost)


def forgets_again(job, gpus, memory):
    fitting = [
        plan
        for plan in fit_plan.all_plans(job, gpus)
        if max(moments(plan, job)[name] for name in ("head", "step")) <= memory
    ]
    return min(fitting, key=lambda plan: sum(step_time(plan, job).values()), default=None)


def empties_the_job(job, gpus, memory):
    """Makes room by changing what is asked for."""
    for name in ("params", "layer_params"):
        job.__dict__[name] = 0
    for name in ("kept_bytes", "head_bytes", "input_bytes"):
        object.__setattr__(job, name, 0.0)
    return Layout(dp=gpus)


def searches_by_hand(job, gpus, memory):
    """An enumeration of one's own; stage 0 is never better than stage 1, and so left out."""
    best, least = None, float("inf")
    for count in range(gpus, 0, -1):
        if job.batch % count:
            continue
        for size in range(1, job.batch // count + 1):
            if job.batch // count % size:
                continue
            for stage in (3, 2, 1):
                for recompute in ("full", "none"):
                    for away in ([], ["optimizer"], ["activations"], set(AWAY)):
                        plan = Layout(
                            dp=count,
                            zero=stage,
                            micro_batch=size,
                            recompute=recompute,
                            offload=away,
                        )
                        seconds = sum(step_time(plan, job).values())
                        if max(moments(plan, job).values()) <= memory and seconds < least:
                            best, least = plan, seconds
    return best


CASES = {
    "ex-fit-predict": Case(
        solution=predicted(),
        wrong=[
            (predicted(state_bytes=4 * PSI), "what does the optimizer hold"),
            (predicted(shared_bytes=16 * PSI), "stage 3 divides it"),
            (predicted(link_seconds=24 * PSI / JOB.link), "carries both directions at once"),
            (predicted(link_seconds=16 * PSI / JOB.link), "only the optimizer's state"),
            (predicted(sent_bytes=48 * PSI), "does not send what it has to itself"),
            (predicted(sent_bytes=6 * PSI * 7 / 8), "one micro-batch"),
            (predicted(sent_bytes=4 * PSI * 7 / 8), "an all-reduce, once a step"),
            (predicted(sent_bytes=32 * PSI * 7 / 8), "gathered for the forward pass"),
            (predicted(sent_bytes=96 * PSI * 7 / 8), "how wide"),
            (17, "keys state_bytes"),
        ],
        secret=[16 * PSI, 12 * PSI / JOB.link, 42 * PSI],
    ),
    "ex-fit-state": Case(
        solution=state,
        wrong=[
            (fit_plan.state_terms, "the library's own state_terms"),
            (lambda plan, job: {"weights": 1}, "with the keys weights, gradients, optimizer"),
            (
                changed(state, gradients=lambda v, p, j: j.gradient_bytes * j.params),
                "'gradients' of .* is as if one GPU had all of it",
            ),
            (
                changed(state, weights=lambda v, p, j: j.weight_bytes * j.params / p.dp),
                "'weights' of .* is divided among the GPUs",
            ),
            (changed(state, optimizer=lambda v, p, j: v * 2 / 3), "small: the job says how many"),
            (changed(state, optimizer=lambda v, p, j: 12 * v / j.optimizer_bytes), "too large"),
            (
                changed(state, weights=lambda v, p, j: v * j.gradient_bytes / j.weight_bytes),
                "large",
            ),
            (changed(state, gradients=lambda v, p, j: 2 * v / j.gradient_bytes), "how many bytes"),
            (
                lambda plan, job: {
                    "weights": held_weight_bytes(job.params, job.weight_bytes, plan.zero, plan.dp),
                    "gradients": 0,
                    "optimizer": 0,
                },
                "the library's own held_weight_bytes",
            ),
        ],
        secret=[12 * PSI, 2 * PSI],
    ),
    "ex-fit-terms": Case(
        solution=terms,
        wrong=[
            (fit_plan.memory_terms, "the library's own memory_terms"),
            (state, "with the keys"),
            (changed(terms, gathered=lambda v, p, j: 0), "'gathered' of .* is missing"),
            (
                changed(terms, gathered=lambda v, p, j: 4 * j.layer_params),
                "must be nothing: only a stage that cuts the weights",
            ),
            (changed(terms, activations=lambda v, p, j: v / p.micro_batch), "counts one sequence"),
            (changed(terms, activations=lambda v, p, j: v / j.layers), "counts one layer"),
            (changed(terms, again=lambda v, p, j: v * j.layers), "not all are there at once"),
            (
                changed(terms, optimizer=lambda v, p, j: state(p, j)["optimizer"]),
                "state that is away needs no room",
            ),
            (changed(terms, window=lambda v, p, j: v * 2 / 3), "'window' .* is too small"),
            (
                changed(terms, gathered=lambda v, p, j: v / 2),
                "too small: whole layers, of weights only, and how many",
            ),
            (
                changed(terms, gathered=lambda v, p, j: v * j.gradient_bytes / j.weight_bytes),
                "other widths.* too large: whole layers, of weights only",
            ),
            (
                changed(terms, gathered=lambda v, p, j: v / p.dp),
                "but gathered weights are whole",
            ),
            (
                changed(
                    terms,
                    again=lambda v, p, j: v / (p.micro_batch if "activations" in p.offload else 1),
                ),
                "'again' of .* counts one sequence",
            ),
            (
                changed(terms, again=lambda v, p, j: v and v + p.micro_batch * j.input_bytes),
                "its input is counted already",
            ),
            (
                changed(terms, window=lambda v, p, j: v * p.dp if p.zero else v),
                "but this stage divides it",
            ),
        ],
    ),
    "ex-fit-moments": Case(
        solution=moments,
        wrong=[
            (fit_plan.memory_moments, "the library's own"),
            (
                changed(moments, again=lambda v, p, j: v + terms(p, j)["head"]),
                "'again' of .* too large: when a layer is repeated",
            ),
            (
                changed(moments, step=lambda v, p, j: v + terms(p, j)["activations"]),
                "when the optimizer steps, are there activations",
            ),
            (
                changed(moments, step=lambda v, p, j: v + terms(p, j)["gathered"]),
                "or gathered weights",
            ),
            (
                changed(moments, again=lambda v, p, j: v if p.recompute == "full" else 0),
                "'again' of .* missing",
            ),
            (changed(moments, again=lambda v, p, j: v + terms(p, j)["window"]), "at work"),
            (
                lambda plan, job: {
                    moment: sum(terms(plan, job)[name] for name in names)
                    for moment, names in fit_plan.living_terms().items()
                },
                "the library's own living_terms",
            ),
            (
                changed(moments, head=lambda v, p, j: v - terms(p, j)["activations"]),
                "reached the model's end",
            ),
        ],
    ),
    "ex-fit-time": Case(
        solution=step_time,
        wrong=[
            (fit_plan.time_terms, "the library's own time_terms"),
            (
                changed(step_time, network=lambda v, p, j: v / 3 * 2 if p.zero == 3 else v),
                "how often is each thing gathered",
            ),
            (changed(step_time, optimizer=lambda v, p, j: 2 * v), "both ways at once"),
            (
                changed(
                    step_time,
                    optimizer=lambda v, p, j: j.optimizer_bytes * j.params / j.link if v else v,
                ),
                "only what this GPU holds",
            ),
            (
                changed(
                    step_time,
                    waiting=lambda v, p, j: (
                        (j.batch // p.dp) * 2 * j.layers * j.kept_bytes / j.link if v else v
                    ),
                ),
                "only as long as the link takes longer",
            ),
            (
                changed(step_time, computing=lambda v, p, j: v * p.dp),
                "too large: how many sequences does one GPU compute",
            ),
            (
                changed(
                    step_time,
                    waiting=lambda v, p, j: (
                        v + 1e-3 * (p.recompute == "full" and "activations" in p.offload)
                    ),
                ),
                "'waiting' of .* must be nothing",
            ),
            (waits_without_repeats, "slow link.* repeating is part of the backward pass"),
            (
                changed(
                    step_time,
                    optimizer=lambda v, p, j: state(p, j)["optimizer"] / j.link,
                ),
                "state that stays makes no journey",
            ),
            (
                changed(
                    step_time,
                    network=lambda v, p, j: (
                        zero_sent_bytes(
                            j.params, p.zero, p.dp, p.micro_batches(j.batch), j.gradient_bytes
                        )
                        / j.network
                    ),
                ),
                "the library's own zero_sent_bytes",
            ),
            (changed(step_time, repeating=lambda v, p, j: v / 3), "'repeating' of .* and no head"),
        ],
    ),
    "ex-fit-plans": Case(
        solution=plans(),
        also_right=[
            plans_with("1 x 40 GiB", Layout(micro_batch=2, offload=AWAY)),
            plans_with(
                "1 x 40 GiB", Layout(zero=2, micro_batch=2, recompute="full", offload=["optimizer"])
            ),
            plans_with("8 x 40 GiB", Layout(dp=8, zero=3)),
            plans_with("8 x 24 GiB", Layout(dp=8, zero=2, offload=AWAY)),
            plans_with("8 x 24 GiB", Layout(dp=8, zero=3, micro_batch=2, recompute="full")),
        ],
        wrong=[
            ({"8 x 40 GiB": Layout(dp=8, zero=3)}, "pass a dict of plans with the keys"),
            (plans_with("8 x 40 GiB", "stage 3"), "a Layout is asked for"),
            (plans_with("8 x 40 GiB", Layout(dp=16, zero=3)), "more GPUs than there are"),
            (
                plans_with("8 x 40 GiB", Layout(dp=7, zero=3)),
                "batch is 64, but must be a multiple of dp x micro_batch",
            ),
            (
                plans_with("8 x 40 GiB", Layout(dp=8, zero=3, micro_batch=8)),
                "does not fit at 'head', .*'activations'",
            ),
            (
                plans_with("1 x 40 GiB", Layout(recompute="full")),
                "where 'optimizer' is the largest",
            ),
            (
                plans_with("8 x 40 GiB", Layout(dp=8, zero=3, recompute="full")),
                "most is lost to 'repeating'",
            ),
            (
                plans_with("8 x 40 GiB", Layout(dp=8, zero=2, micro_batch=4, offload=AWAY)),
                "most is lost to 'waiting'",
            ),
            (plans_with("8 x 24 GiB", Layout(dp=4, zero=3, offload=AWAY)), "there are more GPUs"),
            (
                plans_with("8 x 24 GiB", Layout(dp=8, zero=2, offload=AWAY[1:])),
                "does not fit at 'head'",
            ),
            (plans_with("8 x 24 GiB", bent(micro_batch=0.125)), "a whole number of at least 1"),
            (plans_with("8 x 24 GiB", bent(zero=7)), "0, 1, 2 or 3"),
            (
                plans_with("8 x 24 GiB", Boast(dp=8, zero=3, micro_batch=2, offload=AWAY)),
                "a Layout is asked for",
            ),
        ],
    ),
    "ex-fit-planner": Case(
        solution=find_plan,
        wrong=[
            (fit_plan.best_plan, "the library's own best_plan"),
            (lambda job, gpus, memory: Layout(dp=gpus, zero=3), "does not fit|faster plan"),
            (lambda job, gpus, memory: None, "there is a plan that fits"),
            (
                lambda job, gpus, memory: find_plan(job, gpus, 2 * memory),
                "does not fit at",
            ),
            (
                lambda job, gpus, memory: find_plan(
                    job, gpus, memory, cost=lambda p, j: max(moments(p, j).values())
                ),
                "there is a faster plan|more GPUs",
            ),
            (
                lambda job, gpus, memory: find_plan(job, gpus, memory) or Layout(dp=gpus),
                "where nothing fits, return None",
            ),
            (
                lambda job, gpus, memory: find_plan(
                    job,
                    gpus,
                    memory,
                    cost=lambda p, j: step_time(p, j)["computing"] + (p.recompute == "full"),
                ),
                "faster plan",
            ),
            (
                searching(lambda plan, gpus: plan.dp == gpus),
                "batch 12: there is a plan that fits",
            ),
            (searching(lambda plan, gpus: plan.micro_batch <= 4), "faster plan"),
            (searching(lambda plan, gpus: plan.dp in (1, 2, 4, 8)), "more GPUs to compute on"),
            (
                searching(lambda plan, gpus: plan.zero >= 2),
                "8 GPUs of 80 .* there is a faster plan",
            ),
            (searching(lambda plan, gpus: plan.recompute == "full" or plan.offload), "faster plan"),
            (
                searching(
                    lambda plan, gpus: (
                        not (plan.recompute == "full" and "activations" in plan.offload)
                    )
                ),
                "faster plan",
            ),
            (without("optimizer"), "most is lost to 'optimizer'"),
            (without("network"), "most is lost to 'network'"),
            (forgets_again, "does not fit at 'again'"),
            (empties_the_job, "does not fit at"),
        ],
        also_right=[searches_by_hand],
    ),
    "ex-fit-held": Case(
        solution=held_bytes,
        wrong=[
            (lambda tensors: sum(t.nbytes for t in tensors), "too many bytes for a tensor that is"),
            (
                lambda tensors: sum(t.nbytes for t in set(tensors)),
                "too many bytes for a tensor and",
            ),
            (
                lambda tensors: sum({t.data_ptr(): t.nbytes for t in tensors}.values()),
                "a view of it|only a slice",
            ),
            (lambda tensors: 4 * sum(t.numel() for t in tensors), "different types"),
            (
                lambda tensors: held_bytes(
                    [x for t in tensors for x in (t, t.grad) if x is not None]
                ),
                "whose gradient is a tensor of its own",
            ),
            (lambda tensors: shards.held_bytes(*tensors), "the library's own held_bytes"),
        ],
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES


@pytest.mark.parametrize("stage", range(4))
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_the_account_that_grades_is_the_library_s_own(stage, recompute):
    """Two ways to one number; only the head's products are added to what is repeated there."""
    plan = Layout(dp=8, zero=stage, micro_batch=2, recompute=recompute)
    account = rank_memory(JOB.spec, plan, seq=JOB.seq).terms()
    found = fit_plan.memory_terms(plan, JOB)
    assert found["weights"] == pytest.approx(account["weights"])
    assert found["gradients"] == pytest.approx(account["gradients"])
    assert found["optimizer"] == pytest.approx(account["master"] + account["moments"])
    assert found["activations"] == pytest.approx(account["activations"])
    assert found["again"] == pytest.approx(account.get("again", 0))
    assert found["head"] == pytest.approx(account["logits"])
    assert found["gathered"] == pytest.approx(account.get("gathered", 0), rel=1e-3)


def test_no_plan_puts_seven_billion_on_one_gpu_of_24_gib_and_the_surprises_are_there():
    assert fit_plan.best_plan(JOB, 1, usable(24)) is None
    best = fit_plan.best_plan(JOB, 8, usable(40))
    assert best.zero == 2 and best.offload == ("optimizer",)
    slow = fit_plan.best_plan(replace(JOB, link=JOB.link / 4), 8, usable(24))
    assert slow.recompute == "full"
    assert fit_plan.best_plan(JOB, 8, usable(24)).recompute == "none"


def run_all(plans, job, held):
    import torch

    from dtlib.exercises.fit_run import run_small

    torch.set_num_threads(1)
    return [run_small(plan, job, held) for plan in plans]


def test_what_two_ranks_hold_and_send_is_what_the_equation_says():
    job = small(layers=3, batch=4)
    choices = [
        Layout(dp=2),
        Layout(dp=2, zero=1, micro_batch=2),
        Layout(dp=2, zero=2, recompute="full"),
        Layout(dp=2, zero=3, recompute="full", offload=AWAY),
        Layout(dp=2, zero=3, offload=["activations"]),
    ]
    with launch(2, timeout=120) as ranks:
        readings = ranks.run(run_all, choices, job, held_bytes)[0]
    for plan, read in zip(choices, readings, strict=True):
        expected = terms(plan, job)
        for name in ("weights", "gradients", "optimizer"):
            assert read[name] == pytest.approx(expected[name], rel=0.01)
        assert read["sent"] == pytest.approx(step_time(plan, job)["network"] * job.network)
        if "activations" in plan.offload:
            assert 0 < read["activations"] <= expected["activations"] + expected["head"]
        else:
            kept = expected["activations"] + max(expected["head"], expected["again"])
            assert read["activations"] == pytest.approx(kept, rel=0.02)
        assert read["loss"] == pytest.approx(readings[0]["loss"], rel=1e-5)
    other = terms(Layout(dp=2, zero=1), job)  # sabotage: another stage's equation is far off
    assert abs(readings[2]["gradients"] / other["gradients"] - 1) > 0.4


def test_a_plan_that_turns_another_screw_is_refused():
    for changes, message in (
        ({"tp": 2}, "tp is 2, but must be 1"),
        ({"recompute": "selective"}, "recompute is 'selective', but must be 'none' or 'full'"),
    ):
        with pytest.raises(NotYet, match=message):
            check("fit-7b.6", plans_with("8 x 24 GiB", Layout(dp=8, zero=3) | changes))
    with pytest.raises(NotYet):
        check("fit-7b.6", plans_with("8 x 24 GiB", None))
