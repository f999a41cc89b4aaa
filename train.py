import torch, torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

dist.init_process_group("nccl")
torch.cuda.set_device(dist.get_rank() % 8)
blocks = [
    nn.Sequential(nn.LayerNorm(4096), nn.Linear(4096, 16384), nn.GELU(), nn.Linear(16384, 4096))
    for _ in range(12)
]
model = nn.Sequential(*blocks).cuda()
for block in model:
    fully_shard(block)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(100):
    loss = model(torch.randn(4, 2048, 4096, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
