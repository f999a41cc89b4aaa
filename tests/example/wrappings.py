"""The wrapping lines: what each strategy puts around the translator, and nothing else.

A share of the batch is a part of the loss, so gradients are added over ranks and not averaged.
"""

from contextlib import nullcontext
from itertools import pairwise

import torch
import torch.distributed as dist
from torch import nn
from translator import (
    Wrapping,
    causal_mask,
    count_dropped_as_zero,
    loss_sum,
    padding_mask,
)

from dtlib.memory import (
    FullySharded,
    ShardedGradScaler,
    ShardedOptimizer,
    clip_gradients,
    copies_held,
)
from dtlib.parallelism import ColumnParallelLinear, DataParallel, RowParallelLinear
from dtlib.parallelism.pipeline import interleaved, run


class OnRanks(Wrapping):
    """What all strategies share: a step is skipped by all ranks, or by none."""

    def scaler(self, **options):
        return ShardedGradScaler("cpu", **options)


class Replicas(OnRanks):
    """Data parallelism: the whole model on every rank, which has its share of each micro-batch."""

    def wrap(self, model):
        return DataParallel(model, dist.group.WORLD, average=False)

    def share(self, batch):
        return batch.cut(dist.get_world_size())[dist.get_rank()]

    def more_to_come(self, module):
        return module.no_sync()

    def whole(self, value):
        dist.all_reduce(value)
        return value

    def weights(self, module):
        return module.module.state_dict()


class ShardedState(Replicas):
    """ZeRO 1 or 2: of the optimizer's state, and of the gradients, each rank has a part."""

    def __init__(self, stage: int):
        self.stage = stage

    def wrap(self, model):
        return model

    def optimizer(self, groups, **options):
        return ShardedOptimizer(
            groups, torch.optim.AdamW, dist.group.WORLD, zero=self.stage, average=False, **options
        )

    def more_to_come(self, module):
        return nullcontext()

    def clip(self, trainer, largest):
        return trainer.optimizer.clip_gradients(largest)

    def weights(self, module):
        return module.state_dict()


class ShardedWeights(Replicas):
    """ZeRO 3: of everything each rank has a part, and a block's weights while it runs."""

    def wrap(self, model):
        return FullySharded(model, dist.group.WORLD, units=model.blocks(), average=False)

    def clip(self, trainer, largest):
        return clip_gradients(trainer.module.parameters(), largest, dist.group.WORLD)

    def weights(self, module):
        return module.state_dict()


class DividedBlocks(OnRanks):
    """Tensor parallelism: each rank has some heads of each attention, some of each network."""

    columns, rows = ("query", "key", "value", "wide"), ("out", "narrow")

    def wrap(self, model):
        for layer in list(model.modules()):
            for name, linear in list(layer.named_children()):
                if name in self.columns:
                    setattr(layer, name, ColumnParallelLinear(linear, dist.group.WORLD))
                if name in self.rows:
                    setattr(layer, name, RowParallelLinear(linear, dist.group.WORLD))
        return model

    def clip(self, trainer, largest):
        copies = copies_held(trainer.module, dist.group.WORLD)
        parameters = trainer.module.parameters()
        return clip_gradients(parameters, largest, dist.group.WORLD, copies=copies)

    def weights(self, module):
        whole = {}
        for path, layer in module.named_modules():
            for name in getattr(layer, "pieces", {}):
                part = layer.get_parameter(name).detach()
                parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
                dist.all_gather(parts, part)
                dim = 0 if isinstance(layer, ColumnParallelLinear) else 1
                whole[f"{path}.{name}"] = torch.cat(parts, dim)
        return module.state_dict() | whole


class Stage(nn.Module):
    """Some blocks of a translator that follow one another, and what it needs at its two ends."""

    def __init__(self, model, numbers: range):
        super().__init__()
        self.kept = lambda: model.kept
        self.halfway, self.count = len(model.encoder), len(model.blocks())
        self.blocks = nn.ModuleDict({str(n): model.blocks()[n] for n in numbers})
        self.embeds_source, self.embeds_target = 0 in numbers, self.halfway in numbers
        self.ends = self.count - 1 in numbers
        if self.embeds_source or self.embeds_target:
            self.places = model.places
        if self.embeds_source or self.embeds_target or self.ends:
            self.tokens = model.tokens
        if self.ends:
            self.norm = model.norm

    def embedded(self, tokens):
        return self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))

    def forward(self, *streams, source, given):
        """One stream, of the encoder, or two: its output, and the decoder's."""
        sees_source = padding_mask(source)
        x, y = (self.embedded(source), None) if self.embeds_source else (*streams, None)[:2]
        if self.embeds_target:
            y = self.embedded(given)
        for number, block in self.blocks.items():
            if not self.kept()[int(number)]:
                continue
            if int(number) < self.halfway:
                x = block(x, sees_source)
            else:
                y = block(y, x, causal_mask(given), sees_source)
        if self.ends:
            return nn.functional.linear(self.norm(y), self.tokens.weight)
        return x if y is None else (x, y)


class Pipeline(OnRanks):
    """Pipeline parallelism: two chunks of blocks on each of two ranks."""

    def wrap(self, model):
        ranks, rank, blocks = dist.get_world_size(), dist.get_rank(), len(model.blocks())
        borders = [round(k * blocks / (2 * ranks)) for k in range(2 * ranks + 1)]
        stages = [Stage(model, range(a, b)) for a, b in pairwise(borders)]
        for name in ("tokens", "places"):
            uses = tuple(s for s, stage in enumerate(stages) if hasattr(stage, name))
            for s in uses:
                stages[s].tied = {**getattr(stages[s], "tied", {}), f"{name}.weight": uses}
        self.model, self.own = model, {s: stages[s] for s in (rank, rank + ranks)}
        return nn.ModuleList(self.own.values())

    def passes(self, trainer, parts, tokens):
        scale = trainer.scaler.scale(torch.ones(()))  # known on every rank

        def loss(logits, wanted):
            return scale * loss_sum(logits, wanted) / tokens

        sources, given = [part.source for part in parts], [part.given for part in parts]
        with trainer.precision():
            done = run(
                interleaved(dist.get_world_size(), len(parts), 2),
                self.own,
                sources,
                [part.wanted for part in parts],
                loss,
                dist.group.WORLD,
                weights=[1.0] * len(parts),
                keywords={"source": sources, "given": given},
            )
        count_dropped_as_zero(trainer.module)
        return torch.tensor(done.loss, dtype=torch.float64) / scale

    def clip(self, trainer, largest):
        copies = copies_held(trainer.module, dist.group.WORLD, stages=dist.get_world_size())
        parameters = trainer.module.parameters()
        return clip_gradients(parameters, largest, dist.group.WORLD, copies=copies)

    def weights(self, module):
        own = set(module.parameters())
        named = self.model.named_parameters(remove_duplicate=False)
        held, everybody = (
            {n: p.detach() for n, p in named if p in own},
            [None] * dist.get_world_size(),
        )
        dist.all_gather_object(everybody, held)
        return {name: value for part in everybody for name, value in part.items()}


WRAPPINGS = {
    "one process": Wrapping,
    "replicas": Replicas,
    "sharded state": lambda: ShardedState(1),
    "sharded gradients": lambda: ShardedState(2),
    "sharded weights": ShardedWeights,
    "divided blocks": DividedBlocks,
    "pipeline": Pipeline,
}
