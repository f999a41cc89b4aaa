"""What the tests of ZeRO run on ranks: a small GPT, its batches, and steps in every stage."""

from contextlib import nullcontext

import torch
import torch.distributed as dist

from dtlib.foundations import TransformerSpec
from dtlib.memory import FullySharded, ShardedOptimizer
from dtlib.models import GPT, next_token_loss
from dtlib.models.spec import MoE
from dtlib.parallelism import DataParallel

SEQUENCES, TOKENS = 8, 8
ADAM = {"lr": 0.01, "weight_decay": 0.1}
# The numbers of every parameter fill cache lines, so that a matrix starts at one wherever it lies:
# else a product's terms may be added in another order. "odd" leaves parts that must be filled up.
SIZE = {"layers": 2, "hidden": 16, "heads": 4, "vocab": 32, "positions": TOKENS}
ODD = {**SIZE, "hidden": 15, "heads": 3, "vocab": 29}
SPECS = {
    "plain": TransformerSpec("plain", **SIZE, qkv_bias=False),
    "odd": TransformerSpec("odd", **ODD, qkv_bias=False),
    "tied": TransformerSpec("tied", **SIZE, qkv_bias=False, tied=True),
    "experts": TransformerSpec("experts", **SIZE, bias=False, moe=MoE(4, 1, 16)),
}


def model(spec="plain", dtype="float64", frozen=()):
    made = GPT(SPECS[spec], seed=3, dtype=getattr(torch, dtype))
    for name, parameter in made.named_parameters():
        parameter.requires_grad_(not any(part in name for part in frozen))
    return made


def batch(step, sequences=SEQUENCES):
    tokens = torch.randint(
        ODD["vocab"], (sequences, TOKENS + 1), generator=torch.Generator().manual_seed(step)
    )
    return tokens[:, :-1], tokens[:, 1:]


def own(tensor):
    """This rank's share of a batch."""
    return tensor.chunk(dist.get_world_size())[dist.get_rank()]


def values(module):
    return {name: p.detach().clone() for name, p in module.named_parameters()}


class Job:
    """A model and its optimizer in one of the stages; `one` is a single process."""

    def __init__(self, zero, spec="plain", dtype="float64", frozen=(), adam=None, **options):
        group, adam = dist.group.WORLD, adam or ADAM
        self.zero, self.module = zero, model(spec, dtype, frozen)
        self.trained, sync = self.module, nullcontext
        trains = [p for p in self.module.parameters() if p.requires_grad]
        if zero == 0:
            self.trained = DataParallel(self.module, group, **options)
            sync = self.trained.no_sync
        if zero in (1, 2):
            self.optimizer = ShardedOptimizer(
                self.module.parameters(), torch.optim.AdamW, group, zero=zero, **adam, **options
            )
        if zero == 3:
            self.trained = FullySharded(self.module, group, **options)
            sync, trains = self.trained.no_sync, list(self.trained.parameters())
        if zero not in (1, 2):
            self.optimizer = torch.optim.AdamW(trains, **adam)
        self.no_sync = sync

    def backward(self, x, y, micro_batches=1, hold=False):
        """Accumulate; with `hold`, all but the last micro-batch keep whole gradients."""
        if self.zero != "one":
            x, y = own(x), own(y)
        pieces = list(zip(x.chunk(micro_batches), y.chunk(micro_batches), strict=True))
        total = 0.0
        for i, (x_piece, y_piece) in enumerate(pieces):
            with self.no_sync() if hold and i < micro_batches - 1 else nullcontext():
                loss = next_token_loss(self.trained(x_piece), y_piece) / micro_batches
                loss.backward()
            total += loss.item()
        return total

    def step(self, x, y, micro_batches=1, hold=False):
        self.optimizer.zero_grad()
        if self.zero == 3:
            self.trained.zero_grad()
        loss = self.backward(x, y, micro_batches, hold)
        self.optimizer.step()
        return loss

    def weights(self):
        if self.zero != 3:
            return values(self.module)
        state = self.trained.state_dict()
        return {name: state[name] for name, _ in self.module.named_parameters()}
