"""What a script really sends on gloo's ranks: the other side of the comparison.

The script's text is led to the CPU by plain replacement, its operations are torch's own, and the
bytes are counted by torch's own table.
"""

import re
import sys
from pathlib import Path

import torch
from torch.distributed._tools.fake_collectives import CollectiveOp, collective_ops, sync_ops
from torch.distributed.tensor import DTensor
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import TorchDispatchMode

CHANGES = (
    (r"dist\.init_process_group\(.*\)\n", "pass\n"),  # the ranks have theirs already
    (r".*torch\.cuda\.set_device.*\n", ""),
    (r"device_ids=\[local_rank\], ", ""),
    (r"\.cuda\(\)", ""),
    (r'f"cuda.*\}"', '"cpu"'),
    (r'"cuda"', '"cpu"'),
)
NAMES = {
    "allreduce": "all_reduce",
    "allgather_base": "all_gather",
    "reduce_scatter_base": "reduce_scatter",
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
}


class _Enough(BaseException):
    pass


class _Collectives(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.sent = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented
        result = func(*args, **kwargs or {})
        if func in collective_ops - sync_ops:
            size = CollectiveOp.get_comm_tensor_size(func, result, args, kwargs)
            name = func.overloadpacket.__name__.strip("_")
            self.sent.append((NAMES.get(name, name), size))
        return result


def second_step(script: Path, *argv: str) -> tuple[list[tuple[str, int]], int]:
    """On one of several ranks: names and bytes of the second step, and how many parameters."""
    source = script.read_text(encoding="utf-8")
    for pattern, replacement in CHANGES:
        source = re.sub(pattern, replacement, source)
    steps = []

    def after_step(optimizer, args, kwargs):
        steps.append(list(mode.sent))
        mode.sent.clear()
        if len(steps) == 2:
            weights = [weight for group in optimizer.param_groups for weight in group["params"]]
            steps.append(sum(weight.numel() for weight in weights))
            raise _Enough

    hook, before = register_optimizer_step_post_hook(after_step), sys.argv
    sys.argv = [str(script), *argv]
    try:
        with _Collectives() as mode:
            exec(compile(source, str(script), "exec"), {"__name__": "__main__"})
    except _Enough:
        torch.distributed.barrier()
    finally:
        hook.remove()
        sys.argv = before
    return steps[1], steps[2]
