"""Rows of a grid dealt out to ranks, and one trunk for all budgets: the ways, and their slips."""

import copy
from fractions import Fraction


def trunk_tokens(budgets, trunk=Fraction(4, 5), own=Fraction(1, 5)):
    """The tokens of a trunk to its last branch, and of every branch's last fifth."""
    return trunk * max(budgets) + own * sum(budgets)


def share(costs, P, order=lambda costs: sorted(range(len(costs)), key=lambda job: -costs[job])):
    """The dearest job first, each to the rank that has the least so far."""
    jobs, loads = [[] for _ in range(P)], [0] * P
    for job in order(costs):
        rank = loads.index(min(loads))
        jobs[rank].append(job)
        loads[rank] += costs[job]
    return jobs


def as_they_come(costs, P):
    return share(costs, P, order=lambda costs: range(len(costs)))


def in_turns(costs, P):
    return [list(range(rank, len(costs), P)) for rank in range(P)]


def equally_many(costs, P):
    """Blocks of jobs, as long as one another."""
    length = -(-len(costs) // P)
    return [list(range(len(costs)))[rank * length : (rank + 1) * length] for rank in range(P)]


def row(learner, budgets, factor, *, copied=copy.deepcopy, start=lambda steps: steps - steps // 5):
    """One trunk; at each budget's decay a copy leaves it, and ends by itself."""
    found = {}
    for steps in sorted(budgets):
        while learner.step < start(steps):
            learner.learn(factor(learner.step, steps))
        branch = copied(learner)
        while branch.step < steps:
            branch.learn(factor(branch.step, steps))
        found[steps] = branch.loss()
    return found


def separately(learner, budgets, factor):
    """Each budget from the beginning: right, and too much work."""
    return row(learner, budgets, factor, start=lambda steps: 0)


def never_decaying(learner, budgets, factor):
    return row(learner, budgets, lambda step, steps: factor(step, float("inf")))


def forgetful(learner):
    """A copy whose momentum begins anew."""
    branch = copy.deepcopy(learner)
    branch.momentum[:] = [0 * moment for moment in branch.momentum]
    return branch


def decaying_the_trunk(learner, budgets, factor):
    return row(learner, budgets, factor, copied=lambda learner: learner)
