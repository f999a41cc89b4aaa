"""Quick questions of chapter 9, Jumps that metrics make."""

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.scaling_laws.emergence.rulers import all_fail_chance, at_least, exact_match, shift_factor
from dtlib.scaling_laws.emergence.stairs import visited_loss

# fmt: off
eight_in_a_row = question(
    "pause-eight-in-a-row",
    "The loss of an answer falls as compute to the power of minus one half. How many times the "
    "compute of one answer do four in a row need, at any height?",
    Asked("times", shift_factor(4, 0.5), "×", {
          4: "the loss must be a fourth; how does it fall with compute?",
          2: "the other way round: the loss is the root of compute",
          256: "to the power of one over the exponent, which is one half"}),
    "a fourth of the loss, and so four squared times the compute",
)

none_of_fifty = question(
    "pause-none-of-fifty",
    "A model solves an item with a chance of two per cent. A test has 50 items. In which share of "
    "such tests does it solve none?",
    Asked("share", all_fail_chance(0.02, 50), slips={
          0.02: "that is the chance of one item",
          1 - all_fail_chance(0.02, 50): "that is the share in which it solves some",
          0.0001: "one is expected; none is then no surprise"}),
    "one success is expected, and more than a third of the tests show none",
)

where_the_exponent_is = question(
    "pause-where-the-exponent-is",
    "A corpus has many kinds of words. Each kind is learned within one doubling of the compute, "
    "rarer kinds later. What does the loss of the whole corpus do?",
    Chosen("loss", "it falls smoothly", {
           "it falls in one step": "that would be one kind",
           "it stands still until all are learned": "each kind takes its share off the sum",
           "it falls in steps of equal height": "are there as many occurrences of rare kinds?"}),
    "a sum of many small steps at different places is smooth",
)

which_ruler_keeps_the_bend = question(
    "pause-which-ruler-keeps-the-bend",
    "A run is measured by the loss, by the share of right letters, and by exact match of ten "
    "letters. Under which of them does the bend of two layers vanish?",
    Chosen("vanishes", "under none", {
           "under the loss": "what does the figure above show?",
           "under the share": "the letters are known when the heads are there",
           "under exact match": "it is a function of what bends"}),
    "a bend of the loss itself is seen with each of them",
)

stairs_of_a_batch = question(
    "pause-stairs-of-a-batch",
    "The same samples are trained on with a rate of 0.5, in epochs. At which height is the third "
    "stair of the shown loss, if the first is at 1?",
    Asked("height", visited_loss(0.5, 2), slips={
          visited_loss(0.5, 1): "that is the second stair",
          visited_loss(0.5, 3): "in the third epoch a sample was seen twice before",
          0.125: "the loss is the square of the error"}),
    "two visits, each of which takes three quarters off the square",
)

taken_by_a_hair = question(
    "pause-taken-by-a-hair",
    "A question has four choices. From model to model the right one's probability grows from 0.05 "
    "to 0.30, while another stays at 0.40. Each model takes the most probable choice. What does "
    "its score on this question do?",
    Chosen("score", "it stays at zero", {
           "it grows sixfold": "that is what the probability does",
           "it grows from 0.05 to 0.30": "that is a model that draws its answer",
           "it jumps to one": "which choice leads at 0.30?"}),
    "the other choice leads all the time, and nothing is seen of the growth",
)

chain_of_ten = question(
    "ask-chain-of-ten",
    "An answer has a loss of 0.1 nats. How often are ten in a row all right?",
    Asked("share", exact_match(0.1, 10), slips={
          exact_match(0.1, 1): "that is one answer",
          1 - exact_match(0.1, 10): "that is how often at least one is wrong"}),
    "ten losses of 0.1 are one nat",
)

pass_mark = question(
    "ask-pass-mark",
    "Each of ten answers is right with 0.8, independently. How often are at least nine right?",
    Asked("share", at_least(0.8, 9, 10), slips={
          0.8**10: "that is all ten", 0.8**9: "that is the first nine",
          0.8: "that is one answer"}),
    "ten ways to miss one, and one way to miss none",
)

points_before_a_break = question(
    "ask-points-before-a-break",
    "All points of a fit lie a factor of ten before a break. Which number of the broken power law "
    "do they fix?",
    Chosen("fixed", "the first exponent", {
           "the second exponent": "a later and steeper break has the same beginning",
           "the place of the break": "a later and steeper break has the same beginning",
           "the width of the bend": "it is where the bend is"}),
    "before the break there is one exponent to be seen",
)
# fmt: on
