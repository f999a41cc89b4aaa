"""A model, a mesh and a layout: a training run of which every rank has its part."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial

import torch
import torch.distributed as dist
from torch import nn

from dtlib.composition.hybrid.checks import OWNER, by_micro_batches, check, stage_layers
from dtlib.composition.hybrid.optimizer import ShardedParts
from dtlib.composition.hybrid.pieces import Pieces
from dtlib.composition.hybrid.places import Places
from dtlib.composition.hybrid.stage import hybrid_stages
from dtlib.composition.hybrid.sums import added_late, added_once, replicas_of
from dtlib.formulas.require import require, require_divisor
from dtlib.layout import Layout
from dtlib.memory.zero.clipping import clip_gradients
from dtlib.memory.zero.full import FullySharded
from dtlib.memory.zero.square import check_elementwise
from dtlib.mesh import Mesh
from dtlib.parallelism.operators.counting import Log, counted
from dtlib.parallelism.pipeline.execute import run
from dtlib.parallelism.pipeline.schedule import PipelineSchedule
from dtlib.parallelism.sequence import layouts
from dtlib.parallelism.tensor.model import key_copies
from dtlib.parallelism.tensor.vocab_loss import IGNORED, vocab_parallel_cross_entropy


class HybridRun:
    """What `parallelize` makes: this rank's part of a model, and how it takes a step.

    Attributes: `places`, where the rank stands, with its groups; `stages`, its modules by number;
    `pieces`, which part of which weight each of its parameters is; `replicas`, the group over which
    each gradient is added.
    """

    def __init__(self, model, places: Places, schedule: Callable, exchange: tuple, dtype):
        layout = self.layout = places.layout
        self.places, self.schedule, self.dtype = places, schedule, dtype
        self.tokens_of = exchange[0]
        probe = schedule(2 * layout.pp)
        layers = stage_layers(layout, probe, len(model.blocks))
        own = probe.stages_of(places.at["pp"])
        self.stages = hybrid_stages(model, layers, own, places, exchange)
        self.pieces = Pieces(model, self.stages, places.tp, places.everyone)
        self.replicas = replicas_of(self.stages, places)
        self._late = added_late(probe, self.stages)
        if layout.zero == 3:
            self.stages = {s: self._sharded(stage) for s, stage in self.stages.items()}
        self.sharded: ShardedParts | None = None

    def optimizer(self, optimizer_class: type, **defaults):
        """An optimizer of this rank's part: plain, or sharded as the layout's stage of ZeRO says.

        Arguments: a class such as `torch.optim.AdamW`, and its options. Raises ValueError for one
        that is not elementwise: a rank updates pieces of weights.
        """
        check_elementwise(lambda tensors: optimizer_class(tensors, **defaults))
        if self.layout.zero in (1, 2):
            self.sharded = ShardedParts(
                self.replicas,
                self.pieces,
                self._late,
                optimizer_class,
                self.layout.zero,
                **defaults,
            )
            return self.sharded
        return optimizer_class(list(self.parameters()), **defaults)

    def parameters(self):
        """What this rank trains: its pieces of weights; with ZeRO 3 its parts of these."""
        if self.layout.zero < 3:
            return list(self.replicas)
        return list(dict.fromkeys(p for stage in self.stages.values() for p in stage.parameters()))

    def forward_backward(
        self, tokens_bs: torch.Tensor, targets_bs: torch.Tensor, scale: float = 1.0
    ) -> torch.Tensor:
        """The mean loss of a global batch, and its gradient, added up; every rank passes all of it.

        Equation: 1/n sum of the losses of the n targets that count (not -100), a sum over dp, cp
        and micro-batches. The gradient of each parameter is that of this mean, times `scale` (a
        loss scaler's, for gradients in 16 bits), and is added to what an earlier call has left.
        Raises ValueError for sequences and tokens that the layout does not divide, and where no
        target counts.
        """
        schedule = self.schedule(self.layout.micro_batches(len(tokens_bs)))
        positions = self._positions(tokens_bs)
        inputs, targets = (self._own(rows, positions) for rows in (tokens_bs, targets_bs))
        count = int((targets_bs != IGNORED).sum())
        require(count > 0, OWNER, "the number of targets that count", count, "at least 1")
        loss, plain = partial(self._loss, count=count / scale), self.layout.zero == 0
        with (
            added_once(self.replicas, self._late) if plain else nullcontext(),
            self._precision(tokens_bs),
        ):
            done = run(
                schedule, self.stages, inputs, targets, loss, self.places.pp,
                weights=[1.0] * schedule.m, keywords={"positions": [positions] * schedule.m},
            )  # fmt: skip
        total = torch.tensor(done.loss / scale, dtype=torch.float64, device=tokens_bs.device)
        dist.all_reduce(total, group=self.places.tokens)
        return total

    def clip(self, max_norm: float, **options) -> torch.Tensor:
        """Bound the norm of the whole gradient, every number of which counts once.

        Returns the norm before, the same on every rank. Options: those of `clip_gradients`.
        """
        if self.sharded:
            self.sharded.reduce_gradients()
        parts = self._parts()
        return clip_gradients(parts, max_norm, self.places.everyone, copies=parts, **options)

    def gradients(self) -> dict[str, torch.Tensor]:
        """The whole gradient by the model's own names, on every rank; every rank calls it.

        With ZeRO 1 or 2 the optimizer has it: raises RuntimeError before there is one.
        """
        if self.layout.zero in (1, 2):
            if self.sharded is None:
                raise RuntimeError(
                    "HybridRun: with ZeRO the optimizer adds up gradients: make it first"
                )
            return self.pieces.whole(self.sharded.gradients())
        if self.layout.zero == 0:
            return self.pieces.whole({p: p.grad for p in self.replicas})
        return self.pieces.whole(self._of_stages(FullySharded.gradients))

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The whole weights by the model's own names, on every rank; every rank calls it."""
        if self.layout.zero < 3:
            return self.pieces.whole({p: p for p in self.pieces.of})
        return self.pieces.whole(self._of_stages(FullySharded.state_dict))

    @contextmanager
    def counted(self) -> Iterator[dict[str, Log]]:
        """Count what this rank sends while the block runs, group by group.

        Yields a `Log` (of `dtlib.parallelism.counted`) by the name of each group of `places`: "tp",
        "pp" and "cp", along an axis; "tokens" and "replicas", over which gradients are added;
        "experts", among which tokens are routed; "copies", of key heads. Two names of the same
        ranks are one group, and have equal logs: without experts "replicas" are "tokens", and with
        one rank along dp "tokens" are "cp". The loss is added over "tokens", too: 8 bytes.
        """
        with ExitStack() as stack:
            groups = self.places.groups
            yield {name: stack.enter_context(counted(group)) for name, group in groups.items()}

    def close(self) -> None:
        """Give the process groups back; the run is over."""
        self.places.close()

    def _precision(self, x: torch.Tensor):
        if self.dtype is None:
            return nullcontext()
        # A copy in fewer bits that later micro-batches use as well gets its gradient last, when
        # ZeRO 3 has released the weight.
        return torch.autocast(x.device.type, self.dtype, cache_enabled=self.layout.zero < 3)

    def _sharded(self, stage: nn.Module) -> FullySharded:
        units = list(stage.blocks.values())
        return FullySharded(stage, self.places.tokens, units=units, average=False)

    def _of_stages(self, told: Callable) -> dict[nn.Parameter, torch.Tensor]:
        found = {}
        for stage in self.stages.values():
            values = told(stage)
            inside = stage.module.named_parameters()
            found.update((p, values[name]) for name, p in inside if name in values)
        return found

    def _parts(self) -> dict[nn.Parameter, float]:
        """What a norm is made of: each part that this rank has, and on how many ranks it lies."""
        if self.sharded:
            return self.sharded.copies()
        if self.layout.zero < 3:
            return {p: self.pieces.copies(p) for p in self.replicas}
        replicas = dist.get_world_size(self.places.tokens)
        return {
            piece: self.pieces.copies(inside) / replicas
            for stage in self.stages.values()
            for (_, piece), (_, inside) in zip(
                stage.named_parameters(), stage.module.named_parameters(), strict=True
            )
        }

    def _positions(self, tokens_bs: torch.Tensor) -> torch.Tensor:
        """The places in a sequence of the tokens of this rank of cp."""
        layout, seq = self.layout, tokens_bs.shape[1]
        positions = torch.arange(seq)
        if layout.cp > 1:
            positions = torch.as_tensor(self.tokens_of(seq, layout.cp)[self.places.at["cp"]])
        if layout.sequence_parallel:
            require_divisor(OWNER, "tp", layout.tp, "the tokens of a rank of cp", len(positions))
        return positions.to(tokens_bs.device)

    def _own(self, rows_bs: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """This rank's sequences, and of these its tokens."""
        return rows_bs.chunk(self.layout.dp)[self.places.at["dp"]][:, positions]

    def _loss(self, logits_bsv, targets_bs, count: float) -> torch.Tensor:
        total = vocab_parallel_cross_entropy(logits_bsv, targets_bs, self.places.tp, "sum")
        return total / count


def parallelize(
    model: nn.Module,
    mesh: Mesh,
    layout: Layout,
    *,
    schedule: Callable[..., PipelineSchedule] | None = None,
    tokens: Callable = layouts.zigzag,
    attention: str = "ring",
    dtype: torch.dtype | None = None,
) -> HybridRun:
    """A model divided among all ranks of a mesh as a layout says; every rank calls it.

    Degrees multiply, and every strategy keeps its own noun: matrices along tp, tokens along cp and,
    with sequence parallelism, along tp, layers along pp, sequences along dp, experts along ep ranks
    of dp x cp, and what ZeRO shards along dp x cp.
    Arguments: `model`, a `GPT`, the same on every rank, which is left as it is; `mesh`, of all
    ranks, its axes among dp, cp, pp, tp in any order; `layout`, of the same sizes; `schedule`, a
    builder of (p, m), or of (p, m, v) that is given the layout's `interleave`, by default 1F1B,
    interleaved where the layout says so; `tokens` and `attention`, who has which tokens of cp and
    how they are exchanged (chapter 17); `dtype` to compute in, such as bfloat16 (autocast), while
    weights and gradients stay as they are. The layout's `flash`, a matter of kernels, changes
    nothing here.
    Returns a `HybridRun`. Raises TypeError for a model that lacks a part; ValueError, before any
    message, for what the layout does not divide and for what does not go together.
    Source: Narayanan et al. 2021.
    """
    check(model, mesh, layout, attention)
    build = by_micro_batches(schedule, layout)
    stage_layers(layout, build(2 * layout.pp), len(model.blocks))
    places = Places(mesh, layout, key_copies(model.spec.kv_heads, layout.tp))
    return HybridRun(model, places, build, (tokens, attention), dtype)
