"""From a step to a run: work, speed, duration and price of a step that is repeated."""

from dtlib.formulas.formula import formula

_SAME = "every step takes the same time; nothing interrupts the run"


@formula(
    symbol=r"W_\text{step}",
    unit="FLOP",
    source="counting",
    conditions="every token asks for the same work",
)
def step_flops(token_flops, batch_tokens):
    """The work of one step, from the work of one token.

    Equation: so much for each token. Arguments: `token_flops` FLOP, `batch_tokens` of a step.
    Returns FLOP. Raises nothing. Source: counting.

    >>> step_flops(token_flops=6 * 30e9, batch_tokens=4e6) / 1e15
    720.0
    """
    return token_flops * batch_tokens


@formula(
    symbol=r"v_\text{tok}",
    unit="tok/s",
    source="counting",
    conditions="of all ranks together",
)
def tokens_per_second(batch_tokens, step):
    """How fast a run reads its data.

    Equation: the tokens of a step over its time. Arguments: `batch_tokens`, `step` seconds.
    Returns tokens per second. Raises ZeroDivisionError for no time. Source: counting.

    >>> tokens_per_second(batch_tokens=4e6, step=12.5)
    320000.0
    """
    return batch_tokens / step


@formula(symbol=r"T_\text{all steps}", unit="s", source="counting", conditions=_SAME)
def all_steps_time(tokens, batch_tokens, step):
    """How long a run lasts that is nothing but steps.

    Equation: as many steps as there are batches in the data. Arguments: `tokens` of the run,
    `batch_tokens` of a step, `step` seconds. Returns seconds.
    Raises ZeroDivisionError for an empty batch. Source: counting.

    >>> all_steps_time(tokens=600e9, batch_tokens=4e6, step=12.0) / 86400
    20.833333333333332
    """
    return tokens / batch_tokens * step


@formula(symbol=r"C_\text{all steps}", unit="USD", source="counting", conditions=_SAME)
def all_steps_cost(price, P, tokens, batch_tokens, step):
    """What a run costs that is nothing but steps.

    Equation: the price of every rank for as long as the run lasts. Arguments: `price` USD/s of one
    rank, `P` ranks; the others as for `all_steps_time`. Returns USD.
    Raises ZeroDivisionError for an empty batch. Source: counting.

    >>> round(all_steps_cost(price=2 / 3600, P=128, tokens=600e9, batch_tokens=4e6, step=12.0))
    128000
    """
    return price * P * all_steps_time(tokens, batch_tokens, step)
