"""A process in which a script believes that it is rank 0 of many and has a GPU.

Everything here changes torch itself, for good: it is for a process of its own, and `pretend` for
its beginning. Process groups become torch's fake ones, "cuda" the machine that only remembers
shapes; compilation, pinned memory, workers of loaders and checkpoints are left out, since they
change neither what is sent nor what is computed.
"""

import os
from collections import defaultdict
from contextlib import contextmanager
from functools import wraps
from types import SimpleNamespace

import torch
import torch.cuda.nccl
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing
from torch import nn
from torch.distributed import distributed_c10d as c10d
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp._fully_shard import _fsdp_param
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.data import DataLoader

from dtlib.composition.planner.script import kernels
from dtlib.composition.planner.script.machine import CudaCalls, FakeMachine, on_this_machine
from dtlib.composition.planner.script.watch import Watch

NODE = 8
_MEMORY = 80 * 10**9
_ZERO = (
    "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
    "current_device", "seed", "initial_seed", "utilization",
)  # fmt: skip
_NOTHING = (
    "set_device", "synchronize", "empty_cache", "manual_seed", "manual_seed_all", "init",
    "reset_peak_memory_stats", "_lazy_init", "ipc_collect", "set_stream", "set_rng_state",
    "set_rng_state_all", "set_per_process_memory_fraction", "reset_max_memory_allocated",
    "reset_accumulated_memory_stats", "set_sync_debug_mode",
)  # fmt: skip


@contextmanager
def pretend(ranks: int, watch: Watch):
    """Inside, this process is rank 0 of `ranks`, each with a GPU, and `watch` sees what it does."""
    local = min(ranks, NODE)
    os.environ |= {
        "RANK": "0", "LOCAL_RANK": "0", "GROUP_RANK": "0", "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(local), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500",
        "TORCHELASTIC_RUN_ID": "none", "WANDB_MODE": "disabled",
    }  # fmt: skip
    machine = FakeMachine(watch)
    _groups(ranks, watch)
    _gpu(local)
    _modules(machine, watch)
    _left_out()
    calls = CudaCalls(machine)
    _backward(calls)
    with machine.fake, machine, calls:
        yield


class Idle:
    """A stream, an event, a range: whatever it is asked for is done already."""

    def __init__(self, *args, **kwargs):
        self.device, self.priority = torch.device("cpu"), 0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def __getattr__(self, name: str):
        return lambda *args, **kwargs: self

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False  # every optimizer's step asks the current stream

    def elapsed_time(self, other) -> float:
        return 1.0


def _groups(ranks: int, watch: Watch) -> None:
    """Every process group is torch's fake one, of the size that was asked for."""
    helper = c10d._new_process_group_helper

    def fake_group(size, rank, members, backend, store, name, *args, **kwargs):
        kept = {key: kwargs[key] for key in ("timeout", "pg_tag", "group_desc") if key in kwargs}
        return helper(size, rank, members, "fake", store, name, **kept)

    def rendezvous(url, rank=-1, world_size=-1, **kwargs):
        yield FakeStore(), max(rank, 0), world_size if world_size > 0 else ranks

    c10d._new_process_group_helper = fake_group
    c10d.rendezvous = rendezvous
    for name in ("_object_to_tensor", "_tensor_to_object"):
        setattr(c10d, name, _with_values(getattr(c10d, name)))
    c10d.is_nccl_available = dist.is_nccl_available = lambda: True
    torch.multiprocessing.spawn = lambda fn, args=(), nprocs=1, **options: fn(0, *args)
    make = DeviceMesh.__init__

    @wraps(make)
    def make_mesh(self, *args, **kwargs):
        named = {name: on_this_machine(value) for name, value in kwargs.items()}
        make(self, *map(on_this_machine, args), **named)
        watch.meshes.append(self)

    DeviceMesh.__init__ = make_mesh


def _gpu(local: int) -> None:
    """What torch.cuda and torch.accelerator say where there are `local` GPUs."""
    properties = SimpleNamespace(
        name="GPU", total_memory=_MEMORY, major=9, minor=0, multi_processor_count=132
    )
    constant = dict.fromkeys(_ZERO, 0) | dict.fromkeys(_NOTHING) | {
        "is_available": True, "device_count": local, "is_bf16_supported": True,
        "get_device_name": "GPU", "get_device_capability": (9, 0),
        "get_device_properties": properties, "mem_get_info": (_MEMORY, _MEMORY),
        "memory_summary": "", "get_rng_state_all": [], "get_rng_state": None,
    }  # fmt: skip
    for name, value in constant.items():
        setattr(torch.cuda, name, _always(value))
    torch.cuda.memory_stats = lambda *args, **kwargs: defaultdict(int)
    for name in ("Stream", "Event", "stream", "current_stream", "default_stream", "device"):
        setattr(torch.cuda, name, Idle)
    torch.version.cuda = "12.8"
    torch.cuda.nccl.version = _always((2, 27, 3))
    for name in ("range_push", "range_pop", "mark", "range"):
        setattr(torch.cuda.nvtx, name, Idle)
    torch.accelerator.current_accelerator = _always(torch.device("cuda"))
    torch.accelerator.is_available = _always(True)
    torch.accelerator.device_count = _always(local)
    torch.accelerator.current_device_index = _always(0)
    torch.accelerator.current_stream = Idle
    for name in ("set_device_index", "set_device_idx", "synchronize"):
        setattr(torch.accelerator, name, _always(None))


