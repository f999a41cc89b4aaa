"""Train a small encoder-decoder: a program that knows nothing of ranks.

It learns to sort digits: the source is a sequence of digits with padding, the target the same
digits in order. It has what such programs have: LayerDrop, weight decay for matrices only, a
schedule of the learning rate, mixed precision, accumulation over micro-batches, clipping by the
norm of all gradients, checkpoints and a way to resume.

`Trainer` takes one `Wrapping`. The one here, for one process, does nothing; those of
`wrappings.py` put a strategy around the same model, and nothing else changes.
"""

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

PAD, START = 0, 1
DIGITS = range(2, 12)
VOCABULARY = 12


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what a run computes."""

    hidden: int = 16
    heads: int = 4
    blocks: int = 3  # of the encoder, and of the decoder
    longest: int = 7  # digits of a sequence
    batch: int = 16  # sequences of a step
    accumulate: int = 2  # micro-batches of a step
    steps: int = 6
    learning_rate: float = 0.01
    warm_up: int = 2  # steps
    weight_decay: float = 0.1
    epsilon: float = 1e-6  # AdamW's: what the size of a gradient is measured against
    largest_norm: float = 0.5
    layer_drop: float = 0.3  # the part of the blocks that a step leaves out
    seed: int = 0
    dtype: torch.dtype = torch.float64
    autocast: torch.dtype | None = None
    loss_scale: float = 1.0  # at the beginning; 1 leaves scaling out


# The task


@dataclass(frozen=True)
class Batch:
    """Sequences of digits, what the decoder is given, and what it must say next."""

    source: torch.Tensor
    given: torch.Tensor
    wanted: torch.Tensor

    @property
    def tokens(self) -> int:
        """How many tokens count: all but padding."""
        return int((self.wanted != PAD).sum())

    def cut(self, count: int) -> list["Batch"]:
        """So many micro-batches, of whole sequences."""
        columns = (self.source, self.given, self.wanted)
        return [Batch(*part) for part in zip(*(c.chunk(count) for c in columns), strict=True)]


def batch_of(recipe: Recipe, step: int) -> Batch:
    """The data of a step, the same whoever asks."""
    generator = torch.Generator().manual_seed(1000 * recipe.seed + step)
    source = torch.randint(
        DIGITS.start, DIGITS.stop, (recipe.batch, recipe.longest), generator=generator
    )
    lengths = torch.randint(2, recipe.longest + 1, (recipe.batch, 1), generator=generator)
    is_there = torch.arange(recipe.longest) < lengths
    wanted = torch.where(is_there, source, VOCABULARY).sort(dim=1).values
    wanted = torch.where(is_there, wanted, PAD)
    given = torch.cat([torch.full_like(wanted[:, :1], START), wanted[:, :-1]], dim=1)
    return Batch(torch.where(is_there, source, PAD), given, wanted)


def kept_blocks(recipe: Recipe, step: int) -> list[bool]:
    """LayerDrop: which blocks of a step are there, encoder first; one draw for everybody."""
    generator = torch.Generator().manual_seed(7_000_000 + 1000 * recipe.seed + step)
    return (torch.rand(2 * recipe.blocks, generator=generator) >= recipe.layer_drop).tolist()


# The model


class Attention(nn.Module):
    """Attention with heads, of a sequence to itself or to another."""

    def __init__(self, hidden: int, heads: int):
        super().__init__()
        self.head = hidden // heads
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, hidden)

    def forward(self, x, memory, mask):
        """x (B, S, h) attends to memory (B, T, h) where mask (B, 1, S, T) is True."""
        queries, keys, values = (
            part.unflatten(-1, (-1, self.head)).transpose(1, 2)
            for part in (self.query(x), self.key(memory), self.value(memory))
        )
        found = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        return self.out(found.transpose(1, 2).flatten(2))


class Network(nn.Module):
    """Two layers, four times as wide between them."""

    def __init__(self, hidden: int):
        super().__init__()
        self.wide = nn.Linear(hidden, 4 * hidden)
        self.narrow = nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        return self.narrow(F.gelu(self.wide(x)))


class EncoderBlock(nn.Module):
    """Each position looks at the whole source."""

    def __init__(self, recipe: Recipe):
        super().__init__()
        self.norm = nn.LayerNorm(recipe.hidden)
        self.attention = Attention(recipe.hidden, recipe.heads)
        self.network_norm = nn.LayerNorm(recipe.hidden)
        self.network = Network(recipe.hidden)

    def forward(self, x, mask):
        normed = self.norm(x)
        x = x + self.attention(normed, normed, mask)
        return x + self.network(self.network_norm(x))


class DecoderBlock(nn.Module):
    """Each position looks at those before it, and at the whole source."""

    def __init__(self, recipe: Recipe):
        super().__init__()
        self.norm = nn.LayerNorm(recipe.hidden)
        self.attention = Attention(recipe.hidden, recipe.heads)
        self.cross_norm = nn.LayerNorm(recipe.hidden)
        self.cross = Attention(recipe.hidden, recipe.heads)
        self.network_norm = nn.LayerNorm(recipe.hidden)
        self.network = Network(recipe.hidden)

    def forward(self, y, memory, mask, memory_mask):
        normed = self.norm(y)
        y = y + self.attention(normed, normed, mask)
        y = y + self.cross(self.cross_norm(y), memory, memory_mask)
        return y + self.network(self.network_norm(y))


class Translator(nn.Module):
    """An encoder and a decoder with one table of embeddings, which is also the last layer."""

    def __init__(self, recipe: Recipe):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, recipe.hidden)
        self.places = nn.Embedding(recipe.longest, recipe.hidden)
        self.encoder = nn.ModuleList(EncoderBlock(recipe) for _ in range(recipe.blocks))
        self.decoder = nn.ModuleList(DecoderBlock(recipe) for _ in range(recipe.blocks))
        self.norm = nn.LayerNorm(recipe.hidden)
        self.head = nn.Linear(recipe.hidden, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight
        self.kept = [True] * 2 * recipe.blocks

    def blocks(self) -> list[nn.Module]:
        """All blocks, encoder first."""
        return [*self.encoder, *self.decoder]

    def embedded(self, tokens):
        """Tokens (B, S) as vectors (B, S, h)."""
        return self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))

    def forward(self, source, given):
        """The logits (B, S, vocabulary) of the token after each given one."""
        encoder_kept, decoder_kept = halves(self.kept)
        sees_source = padding_mask(source)
        x = self.embedded(source)
        for block, is_kept in zip(self.encoder, encoder_kept, strict=True):
            x = block(x, sees_source) if is_kept else x
        y = self.embedded(given)
        for block, is_kept in zip(self.decoder, decoder_kept, strict=True):
            y = block(y, x, causal_mask(given), sees_source) if is_kept else y
        return self.head(self.norm(y))


def halves(items: list) -> tuple[list, list]:
    """What belongs to the encoder, and what to the decoder."""
    middle = len(items) // 2
    return items[:middle], items[middle:]


def padding_mask(source) -> torch.Tensor:
    """Everybody sees what is no padding: (B, 1, 1, T)."""
    return (source != PAD)[:, None, None, :]


def causal_mask(given) -> torch.Tensor:
    """A position sees itself and those before it: (S, S)."""
    size = given.shape[1]
    return torch.ones(size, size, dtype=torch.bool).tril()


def loss_sum(logits, wanted) -> torch.Tensor:
    """The cross-entropy of all tokens that count, added up."""
    logits = logits.float() if logits.dtype.itemsize == 2 else logits
    return F.cross_entropy(
        logits.flatten(0, 1), wanted.flatten(), ignore_index=PAD, reduction="sum"
    )


# The training


def decay_groups(named, recipe: Recipe) -> list[dict]:
    """Matrices decay; biases and the weights of norms do not."""
    groups = {recipe.weight_decay: [], 0.0: []}
    for name, parameter in named:
        is_matrix = name.endswith("weight") and "norm" not in name
        groups[recipe.weight_decay if is_matrix else 0.0].append(parameter)
    return [{"params": params, "weight_decay": decay} for decay, params in groups.items() if params]


def warm_up_and_cosine(recipe: Recipe) -> Callable[[int], float]:
    """The factor of the learning rate at a step."""

    def factor(step: int) -> float:
        if step < recipe.warm_up:
            return (step + 1) / recipe.warm_up
        done = (step - recipe.warm_up) / max(1, recipe.steps - recipe.warm_up)
        return 0.5 * (1 + math.cos(math.pi * done))

    return factor


def count_dropped_as_zero(module: nn.Module) -> None:
    """Weights of a block that was left out decay like all others."""
    for parameter in module.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)


class Wrapping:
    """What a strategy may change; here, for one process, nothing."""

    def wrap(self, model: Translator) -> nn.Module:
        """The module whose forward pass trains."""
        return model

    def optimizer(self, groups: list[dict], **options) -> torch.optim.Optimizer:
        """AdamW with the groups of what `wrap` gave."""
        return torch.optim.AdamW(groups, **options)

    def scaler(self, **options) -> torch.amp.GradScaler:
        """Of the loss, so that gradients in 16 bits do not vanish."""
        return torch.amp.GradScaler("cpu", **options)

    def share(self, batch: Batch) -> Batch:
        """The part of a micro-batch that this process computes."""
        return batch

    def more_to_come(self, module: nn.Module):
        """Around every micro-batch of a step but the last."""
        return contextlib.nullcontext()

    def passes(self, trainer: "Trainer", parts: list[Batch], tokens: int) -> torch.Tensor:
        """Forward and backward passes of a step; this process's part of the loss."""
        total = torch.zeros((), dtype=torch.float64)
        for number, part in enumerate(parts):
            is_last = number == len(parts) - 1
            with contextlib.nullcontext() if is_last else self.more_to_come(trainer.module):
                mine = self.share(part)
                with trainer.precision():
                    logits = trainer.module(mine.source, mine.given)
                loss = loss_sum(logits, mine.wanted) / tokens
                trainer.scaler.scale(loss).backward()
                total += loss.detach()
        count_dropped_as_zero(trainer.module)
        return total

    def clip(self, trainer: "Trainer", largest: float) -> torch.Tensor:
        """Clip by the norm of all gradients, which is returned."""
        return nn.utils.clip_grad_norm_(trainer.module.parameters(), largest)

    def whole(self, value: torch.Tensor) -> torch.Tensor:
        """A sum of the parts of all processes."""
        return value

    def weights(self, module: nn.Module) -> dict[str, torch.Tensor]:
        """The whole weights by the model's own names."""
        return module.state_dict()


