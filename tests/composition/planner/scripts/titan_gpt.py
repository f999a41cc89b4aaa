"""As torchtitan does it: meta device, mesh, sequence parallelism, checkpoints, parallel loss."""

import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed import device_mesh
from torch.distributed._composable import checkpoint
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor import parallel as tp

VOCAB, SEQ, WIDTH, HEADS, LAYERS, BATCH = 512, 64, 128, 8, 2, 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (-1, 3, WIDTH // HEADS)).unbind(3)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


device = torch.device(f"cuda:{int(os.environ['LOCAL_RANK'])}")
torch.cuda.set_device(device)
shape = (int(os.environ["WORLD_SIZE"]) // 2, 2)
mesh = device_mesh.init_device_mesh("cuda", shape, mesh_dim_names=("dp_shard", "tp"))
with torch.device("meta"):
    blocks, head = [Block() for _ in range(LAYERS)], nn.Linear(WIDTH, VOCAB, bias=False)
    model = nn.Sequential(nn.Embedding(VOCAB, WIDTH), *blocks, nn.RMSNorm(WIDTH), head)
column = tp.ColwiseParallel(input_layouts=Shard(1))
row = tp.RowwiseParallel(output_layouts=Shard(1))
parts = {
    "norm1": tp.SequenceParallel(),
    "norm2": tp.SequenceParallel(),
    "qkv": column,
    "up": column,
}
table = tp.RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))
last = tp.ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False)
ends = {"0": table, str(LAYERS + 1): tp.SequenceParallel(), str(LAYERS + 2): last}
tp.parallelize_module(model, mesh["tp"], ends)
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for block in blocks:
    tp.parallelize_module(block, mesh["tp"], parts | {"out": row, "down": row})
    fully_shard(checkpoint(block), mesh=mesh["dp_shard"], mp_policy=policy)
fully_shard(model, mesh=mesh["dp_shard"], mp_policy=policy)
model.to_empty(device=device)
for weight in model.parameters():
    nn.init.normal_(weight, std=0.02)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
for _ in range(3):
    text = torch.randint(VOCAB, (BATCH, SEQ + 1), device=device)
    with tp.loss_parallel():
        logits = model(text[:, :-1]).flatten(0, 1).float()
        F.cross_entropy(logits, text[:, 1:].flatten()).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
