"""Quick questions of chapter 7, Loss as a function of compute."""

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.scaling_laws.loss_surface.surface import excess_compute_factor, frontier_power

# fmt: off
endless_text = question(
    "pause-endless-text",
    "A model lacks 0.1 nats for its size and 0.3 for its data, and its loss is 2.2. What would its "
    "loss be with endless text?",
    Asked("loss", 1.9, "nats", {
          1.8: "the model stays as large as it is",
          2.1: "it is the data's term that goes",
          0.1: "and the least loss?"}),
    "the data's term goes, the size's stays",
)

which_term = question(
    "pause-which-term",
    "A model lacks 0.06 nats for its size and 0.24 for its data. Its tokens are free, its size is "
    "not. By which factor must the tokens grow until both terms are equal, with a power of a half?",
    Asked("factor", 16, "×", {
          4: "the term must be a fourth; the tokens enter by their root",
          2: "a fourth is asked for, and the tokens enter by their root",
          1 / 16: "more tokens make the term smaller"}),
    "a fourth of the term, and so four squared times the tokens",
)

half_the_size = question(
    "pause-half-the-size",
    "Half the best size costs 0.004 nats. What does a fourth of the best size cost, about, if the "
    "valley is a parabola in the logarithm of the size?",
    Asked("cost", 0.016, "nats", {
          0.008: "twice as far away on a parabola",
          0.004: "further away",
          0.064: "twice as far, not four times: it is the logarithm that counts"}),
    "twice as far in the logarithm, four times as high",
)

one_outlier = question(
    "pause-one-outlier",
    "A residual is 0.01, the border of the penalty 0.001. How many times the Huber penalty would "
    "the plain square, half of 0.01 squared, be?",
    Asked("times", (0.01**2 / 2) / (0.001 * (0.01 - 0.0005)), "×", {
          1: "beyond the border the penalty goes on as a line",
          10: "the residual is ten borders long; compute both penalties",
          (0.001 * (0.01 - 0.0005)) / (0.01**2 / 2): "the other way round"}),
    "five times: the further out, the less a point pulls",
)

all_on_one_side = question(
    "pause-all-on-one-side",
    "Of 240 residuals of a fit, 235 are negative. What does that say?",
    Chosen("says", "the law is not where the penalty is least", {
           "the points are noisy": "noise has both signs",
           "the form of the law is wrong": "another E alone would bring half to the other side",
           "five points are outliers": "what of the other 235?"}),
    "moving E alone would help: nobody can have minimised the penalty here",
)

one_budget = question(
    "pause-one-budget",
    "Somebody has nine runs, all of one size, from 1 to 256 billion tokens. Which of the five "
    "numbers can they tell: which two are seen?",
    Chosen("seen", "B and beta", {
           "A and alpha": "what changes N in these runs?",
           "E and A": "at one size E and the term of size are one number",
           "none": "the loss falls with the tokens: what does it fall to, and how fast?"}),
    "the fall is seen, and the sum of E and the size's term, but not its parts",
)

why_left_out = question(
    "pause-why-left-out",
    "Which is a reason to leave a run out of a fit?",
    Chosen("reason", "it was made in another way than the law is about", {
           "its residual is large": "so every law could be made to fit",
           "it has the highest loss": "a small run has a high loss, and is a good point",
           "the answer is nicer without it": "whose answer is it then?"}),
    "a reason must be known without looking at the residual",
)

leverage_of_two = question(
    "pause-leverage-of-two",
    "Of 245 runs one has a leverage of 0.35: the law follows it by so much of its residual. It is "
    "repeated, with the same N and D. What is the leverage of each of the two?",
    Asked("leverage", 0.35 / 1.35, slips={
          0.35: "the law cannot follow both as far as it followed one",
          0.175: "less than that, together, is what one had; two know more than one",
          0.35 / 0.65: "beside a twin a run counts less"}),
    "0.26 each and 0.52 together: two runs hold the law there more firmly than one",
)

which_question = question(
    "pause-which-question",
    "Two laws fitted to the same runs give a planned run a loss of 2.05 and 2.06, and as the best "
    "number of tokens 6 and 20 for each parameter. Which can be relied on?",
    Chosen("reliable", "the loss, not the ratio", {
           "both": "do they agree about the ratio?",
           "neither": "do they agree about the loss?",
           "the ratio, not the loss": "which of the two differs by a factor of 3?"}),
    "in a flat valley the height is known, and the lowest place is not",
)

