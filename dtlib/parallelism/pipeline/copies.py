"""Parameters that stand on several ranks: of a stage with two copies, or tied to other stages.

Each copy collects the gradient of its own uses, so the gradient of the weight is the sum over its
ranks. All of them get it, equal to the last bit, because they add in the same order.

A weight is known by its stage and name where whole stages have copies. A tied one may have another
name in each stage: it is known by the stages that `tied` lists with it, and by its place among
those that a stage ties to the same ones.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parameters_to_vector

from dtlib.parallelism.pipeline.post import exchange
from dtlib.parallelism.pipeline.schedule import PipelineSchedule
from dtlib.runtime.process_group import told

Weight = tuple[tuple[int, ...], str]


class Copies:
    """The trained parameters of a rank that stand on other ranks too, by the ranks of each."""

    def __init__(self, schedule: PipelineSchedule, stages: Mapping[int, nn.Module], rank: int):
        self.rank = rank
        self.by_ranks: dict[tuple[int, ...], dict[Weight, nn.Parameter]] = {}
        for weight, parameter in sorted(_held(stages).items()):
            places = set(weight[0])
            ranks = tuple(r for r in range(schedule.p) if places & set(schedule.stages_of(r)))
            if len(ranks) > 1:
                self.by_ranks.setdefault(ranks, {})[weight] = parameter
        listed = (p for held in self.by_ranks.values() for p in held.values())
        self.earlier = {p: _copied(p.grad) for p in listed}  # a sum already, of earlier steps
        for parameter in self.earlier:
            parameter.grad = None

    def add(self, group) -> None:
        """Give every copy the sum of all; every rank of the group calls it, with copies or without.

        A weight that got a gradient on no rank keeps none. Raises ValueError, on every rank, if the
        ranks of a weight do not describe it alike.
        """
        everybody = told(self._described(), group)
        _check_alike(everybody)
        vectors = []
        for ranks, held in sorted(self.by_ranks.items()):
            used = [p for w, p in held.items() if any(everybody[r][ranks][w][2] for r in ranks)]
            for dtype in dict.fromkeys(p.dtype for p in used):
                vectors.append((ranks, [p for p in used if p.dtype == dtype]))
        self._sum(vectors, group)
        for parameter, gradient in self.earlier.items():
            if gradient is not None:
                new, parameter.grad = parameter.grad, gradient
                parameter.grad += 0 if new is None else new

    def _described(self) -> dict:
        """For all ranks to see: each weight's dtype and shape, and whether it has a gradient."""
        return {
            ranks: {w: (str(p.dtype), tuple(p.shape), p.grad is not None) for w, p in held.items()}
            for ranks, held in self.by_ranks.items()
        }

    def _sum(self, vectors: list[tuple[tuple[int, ...], list[nn.Parameter]]], group) -> None:
        """Each list of gradients goes to all its ranks, as one vector; they add in one order."""
        operations, parts = [], []
        for ranks, parameters in vectors:
            for p in parameters:
                p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            own = parameters_to_vector([p.grad for p in parameters])
            parts.append({r: own if r == self.rank else torch.empty_like(own) for r in ranks})
            for r in set(ranks) - {self.rank}:
                operations += [(dist.isend, own, r), (dist.irecv, parts[-1][r], r)]
        for handle in exchange(operations, group):
            handle.wait()
        for (ranks, parameters), part in zip(vectors, parts, strict=True):
            sums = sum(part[r] for r in ranks).split([p.numel() for p in parameters])
            for p, total in zip(parameters, sums, strict=True):
                p.grad.copy_(total.view_as(p))  # where it lies, which may be in a bucket


def _copied(gradient: torch.Tensor | None) -> torch.Tensor | None:
    """It may be a view of a bucket of data parallelism, which the next step fills."""
    return None if gradient is None else gradient.clone()


def _held(stages: Mapping[int, nn.Module]) -> dict[Weight, nn.Parameter]:
    """A rank's trained parameters. Raises ValueError for a tied one that it has as two."""
    held: dict[Weight, nn.Parameter] = {}
    for s in sorted(stages):
        for weight, parameter in _named_weights(s, stages[s]):
            if held.setdefault(weight, parameter) is not parameter:
                raise ValueError(
                    f"stages {', '.join(map(str, weight[0]))} tie a weight; where one rank has two "
                    "of them, it must be one parameter in both"
                )
    return held


def _named_weights(s: int, stage: nn.Module) -> Iterator[tuple[Weight, nn.Parameter]]:
    tied, before = _tied(stage), Counter()
    names: dict[nn.Parameter, list[str]] = {}
    for name, parameter in stage.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    for parameter, known_as in names.items():
        if not parameter.requires_grad:
            continue
        uses = next((tied[name] for name in known_as if name in tied), ())
        places = tuple(sorted({s, *uses}))
        label = known_as[0]
        if len(places) > 1:
            label, before[places] = f"tied {before[places]}", before[places] + 1
            if any(getattr(part, "releases_weights", False) for part in stage.modules()):
                raise ValueError(
                    f"stage {s}: {known_as[0]} is tied to stages {places} and lies in a module "
                    "that gives each rank a piece of it; pieces of two stages cannot be added: "
                    "wrap the stage without that weight, or use DataParallel"
                )
        yield (places, label), parameter


def _tied(stage: nn.Module) -> dict[str, tuple[int, ...]]:
    """What a stage, or a stage inside a wrapper, ties: the parameters' full names, and stages."""
    return {
        f"{where}.{name}" if where else name: stages
        for where, part in stage.named_modules()
        if isinstance(getattr(part, "tied", None), Mapping)
        for name, stages in part.tied.items()
    }


def _check_alike(everybody: list[dict]) -> None:
    for ranks in sorted({ranks for described in everybody for ranks in described}):
        of_rank = [
            {w: about[:2] for w, about in everybody[r].get(ranks, {}).items()} for r in ranks
        ]
        if any(described != of_rank[0] for described in of_rank):
            lists = "; ".join(
                f"rank {r} has {described}" for r, described in zip(ranks, of_rank, strict=True)
            )
            raise ValueError(
                f"ranks {', '.join(map(str, ranks))} must have the same weights in common: {lists}"
            )
