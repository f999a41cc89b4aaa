"""The tasks of the lab 'Fit a 7B model into a budget'."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.functions import Function
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.declarations.numbers import Asked, Numbers
from dtlib.exercises.judge import call, function, real
from dtlib.exercises.labs.fit_7b.laws import (
    byte_cases,
    changed,
    fits,
    is_quick,
    quickest,
    terms_law,
    time_cases,
)
from dtlib.exercises.labs.fit_7b.plan import (
    Job,
    best_plan,
    memory_moments,
    memory_terms,
    seven_b,
    small,
    state_terms,
    time_terms,
    usable,
)
from dtlib.later import torch
from dtlib.exercises.verdict import NotYet
from dtlib.layout import AWAY, Layout

# fmt: off
_JOB = seven_b()
_PSI, _SENT = _JOB.params, 2 * _JOB.params * 7 / 8

predict = Numbers(
    "ex-fit-predict",
    About("Four numbers", "compute", 1, 6,
          "say what the state needs, shared and moved, before any plan is made"),
    [
        Asked("state_bytes", 16 * _PSI, "bytes", {
              4 * _PSI: "weights and gradients, and what does the optimizer hold?",
              12 * _PSI: "that is the optimizer's part alone"}),
        Asked("shared_bytes", 2 * _PSI, "bytes", {
              16 * _PSI: "stage 3 divides it",
              _PSI / 2: "weights and gradients, and the optimizer?"}),
        Asked("link_seconds", 12 * _PSI / _JOB.link, "s", {
              16 * _PSI / _JOB.link: "only the optimizer's state goes over the link",
              24 * _PSI / _JOB.link:
                  "the link carries both directions at once: what takes one of them?"}),
        Asked("sent_bytes", 24 * _SENT, "bytes", {
              48 * _PSI: "a rank does not send what it has to itself",
              3 * _SENT: "that is one micro-batch, and there are more",
              16 * _SENT: "gathered for the forward pass, gathered for the backward pass, and "
                          "then?",
              2 * _SENT: "that is an all-reduce, once a step",
              48 * _SENT: "bytes, please: how wide are weights and gradients here?"}),
    ],
    "the four numbers that every plan of this lab trades against one another",
    keyed=True,
)

state = Function(
    "ex-fit-state",
    About("Weights, gradients, optimizer", "derive", 1, 6,
          "divide each part of the state from its own stage on"),
    "state(plan, job)", state_terms, byte_cases, partial(terms_law, "bytes"),
    "three terms, each divided from its own stage on",
    {
        "'gradients' is as if one GPU had all of it, but from stage 2 on it is divided":
            changed(state_terms, gradients=lambda v, p, j: j.gradient_bytes * j.params),
        "'weights' is divided among the GPUs, but only stage 3 divides it":
            changed(state_terms, weights=lambda v, p, j: j.weight_bytes * j.params / p.dp),
        "the job says how many bytes there are for each parameter":
            changed(state_terms, gradients=lambda v, p, j: 2 * v / j.gradient_bytes),
    },
)

terms = Function(
    "ex-fit-terms",
    About("Every term", "derive", 2, 12,
          "write the memory equation with recomputation and offload"),
    "terms(plan, job)", memory_terms, byte_cases, partial(terms_law, "bytes"),
    "eight terms, on plans that divide, repeat and send away",
    {
        "'gathered' is missing": changed(memory_terms, gathered=lambda v, p, j: 0),
        "only a stage that cuts the weights must gather them":
            changed(memory_terms, gathered=lambda v, p, j: 2 * j.weight_bytes * j.layer_params),
        "'activations' counts one sequence: a micro-batch has more":
            changed(memory_terms, activations=lambda v, p, j: v / p.micro_batch),
        "state that is away needs no room":
            changed(memory_terms, optimizer=lambda v, p, j: state_terms(p, j)["optimizer"]),
    },
)

moments = Function(
    "ex-fit-moments",
    About("What lives at one time", "derive", 2, 6, "add what is there together and nothing else"),
    "moments(plan, job)", memory_moments, byte_cases, partial(terms_law, "moments"),
    "what does not live at the same time is not added",
    {
        "when a layer is repeated, is the head still needed":
            changed(memory_moments, again=lambda v, p, j: v + memory_terms(p, j)["head"]),
        "when the optimizer steps, are there activations":
            changed(memory_moments, step=lambda v, p, j: v + memory_terms(p, j)["activations"]),
    },
)

step_time = Function(
    "ex-fit-time",
    About("What each choice costs", "derive", 3, 15,
          "price sharding, recomputation and offload in seconds of a step"),
    "step_time(plan, job)", time_terms, time_cases, partial(terms_law, "seconds"),
    "what each choice costs in a step",
    {
        "only what this GPU holds of the state goes, both ways at once":
            changed(time_terms, optimizer=lambda v, p, j: 2 * v),
        "how often is each thing gathered":
            changed(time_terms, network=lambda v, p, j: v / 3 * 2 if p.zero == 3 else v),
        "how many sequences does one GPU compute in a step?":
            changed(time_terms, computing=lambda v, p, j: v * p.dp),
    },
)

_BUDGETS = {"1 x 40 GiB": (1, 40), "8 x 40 GiB": (8, 40), "8 x 24 GiB": (8, 24)}


def _plans_law(answer: Any) -> None:
    if not isinstance(answer, Mapping) or set(answer) != set(_BUDGETS):
        raise NotYet(f"pass a dict of plans with the keys {', '.join(_BUDGETS)}")
    for name, (gpus, gib) in _BUDGETS.items():
        try:
            fits(answer[name], _JOB, gpus, usable(gib))
            is_quick(answer[name], _JOB, quickest(_JOB, gpus, usable(gib)), 1.1)
        except NotYet as wrong:
            raise NotYet(f"{name}: {wrong.reason}") from None


def with_plan(name: str = "8 x 40 GiB", plan: Any = None) -> dict[str, Any]:
    """Plans that pass, but for one that is given."""
    right = {
        "1 x 40 GiB": Layout(offload=AWAY),
        "8 x 40 GiB": Layout(dp=8, zero=2, offload=["optimizer"]),
        "8 x 24 GiB": Layout(dp=8, zero=3, micro_batch=2, offload=["activations"]),
    }
    return right | ({name: plan} if plan else {})


plans = Made(
    "ex-fit-plans",
    About("Three budgets", "design", 2, 12, "choose a plan that fits and is not slow"),
    _plans_law, with_plan,
    "three plans that fit, none more than a tenth slower than the fastest that does",
    {
        "pass a dict of plans with the keys": lambda: {"8 x 40 GiB": Layout(dp=8, zero=3)},
        "8 x 40 GiB: a Layout is asked for": lambda: with_plan(plan="stage 3"),
        "the plan uses more GPUs than there are": lambda: with_plan(plan=Layout(dp=16, zero=3)),
        "does not fit at 'head', where 'activations' is the largest term":
            lambda: with_plan(plan=Layout(dp=8, zero=3, micro_batch=8)),
        "most is lost to 'repeating'":
            lambda: with_plan(plan=Layout(dp=8, zero=3, recompute="full")),
    },
)


def _scenes() -> Sequence[tuple[Job, int, float]]:
    """Jobs and budgets of which each needs something that a search might have left out."""
    short, slow = seven_b(seq=1024), seven_b(batch=16, link=8e9)
    thin = replace(seven_b(link=8e9), network=10e9)
    return [
        *((_JOB, 8, 40), (_JOB, 2, 24), (_JOB, 1, 24), (_JOB, 1, 80)),
        *((slow, 4, 24), (slow, 8, 40)),
        *((thin, 8, 24), (thin, 8, 80), (replace(short, network=10e9), 8, 24)),
        *((seven_b(seq=2048, link=450e9), 4, 24), (replace(_JOB, batch=12), 8, 40)),
        *((small(), 4, 0.0018), (small(), 2, 0.002)),
    ]


def _planner_law(answer: Any) -> None:
    function(answer, "find_plan(job, gpus, memory)")
    for job, gpus, gib in _scenes():
        (plan,) = call(lambda *given: [answer(*given)], job, gpus, usable(gib))
        try:
            _chosen_well(plan, job, gpus, usable(gib))
        except NotYet as wrong:
            link, network = f"{job.link / 1e9:g} GB/s", f"{job.network / 1e9:g} GB/s"
            raise NotYet(f"{job.name} on {gpus} GPUs of {gib:g} GiB, link {link}, network "
                         f"{network}, batch {job.batch}: {wrong.reason}") from None


def _chosen_well(plan: Any, job: Job, gpus: int, memory: float) -> None:
    best = quickest(job, gpus, memory)
    if best is None and plan is not None:
        raise NotYet(f"{plan!r} does not fit; where nothing fits, return None")
    if best is not None:
        if plan is None:
            raise NotYet("there is a plan that fits, and None was returned")
        fits(plan, job, gpus, memory)
        is_quick(plan, job, best, 1.01)


planner = Made(
    "ex-fit-planner",
    About("A planner", "design", 3, 12, "search the fastest plan that fits"),
    _planner_law, lambda: best_plan,
    "the fastest plan that fits, whatever the link and the budget, and None where none does",
    {
        "there is a plan that fits": lambda: lambda job, gpus, memory: None,
        "does not fit at": lambda: lambda job, gpus, memory: best_plan(job, gpus, 2 * memory),
        "where nothing fits, return None":
            lambda: lambda job, gpus, memory: best_plan(job, gpus, memory) or Layout(dp=gpus),
    },
)


def _memories() -> Iterator[tuple[str, tuple[list]]]:
    a, b = torch.zeros(6, 5), torch.zeros(7, dtype=torch.bfloat16)
    released = torch.zeros(9)
    released.untyped_storage().resize_(0)
    learned = torch.zeros(3, requires_grad=True)
    learned.grad = torch.zeros(3)
    yield "two tensors of different types", ([a, b],)
    yield "no tensor at all", ([],)
    yield "a tensor that is there twice", ([a, a],)
    yield "a tensor and a view of it", ([a, a.t(), a[2:4], b],)
    yield "only a slice of a tensor, whose memory is all there", ([torch.zeros(10)[:3]],)
    yield "a number that is expanded to many", ([torch.zeros(1).expand(50)],)
    yield "a weight whose memory was given back", ([released, b],)
    yield "a parameter, whose gradient is a tensor of its own", ([learned],)
    yield "the parameters of a layer", ([*torch.nn.Linear(3, 2).parameters()],)


def _held(tensors: list) -> int:
    memories = {t.untyped_storage()._cdata: t.untyped_storage() for t in tensors}
    return sum(memory.nbytes() for memory in memories.values())


def _held_law(given: Any, right: int, tensors: list) -> None:
    if (found := real(given, "the bytes")) != right:
        raise NotYet(f"too {'many' if found > right else 'few'} bytes: count each memory once, and "
                     "all of it")


held = Function(
    "ex-fit-held",
    About("What a rank holds", "design", 2, 6,
          "count memory once, however many tensors look at it", needs="torch"),
    "held_bytes(tensors)", _held, _memories, _held_law,
    "each memory once, and all of it, however many tensors look at it",
    {
        "two tensors may look at the same memory, or at a part of it":
            lambda tensors: sum(tensor.nbytes for tensor in tensors),
        "not every number has four bytes":
            lambda tensors: 4 * sum(tensor.numel() for tensor in tensors),
        "a gradient is a tensor of its own":
            lambda tensors: _held([x for t in tensors for x in (t, t.grad) if x is not None]),
    },
)
