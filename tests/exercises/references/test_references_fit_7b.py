"""The equations of the lab 'Fit a 7B model': written twice, the account's, and of real ranks."""

from dataclasses import replace

import pytest

from dtlib import launch
from dtlib.exercises import check
from dtlib.exercises.labs.fit_7b import _held, with_plan
from dtlib.exercises.labs.fit_7b import plan as fit_plan
from dtlib.exercises.labs.fit_7b.plan import seven_b, small, usable
from dtlib.layout import AWAY, Layout
from dtlib.memory import rank_memory

JOB = seven_b()


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


RIGHT = [
    ("ex-fit-state", state),
    ("ex-fit-terms", terms),
    ("ex-fit-moments", moments),
    ("ex-fit-time", step_time),
    ("ex-fit-planner", searches_by_hand),
    *(
        ("ex-fit-plans", with_plan(name, plan))
        for name, plan in (
            ("1 x 40 GiB", Layout(micro_batch=2, offload=AWAY)),
            ("1 x 40 GiB", Layout(zero=2, micro_batch=2, recompute="full", offload=AWAY[:1])),
            ("8 x 40 GiB", Layout(dp=8, zero=3)),
            ("8 x 24 GiB", Layout(dp=8, zero=2, offload=AWAY)),
            ("8 x 24 GiB", Layout(dp=8, zero=3, micro_batch=2, recompute="full")),
        )
    ),
]


@pytest.mark.parametrize(("slug", "answer"), RIGHT)
def test_equations_written_once_more_and_other_good_plans_pass(slug, answer):
    assert check(slug, answer)


@pytest.mark.parametrize("stage", range(4))
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_the_account_is_the_library_s_own(stage, recompute):
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

    from dtlib.exercises.labs.fit_7b.run import run_small

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
        readings = ranks.run(run_all, choices, job, _held)[0]
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
