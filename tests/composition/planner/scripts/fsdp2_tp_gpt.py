"""FSDP2 over nodes and tensor parallelism inside: torchrun --nproc-per-node 8 fsdp2_tp_gpt.py"""

import argparse
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

VOCAB, SEQ, WIDTH, HEADS, LAYERS, BATCH = 512, 64, 128, 8, 2, 2
names = argparse.ArgumentParser()
names.add_argument("--tp", type=int, default=2)
tp = names.parse_args().tp


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in "qkv")
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        h = self.norm1(x)
        heads = (w(h).unflatten(-1, (-1, WIDTH // HEADS)) for w in (self.q, self.k, self.v))
        q, k, v = (t.transpose(1, 2) for t in heads)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
mesh = init_device_mesh(
    "cuda", (int(os.environ["WORLD_SIZE"]) // tp, tp), mesh_dim_names=("dp", "tp")
)
blocks = [Block().cuda() for _ in range(LAYERS)]
model = nn.Sequential(nn.Embedding(VOCAB, WIDTH), *blocks, nn.Linear(WIDTH, VOCAB)).cuda()
column, row = ColwiseParallel, RowwiseParallel
plan = {"q": column(), "k": column(), "v": column(), "out": row(), "up": column(), "down": row()}
for block in blocks:
    parallelize_module(block, mesh["tp"], plan)
    fully_shard(block, mesh=mesh["dp"])
fully_shard(model, mesh=mesh["dp"])
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
for text in (torch.randint(VOCAB, (BATCH, SEQ + 1)) for _ in range(4)):
    text = text.to("cuda", non_blocking=True)
    loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
