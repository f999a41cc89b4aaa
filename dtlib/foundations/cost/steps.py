"""From a step to a run: work, speed, duration and price of a step that is repeated."""

from dtlib.formulas.formula import formula

_SAME = "every step takes the same time; nothing interrupts the run"


@formula(r"W_\text{step}", "FLOP", "counting", "every token asks for the same work")
def step_flops(token_flops, batch_tokens):
    """The work of one step, from the work of one token.

    So much for each token.

    >>> step_flops(token_flops=6 * 30e9, batch_tokens=4e6) / 1e15
    720.0
    """
    return token_flops * batch_tokens


@formula(r"v_\text{tok}", "tok/s", "counting", "of all ranks together")
def tokens_per_second(batch_tokens, step):
    """How fast a run reads its data.

    The tokens of a step over its time.

    >>> tokens_per_second(batch_tokens=4e6, step=12.5)
    320000.0
    """
    return batch_tokens / step


@formula(r"T_\text{all steps}", "s", "counting", _SAME)
def all_steps_time(tokens, batch_tokens, step):
    """How long a run lasts that is nothing but steps.

    As many steps as there are batches in the data.

    >>> all_steps_time(tokens=600e9, batch_tokens=4e6, step=12.0) / 86400
    20.833333333333332
    """
    return tokens / batch_tokens * step


@formula(r"C_\text{all steps}", "USD", "counting", _SAME)
def all_steps_cost(price, P, tokens, batch_tokens, step):
    """What a run costs that is nothing but steps.

    The price of every rank for as long as the run lasts.

    >>> round(all_steps_cost(price=2 / 3600, P=128, tokens=600e9, batch_tokens=4e6, step=12.0))
    128000
    """
    return price * P * all_steps_time(tokens, batch_tokens, step)
