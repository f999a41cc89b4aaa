"""How far Adam moves after a quiet spell: a step in units of the learning rate."""

from dtlib.formulas.formula import formula
from dtlib.formulas.poly import sqrt


@formula(
    r"\rho_\text{first}",
    "",
    "Adam's moments after gradients of zero, one gradient later",
    "the bias correction is over, and the gradients before were small beside this one",
)
def first_step_rates(first_memory, second_memory):
    """Adam's step at the first large gradient after a quiet spell, in learning rates.

    Both averages were near zero: the first takes in a share 1 - b1 of the gradient, and the root
    of the second only the root of 1 - b2 of its square. However large the gradient is, it cancels.

    >>> round(first_step_rates(0.9, 0.999), 2), round(first_step_rates(0.9, 0.95), 2)
    (3.16, 0.45)
    """
    return (1 - first_memory) / sqrt(1 - second_memory)


@formula(
    r"\rho_\text{most}",
    "",
    "the inequality of Cauchy and Schwarz for the two averages",
    "the bias correction is over; the square of b1 is below b2",
)
def most_step_rates(first_memory, second_memory):
    """The largest step that any sequence of gradients can make Adam take, in learning rates.

    The first average is a sum of gradients with weights, the second of their squares; their ratio
    is largest for gradients that grow by b2 / b1 from step to step.

    >>> round(most_step_rates(0.9, 0.999), 2), round(most_step_rates(0.9, 0.95), 2)
    (7.27, 1.16)
    """
    return (1 - first_memory) / sqrt((1 - second_memory) * (1 - first_memory**2 / second_memory))


def step_rates(gradients, first_memory: float = 0.9, second_memory: float = 0.999) -> list[float]:
    """Adam's steps for a sequence of gradients, in learning rates, long after its start.

    Both averages begin at zero and are not corrected for it. A step with both at zero is 0.

    >>> [round(step, 2) for step in step_rates([1.0, 1.0, 0.0])]
    [3.16, 4.25, 3.83]
    """
    first = second = 0.0
    steps = []
    for g in gradients:
        first = first_memory * first + (1 - first_memory) * g
        second = second_memory * second + (1 - second_memory) * g * g
        steps.append(first / second**0.5 if second else 0.0)
    return steps