what_pins_a_floor = question(
    "pause-what-pins-a-floor",
    "A loss falls toward a floor that nobody knows. You may add a dozen runs to your grid. Which "
    "tell most about the floor?",
    Chosen("runs", "longer ones, of all sizes", {
           "the same again, with other seeds": "they say again what is known, with less noise",
           "shorter ones, of all sizes": "those are the furthest from the floor",
           "more sizes, as long as before": "each ends as far above its own floor as before"}),
    "a floor is seen where a curve bends toward it",
)

luck_or_form = question(
    "pause-luck-or-form",
    "If each run missed its law by luck alone, how would the misses of a second grid, with other "
    "seeds, go with those of the first?",
    Chosen("misses", "not at all", {
           "the same runs would miss by the same": "does a seed know the luck of another?",
           "the other way round": "does luck keep an account?"}),
    "luck of two seeds does not correlate; a wrong form does",
)

share_of_tables = question(
    "pause-share-of-tables",
    "A layer of width d has 12 d^2 parameters in its matrices, and 100 d in its tables and the "
    "rest. Which share of all are the tables at a width of 256?",
    Asked("share", 100 / (12 * 256 + 100), slips={
          100 / (12 * 16 + 100): "that is at a width of 16",
          100 / (12 * 256): "of all, the tables included"}),
    "a third at width 16, three per cent at 256: so the power moves",
)

slope_of_the_loss = question(
    "pause-slope-of-the-loss",
    "A loss of 2.0 nats has 1.8 below it that no run saves, and the rest falls as compute to the "
    "power -0.178. With which power does the loss itself fall there?",
    Asked("power", 0.178 * 0.2 / 2.0, slips={
          0.178: "that is the power of the rest, which is a tenth of the loss",
          0.178 * 1.8 / 2.0: "it is the rest that falls, and not the 1.8"}),
    "a tenth of the loss is falling, so a tenth of the power is seen",
)

ten_per_cent = question(
    "pause-ten-per-cent",
    "An excess falls as compute to the power -0.178. A better layout gives 40 % more throughput, "
    "in the same time. By which share does the excess fall?",
    Asked("share", 1 - 1.4 ** -0.178, slips={
          0.178: "that is the power",
          1.4 ** -0.178: "that is what is left of it",
          1 - 1.4 ** -1: "the power is 0.178, not 1",
          0.4 * 0.178: "that holds for small changes; 40 % is not small"}),
    "1.4 to the power: six per cent of what is left to win",
)

another_floor = question(
    "pause-another-floor",
    "On another text E is lower by 0.2, and the other four numbers are the same. How does the best "
    "size of a budget change?",
    Chosen("size", "it stays", {
           "it grows": "which of the numbers are in its equation?",
           "it shrinks": "which of the numbers are in its equation?"}),
    "E is no part of a slope: it lowers the whole valley",
)

twice_the_want = question(
    "pause-twice-the-want",
    "On another text the number B is twice as large, and the power of the data is one third. How "
    "many times the tokens bring the term of the data back to what it was?",
    Asked("times", 2**3, slips={
          2: "the tokens stand under a power below 1",
          2 ** (1 / 3): "that is what twice the tokens gain",
          6: "a power is no product"}),
    "eight: a third of a power takes the cube",
)

what_halving_costs = question(
    "ask-what-halving-costs",
    "Both powers of a law are one half. How many times the compute halves the best run's excess?",
    Asked("times", excess_compute_factor(0.5, 0.5), "×", {
          4: "the budget is shared: the excess falls as the fourth root",
          2: "the excess falls more slowly than compute grows",
          8: "the power is one fourth"}),
    "the frontier has the power one fourth, so sixteen times",
)

smaller_than_either = question(
    "ask-smaller-than-either",
    "alpha is 0.3 and beta is endless: the data are never scarce, however few. With which power "
    "does the excess of the best run fall?",
    Asked("power", frontier_power(0.3, 1e12), slips={
          0.15: "that would be for two equal powers",
          0: "the size still helps",
          1e12: "what is left is the term of size"}),
    "all compute goes into the model, and the frontier has the model's own power",
)

what_the_interval_holds = question(
    "ask-what-the-interval-holds",
    "A bootstrap interval of a fitted law gets four times as many runs of the same kind. The law's "
    "form is a little wrong. What happens to the interval and to the error far away?",
    Chosen("happens", "the interval halves, the error stays", {
           "both halve": "more runs do not mend the form",
           "both stay": "does the interval not know how many runs there were?",
           "the interval stays, the error halves": "the other way round"}),
    "it says what other runs of the kind would change, and nothing about the form",
)
