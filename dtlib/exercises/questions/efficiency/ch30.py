"""Quick questions of chapter 30, Reduced precision."""

from dtlib.efficiency.precision.formats import BF16, E4M3, E5M2, FP16
from dtlib.efficiency.precision.spikes import first_step_rates
from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question

# fmt: off
largest_of_six_bits = question(
    "pause-largest-of-six-bits",
    "A format of the IEEE kind has three exponent bits and two mantissa bits. What is its largest "
    "finite number?",
    Asked("largest", 14, slips={
          28: "the highest exponent is taken by infinities and NaN",
          16: "that is the power of two above it",
          8: "and its fraction?"}),
    "2^3 times 1.75",
)

largest_scale = question(
    "pause-largest-scale",
    "The largest gradient is 0.01. By which power of two may the loss be multiplied at most, so "
    "that none overflows in fp16? Give the exponent.",
    Asked("exponent", 22, slips={
          23: "0.01 times that is 83,886", 16: "that is for gradients near 1",
          9: "a gradient below 1 leaves more room, not less"}),
    "0.01 times this is 41,943, and the next power is over 65,504",
)

who_is_told = question(
    "pause-who-is-told",
    "Four ranks have the same weights, and one finds an infinite gradient in its share before "
    "the all-reduce. What do the ranks have after the all-reduce of gradients?",
    Chosen("they have", "all an infinite one", {
           "one of four has it": "what is the sum of an infinite number and others?",
           "none has it": "what is the sum of an infinite number and others?"}),
    "so where gradients are all-reduced whole, all find it; where they are sharded, only the owner "
    "does",
)

two_units = question(
    "pause-two-units",
    "Now all four have the gradient 1. Three multiply it by 4,096 and rank 2 by 1,024; the mean is "
    "all-reduced, and each divides it by its own scale. Which gradient does rank 2 get?",
    Asked("gradient", (3 * 4096 + 1024) / 4 / 1024, slips={
          1.0: "three of four shares came in another unit", 4.0: "its own share has its own unit",
          0.8125: "that is what the three others get"}),
    "and the three others get 0.81: one step of too much, another of too little, and no error",
)

next_after_256 = question(
    "pause-next-after-256",
    "Which number of bf16 is the next after 256?",
    Asked("next", 256 * (1 + 2 * BF16.roundoff), slips={
          257: "with 8 significant bits, how far apart are neighbours there?",
          264: "that is with 6 bits after the point", 256.0078125: "after 1, yes; and here?"},
          tolerance=1e-3),
    "two above: so 256 + 1 is a tie, and goes to 256",
)

three_parts = question(
    "pause-three-parts",
    "600 ones are added in bf16 in three parts of 200, each from left to right, and then the "
    "three sums. What is the result?",
    Asked("sum", 600, slips={
          256: "does any part get there before all its ones are in it?",
          512: "the sum of two parts is a number of bf16; and the third?"}),
    "each part stays below 256, and 400 and their sum with 200 lie on the grid",
)

half_the_digits_lost = question(
    "pause-fourteen-bits",
    "Ones are added in an accumulator of 14 bits, and what does not fit is cut off. At which sum "
    "does it stop?",
    Asked("sum", 2.0**14, slips={
          2.0**13: "there the next number is 1 away, and is reached",
          2.0**15: "there it has stopped long ago", 2.0**24: "that is float32"}),
    "there the next number is two away",
)

up_how_often = question(
    "pause-up-how-often",
    "A weight of 1 in bf16 is to move by 0.001, and is rounded stochastically. How likely does it "
    "go up to its neighbour?",
    Asked("probability", 0.001 / (2 * BF16.roundoff), slips={
          0.001: "how far is the neighbour?", 0.5: "that is for half of the way",
          0.872: "that is the probability to stay"}),
    "0.001 of 0.0078: one step in eight moves, and moves eight times too far",
)

rounded_anew = question(
    "pause-rounded-anew",
    "A layer's input has 1,024 tokens with 128 channels, and 32 neighbours share a scale. How many "
    "scales of it are found, for the forward product and for the weights' gradient?",
    Asked("scales", 2 * 1024 * 128 / 32, slips={
          4096: "that is one of the two products", 131_072: "32 share one",
          5120: "along the tokens each channel has blocks of its own"}),
    "as many along the tokens as along the channels, and other numbers come out",
)

better_than_float32 = question(
    "pause-better-than-float32",
    "E4M3 with one scale for each tensor ends 0.0010 below float32. Is it better?",
    Chosen("it is", "not shown", {
           "better": "how much do other starting weights change?",
           "worse": "on which side of float32 does it end?"}),
    "other weights change the loss 17 times as much: one run of each tells no such difference",
)

what_shrinks = question(
    "pause-what-shrinks",
    "A GPU holds 60 GB of state, 16 bytes a parameter, and 40 GB of factors kept for the way back, "
    "in sixteen bits. The factors, and the 2-byte weights, go to eight. How many GB are left?",
    Asked("left", 60 * 15 / 16 + 40 / 2, "GB", slips={
          50: "which bytes of the 16 become fewer?", 80: "a weight gets smaller, too",
          96.25: "and the factors?"}),
    "the weights give 3.75 GB, the factors 20",
)

