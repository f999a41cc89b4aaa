"""Quick questions of chapter 11, Collectives and their adjoints."""

from math import factorial

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question

# fmt: off
_GRADIENTS = (6, -2, 5, 7)
_OF_MAXIMUM = (1, 2, 3, 5)

first_call_backward = question(
    "pause-first-call-backward",
    "Forward, a model scatters a batch from rank 0, every rank computes with its part, and the "
    "results are gathered on rank 0. Which collective does the backward pass call first?",
    Chosen("call", "scatter", {
           "gather": "the last call forward is the first on the way back; what is its adjoint?",
           "reduce": "is anything summed in a scatter or a gather?",
           "broadcast": "every rank has results of its own; who needs which gradients?"}),
    "the gather's adjoint, and at the end a gather, the scatter's",
)

orders_of_four = question(
    "pause-orders-of-four",
    "Four numbers are added one after the other, in any order. Two numbers commute. In how many "
    "ways may this be done that can differ in their bits?",
    Asked("ways", factorial(4) / 2, slips={
          factorial(4): "which two of the four may change places?",
          4: "so many can be first; and then?",
          1: "do floats keep the value of a sum when its brackets move?"}),
    "a ring of four takes at most four of them, one for each chunk",
)

half_of_an_all_reduce = question(
    "pause-half-of-an-all-reduce",
    "By its bytes a reduce-scatter takes half the time of an all-reduce. Here it takes 1.4 times "
    "as long as one. How many times as long as its bytes say is that?",
    Asked("times", 1.4 / 0.5, slips={
          1.4: "that is measured against the whole all-reduce",
          1.4 * 0.5: "has it taken more time than its bytes say, or less?",
          1.4 - 0.5: "how many times the half is it, not how much more?"}),
    "so almost two thirds of its time is something else than its bytes",
)

names_of_a_group = question(
    "pause-names-of-a-group",
    "Twelve ranks. Ranks 0 to 3 make a group, then ranks 0 and 1 another, each time the members "
    "only. Then all twelve make a group together. How many different names does it have?",
    Asked("names", len({2, 1, 0}), slips={
          2: "have all of the first four made as many groups?",
          12: "ranks that have made equally many agree on a name",
          1: "who counts for a rank that has not called?"}),
    "one for ranks 0 and 1, one for 2 and 3, one for the other eight",
)

gradient_of_a_maximum = question(
    "pause-gradient-of-a-maximum",
    "Four ranks have 2, 7, 5 and 3, and all-reduce their maximum. From it each computes a loss, "
    "whose gradients with respect to the maximum are 1, 2, 3 and 5. The losses are added up. What "
    "is the gradient of rank 1's number?",
    Asked("gradient", sum(_OF_MAXIMUM), slips={
          _OF_MAXIMUM[1]: "whose losses depend on the 7?",
          sum(_OF_MAXIMUM) / 4: "are the losses averaged?",
          0: "what would happen to the maximum if the 7 grew?"}),
    "all four losses used its number, and the other three ranks get nothing",
)

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
