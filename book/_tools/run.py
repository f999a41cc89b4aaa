"""A training run as the numbers of a page name it: `run.params`, `run.tokens`, `run.P`.

The book's own stands in the text; a reader's takes its place where the page computes theirs.
"""

from dataclasses import dataclass

from dtlib.models.published import published_models

MODEL = "llama-3.1-8b"


@dataclass(frozen=True)
class Run:
    """Who is trained, on how much, by how many; every field is a number."""

    params: float
    layers: float
    hidden: float
    heads: float
    vocab: float
    seq: float  # tokens of a sequence
    tokens: float
    batch_tokens: float  # of one step
    P: float  # GPUs
    mfu: float


def shape(model: str) -> dict[str, float]:
    """What a run takes from a published model."""
    spec = published_models[model]
    return {
        "params": spec.params(),
        "layers": spec.layers,
        "hidden": spec.hidden,
        "heads": spec.heads,
        "vocab": spec.vocab,
    }


BOOK_RUN = Run(**shape(MODEL), seq=8192, tokens=1e12, batch_tokens=4e6, P=64, mfu=0.4)
