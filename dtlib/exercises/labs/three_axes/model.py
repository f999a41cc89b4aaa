"""What the lab is given: a small transformer with one key head and one table, and who has what."""

from typing import Any

from dtlib.exercises.labs.tensor_parallel_block.programs import attend, f, g
from dtlib.exercises.labs.tensor_parallel_block.programs import cut as _cut
from dtlib.foundations import TransformerSpec
from dtlib.later import torch

__all__ = ["CUT", "SPEC", "attend", "batch", "dense", "f", "g", "loss_of", "norm", "part_of"]

SPEC = TransformerSpec(
    "lab", layers=2, hidden=16, heads=4, kv_heads=1, ffn=24, vocab=32,
    norm="rms", bias=False, gated=True, tied=True,
)  # fmt: skip
CUT = {"query": 0, "gate": 0, "up": 0, "out": 1, "down": 1}


def dense() -> Any:
    """The whole model on one process: two blocks, and one table that is embedding and head."""
    from dtlib.models import GPT

    return GPT(SPEC, dtype=torch.float64)


def batch(rows: int = 8, length: int = 5) -> tuple[Any, Any]:
    """Tokens and targets (rows, length), the same on every rank."""
    generator = torch.Generator().manual_seed(24)
    drawn = torch.randint(SPEC.vocab, (rows, length + 1), generator=generator)
    return drawn[:, :-1], drawn[:, 1:]


def norm(x: Any, scale: Any) -> Any:
    return torch.nn.functional.rms_norm(x, scale.shape, scale, 1e-5)


def loss_of(x: Any, scale: Any, table: Any, targets: Any) -> Any:
    """The mean loss of a stream, by the last norm and the table as the last matrix."""
    logits = torch.nn.functional.linear(norm(x, scale), table)
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def part_of(weights: dict, at: dict[str, int], sizes: dict[str, int]) -> dict:
    """Of all weights, by name, those of the rank at these coordinates, cut as CUT says.

    The first stage has the table and the first blocks, the last one the last blocks, the last norm,
    and the table, too. Keys, values and norms are whole on every rank of tp.
    """
    last, each = sizes["pp"] - 1, SPEC.layers // sizes["pp"]
    mine = {}
    for name, weight in weights.items():
        if name.startswith("blocks."):
            here = int(name.split(".")[1]) // each == at["pp"]
        else:
            here = at["pp"] == last or (at["pp"] == 0 and name == "embedding.weight")
        if here:
            mine[name] = _cut(weight, cut_side(name), at["tp"], sizes["tp"])
    return mine


def cut_side(name: str) -> int | None:
    """Along which dimension a weight is cut over tp; None where every rank has it whole."""
    return CUT.get(name.split(".")[-2])
