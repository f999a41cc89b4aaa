"""The model that every strategy parallelises, and how two runs of it are compared.

It needs torch, so nothing else in the library imports it before it is asked for.
"""

from dtlib.models.equality import gradients, relative_errors, worst
from dtlib.models.gpt import GPT, Block, next_token_loss

__all__ = ["GPT", "Block", "gradients", "next_token_loss", "relative_errors", "worst"]
