"""Wrong answers of the lab 'Fit a 7B model' that no slip derives: (exercise, answer, complaint)."""

from dtlib.exercises.labs.fit_7b import with_plan
from dtlib.exercises.labs.fit_7b.laws import changed
from dtlib.exercises.labs.fit_7b.plan import (
    all_plans,
    best_plan,
    memory_moments,
    memory_terms,
    peak,
    state_terms,
    step_seconds,
    time_terms,
)
from dtlib.layout import AWAY, Layout

STATE, TERMS, MOMENTS = "ex-fit-state", "ex-fit-terms", "ex-fit-moments"
TIME, PLANS, PLANNER = "ex-fit-time", "ex-fit-plans", "ex-fit-planner"


def varied(reference):
    """Makes the reader's functions, some of whose terms are not the reference's."""
    return lambda **changes: lambda plan, job: changed(reference, **changes)(plan, job)


of_state, of_terms = varied(state_terms), varied(memory_terms)
of_moments, of_time = varied(memory_moments), varied(time_terms)


def waits_without_repeats(value, plan, job):
    """The backward pass hides, and the repeats in it are forgotten."""
    if "activations" not in plan.offload:
        return value
    kept = job.input_bytes if plan.recompute == "full" else job.kept_bytes
    moving = job.layers * kept / job.link
    passes = job.forward_flops / job.rate, job.backward_flops / job.rate
    return job.batch / plan.dp * sum(max(0, moving - one) for one in passes)


def search(allowed=lambda plan, gpus: True, need=peak, cost=step_seconds):
    """A search that leaves some plans out, or sees less than there is."""

    def find(job, gpus, memory):
        fitting = [p for p in all_plans(job, gpus) if allowed(p, gpus) and need(p, job) <= memory]
        return min(fitting, key=lambda plan: cost(plan, job), default=None)

    return find


def without(cause):
    """A search that does not see what something costs."""
    return search(cost=lambda plan, job: step_seconds(plan, job) - time_terms(plan, job)[cause])


def forgets_again(plan, job):
    found = memory_moments(plan, job)
    return max(found["head"], found["step"])


