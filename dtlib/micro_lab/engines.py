"""One training step, five ways, each of which writes down what it sends: the micro-lab's engines.

An engine has `step(tokens, labels)`, which returns the loss; `weights()`, the whole model on every
rank; and `held()`, the numbers that this rank keeps between steps. What it sends it tells a
`StepLog`, in the manner that suits it:

- `ddp`, `zero3`: ours. The line is written where the collective is started.
- `torch-ddp`: torch's wrapper sends from C++. A *communication hook* takes its place.
- `fsdp`: torch's FSDP2. Its collectives are objects that may be replaced, for each unit.
- `single`: one process, the reference. It sends nothing.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from dtlib.formulas.units import MiB
from dtlib.memory.zero.full import FullySharded
from dtlib.micro_lab.step_log import StepLog
from dtlib.parallelism.data.flat import Flat, buckets_of
from dtlib.parallelism.data.replica import DataParallel
from dtlib.runtime.names import all_gather_single, reduce_scatter_single

ENGINES = ("single", "ddp", "zero3", "fsdp", "torch-ddp")


def make_engine(
    name: str,
    model: nn.Module,
    group: Any,
    log: StepLog,
    *,
    bucket_mb: float | None = None,
    hook: Callable | None = None,
    **adam: Any,
) -> "Engine":
    """An engine for a model with `.layers`, which it divides, wraps and trains with AdamW.

    Arguments: `name`, one of `ENGINES`; `model`, the same on every rank; `group`; `log`;
    `bucket_mb`, MiB of a bucket (None: 25, and a first bucket of 1); `hook`, for "torch-ddp", in
    place of `logging_hook`; `adam`, settings of the optimizer.
    Raises ValueError for another name.
    """
    if name not in _MAKERS:
        raise ValueError(f"engine = {name!r}; allowed are {', '.join(ENGINES)}")
    engine = _MAKERS[name](model, group, log, bucket_mb, hook or logging_hook)
    engine.optimizer = torch.optim.AdamW(engine.wrapped.parameters(), **adam)
    world = 1 if name == "single" else dist.get_world_size(group)
    log.write(
        "run",
        engine=name,
        world=world,
        params=engine.params,
        tensors=engine.tensors,
        first_bytes=engine.first_bytes,
    )
    return engine


class Engine:
    """One process; the others derive from it. `wrapped` is what is called and trained."""

    def __init__(self, model: nn.Module, group, log: StepLog, bucket_mb, hook):
        self.model, self.group, self.log, self.wrapped = model, group, log, model
        listed = list(model.parameters())
        self.params, self.tensors = sum(p.numel() for p in listed), len(listed)
        self.first_bytes = 0
        self.watch(listed)

    def watch(self, parameters: Iterable[nn.Parameter]) -> None:
        """Before any wrapper does, so that a gradient's own mark precedes its bucket's launch."""
        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(self.log.gradient_ready)

    def step(self, tokens_bs: torch.Tensor, labels_b: torch.Tensor) -> float:
        """Forward, backward, update, on this rank's rows; returns their mean loss."""
        self.log.begin()
        loss = F.cross_entropy(self.wrapped(tokens_bs), labels_b)
        self.log.forward_done()
        loss.backward()
        self.optimizer.step()
        if self.log.step == 0:
            self.log.write("mem", **self.held())
        self.optimizer.zero_grad()
        found = float(loss.detach())
        self.log.end(found)
        return found

    def held(self) -> dict[str, int]:
        """Numbers that this rank keeps: of weights, gradients, and the optimizer's two moments."""
        own = [p for group in self.optimizer.param_groups for p in group["params"]]
        states = [x for state in self.optimizer.state.values() for x in state.values()]
        return {
            "params": _count(own),
            "grads": _count(p.grad for p in own if p.grad is not None),
            "opt": _count(x for x in states if torch.is_tensor(x) and x.ndim),
        }

    def weights(self) -> dict[str, torch.Tensor]:
        """The whole model, on every rank; every rank calls it."""
        return {name: p.detach().clone() for name, p in self.model.named_parameters()}


class _Replicas(DataParallel):
    """Ours, with a line for each bucket."""

    log: StepLog

    def launch(self, bucket) -> None:
        number = self.buckets.index(bucket)
        travel = self.log.travel("all_reduce", bucket.bytes, bucket=number)
        super().launch(bucket)
        travel.follow(bucket.work)


class OurDDP(Engine):
    """`DataParallel`, by hand."""

    def __init__(self, model, group, log, bucket_mb, hook):
        super().__init__(model, group, log, bucket_mb, hook)
        cap, first = _caps(bucket_mb)
        self.wrapped = _Replicas(model, group, bucket_bytes=cap, first_bucket_bytes=first)
        self.wrapped.log, self.first_bytes = log, self.wrapped.buckets[0].bytes


class TorchDDP(Engine):
    """torch's `DistributedDataParallel`, with a communication hook."""

    def __init__(self, model, group, log, bucket_mb, hook):
        from torch.nn.parallel import DistributedDataParallel

        super().__init__(model, group, log, bucket_mb, hook)
        self.wrapped = DistributedDataParallel(
            model, process_group=group, bucket_cap_mb=bucket_mb, gradient_as_bucket_view=True
        )
        self.wrapped.register_comm_hook((log, group), hook)
        self.first_bytes = native_bucket_bytes(model.parameters(), bucket_mb)[0]


