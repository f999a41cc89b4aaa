"""A parameter server on real ranks: rank 0 of a group serves, all others work.

The server asks the same rules as the simulator, and keeps the same history, with times measured.
"""

import time
from collections.abc import Callable

import torch
import torch.distributed as dist

from dtlib.efficiency.asynchrony.history import History, updated
from dtlib.efficiency.asynchrony.rules import Rule
from dtlib.efficiency.compression.compressor import finite
from dtlib.formulas.require import require
from dtlib.runtime.process_group import ranks_of

DONE = -1.0
Gradient = Callable[[torch.Tensor, int], torch.Tensor]


def parameter_server(
    rule: Rule,
    gradient: Gradient,
    start: torch.Tensor,
    group,
    *,
    lr: float,
    updates: int,
) -> tuple[torch.Tensor, History] | int:
    """Descend by gradients of P workers, which rank 0 applies as they arrive. Every rank calls it.

    Arguments: `rule`, for P workers, a new one on each rank; `gradient(weights, worker)`, computed
    on the ranks from 1 on, worker 0 being rank 1; `start`, a vector; `group`, P + 1 ranks; `lr`;
    `updates`, after which all stop.
    Returns, on rank 0, the weights and the history; on a worker, the number of its gradients.
    Raises ValueError where group and rule do not fit, and on rank 0 for a gradient with a number
    that is not finite, with its worker and version. Source: Li et al. 2014.
    """
    rank, size = ranks_of(group)
    require(
        size - 1 == rule.P, "parameter_server", "rule.P", rule.P, f"{size - 1}, all ranks but one"
    )
    require(start.dim() == 1, "parameter_server", "start.dim()", start.dim(), "1, a vector")
    if rank:
        return _work(gradient, start, rank - 1, group)
    return _serve(rule, start, group, lr, updates)


def _work(gradient: Gradient, like: torch.Tensor, worker: int, group) -> int:
    letter, done = like.new_empty(1 + like.numel()), 0
    while True:
        dist.recv(letter, group_src=0, group=group)
        if letter[0] == DONE:
            return done
        dist.send(gradient(letter[1:].clone(), worker), group_dst=0, group=group)
        done += 1


def _serve(rule: Rule, start: torch.Tensor, group, lr: float, updates: int):
    weights, history = start.clone(), History(rule.P)
    held: dict[int, torch.Tensor] = {}
    began = time.perf_counter()

    def send(worker: int, version: float) -> None:
        letter = torch.cat([weights.new_tensor([version]), weights])
        dist.send(letter, group_dst=1 + worker, group=group)

    for worker in range(rule.P):
        send(worker, 0)
    while rule.version < updates:
        worker, arrived = _next_gradient(start, group)
        if not finite(arrived):
            raise ValueError(
                f"parameter_server: the gradient of worker {worker} at version "
                f"{rule.read[worker]} has a number that is not finite"
            )
        held[worker] = arrived
        arrival = history.note(rule, worker, time.perf_counter() - began)
        if arrival.used:
            weights = updated(weights, held, arrival.used, lr)
        if rule.version < updates:
            for each in arrival.released:
                send(each, rule.version)
    waiting = set(rule.waiting) | set(arrival.released)
    while len(waiting) < rule.P:
        waiting.add(_next_gradient(start, group)[0])
    for worker in waiting:
        send(worker, DONE)
    return weights, history


def _next_gradient(like: torch.Tensor, group) -> tuple[int, torch.Tensor]:
    arrived = torch.empty_like(like)
    source = dist.recv(arrived, group=group)
    return dist.get_group_rank(group, source) - 1, arrived
