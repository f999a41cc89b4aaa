"""Models, batches and runs that the tests of several strategies in one run share."""

from functools import cache

import torch

from dtlib.composition.hybrid.parallel import parallelize
from dtlib.foundations import MoE, TransformerSpec
from dtlib.layout import Layout
from dtlib.mesh import Mesh
from dtlib.models import GPT, next_token_loss
from dtlib.models.equality import relative_errors, worst

SPECS = {
    "new": TransformerSpec("new", 4, 16, 4, 32, ffn=32, kv_heads=2, gated=True, norm="rms",
                           bias=False),
    "old": TransformerSpec("old", 4, 16, 4, 32, tied=True, positions=16),
    "experts": TransformerSpec("experts", 4, 16, 4, 32, gated=True, norm="rms",
                               moe=MoE(experts=4, active=2, ffn=8, shared=1)),
}  # fmt: skip
# A key's bias is added to all scores alike, which no softmax sees: its gradient is rounding alone,
# and Adam divides that by its own size.
ONLY_ROUNDING = "attention.key.bias"
# With this, which it adds to the size, rounding stays small, and the biases can be compared, too.
ADAM = {"lr": 1e-2, "eps": 1e-4}
MAX_NORM = 0.5


def some_batches(spec, sequences: int, seq: int, count: int) -> list[tuple]:
    """Tokens and targets; some targets do not count, more of them in some sequences."""
    draw = torch.Generator().manual_seed(1)
    found = []
    for _ in range(count):
        drawn = torch.randint(0, spec.vocab, (sequences, seq + 1), generator=draw)
        targets = drawn[:, 1:].clone()
        targets[0, : seq // 2] = targets[-1, -1] = -100
        found.append((drawn[:, :-1], targets))
    return found


@cache
def one_process(kind, sequences: int, seq: int, steps: int) -> tuple:
    """Gradients, loss and norm of the first step, and the weights after all, of one process."""
    spec = SPECS.get(kind, kind)
    model = GPT(spec, dtype=torch.float64)
    optimizer = torch.optim.AdamW(model.parameters(), **ADAM)
    first = None
    for tokens, targets in some_batches(spec, sequences, seq, steps):
        loss = next_token_loss(model(tokens), targets)
        loss.backward()
        gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        first = first or (gradients, float(loss.detach()), float(norm))
        optimizer.step()
        optimizer.zero_grad()
    return *first, {name: p.detach() for name, p in model.named_parameters()}


def on_ranks(kind, layout, order, sequences, seq, steps, change=None, **options) -> tuple:
    """The same of a `HybridRun`; `change` is a function of it before its first step.

    Raises AssertionError on a rank whose weights are not the bits that it shares with others.
    """
    spec = SPECS.get(kind, kind)
    mesh = Mesh.of(**{axis: getattr(layout, axis) for axis in order})
    run = parallelize(GPT(spec, dtype=torch.float64), mesh, layout, **options)
    if change:
        change(run)
    optimizer = run.optimizer(torch.optim.AdamW, **ADAM)
    first = None
    for tokens, targets in some_batches(spec, sequences, seq, steps):
        loss = run.forward_backward(tokens, targets)
        gradients = run.gradients() if first is None else None
        norm = run.clip(MAX_NORM)
        first = first or (gradients, float(loss), float(norm))
        optimizer.step()
        optimizer.zero_grad()
    weights = run.state_dict()
    for parameter, piece in run.pieces.of.items() if layout.zero < 3 and not change else ():
        assert torch.equal(parameter, weights[piece.name][piece.place]), (layout, piece)
    run.close()
    return *first, weights


def largest_errors(ranks, kind, layout, order=("dp", "cp", "pp", "tp"), sequences=8, seq=8,
                   steps=2, **options) -> dict:  # fmt: skip
    """What differs most from one process: of gradients, loss, norm and weights after all steps.

    Raises AssertionError where ranks have been told different things.
    """
    layout = Layout(**layout)
    found, *others = ranks.run(on_ranks, kind, layout, order, sequences, seq, steps, **options)
    for other in others:
        assert other[1:3] == found[1:3] and same(other[0], found[0]) and same(other[3], found[3])
    return errors_of(found, one_process(kind, sequences, seq, steps))


def errors_of(found: tuple, due: tuple) -> dict:
    """The largest relative error of each of the four."""
    gradients = {name: found[0].get(name, torch.zeros_like(x)) for name, x in due[0].items()}
    return {
        "gradients": worst(relative_errors(gradients, due[0])),
        "loss": abs(found[1] - due[1]) / due[1],
        "norm": abs(found[2] - due[2]) / due[2],
        "weights": worst(relative_errors(found[3], due[3])),
    }


def same(these: dict, those: dict) -> bool:
    """The same names, and the same bits."""
    return these.keys() == those.keys() and all(torch.equal(these[n], those[n]) for n in these)


def wrong(errors, tolerance=1e-12) -> dict:
    """The errors above a tolerance."""
    sizes = {what: e[1] if isinstance(e, tuple) else e for what, e in errors.items()}
    return {what: errors[what] for what, size in sizes.items() if not size <= tolerance}
