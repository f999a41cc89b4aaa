"""A plan of the lab 'Fit a 7B model into a budget', carried out in small on real ranks.

Nothing here knows the equation: the strategies are the library's, and the readings are those of
meters, of the tensors that are there, and of what was sent.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from dtlib.exercises.labs.fit_7b.plan import Job
from dtlib.formulas.require import require
from dtlib.layout import Layout


def run_small(plan: Layout, job: Job, held_bytes: Callable, group: Any = None) -> dict[str, float]:
    """Two steps of a plan on the ranks of a group; what this rank held and sent in the second.

    Arguments: `plan`, for as many replicas as there are ranks; `job`, which must be small;
    `held_bytes`, from a list of tensors to the bytes that they occupy; `group`, by default all
    ranks. Returns bytes of `weights`, `gradients` and `optimizer` between the backward pass and
    the step, of `activations`, the most that was kept in the passes, and of what was `sent`; and
    the last `loss`, of the whole batch. Raises ValueError for a plan of another number of GPUs.
    """
    import torch
    import torch.distributed as dist

    from dtlib.parallelism import counted

    group = group or dist.group.WORLD
    P = dist.get_world_size(group)
    require(plan.dp == P, "run_small", "dp of the plan", plan.dp, f"{P}, the ranks")
    run = _Run(plan, job, group)
    own = job.batch // P
    place = dist.get_rank(group) * own
    for step in range(2):
        generator = torch.Generator().manual_seed(step)
        tokens = torch.randint(job.spec.vocab, (job.batch, job.seq + 1), generator=generator)
        rows = tokens[place : place + own].to(run.device)
        with counted(group) as log:
            loss, activations = run.passes(rows)
            run.average()
            held = {name: float(held_bytes(tensors)) for name, tensors in run.tensors().items()}
            run.optimizer.step()
    total = torch.tensor(loss / P, device=run.device)
    dist.all_reduce(total, group=group)
    run.store.close()
    return held | {
        "activations": float(activations),
        "sent": float(sum(log.bytes.values())),
        "loss": float(total),
    }


class _Run:
    """The model, wrapped as the plan says, with its optimizer and its store."""

    def __init__(self, plan: Layout, job: Job, group):
        import torch
        import torch.distributed as dist

        from dtlib.memory import FullySharded, HostStore, ShardedOptimizer, checkpoint
        from dtlib.models import GPT

        on_gpu = dist.get_backend(group) == "nccl"
        self.device = torch.device("cuda" if on_gpu else "cpu")
        self.plan, self.job, self.group, self.store = plan, job, group, HostStore()
        self.m = plan.micro_batches(job.batch)
        self.model = GPT(job.spec, seed=0).to(self.device)
        for block in self.model.blocks if plan.recompute == "full" else ():
            block.forward = partial(checkpoint, block.forward)
        self.forward = self.model
        self.flats: list = []
        if plan.zero == 3:
            self.forward = FullySharded(self.forward, group)
            self.flats = [flat for unit in self.forward.units for flat in unit.flats]
            self.optimizer = self._adam(self.forward.parameters())
        elif plan.zero:
            layer = job.weight_bytes * job.layer_params
            self.optimizer = ShardedOptimizer(
                self.model.parameters(), self._adam, group, zero=plan.zero, bucket_bytes=layer,
                check=False,
            )  # fmt: skip
            self.flats = self.optimizer.flats
        else:
            self.optimizer = self._adam(self.model.parameters())

    def _adam(self, parameters):
        import torch

        from dtlib.memory import OffloadedOptimizer

        adam = torch.optim.AdamW(parameters, lr=1e-3)
        self.inner = adam
        return OffloadedOptimizer(adam, self.store) if "optimizer" in self.plan.offload else adam

    def passes(self, rows) -> tuple[float, int]:
        """All micro-batches, forward and back: the sum of their losses, and the most that is kept.

        What waits in the store is not on the device; what has come back is.
        """
        from dtlib.memory import Meter, OffloadedActivations
        from dtlib.models import next_token_loss

        self._zero_grad()
        total, most = 0.0, 0
        there = [*self.model.parameters(), *(flat.whole for flat in self.flats)]
        for part in rows.split(self.plan.micro_batch):
            x, y = part[:, :-1].contiguous(), part[:, 1:].contiguous()
            if "activations" in self.plan.offload:
                away = OffloadedActivations(self.store, _staying([*there, x, y]))
                with away:
                    loss = next_token_loss(self.forward(x), y) / self.m
                away.lookahead = len(away._order) // self.job.layers  # one layer
                loss.backward()
                most = max(most, away.peak_bytes)
            else:
                with Meter(*there, x, y) as meter:
                    loss = next_token_loss(self.forward(x), y) / self.m
                    loss.backward()
                most = max(most, meter.peak_bytes)
            total += float(loss.detach())
        return total, most

    def average(self) -> None:
        """Without a stage, the gradients' mean over the ranks; the others see to it themselves."""
        from dtlib.parallelism.data.replica import average_each

        if not self.plan.zero:
            average_each(self.model, self.group)

    def tensors(self) -> dict[str, list]:
        """What is on the device, by what it is for."""
        weights = [*self.model.parameters(), *self.forward.parameters()]
        for flat in self.flats:
            weights += [flat.whole, flat.own]
        states = [value for state in self.inner.state.values() for value in state.values()]
        return {
            "weights": weights,
            "gradients": [tensor.grad for tensor in weights if tensor.grad is not None],
            "optimizer": [value for value in states if value.dim()],
        }

    def _zero_grad(self) -> None:
        self.optimizer.zero_grad()
        for tensor in (*self.model.parameters(), *self.forward.parameters()):
            tensor.grad = None


def _staying(tensors):
    """A module that owns these tensors, which therefore are not sent away."""
    from torch import nn

    module = nn.Module()
    for number, tensor in enumerate(tensors):
        module.register_buffer(f"tensor_{number}", tensor, persistent=False)
    return module
