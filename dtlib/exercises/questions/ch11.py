"""Quick questions of chapter 11, Collectives and their adjoints."""

from dtlib.exercises.declarations.numbers import Asked
from dtlib.exercises.questions.question import question

# fmt: off
_GRADIENTS = (6, -2, 5, 7)

gradient_of_a_summand = question(
    "ask-gradient-of-a-summand",
    "Four ranks all-reduce one number each. From the sum each computes a loss of its own, and the "
    "four losses are added up. With respect to a rank's copy of the sum, its loss has the gradient "
    "6, -2, 5, 7 on ranks 0 to 3. What is the gradient of rank 1's number?",
    Asked("gradient", sum(_GRADIENTS), slips={
          _GRADIENTS[1]: "who else has a sum with this number in it?",
          sum(_GRADIENTS) / 4: "the losses are added up, not averaged"}),
    "the transpose of an all-reduce is an all-reduce",
)

scattered_once_more = question(
    "ask-scattered-once-more",
    "Six ranks call a reduce-scatter, then an all-gather of its results, then a reduce-scatter of "
    "what they got. How many times the sum of all contributions does an owner's chunk hold now?",
    Asked("times", 1 * 6, slips={
          1: "what does the last call do with equal copies?",
          6 * 6: "how many ranks hold a chunk after the first call?"}),
    "once for each holder in between: one, then all; the order of adding stays open",
)

who_skipped = question(
    "ask-who-skipped",
    "Ranks 0 to 7 make two all-reduces of one number each: of a gradient, 1 on every rank, then of "
    "a state, 100 + r on rank r. One rank skips the first. The others get 113 as the sum of the "
    "gradients. Which rank was it?",
    Asked("rank", 113 - 7*1 - 100, slips={
          113 - 8*1 - 100: "how many ranks did bring a gradient?",
          113 - 100: "the other ranks brought their gradients"}),
    "calls match by their place: its state met the gradients of the others",
)