def logging_hook(state: tuple, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The mean over the ranks, as torch's own does it, and a line about it.

    torch looks the two arguments up by their names: they must be called `state` and `bucket`.
    """
    log, group = state
    buffer = bucket.buffer().div_(dist.get_world_size(group))
    travel = log.travel("all_reduce", buffer.nbytes, bucket=bucket.index())
    work = dist.all_reduce(buffer, group=group, async_op=True)

    def done(future):
        travel.done()
        return future.value()[0]

    return work.get_future().then(done)


class OurZero3(Engine):
    """`FullySharded`, by hand: a line for each gather and each scatter of a unit."""

    def __init__(self, model, group, log, bucket_mb, hook):
        super().__init__(model, group, log, bucket_mb, hook)
        self.wrapped = FullySharded(model, group, units=model.layers)
        for unit in self.wrapped.units:
            for flat in unit.flats:
                _tell(flat, log, unit_name(unit.name))

    def weights(self):
        return self.wrapped.state_dict()


def unit_name(path: str) -> str:
    """The last two words of a module's path: `layer.0`; of the model itself, `root`.

    >>> unit_name("distilbert.transformer.layer.0"), unit_name("")
    ('layer.0', 'root')
    """
    return ".".join(path.split(".")[-2:]) or "root"


def _tell(flat, log: StepLog, unit: str) -> None:
    """From now on, a line for each of its gathers and each of its scatters."""
    plain_gather, plain_reduce = flat.gather, flat.reduce

    def gather():
        travel = log.travel("all_gather", flat.whole.nbytes, unit=unit)
        return travel.follow(plain_gather())

    def reduce(factor, dtype=None):
        itemsize = (dtype or flat.parameters[0].dtype).itemsize
        travel = log.travel("reduce_scatter", flat.length * itemsize, unit=unit)
        whole, part, work = plain_reduce(factor, dtype)
        return whole, part, travel.follow(work)

    flat.gather, flat.reduce = gather, reduce


class FSDP(Engine):
    """torch's FSDP2: each layer is a unit, and the rest is another."""

    def __init__(self, model, group, log, bucket_mb, hook):
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import fully_shard

        super().__init__(model, group, log, bucket_mb, hook)
        device = next(model.parameters()).device.type
        mesh = DeviceMesh.from_group(group, device)
        parts = {f"layer.{i}": layer for i, layer in enumerate(model.layers)} | {"root": model}
        for name, part in parts.items():
            fully_shard(part, mesh=mesh, reshard_after_forward=True)
            part.set_custom_all_gather(_LoggedGather(log, name))
            part.set_custom_reduce_scatter(_LoggedScatter(log, name))

    def weights(self):
        return {name: p.detach().full_tensor() for name, p in self.model.named_parameters()}


class _LoggedComm:
    def __init__(self, log: StepLog, unit: str):
        self.log, self.unit = log, unit

    def allocate(self, size, *, dtype, device):
        return torch.empty(*size, dtype=dtype, device=device)


class _LoggedGather(_LoggedComm):
    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        travel = self.log.travel("all_gather", output_tensor.nbytes, unit=self.unit)
        work = all_gather_single(output_tensor, input_tensor, group=group, async_op=async_op)
        return _follow(travel, work)


class _LoggedScatter(_LoggedComm):
    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        self.log.gradient_ready()  # FSDP2's own parameters have no hook of ours
        travel = self.log.travel("reduce_scatter", input_tensor.nbytes, unit=self.unit)
        work = reduce_scatter_single(output_tensor, input_tensor, op, group, async_op)
        return _follow(travel, work)


def _follow(travel, work):
    if work is None:
        travel.done()
    return travel.follow(work)


def native_bucket_bytes(
    parameters: Iterable[nn.Parameter],
    bucket_mb: float | None = None,
    first_mb: float | None = None,
) -> list[int]:
    """The buckets that torch's wrapper rebuilds after its first step, by torch's own function.

    A bucket is closed once it has reached its limit; the parameters come from the last to the
    first. Arguments: `parameters`, also without memory (device "meta"); `bucket_mb`, MiB (None:
    25); `first_mb`, the first bucket's limit. Without it, it is as the wrapper has it: 1 MiB where
    nobody names a `bucket_mb`, else the same `bucket_mb`. Returns the bytes of each bucket.
    """
    listed = list(parameters)[::-1]
    cap, first = _caps(bucket_mb)
    first = int(first_mb * MiB) if first_mb else first
    groups, _ = dist._compute_bucket_assignment_by_size(listed, [first, cap])
    return [sum(listed[i].numel() * listed[i].itemsize for i in group) for group in groups]


def own_bucket_bytes(parameters: Iterable[nn.Parameter], bucket_mb: float | None = None):
    """The buckets of `DataParallel`, which are closed before they would pass their limit."""
    return [Flat(bucket).bytes for bucket in buckets_of(list(parameters)[::-1], *_caps(bucket_mb))]


def _caps(bucket_mb: float | None) -> tuple[int, int]:
    """As torch: a small first bucket only where nobody asks for a size."""
    if bucket_mb is None:
        return 25 * int(MiB), int(MiB)
    return int(bucket_mb * MiB), int(bucket_mb * MiB)


def _count(tensors: Iterable[Any]) -> int:
    """Numbers on this rank, also of a tensor that lies on several."""
    return sum((x.to_local() if hasattr(x, "to_local") else x).numel() for x in tensors)


_MAKERS = dict(zip(ENGINES, (Engine, OurDDP, OurZero3, FSDP, TorchDDP), strict=True))
