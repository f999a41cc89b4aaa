"""The lab 'Your own scaling law'."""

from random import Random

from dtlib.exercises.declarations.declaration import About
from dtlib.exercises.declarations.made import Made
from dtlib.exercises.labs.your_own_scaling_law import saying, sharing
from dtlib.exercises.labs.your_own_scaling_law.laws import excess_law, row_law, say_law, share_law

# fmt: off
share = Made(
    "ex-law-share",
    About("Whose rows are whose", "design", 2, 12,
          "price a trunk with its branches, and deal out jobs so that ranks end together"),
    share_law,
    lambda: (sharing.trunk_tokens, sharing.share),
    "tokens of a trunk with its branches; no rank has more than Graham's bound allows",
    {
        "as many runs, each trained alone": lambda: (sum, sharing.share),
        "every branch has a last fifth of its own": lambda: (max, sharing.share),
        "the trunk need not be trained to the end": lambda: (
            lambda budgets: sharing.trunk_tokens(budgets, trunk=1), sharing.share),
        "if the dearest jobs were dealt out first": lambda: (
            sharing.trunk_tokens, sharing.as_they_come),
        "and all wait for it": lambda: (sharing.trunk_tokens, sharing.in_turns),
        "works": lambda: (sharing.trunk_tokens, sharing.equally_many),
        "and [4] to none": lambda: (sharing.trunk_tokens,
            lambda costs, P: sharing.share(costs[:4], P)),
        "each job goes to one rank": lambda: (sharing.trunk_tokens,
            lambda costs, P: [list(range(len(costs)))] * P),
    },
)

excess = Made(
    "ex-law-excess",
    About("What a loss has above E", "derive", 2, 10,
          "measure L - E as a divergence, and E as a sum"),
    excess_law,
    lambda: (saying.entropy_rate, saying.excess),
    "nats per letter, zero for who knows the law, and no noise of a text in it",
    {
        "nats, please": lambda: (
            lambda p, length: saying.entropy_rate(p, length) / 0.6931471805599453, saying.excess),
        "a share of each letter": lambda: (
            lambda p, length: saying.entropy_rate(p, 1), saying.excess),
        "the whole loss, E included": lambda: (saying.entropy_rate,
            lambda truth, log_q: saying.excess(truth, log_q, own=0.0)),
        "a mean over places": lambda: (saying.entropy_rate,
            lambda truth, log_q: saying.excess(truth, log_q, mean=False)),
        "excess is nan": lambda: (saying.entropy_rate,
            lambda truth, log_q: saying.excess(truth, log_q) + 0 * log_q[1][1]),
    },
)

row = Made(
    "ex-law-row",
    About("One trunk for all budgets", "design", 2, 15,
          "branch a run off a trunk so that it is the separate run to the last digit"),
    row_law,
    lambda: sharing.row,
    "every budget's loss is that of the separate run, exactly, and what runs share is trained once",
    {
        "what runs share is trained once": lambda: sharing.separately,
        "the rate never fell": lambda: sharing.never_decaying,
        "has an earlier branch changed the trunk": lambda: sharing.decaying_the_trunk,
        "the branch has forgotten its momentum": lambda: (lambda learner, budgets, factor:
            sharing.row(learner, budgets, factor, copied=sharing.forgetful)),
        "a dict with a loss for each": lambda: (lambda learner, budgets, factor:
            list(sharing.row(learner, budgets, factor).values())),
        "the run is another one than alone": lambda: (lambda learner, budgets, factor:
            sharing.row(learner, budgets, lambda step, steps: factor(step + 1, steps + 1))),
    },
)

say = Made(
    "ex-law-say",
    About("Said before", "design", 2, 13,
          "predict a larger run with an interval, and let its seed follow from the prediction"),
    say_law,
    lambda: (saying.forecast, saying.seed_of),
    "L - E with the interval of a single run, and a seed that no other prediction has",
    {
        "this is the loss": lambda: (
            lambda *at: saying.forecast(*at, above=False), saying.seed_of),
        "E is known here": lambda: (
            lambda *at: saying.forecast(*at, known=False), saying.seed_of),
        "a single run scatters": lambda: (
            lambda *at: saying.forecast(*at, which="law"), saying.seed_of),
        "lie below and above": lambda: (
            lambda *at: saying.forecast(*at)[::-1], saying.seed_of),
        "another width, the same seed": lambda: (saying.forecast,
            lambda said: saying.seed_of(said, kept=lambda said: {"excess": said["excess"]})),
        "another excess, the same seed": lambda: (saying.forecast, lambda said: saying.seed_of(
            said, kept=lambda said: {key: round(value, 4) for key, value in said.items()})),
        "in another order of its keys": lambda: (saying.forecast,
            lambda said: saying.seed_of(said, keys=False)),
        "another seed the second time": lambda: (saying.forecast,
            lambda said: Random().getrandbits(32)),
        "from 0 to 2^32 - 1": lambda: (saying.forecast,
            lambda said: saying.seed_of(said, bits=64)),
        "in the next process": lambda: (saying.forecast,
            lambda said: hash(str(sorted(said.items()))) % 2**32),
        "lie close together": lambda: (saying.forecast,
            lambda said: saying.seed_of(said, bits=12)),
    },
)
