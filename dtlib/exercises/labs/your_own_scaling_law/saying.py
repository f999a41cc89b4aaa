"""A number that is said before, and a seed that follows from it: the ways, and their slips."""

import hashlib
import json
from math import log

from dtlib.scaling_laws import Runs, fit_parametric


def entropy_rate(p, length, log=log, weigh=lambda p: p):
    """-sum p log p, over the letters of a word."""
    return sum(-weigh(chance) * log(chance) for chance in p if chance > 0) / length


def excess(truth, log_q, *, log=log, own=1.0, mean=True):
    """The mean over places of sum p (log p - log q)."""
    found = [
        sum(p * (own * log(p) - said) for p, said in zip(law, model, strict=True) if p > 0)
        for law, model in zip(truth, log_q, strict=True)
    ]
    return sum(found) / (len(found) if mean else 1)


def forecast(runs, E, N, D, *, known=True, above=True, which="run"):
    """L - E of a run by the law that fits `runs`, and the interval of a single run."""
    said = fit_parametric(Runs.of(runs), E=E if known else None).predict(N, D)
    numbers = (said.loss, *getattr(said, which))
    return tuple(number - E for number in numbers) if above else numbers


def seed_of(said, *, keys=True, kept=lambda said: said, bits=32):
    """The first bits of SHA-256 of everything that was said."""
    text = json.dumps(kept(said), sort_keys=keys)
    return int(hashlib.sha256(text.encode()).hexdigest(), 16) >> (256 - bits)
