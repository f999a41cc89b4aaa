"""Graders of the lab 'Fit a 7B model into a budget'."""

import math
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from dtlib.exercises import fit_plan
from dtlib.exercises.engine import grader
from dtlib.exercises.fit_plan import (
    TURNED,
    Job,
    all_plans,
    best_plan,
    memory_moments,
    memory_terms,
    peak,
    seven_b,
    small,
    state_terms,
    step_seconds,
    time_terms,
    usable,
)
from dtlib.exercises.judge import call, function, number, real, unaided
from dtlib.exercises.verdict import NotYet
from dtlib.formulas.require import require
from dtlib.layout import AWAY, Layout

SCREWS = ("dp", *TURNED)
BUDGETS = {"1 x 40 GiB": (1, 40), "8 x 40 GiB": (8, 40), "8 x 24 GiB": (8, 24)}
LIBRARY = (
    fit_plan.state_terms,
    fit_plan.memory_terms,
    fit_plan.memory_moments,
    fit_plan.living_terms,
    fit_plan.peak,
    fit_plan.time_terms,
    fit_plan.step_seconds,
    fit_plan.best_plan,
    "dtlib.memory.account.formulas",
    "dtlib.memory.account.rank",
    "dtlib.memory.account.state",
    "dtlib.memory.offload.cost",
    "dtlib.memory.zero.cost",
)
METERS = ("dtlib.exercises.shards", "dtlib.memory.meter", "dtlib.memory.offload.activations")
PLANS = (
    Layout(),
    Layout(dp=8, zero=1),
    Layout(dp=4, zero=2, micro_batch=2, recompute="full"),
    Layout(dp=8, zero=3, micro_batch=2),
    Layout(dp=8, zero=3, micro_batch=4, recompute="full"),
    Layout(dp=4, offload=AWAY[:1]),
    Layout(dp=8, zero=2, micro_batch=2, offload=AWAY[:1]),
    Layout(dp=2, zero=1, micro_batch=4, offload=AWAY[1:]),
    Layout(dp=8, zero=3, micro_batch=2, recompute="full", offload=AWAY),
)
NOTHING = {
    "gathered": "only a stage that cuts the weights must gather them",
    "again": "this plan repeats nothing",
    "window": "the optimizer's state has not gone anywhere",
    "optimizer": "state that is away needs no room here, and state that stays makes no journey",
    "repeating": "this plan repeats nothing",
    "waiting": "the activations stay, or the link is quick enough",
    "network": "one GPU has nobody to talk to",
}


@grader("ex-fit-predict")
def predict(answer: Any) -> str:
    asked = ("state_bytes", "shared_bytes", "link_seconds", "sent_bytes")
    given = _dictionary(answer, asked, "pass a dict")
    job = seven_b()
    psi, state = job.params, 16 * job.params
    slips = {
        4 * psi: "weights and gradients, and what does the optimizer hold?",
        12 * psi: "that is the optimizer's part alone",
    }
    number(given["state_bytes"], state, "state_bytes", "bytes", mistakes=slips)
    slips = {state: "stage 3 divides it", 4 * psi / 8: "weights and gradients, and the optimizer?"}
    number(given["shared_bytes"], state / 8, "shared_bytes", "bytes", mistakes=slips)
    slips = {
        state / job.link: "only the optimizer's state goes over the link",
        24 * psi / job.link: "the link carries both directions at once: what takes one of them?",
    }
    number(given["link_seconds"], 12 * psi / job.link, "link_seconds", "s", mistakes=slips)
    whole = 2 * psi * 7 / 8
    slips = {
        24 * 2 * psi: "a rank does not send what it has to itself",
        3 * whole: "that is one micro-batch, and there are eight",
        16 * whole: "gathered for the forward pass, gathered for the backward pass, and then?",
        2 * whole: "that is an all-reduce, once a step",
        4 * 24 * whole / 2: "bytes, please: how wide are weights and gradients here?",
    }
    number(given["sent_bytes"], 24 * whole, "sent_bytes", "bytes", mistakes=slips)
    return "the four numbers that every plan of this lab trades against one another"


@grader("ex-fit-state")
def state(answer: Any) -> str:
    parts = ("weights", "gradients", "optimizer")
    hints = dict.fromkeys(parts, "the job says how many bytes there are for each parameter")
    _judge_terms(answer, "state(plan, job)", state_terms, "the bytes", hints, slips=_slips)
    return "three terms, each divided from its own stage on"


@grader("ex-fit-terms")
def terms(answer: Any) -> str:
    hints = {
        "gathered": "whole layers, of weights only, and how many of them at a time?",
        "window": "how many layers' state is there at a time?",
        "again": "one layer's worth of each sequence, and its input is counted already",
    }
    _judge_terms(answer, "terms(plan, job)", memory_terms, "the terms", hints, slips=_slips)
    return "eight terms, on plans that divide, repeat and send away"


