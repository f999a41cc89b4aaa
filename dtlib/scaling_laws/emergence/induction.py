"""Text that repeats itself after a period unknown before: two layers learn to copy, one cannot.

A window of random letters begins anew after a period that differs from window to window. Who finds
the last place at which the present letter stood, and says what came after it, is right. It takes
two steps: one layer must write into each place which letter stood before it, and a second must look
for the place whose writing is the present letter. Source: Olsson et al. 2022.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch.nn import functional as F

from dtlib.formulas.require import require_count, require_divisor

_RATE, _BATCH, _JUDGED = 3e-3, 32, 128


class Look(NamedTuple):
    """What is true after so many steps, on windows that are never trained on.

    Losses in nats a letter, of letters that can be copied and of those that are new;
    `to_previous`, the attention of the first layer's best head to the letter before;
    `to_match`, that of the last layer's best head to the letter after the last occurrence.
    """

    step: int
    repeated_loss: float
    new_loss: float
    to_previous: float
    to_match: float


@dataclass(frozen=True)
class Repeats:
    """The task and how it is learned: so many attention layers, no feed-forward part.

    Windows of `length` letters out of `letters`; periods from a quarter to half of the length.

    >>> Repeats(layers=0)
    Traceback (most recent call last):
    ValueError: Repeats: layers is 0, but must be a whole number of at least 1
    """

    layers: int = 2
    letters: int = 32
    length: int = 64
    width: int = 32
    heads: int = 2
    steps: int = 800
    seed: int = 0

    def __post_init__(self):
        require_count("Repeats", layers=self.layers, letters=self.letters, length=self.length)
        require_divisor("Repeats", "heads", self.heads, "width", self.width)

    def windows(self, count: int, draw: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """So many windows, integers [count, length], and their periods [count, 1]."""
        shortest, longest = self.length // 4, self.length // 2
        periods = torch.randint(shortest, longest + 1, (count, 1), generator=draw)
        letters = torch.randint(self.letters, (count, self.length), generator=draw)
        return letters.gather(1, torch.arange(self.length) % periods), periods


class Copier(torch.nn.Module):
    """Attention layers over letters, each added to the stream, with rotary positions."""

    def __init__(self, task: Repeats):
        super().__init__()
        torch.manual_seed(task.seed)
        d, self.heads = task.width, task.heads
        self.letters = torch.nn.Embedding(task.letters, d)
        self.mixing = torch.nn.ModuleList(
            torch.nn.ModuleDict({name: torch.nn.Linear(d, size, bias=False) for name, size in
                                 (("qkv", 3 * d), ("out", d))})
            for _ in range(task.layers)
        )  # fmt: skip
        self.head = torch.nn.Linear(d, task.letters, bias=False)

    def forward(self, x_bs: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Logits [batch, seq, letters], and each layer's attention [batch, head, to, from]."""
        h_bsd, seen = self.letters(x_bs), []
        batch, seq, d = h_bsd.shape
        future = torch.full((seq, seq), -torch.inf).triu(1)
        for layer in self.mixing:
            qkv = layer["qkv"](F.rms_norm(h_bsd, (d,)))
            q, k, v = qkv.view(batch, seq, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            scores = _turned(q) @ _turned(k).transpose(-1, -2) / q.shape[-1] ** 0.5
            seen.append((scores + future).softmax(dim=-1))
            h_bsd = h_bsd + layer["out"]((seen[-1] @ v).transpose(1, 2).reshape(batch, seq, d))
        return self.head(F.rms_norm(h_bsd, (d,))), seen


def _turned(x_bnsd: torch.Tensor) -> torch.Tensor:
    """Rotary positions: each pair of numbers is turned by an angle that grows with the place."""
    seq, d = x_bnsd.shape[-2:]
    angles = torch.arange(seq)[:, None] * 10_000 ** (-torch.arange(0, d, 2) / d)
    even, odd = x_bnsd[..., ::2], x_bnsd[..., 1::2]
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def learn_to_copy(task: Repeats, every: int = 20) -> list[Look]:
    """Train on fresh windows at each step; what is true at step 0 and after each `every` steps."""
    draw = torch.Generator().manual_seed(task.seed)
    judged = task.windows(_JUDGED, torch.Generator().manual_seed(10_000))
    model = Copier(task)
    optimizer = torch.optim.Adam(model.parameters(), lr=_RATE, betas=(0.9, 0.98))
    looks = []
    for step in range(task.steps + 1):
        if step % every == 0:
            looks.append(_look(step, model, *judged))
        windows, _ = task.windows(_BATCH, draw)
        logits, _ = model(windows[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return looks


@torch.no_grad()
def _look(step: int, model: Copier, windows: torch.Tensor, periods: torch.Tensor) -> Look:
    logits, attention = model(windows[:, :-1])
    losses = F.cross_entropy(logits.transpose(1, 2), windows[:, 1:], reduction="none")
    place = torch.arange(windows.shape[1] - 1).expand_as(losses)
    copied = place + 1 >= periods
    previous = attention[0].diagonal(-1, 2, 3).mean(dim=(0, 2)).max()
    after = (place - periods + 1).clamp(min=0)
    match = attention[-1].gather(3, after[:, None, :, None].expand(-1, model.heads, -1, 1))[..., 0]
    matched = [head[copied].mean() for head in match.unbind(dim=1)]
    return Look(step, losses[copied].mean().item(), losses[~copied].mean().item(),
                previous.item(), max(matched).item())  # fmt: skip