def _modules(machine: FakeMachine, watch: Watch) -> None:
    """Parameters have no values; DDP's own parts are known; DTensor's questions are not counted."""
    nn.modules.module.register_module_parameter_registration_hook(
        lambda module, name, weight: _without_values(machine, weight)
    )
    make = DistributedDataParallel.__init__
    rebuild = dist.Reducer._rebuild_buckets

    @wraps(make)
    def make_replica(self, module, device_ids=None, output_device=None, *args, **kwargs):
        with _because(watch, "gradient buckets"):
            make(self, module, None, None, *args, **kwargs)

    def rebuild_buckets(reducer):
        with _because(watch, "gradient buckets"):
            return rebuild(reducer)

    DistributedDataParallel.__init__ = make_replica
    FullyShardedDataParallel.__init__ = _first_fsdp
    dist.Reducer._rebuild_buckets = rebuild_buckets
    dist._verify_params_across_processes = lambda *args: None
    _fsdp_param._chunk_with_empty = _first_chunk
    propagate = ShardingPropagator._propagate_tensor_meta_non_cached

    def ask_for_a_shape(self, schema):
        with machine.unwatched():
            return propagate(self, schema)

    ShardingPropagator._propagate_tensor_meta_non_cached = ask_for_a_shape
    nn.functional.scaled_dot_product_attention = kernels.attention
    nn.functional.rms_norm = kernels.rms_norm
    swap = torch.utils.swap_tensors

    def swap_tensors(one, other):
        if not machine.fake.is_our_fake(one):
            return swap(one, other)
        one.data = other  # torch holds fake tensors where they cannot be swapped

    torch.utils.swap_tensors = swap_tensors
    resize = torch.UntypedStorage.resize_

    def resize_storage(storage, size):
        resize(storage, size)
        watch.held.resized(storage)
        return storage

    torch.UntypedStorage.resize_ = resize_storage


def _backward(calls: CudaCalls) -> None:
    """Whoever calls backward is asked by `calls`, which then stands aside: it has to come back."""
    run = torch.autograd.graph._engine_run_backward

    def run_backward(*args, **kwargs):
        with calls:
            return run(*args, **kwargs)

    torch.autograd._engine_run_backward = run_backward
    torch.autograd.graph._engine_run_backward = run_backward
    move = nn.Module.to

    @wraps(move)
    def move_module(self, *args, **kwargs):
        places = (torch.device("cuda", where) if type(where) is int else where for where in args)
        return move(self, *places, **kwargs)

    nn.Module.to = move_module


def _left_out() -> None:
    """What would take time or leave files, and change nothing that is read."""
    torch.compile = lambda model=None, **options: model or (lambda function: function)
    nn.Module.compile = lambda self, *args, **kwargs: None
    torch.save = dcp.save = dcp.async_save = _always(None)
    begin = DataLoader.__init__
    alone = {"num_workers": 0, "pin_memory": False, "persistent_workers": False, "timeout": 0}

    @wraps(begin)
    def begin_alone(self, *args, **kwargs):
        kept = {key: value for key, value in kwargs.items() if key != "prefetch_factor"}
        begin(self, *args, **kept | alone)

    DataLoader.__init__ = begin_alone
    autocast = torch.autocast.__init__

    @wraps(autocast)
    def cast(self, device_type, dtype=None, *args, **kwargs):
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or torch.float16
        autocast(self, device_type, dtype, *args, **kwargs)

    torch.autocast.__init__ = cast


def _first_fsdp(self, *args, **kwargs):
    raise NotImplementedError(
        "FullyShardedDataParallel, the first FSDP, asks for a real GPU; its successor, "
        "torch.distributed.fsdp.fully_shard, can be read"
    )


def _first_chunk(tensor: torch.Tensor, num_chunks: int, dim: int) -> list[torch.Tensor]:
    """Of all ranks' chunks the one that rank 0 asks for: the others would take a minute."""
    size = tensor.shape[dim]
    return [tensor.narrow(dim, 0, min(size, -(-size // num_chunks)))]


def _without_values(machine: FakeMachine, weight):
    if type(weight) is nn.Parameter and weight.device.type != "meta" and weight.ndim:
        return weight if machine.fake.is_our_fake(weight) else machine.without_values(weight)
    return None


@contextmanager
def _because(watch: Watch, cause: str):
    before, watch.cause = watch.cause, cause
    try:
        yield
    finally:
        watch.cause = before


def _with_values(function):
    """The function on tensors as they are without any mode: objects travel as their bytes."""

    @wraps(function)
    def carried_out(*args, **kwargs):
        with _disable_current_modes():
            return function(*args, **kwargs)

    return carried_out


def _always(value):
    return lambda *args, **kwargs: value