@grader("ex-fit-moments")
def moments(answer: Any) -> str:
    hints = {
        "head": "what is there when the forward pass has reached the model's end?",
        "again": "when a layer is repeated, is the head still needed, or the optimizer at work?",
        "step": "when the optimizer steps, are there activations or gathered weights?",
    }
    _judge_terms(answer, "moments(plan, job)", memory_moments, "the sums", hints)
    return "what does not live at the same time is not added"


@grader("ex-fit-time")
def step_time(answer: Any) -> str:
    hints = {
        "waiting": "a pass waits for the link only as long as the link takes longer than it; "
        "repeating is part of the backward pass",
        "network": "how often is each thing gathered and scattered in a step of this stage?",
        "optimizer": "only what this GPU holds of the state goes, both ways at once",
        "computing": "how many sequences does one GPU compute in a step?",
        "repeating": "all layers and no head, for each sequence that one GPU computes in a step",
    }
    slow = replace(seven_b(link=0.8e9), name="7B, slow link")
    jobs = seven_b(), slow, small(batch=64)
    _judge_terms(answer, "step_time(plan, job)", time_terms, "the seconds", hints, jobs)
    return "what each choice costs in a step"


@grader("ex-fit-plans")
def plans(answer: Any) -> str:
    given = _dictionary(answer, BUDGETS, "pass a dict of plans")
    job = seven_b()
    for name, plan in given.items():
        gpus, gib = BUDGETS[name]
        plan = _judge_fit(plan, job, gpus, usable(gib), name)
        _judge_speed(plan, job, best_plan(job, gpus, usable(gib)), 1.1, name)
    return "three plans that fit, none more than a tenth slower than the fastest that does"


@grader("ex-fit-planner")
def planner(answer: Any) -> str:
    function(answer, "find_plan(job, gpus, memory)")
    for scene, gpus, gib in _scenes():
        memory = usable(gib)
        name = (
            f"{scene.name} on {gpus} GPUs of {gib:g} GiB, link {scene.link / 1e9:g} GB/s, "
            f"network {scene.network / 1e9:g} GB/s, batch {scene.batch}"
        )
        with unaided(*LIBRARY, write="the search"):
            plan = _returned(answer, replace(scene), gpus, memory)
        best = best_plan(scene, gpus, memory)
        if best is None:
            if plan is not None:
                raise NotYet(f"{name}: {plan!r} does not fit; where nothing fits, return None")
            continue
        if plan is None:
            raise NotYet(f"{name}: there is a plan that fits, and None was returned")
        plan = _judge_fit(plan, scene, gpus, memory, name)
        _judge_speed(plan, scene, best, 1.01, name)
    return "the fastest plan that fits, whatever the link and the budget, and None where none does"


@grader("ex-fit-held")
def held(answer: Any) -> str:
    import torch

    function(answer, "held_bytes(tensors)")
    a, b = torch.zeros(6, 5), torch.zeros(7, dtype=torch.bfloat16)
    released = torch.zeros(9)
    released.untyped_storage().resize_(0)
    half, learned = torch.zeros(10), torch.zeros(3, requires_grad=True)
    learned.grad = torch.zeros(3)
    scenes = {
        "two tensors of different types": ([a, b], a.nbytes + b.nbytes),
        "no tensor at all": ([], 0),
        "a tensor that is there twice": ([a, a], a.nbytes),
        "a tensor and a view of it": ([a, a.t(), a[2:4], b], a.nbytes + b.nbytes),
        "only a slice of a tensor, whose memory is all there": ([half[:3]], half.nbytes),
        "a number that is expanded to many": ([torch.zeros(1).expand(50)], 4),
        "a weight whose memory was given back": ([released, b], b.nbytes),
        "a parameter, whose gradient is a tensor of its own": ([learned], learned.nbytes),
        "a generator of parameters": (torch.nn.Linear(3, 2).parameters(), 32),
    }
    for name, (tensors, expected) in scenes.items():
        with unaided(*METERS, write="the count"):
            found = real(_returned(answer, tensors), "the bytes")
        if found != expected:
            side = "many" if found > expected else "few"
            raise NotYet(f"too {side} bytes for {name}: count each memory once, and all of it")
    return "each memory once, and all of it, however many tensors look at it"


# ---- what the reader's functions and plans do


def _dictionary(answer: Any, keys, ask: str) -> dict:
    if not isinstance(answer, Mapping) or set(answer) != set(keys):
        raise NotYet(f"{ask} with the keys {', '.join(keys)}")
    return dict(answer)


def _returned(answer: Callable, *arguments) -> Any:
    """What the reader's function returns, where None is an answer too."""
    box = call(lambda *given: [answer(*given)], *arguments)
    return box[0]


