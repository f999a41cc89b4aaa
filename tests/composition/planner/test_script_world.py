"""What a script finds when it is read: a GPU, its world, and kernels that keep what a GPU keeps."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from dtlib.composition import read_script
from dtlib.composition.planner.script.kernels import attention, rms_norm
from dtlib.layout import Layout
from dtlib.memory.meter import saved_tensor_bytes

USUAL = """
import os
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

def train(rank, world):
    dist.init_process_group("nccl", rank=rank, world_size=world)
    assert torch.cuda.is_available() and dist.get_world_size() == world == 8
    assert torch.device("cuda", rank).type == torch.device(rank).type == "cuda"
    told = ["a run's name"]
    dist.broadcast_object_list(told, src=0)
    assert told == ["a run's name"]
    model = nn.Sequential(nn.Embedding(10, 16), nn.Linear(16, 16), nn.Linear(16, 10))
    model[0].weight = model[2].weight
    model = DistributedDataParallel(torch.compile(model.to(rank)), device_ids=[rank])
    model.register_comm_hook(None, bf16_compress_hook)
    optimizer, scaler = torch.optim.Adam(model.parameters()), torch.amp.GradScaler("cuda")
    data = TensorDataset(torch.randint(10, (640, 4)))
    loader = DataLoader(data, 2, sampler=DistributedSampler(data), num_workers=2, pin_memory=True)
    for number, (text,) in enumerate(loader):
        text = text.to(rank, non_blocking=True)
        model.require_backward_grad_sync = number % 3 == 2
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(text[:, :-1])
            assert logits.dtype == torch.bfloat16 and F.softmax(logits, -1).dtype == torch.float32
            loss = F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        assert torch.isfinite(loss).all() and isinstance(loss.item(), float)
        scaler.scale(loss).backward()
        if number % 3 == 2:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            torch.cuda.synchronize()

if __name__ == "__main__":
    mp.spawn(train, args=(torch.cuda.device_count(),), nprocs=torch.cuda.device_count())
"""


def test_a_script_finds_what_scripts_expect(tmp_path):
    (tmp_path / "train.py").write_text(USUAL, encoding="utf-8")
    reading = read_script(tmp_path / "train.py", 64)
    tied_once = 10 * 16 + 16 * 16 + 16 + 10
    assert (reading.ranks, reading.param_count, reading.micro_batches) == (8, tied_once, 3)
    assert reading.sent("backward", "all_reduce") == 2 * tied_once
    assert reading.layout == Layout(dp=8, micro_batch=2)


def test_attention_keeps_no_scores_and_a_norm_its_input():
    batch, heads, seq, width = 2, 4, 64, 16
    with FakeTensorMode():
        query = torch.empty(
            batch, heads, seq, width, dtype=torch.bfloat16, requires_grad=True, device="cpu"
        )
        weight = torch.empty(width, dtype=torch.bfloat16, requires_grad=True)
        scores = saved_tensor_bytes(plain_attention, query)
        flash = saved_tensor_bytes(lambda x: attention(x, x, x, is_causal=True), query)
        norm = saved_tensor_bytes(lambda x: rms_norm(x, (width,), weight), query, besides=[weight])
    rows, seeds = batch * heads * seq, 24
    assert flash == 2 * (rows * width * 2) + rows * 4 + seeds  # input, output, sums, of dropout
    assert norm == rows * width * 2 + rows * 4
    assert scores > rows * seq * 2


def plain_attention(x):
    """The twin, which keeps the softmax of every pair."""
    return torch.softmax(x @ x.transpose(-1, -2), -1) @ x