twice_the_rate = question(
    "pause-twice-the-rate",
    "The next GPU computes twice as fast, in eight and in sixteen bits, with the same memory "
    "bandwidth. With 5 bytes a number, from which side on do eight bits win?",
    Asked("side", 2 * 5 * (2 * 989e12) / 3.35e12, slips={
          2952: "what a product saves got smaller, and the casts?",
          1476: "do the casts become cheaper or dearer beside the product?"}, tolerance=0.02),
    "the faster the products, the more the casts weigh",
)

how_quiet = question(
    "pause-how-quiet",
    "Adam's second decay is 0.999. For how many steps must gradients be zero until the root of "
    "the second average has fallen to a tenth?",
    Asked("steps", 4603, slips={
          2301: "that is the average; Adam divides by its root",
          100: "a step keeps 0.999 of the average, so its root falls by 0.9995",
          9206: "the root falls by half as much as the average in a step, not by twice"}),
    "2 ln 10 / 0.001: quiet spells are thousands of steps long",
)

one_rate_at_most = question(
    "pause-one-rate-at-most",
    "The first decay is 0.9. How much must the second average forget in a step, 1 less its decay, "
    "so that the first step after a quiet spell is one learning rate?",
    Asked("forget", (1 - 0.9) ** 2, slips={
          0.1: "the root of it is what stands below", 0.001: "that is 3.16 rates",
          0.3162: "the root goes the other way"}),
    "its root is then 0.1, as much as the first average takes",
)

same_row = question(
    "pause-same-row",
    "This product has 64 terms. Which change gives a row the same bits in any batch, and still "
    "lets several cores work on one row?",
    Chosen("change", "parts of 8 terms, always", {
           "one part, always": "how many cores can work on one row?",
           "as many parts as idle cores": "does that depend on the batch?",
           "a fixed seed": "what is random in it?"}),
    "the order must depend on the row only, not on who else is there",
)

gather_or_whole = question(
    "pause-gather-or-whole",
    "At how many ranks does it cost the same bytes to gather everything, as floats of four bytes, "
    "and to all-reduce whole numbers of eight?",
    Asked("ranks", 4, slips={
          2: "there gathering costs what a ring of floats does",
          8: "eight bytes are how many times four?"}),
    "gathering costs half the ranks, whole numbers twice: beyond this they are cheaper",
)

clipped_too_early = question(
    "pause-clipped-too-early",
    "The scale is 1,024, and a gradient's true norm is 0.5. Somebody clips the scaled gradient to "
    "a norm of 1, and divides by the scale afterwards. Which norm is left?",
    Asked("norm", 1 / 1024, slips={
          0.5: "which norm does the clipping see?", 1.0: "and then it is divided",
          0.5 / 1024: "the clipping leaves 1, not a half"}),
    "it should have stayed as it was; now each step is a clipped one, and depends on the scale",
)

scale_of_yesterday = question(
    "pause-scale-of-yesterday",
    "The largest number of the last steps was 2, and delayed scaling makes 448 of it. Now one is "
    "3, and the cast saturates. What is it after the scale is divided out?",
    Asked("number", 2, slips={
          3: "3 times 224: is that below 448?", 448: "that is before the division",
          1.5: "that is by how much it is too large"}),
    "a third of it is lost: a saved pass is paid for when numbers grow",
)

ask_range_or_digits = question(
    "ask-range-or-digits",
    "Which of fp16 and bf16 needs a loss scale, and what does it lack?",
    Chosen("needs it", "fp16, range", {
           "bf16, digits": "a scale moves the window; digits are the same everywhere in it",
           "fp16, digits": f"fp16 has {FP16.mantissa_bits} bits, bf16 {BF16.mantissa_bits}",
           "bf16, range": "its exponent has as many bits as that of fp32"}),
    "bf16 has the exponent of fp32; fp16 ends at 65,504 and at 2^-24",
)

ask_first_of_quiet = question(
    "ask-first-of-a-spell",
    "Adam with decays 0.9 and 0.95. After a long quiet spell a gradient comes that is a million "
    "times as large as those before. How many learning rates does the weight move?",
    Asked("rates", first_step_rates(0.9, 0.95), slips={
          3.1623: "that is for 0.999", 1e6: "Adam divides by the size",
          1.0: "so it is at the start of a run, where both averages are corrected"}),
    "0.1 over the root of 0.05, whatever the gradient",
)

ask_eight_bits = question(
    "ask-e4m3-or-e5m2",
    "E4M3 has one bit of the fraction more than E5M2. By which factor is E5M2's window, from the "
    "smallest normal number to the largest, wider?",
    Asked("factor", E5M2.largest / E5M2.least_normal / (E4M3.largest / E4M3.least_normal), slips={
          128.0: "that is the ratio of the largest numbers",
          2.0: "one bit of the exponent squares the window, or nearly"}, tolerance=0.02),
    "with a scale for every block few tensors need it: then E4M3's digits win",
)