def _scenes() -> list[tuple[Job, int, float]]:
    """Jobs and budgets of which each needs something that a search might have left out."""
    job, short = seven_b(), seven_b(seq=1024)
    slow = seven_b(batch=16, link=8e9)
    thin = replace(seven_b(link=8e9), network=10e9)
    return [
        *((job, 8, 40), (job, 2, 24), (job, 1, 24), (job, 1, 80)),
        *((slow, 4, 24), (slow, 8, 40)),
        *((thin, 8, 24), (thin, 8, 80), (replace(short, network=10e9), 8, 24)),
        *((seven_b(seq=2048, link=450e9), 4, 24), (replace(job, batch=12), 8, 40)),
        *((small(), 4, 0.0018), (small(), 2, 0.002)),
    ]


def _judge_terms(
    answer: Any,
    signature: str,
    reference: Callable,
    what: str,
    hints: Mapping[str, str] | None = None,
    jobs: tuple[Job, ...] = (),
    slips: Callable = lambda name, plan, job: {},
) -> None:
    """The reader's dict equals the reference, term by term, for plans large and small."""
    function(answer, signature)
    little = small(batch=64)
    other = replace(little, name="other widths", weight_bytes=3, gradient_bytes=7)
    for job in jobs or (seven_b(), little, other):
        for plan in PLANS:
            expected = reference(plan, job)
            with unaided(*LIBRARY, write=what):
                found = _returned(answer, replace(plan), replace(job))
            if found is None:
                raise NotYet("the function returns nothing yet")
            found = _dictionary(found, expected, "return a dict")
            for name, value in expected.items():
                label = f"{name!r} of {plan!r} ({job.name})"
                known = slips(name, plan, job)
                _judge_term(real(found[name], label), value, name, label, known, hints or {})


def _slips(name: str, plan: Layout, job: Job) -> dict[float, str]:
    """What a term's bytes are often multiplied by, and what that means."""
    if name in ("activations", "again", "head"):
        return {
            plan.micro_batch: "counts the sequences of a micro-batch twice",
            1 / plan.micro_batch: "counts one sequence: a micro-batch has more",
            job.layers: "counts every layer, but not all are there at once",
            1 / job.layers: "counts one layer",
        }
    divided = {1 / plan.dp: "is divided among the GPUs, but this stage does not divide it"}
    if name == "gathered":
        return {1 / plan.dp: "is divided among the GPUs, but gathered weights are whole"}
    return divided | {plan.dp: "is as if one GPU had all of it, but this stage divides it"}


def _judge_term(found, expected, name, label, slips, hints) -> None:
    if math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9):
        return
    if not expected:
        raise NotYet(f"{label} must be nothing: {NOTHING[name]}")
    if not found:
        raise NotYet(f"{label} is missing")
    ratio = found / expected
    for slip, says in slips.items():
        if slip != 1 and math.isclose(ratio, slip, rel_tol=1e-6):
            raise NotYet(f"{label} {says}")
    if name in hints:
        side = "large" if ratio > 1 else "small"
        raise NotYet(f"{label} is too {side}: {hints[name]}")
    number(found, expected, label, tolerance=1e-9)


def _judge_fit(plan: Any, job: Job, gpus: int, memory: float, name: str) -> Layout:
    """The plan, made anew from its fields, if it fits."""
    if type(plan) is not Layout:
        raise NotYet(f"{name}: a Layout is asked for, got {plan!r}")
    try:
        plan = replace(plan)
        plan.require_plain("this lab", *(f.name for f in fields(Layout) if f.name not in SCREWS))
        whole = plan.recompute in ("none", "full")
        require(whole, "this lab", "recompute", plan.recompute, "'none' or 'full'")
        if plan.dp > gpus:
            raise NotYet(f"{name}: the plan uses more GPUs than there are")
        plan.micro_batches(job.batch)
    except ValueError as error:
        raise NotYet(f"{name}: {error}") from None
    if peak(plan, job) > memory:
        fullest = memory_moments(plan, job)
        moment = max(fullest, key=fullest.get)
        inside = memory_terms(plan, job)
        there = fit_plan.living_terms()[moment]
        largest = max(there, key=inside.get)
        raise NotYet(f"{name}: does not fit at {moment!r}, where {largest!r} is the largest term")
    return plan


def _judge_speed(plan: Layout, job: Job, best: Layout, most: float, name: str) -> None:
    if step_seconds(plan, job) <= most * step_seconds(best, job):
        return
    costs = {cause: s for cause, s in time_terms(plan, job).items() if cause != "computing"}
    if plan.dp < max(p.dp for p in all_plans(job, best.dp)):
        raise NotYet(f"{name}: fits, but there are more GPUs to compute on")
    cause = max(costs, key=costs.get)
    raise NotYet(f"{name}: fits, but there is a faster plan; most is lost to {cause!r}")
