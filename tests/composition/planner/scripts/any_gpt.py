"""A transformer whose sizes are arguments, under DDP or FSDP2: what a reading must find again."""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
for name, size in {
    "layers": 3, "hidden": 96, "heads": 6, "keys": 2, "ffn": 160, "vocab": 320, "seq": 48,
    "batch": 2, "micro-batches": 1,
}.items():  # fmt: skip
    parser.add_argument(f"--{name}", type=int, default=size)
switches = "gated layer-norm bias qkv-bias tied places by-hand repeat fused chunked ddp"
for name in switches.split():
    parser.add_argument(f"--{name}", action="store_true")
of = parser.parse_args()
WIDTH = of.hidden // of.heads


def norm():
    return nn.LayerNorm(of.hidden, bias=of.bias) if of.layer_norm else nn.RMSNorm(of.hidden)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = norm(), norm()
        sizes = [of.heads * WIDTH, of.keys * WIDTH, of.keys * WIDTH]
        sizes = [sum(sizes)] if of.fused else sizes
        bias = of.bias or of.qkv_bias
        self.a = nn.ModuleList(nn.Linear(of.hidden, size, bias=bias) for size in sizes)
        self.b = nn.Linear(of.heads * WIDTH, of.hidden, bias=of.bias)
        self.c = nn.ModuleList(
            nn.Linear(of.hidden, of.ffn, bias=of.bias) for _ in range(1 + of.gated)
        )
        self.d = nn.Linear(of.ffn, of.hidden, bias=of.bias)

    def forward(self, x):
        h = self.one(x)
        every = torch.cat([each(h) for each in self.a], -1)
        q, k, v = every.split([of.heads * WIDTH, of.keys * WIDTH, of.keys * WIDTH], -1)
        q, k, v = (each.unflatten(-1, (-1, WIDTH)).transpose(1, 2) for each in (q, k, v))
        if of.repeat or of.by_hand:
            k, v = (each.repeat_interleave(of.heads // of.keys, 1) for each in (k, v))
        if of.by_hand:
            scores = q @ k.transpose(-1, -2) / WIDTH**0.5
            mask = torch.ones(of.seq, of.seq, dtype=torch.bool, device=x.device).tril()
            y = scores.masked_fill(~mask, -torch.inf).softmax(-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.b(y.transpose(1, 2).flatten(2))
        up = [each(self.two(x)) for each in self.c]
        return x + self.d(F.silu(up[0]) * up[1] if of.gated else F.gelu(up[0]))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(of.vocab, of.hidden)
        self.places = nn.Parameter(torch.zeros(of.seq, of.hidden)) if of.places else 0.0
        self.rest = nn.ModuleList(Block() for _ in range(of.layers))
        self.last, self.head = norm(), nn.Linear(of.hidden, of.vocab, bias=False)
        if of.tied:
            self.head.weight = self.words.weight

    def forward(self, text):
        x = self.words(text) + self.places
        for block in self.rest:
            x = block(x)
        x = self.last(x)
        parts = x.chunk(4, 1) if of.chunked else [x]
        return torch.cat([self.head(part) for part in parts], 1)


dist.init_process_group("nccl")
device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
torch.cuda.set_device(device)
with torch.device("meta"):
    model = Model()
if of.ddp:
    model = DistributedDataParallel(model.to_empty(device=device))
else:
    for block in model.rest:
        fully_shard(block)
    fully_shard(model)
    model.to_empty(device=device)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    for _ in range(of.micro_batches):
        text = torch.randint(of.vocab, (of.batch, of.seq + 1), device=device)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(text[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