# fmt: off
WRONG = [
    ("ex-fit-predict", 17, "keys state_bytes"),
    (STATE, state_terms, "the library's own state_terms"),
    (STATE, lambda plan, job: {"weights": 1}, "with the keys weights, gradients, optimizer"),
    (STATE, of_state(optimizer=lambda v, p, j: v * 2 / 3), "small: the job says how many"),
    (STATE, of_state(optimizer=lambda v, p, j: 12 * v / j.optimizer_bytes), "too large"),
    (STATE, of_state(weights=lambda v, p, j: v * j.gradient_bytes / j.weight_bytes), "large"),
    (STATE, of_state(optimizer=lambda v, p, j: v / p.dp if p.zero == 3 else v), "does not divide"),
    (TERMS, lambda plan, job: state_terms(plan, job), "with the keys"),
    (TERMS, of_terms(activations=lambda v, p, j: v / j.layers), "counts one layer"),
    (TERMS, of_terms(again=lambda v, p, j: v * j.layers), "not all are there at once"),
    (TERMS, of_terms(window=lambda v, p, j: v * 2 / 3), "'window' is too small"),
    (TERMS, of_terms(window=lambda v, p, j: v * p.dp if p.zero else v), "this stage divides it"),
    (TERMS, of_terms(gathered=lambda v, p, j: v / 2), "of weights only, and how many"),
    (TERMS, of_terms(gathered=lambda v, p, j: v * j.gradient_bytes / j.weight_bytes),
     "other widths.* too large: whole layers, of weights only"),
    (TERMS, of_terms(gathered=lambda v, p, j: v / p.dp), "gathered weights are whole"),
    (TERMS, of_terms(again=lambda v, p, j: v / (p.micro_batch if p.offload else 1)),
     "'again' counts one sequence"),
    (TERMS, of_terms(again=lambda v, p, j: v and v + p.micro_batch * j.input_bytes),
     "its input is counted already"),
    (MOMENTS, of_moments(step=lambda v, p, j: v + memory_terms(p, j)["gathered"]),
     "or gathered weights"),
    (MOMENTS, of_moments(again=lambda v, p, j: v if p.recompute == "full" else 0),
     "'again' is missing"),
    (MOMENTS, of_moments(again=lambda v, p, j: v + memory_terms(p, j)["window"]), "at work"),
    (MOMENTS, of_moments(head=lambda v, p, j: v - memory_terms(p, j)["activations"]),
     "reached the model's end"),
    (TIME, of_time(optimizer=lambda v, p, j: j.optimizer_bytes * j.params / j.link if v else v),
     "only what this GPU holds"),
    (TIME, of_time(optimizer=lambda v, p, j: state_terms(p, j)["optimizer"] / j.link),
     "state that stays makes no journey"),
    (TIME, of_time(waiting=lambda v, p, j: v and 2 * j.batch * j.layers * j.kept_bytes / j.link),
     "only as long as the link takes longer"),
    (TIME, of_time(waiting=lambda v, p, j: v + 1e-3 * (p.recompute == "full" and len(p.offload))),
     "'waiting' must be nothing"),
    (TIME, of_time(waiting=waits_without_repeats), "slow link.* repeating is part of the backward"),
    (TIME, of_time(repeating=lambda v, p, j: v / 3), "'repeating' is too small.* and no head"),
    (PLANS, with_plan("8 x 40 GiB", Layout(dp=7, zero=3)), "multiple of dp x micro_batch"),
    (PLANS, with_plan("1 x 40 GiB", Layout(recompute="full")), "where 'optimizer' is the largest"),
    (PLANS, with_plan("8 x 40 GiB", Layout(dp=8, zero=2, micro_batch=4, offload=AWAY)),
     "most is lost to 'waiting'"),
    (PLANS, with_plan("8 x 24 GiB", Layout(dp=4, zero=3, offload=AWAY)), "there are more GPUs"),
    (PLANS, with_plan("8 x 24 GiB", Layout(dp=8, zero=2, offload=AWAY[1:])), "fit at 'head'"),
    (PLANS, with_plan("8 x 24 GiB", Layout(tp=2, dp=8, zero=3)), "tp is 2, but must be 1"),
    (PLANS, with_plan("8 x 24 GiB", Layout(dp=8, zero=3, recompute="selective")),
     "recompute is 'selective', but must be 'none' or 'full'"),
    (PLANNER, best_plan, "the library's own best_plan"),
    (PLANNER, lambda job, gpus, memory: Layout(dp=gpus, zero=3), "does not fit|faster plan"),
    (PLANNER, search(cost=peak), "there is a faster plan|more GPUs"),
    (PLANNER, search(cost=lambda p, j: time_terms(p, j)["computing"]), "faster plan"),
    (PLANNER, search(lambda plan, gpus: plan.dp == gpus), "batch 12: there is a plan that fits"),
    (PLANNER, search(lambda plan, gpus: plan.micro_batch <= 4), "faster plan"),
    (PLANNER, search(lambda plan, gpus: plan.dp in (1, 2, 4, 8)), "more GPUs to compute on"),
    (PLANNER, search(lambda plan, gpus: plan.zero >= 2), "8 GPUs of 80 .* there is a faster plan"),
    (PLANNER, search(lambda plan, gpus: plan.recompute == "full" or plan.offload), "faster plan"),
    (PLANNER, search(lambda p, gpus: p.recompute == "none" or AWAY[1] not in p.offload),
     "faster plan"),
    (PLANNER, without("optimizer"), "most is lost to 'optimizer'"),
    (PLANNER, without("network"), "most is lost to 'network'"),
    (PLANNER, search(need=forgets_again), "does not fit at 'again'"),
    ("ex-fit-held", lambda tensors: sum(t.nbytes for t in set(tensors)), "too many bytes"),
    ("ex-fit-held", lambda tensors: sum({t.data_ptr(): t.nbytes for t in tensors}.values()),
     "a view of it|only a slice"),
]
