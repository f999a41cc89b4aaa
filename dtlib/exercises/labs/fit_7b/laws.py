"""What the plans of the lab 'Fit a 7B model into a budget', and the terms of one, are held to."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any

from dtlib.exercises.judge import number, real
from dtlib.exercises.labs.fit_7b.plan import (
    TURNED,
    Job,
    all_plans,
    best_plan,
    living_terms,
    memory_moments,
    memory_terms,
    peak,
    seven_b,
    small,
    step_seconds,
    time_terms,
)
from dtlib.exercises.verdict import NotYet
from dtlib.formulas.require import require
from dtlib.layout import AWAY, Layout

_PLANS = (
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
_NOTHING = {
    "gathered": "only a stage that cuts the weights must gather them",
    "again": "this plan repeats nothing",
    "window": "the optimizer's state has not gone anywhere",
    "optimizer": "state that is away needs no room here, and state that stays makes no journey",
    "repeating": "this plan repeats nothing",
    "waiting": "the activations stay, or the link is quick enough",
    "network": "one GPU has nobody to talk to",
}
_HINTS = {
    "bytes": {
        **dict.fromkeys(
            ("weights", "gradients", "optimizer"),
            "the job says how many bytes there are for each parameter",
        ),
        "gathered": "whole layers, of weights only, and how many of them at a time?",
        "window": "how many layers' state is there at a time?",
        "again": "one layer's worth of each sequence, and its input is counted already",
    },
    "moments": {
        "head": "what is there when the forward pass has reached the model's end?",
        "again": "when a layer is repeated, is the head still needed, or the optimizer at work?",
        "step": "when the optimizer steps, are there activations or gathered weights?",
    },
    "seconds": {
        "waiting": "a pass waits for the link only as long as the link takes longer than it; "
        "repeating is part of the backward pass",
        "network": "how often is each thing gathered and scattered in a step of this stage?",
        "optimizer": "only what this GPU holds of the state goes, both ways at once",
        "computing": "how many sequences does one GPU compute in a step?",
        "repeating": "all layers and no head, for each sequence that one GPU computes in a step",
    },
}


def byte_cases() -> Iterator[tuple[str, tuple[Layout, Job]]]:
    """Plans and jobs, of which one has other widths than any reader knows."""
    little = small(batch=64)
    other = replace(little, name="other widths", weight_bytes=3, gradient_bytes=7)
    return _with_plans(seven_b(), little, other)


def time_cases() -> Iterator[tuple[str, tuple[Layout, Job]]]:
    """Plans and jobs, of which one waits for its link."""
    slow = replace(seven_b(link=0.8e9), name="7B, slow link")
    return _with_plans(seven_b(), slow, small(batch=64))


def _with_plans(*jobs: Job) -> Iterator[tuple[str, tuple[Layout, Job]]]:
    return ((f"{plan!r} ({job.name})", (plan, job)) for job in jobs for plan in _PLANS)


def _times_too_much(name: str, plan: Layout, job: Job) -> dict[float, str]:
    """What a term's bytes are often multiplied by, and what that means."""
    if name in ("activations", "again", "head"):
        return {
            plan.micro_batch: "counts the sequences of a micro-batch twice",
            1 / plan.micro_batch: "counts one sequence: a micro-batch has more",
            job.layers: "counts every layer, but not all are there at once",
            1 / job.layers: "counts one layer",
        }
    stays = "gathered weights are whole" if name == "gathered" else "this stage does not divide it"
    return {
        1 / plan.dp: f"is divided among the GPUs, but {stays}",
        plan.dp: "is as if one GPU had all of it, but this stage divides it",
    }


def terms_law(what: str, given: Any, right: dict[str, float], plan: Layout, job: Job) -> None:
    """The reader's dict equals the right one, term by term."""
    if not isinstance(given, Mapping) or set(given) != set(right):
        raise NotYet(f"return a dict with the keys {', '.join(right)}")
    for name, value in right.items():
        found = real(given[name], repr(name))
        if math.isclose(found, value, rel_tol=1e-9, abs_tol=1e-9):
            continue
        if not value:
            raise NotYet(f"{name!r} must be nothing: {_NOTHING[name]}")
        if not found:
            raise NotYet(f"{name!r} is missing")
        for factor, says in _times_too_much(name, plan, job).items() if what == "bytes" else ():
            if factor != 1 and math.isclose(found / value, factor, rel_tol=1e-6):
                raise NotYet(f"{name!r} {says}")
        if name in _HINTS[what]:
            side = "large" if found > value else "small"
            raise NotYet(f"{name!r} is too {side}: {_HINTS[what][name]}")
        number(found, value, repr(name), tolerance=1e-9)


def changed(reference: Callable, **changes: Callable) -> Callable:
    """The reference, some of its terms replaced by functions of (value, plan, job)."""

    def other(plan: Layout, job: Job) -> dict[str, float]:
        right = reference(plan, job)
        return right | {name: change(right[name], plan, job) for name, change in changes.items()}

    return other


quickest = cache(best_plan)


def fits(plan: Any, job: Job, gpus: int, memory: float) -> None:
    """It is a plan of this lab, for so many GPUs, and finds room on each of them."""
    if not isinstance(plan, Layout):
        raise NotYet(f"a Layout is asked for, got {plan!r}")
    try:
        others = {f.name for f in fields(Layout)} - {"dp", *TURNED}
        plan.require_plain("this lab", *others)
        whole = plan.recompute in ("none", "full")
        require(whole, "this lab", "recompute", plan.recompute, "'none' or 'full'")
        if plan.dp > gpus:
            raise NotYet("the plan uses more GPUs than there are")
        plan.micro_batches(job.batch)
    except ValueError as error:
        raise NotYet(str(error)) from None
    if peak(plan, job) > memory:
        at, inside = memory_moments(plan, job), memory_terms(plan, job)
        moment = max(at, key=at.get)
        largest = max(living_terms()[moment], key=inside.get)
        raise NotYet(f"does not fit at {moment!r}, where {largest!r} is the largest term")


def is_quick(plan: Layout, job: Job, best: Layout, most: float) -> None:
    """Its step takes at most so many times as long as the best plan's."""
    if step_seconds(plan, job) <= most * step_seconds(best, job):
        return
    if plan.dp < max(p.dp for p in all_plans(job, best.dp)):
        raise NotYet("fits, but there are more GPUs to compute on")
    costs = {cause: s for cause, s in time_terms(plan, job).items() if cause != "computing"}
    raise NotYet(f"fits, but there is a faster plan; most is lost to {max(costs, key=costs.get)!r}")
