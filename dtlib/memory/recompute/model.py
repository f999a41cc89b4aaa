"""A model that recomputes: every way to do it, behind one word.

`Recomputed(model, how)` runs the model's blocks by a schedule, block by block with a policy, or
with only the attention core recomputed. The model itself is left as it is.
"""

from contextlib import contextmanager
from functools import partial

import torch
from torch import nn

from dtlib.formulas.require import require, require_count
from dtlib.memory.recompute.policy import Policy, checkpoint
from dtlib.memory.recompute.run import recompute_chain
from dtlib.memory.recompute.schedule import RecomputeSchedule, keep_all, uniform

WORDS = ("none", "full", "selective")


class Recomputed(nn.Module):
    """A model whose blocks keep less and run again; same loss, same gradients, bit for bit.

    Arguments: `module`, a `GPT`, or an ``nn.Sequential`` whose layers are the chain; `how`:
    "none"; "full", of every block only the input is kept; "selective", of every block everything
    but the attention core, which takes its queries, keys and values again; a whole number k, of
    every k-th block the input is kept; a `RecomputeSchedule`, such as `revolve(layers, slots)`; or
    a policy from `checkpoint_policy`, for every block.
    `module` is the model. Raises ValueError for another module, for another `how`, and for a
    schedule of another length. Source: Chen et al. 2016; Korthikanti et al. 2023.

    >>> from dtlib.foundations import TransformerSpec
    >>> from dtlib.models import GPT
    >>> model = GPT(TransformerSpec("tiny", layers=4, hidden=16, heads=2, vocab=50, norm="rms"))
    >>> tokens = torch.tensor([[3, 1, 4, 1, 5]])
    >>> [torch.equal(Recomputed(model, how)(tokens), model(tokens)) for how in ("selective", 2)]
    [True, True]
    """

    def __init__(self, module: nn.Module, how: str | int | RecomputeSchedule | Policy):
        super().__init__()
        self.module = module
        self.blocks = _blocks(module)
        self.how = self._understood(how)

    def forward(self, x: torch.Tensor, positions: torch.Tensor | None = None):
        if isinstance(self.module, nn.Sequential):
            return self._through(x)
        if positions is None:
            positions = torch.arange(x.shape[-1], device=x.device)
        x_bsh = self._through(self.module.embed(x, positions), positions)
        return self.module.head(self.module.norm(x_bsh))

    def _through(self, x, *arguments):
        if isinstance(self.how, RecomputeSchedule):
            return recompute_chain(self.how, self.blocks, x, *arguments)
        for block in self.blocks:
            x = self.how(block, x, *arguments)
        return x

    def _understood(self, how):
        """A schedule of the blocks, or a function that runs one block."""
        owner, layers = "Recomputed", len(self.blocks)
        if isinstance(how, Policy):
            return partial(checkpoint, policy=how)
        if isinstance(how, RecomputeSchedule):
            require(how.layers == layers, owner, "the length of how", how.layers, f"{layers}")
            return how
        if isinstance(how, int):
            require_count(owner, how=how)
            require(how <= layers, owner, "how", how, f"at most the number of blocks, {layers}")
            return uniform(layers, how)
        require(how in WORDS, owner, "how", how, f"one of {WORDS}, k, a schedule or a policy")
        if how == "selective":
            for block in self.blocks:
                _check_core(owner, block)
            return run_selective
        return keep_all(layers) if how == "none" else uniform(layers, 1)


class SelectiveBlock(nn.Module):
    """A block of which the attention core is recomputed, as one layer of a chain."""

    def __init__(self, block: nn.Module):
        super().__init__()
        _check_core("SelectiveBlock", block)
        self.block = block

    def forward(self, x: torch.Tensor, *arguments):
        return run_selective(self.block, x, *arguments)


def _check_core(owner: str, block: nn.Module) -> None:
    good = hasattr(getattr(block, "attention", None), "mix")
    require(good, owner, "a block", type(block).__name__, "one with an attention core to repeat")


def run_selective(block: nn.Module, x: torch.Tensor, *arguments) -> torch.Tensor:
    """Run a block that keeps the queries, keys and values, and not what is made of them."""
    with _core_again(block.attention):
        return block(x, *arguments)


@contextmanager
def _core_again(attention):
    mix = attention.mix
    attention.mix = partial(checkpoint, mix)
    try:
        yield
    finally:
        attention.mix = mix


def _blocks(module):
    if isinstance(module, nn.Sequential):
        return list(module)
    good = all(hasattr(module, name) for name in ("embed", "blocks", "norm", "head"))
    kind = type(module).__name__
    require(good, "Recomputed", "module", kind, "a GPT or an nn.Sequential")
    return list(module.blocks)