class Trainer:
    """A model, its optimizer, and the step that both are at."""

    def __init__(self, recipe: Recipe, wrapping: Wrapping | None = None):
        self.recipe, self.wrapping = recipe, wrapping or Wrapping()
        torch.manual_seed(recipe.seed)
        self.model = Translator(recipe).to(recipe.dtype)
        self.module = self.wrapping.wrap(self.model)
        groups = decay_groups(self.module.named_parameters(), recipe)
        self.optimizer = self.wrapping.optimizer(
            groups, lr=recipe.learning_rate, betas=(0.9, 0.95), eps=recipe.epsilon
        )
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, warm_up_and_cosine(recipe)
        )
        self.scaler = self.wrapping.scaler(
            init_scale=recipe.loss_scale, enabled=recipe.loss_scale != 1
        )
        self.step_number = 0

    def precision(self):
        """Autocast, where the recipe asks for it."""
        if self.recipe.autocast is None:
            return contextlib.nullcontext()
        return torch.autocast("cpu", self.recipe.autocast)

    def step(self) -> dict[str, float]:
        """One step of the optimizer; its mean loss, and the norm before clipping."""
        batch = batch_of(self.recipe, self.step_number)
        self.model.kept = kept_blocks(self.recipe, self.step_number)
        self.optimizer.zero_grad()
        parts = batch.cut(self.recipe.accumulate)
        loss = self.wrapping.passes(self, parts, batch.tokens)
        self.scaler.unscale_(self.optimizer)
        norm = self.wrapping.clip(self, self.recipe.largest_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scheduler.step()
        self.step_number += 1
        return {"loss": self.wrapping.whole(loss).item(), "norm": float(norm)}

    def train(self, until: int | None = None) -> Iterator[dict[str, float]]:
        """Steps up to the recipe's end, or to a number."""
        while self.step_number < (until or self.recipe.steps):
            yield self.step()

    def save(self, file: Path) -> None:
        """Everything that a process like this one needs to go on."""
        state = {
            "model": self.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "step": self.step_number,
        }
        torch.save(state, file)

    def resume(self, file: Path) -> None:
        """Go on where a process like this one was saved."""
        state = torch.load(file, weights_only=True)
        self.module.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        self.scaler.load_state_dict(state["scaler"])
        self.step_number = state["step"]


if __name__ == "__main__":
    trainer = Trainer(Recipe(steps=300, layer_drop=0.1))
    for number, record in enumerate(trainer.train()):
        if number % 50 == 0:
            print(f"step {number:3}: loss {record['loss']:.3f}, norm {record['norm']:.3f}")
    print(f"at the end: loss {record['loss']:.3f}")
