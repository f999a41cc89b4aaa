"""Generators and a trainer on ranks of their own, and a rank between them that keeps the queue.

Rank 0 keeps the queue and the newest weights, rank 1 trains, all others generate. The queue asks
the rule of the simulator, and hands weights over when a generator starts a sample.
"""

import time
from collections.abc import Callable

import torch
import torch.distributed as dist

from dtlib.efficiency.asynchrony.rollouts import Admission, Shares
from dtlib.formulas.require import require
from dtlib.runtime.process_group import ranks_of

QUEUE, TRAINER, DONE = 0, 1, -1.0
Generate = Callable[[torch.Tensor, int], torch.Tensor]
Train = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def post_train(
    rule: Admission,
    generate: Generate,
    train: Train,
    start: torch.Tensor,
    sample: torch.Tensor,
    group,
    *,
    updates: int,
) -> tuple[torch.Tensor, Shares] | int:
    """Train on what generators make, with a cap on how old it may be. Every rank calls it.

    Arguments: `rule`, a new one on each rank; `generate(weights, n)`, sample n, a vector like
    `sample`, on ranks from 2 on; `train(weights, samples, ages)`, new weights from a batch,
    stacked, whose samples were started so many updates ago, on rank 1; `start`, the weights;
    `group`, three ranks or more; `updates`.
    Returns, on rank 0, the weights and how idle the others were; elsewhere, how many samples or
    updates this rank has made. Raises ValueError in a smaller group.
    """
    rank, size = ranks_of(group)
    require(size > 2, "post_train", "ranks", size, "3 or more: a queue, a trainer, generators")
    letters = _Letters(start, sample, rule.batch, group)
    if rank == QUEUE:
        return _Queue(rule, start, letters).run(updates)
    return _train(train, letters) if rank == TRAINER else _generate(generate, letters)


class _Letters:
    """What the ranks send each other: one length towards the queue, whoever sends."""

    def __init__(self, start: torch.Tensor, sample: torch.Tensor, batch: int, group):
        self.weights, self.sample, self.batch, self.group = start, sample, batch, group
        self.longest = max(start.numel(), sample.numel())

    def to_queue(self, mark: float, seconds: float, content: torch.Tensor) -> None:
        letter = self.weights.new_zeros(2 + self.longest)
        letter[0], letter[1], letter[2 : 2 + content.numel()] = mark, seconds, content
        dist.send(letter, group_dst=QUEUE, group=self.group)

    def at_queue(self) -> tuple[int, float, float, torch.Tensor]:
        letter = self.weights.new_empty(2 + self.longest)
        rank = dist.get_group_rank(self.group, dist.recv(letter, group=self.group))
        return rank, float(letter[0]), float(letter[1]), letter[2:]

    def send(self, rank: int, *content) -> None:
        dist.send(torch.cat([self.weights.new_tensor([content[0]]), *content[1:]]), group_dst=rank,
                  group=self.group)  # fmt: skip

    def receive(self, numbers: int) -> torch.Tensor:
        letter = self.weights.new_empty(1 + numbers)
        dist.recv(letter, group_src=QUEUE, group=self.group)
        return letter


def _generate(generate: Generate, letters: _Letters) -> int:
    made = 0
    while (letter := letters.receive(letters.weights.numel()))[0] != DONE:
        began = time.perf_counter()
        rollout = generate(letter[1:], int(letter[0]))
        letters.to_queue(float(letter[0]), time.perf_counter() - began, rollout)
        made += 1
    return made


def _train(train: Train, letters: _Letters) -> int:
    weights, made = letters.weights.clone(), 0
    n, B = letters.sample.numel(), letters.batch
    while (letter := letters.receive(B * (1 + n)))[0] != DONE:
        began = time.perf_counter()
        weights = train(weights, letter[1 + B :].view(B, n), letter[1 : 1 + B])
        letters.to_queue(0.0, time.perf_counter() - began, weights)
        made += 1
    return made


class _Queue:
    def __init__(self, rule: Admission, start: torch.Tensor, letters: _Letters):
        self.rule, self.letters, self.weights = rule, letters, start.clone()
        self.idle = list(range(TRAINER + 1, dist.get_world_size(letters.group)))
        self.generators = len(self.idle)
        self.samples: dict[int, torch.Tensor] = {}
        self.generating = self.training = 0.0
        self.trains = False

    def run(self, updates: int) -> tuple[torch.Tensor, Shares]:
        began = time.perf_counter()
        while self.rule.version < updates:
            self._hand_out()
            self._take_in()
        seconds = time.perf_counter() - began
        generating = self.generating
        while len(self.idle) < self.generators:
            self._take_in()
        for rank in self.idle:
            self.letters.send(rank, DONE, self.weights)
        nothing = self.weights.new_zeros(self.rule.batch * (1 + self.letters.sample.numel()))
        self.letters.send(TRAINER, DONE, nothing)
        return self.weights, Shares(
            seconds,
            1 - generating / (self.generators * seconds),
            1 - self.training / seconds,
            self.rule.staleness,
        )

    def _hand_out(self) -> None:
        while self.idle and (n := self.rule.start()) is not None:
            self.letters.send(self.idle.pop(0), n, self.weights)
        if not self.trains and (batch := self.rule.take()) is not None:
            ages = self.weights.new_tensor([self.rule.version - self.rule.born[n] for n in batch])
            self.letters.send(TRAINER, 0.0, ages, *(self.samples.pop(n) for n in batch))
            self.trains = True

    def _take_in(self) -> None:
        rank, mark, seconds, content = self.letters.at_queue()
        if rank == TRAINER:
            self.weights = content[: self.weights.numel()].clone()
            self.training += seconds
            self.trains = False
            self.rule.updated()
        else:
            self.samples[int(mark)] = content[: self.letters.sample.numel()]
            self.generating += seconds
            self.rule.finish(int(mark))
            self.idle.append(rank)
