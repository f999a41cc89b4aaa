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

next_after_256 = question(
    "pause-next-after-256",
    "Which number of bf16 is the next after 256?",
    Asked("next", 256 * (1 + 2 * BF16.roundoff), slips={
          257: "with 8 significant bits, how far apart are neighbours there?",
          264: "that is with 6 bits after the point", 256.0078125: "after 1, yes; and here?"},
          tolerance=1e-3),
    "two above: so 256 + 1 is a tie, and goes to 256",
)

half_of_the_scale = question(
    "pause-half-of-the-scale",
    "A scaler stands at 65,536 and doubles after 2,000 clean steps. From 131,072 on, gradients "
    "overflow. In the long run, one step in how many is skipped?",
    Asked("steps", 2001, slips={
          2000: "these are the clean ones, and then?", 4000: "it is halved once, not twice",
          1: "at 65,536 nothing overflows"}, tolerance=1e-4),
    "2,000 clean steps, then one that is lost: that is how it is meant",
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

half_the_digits_lost = question(
    "pause-fourteen-bits",
    "Ones are added in an accumulator of 14 bits, and what does not fit is cut off. At which sum "
    "does it stop?",
    Asked("sum", 2.0**14, slips={
          2.0**13: "there the next number is 1 away, and is reached",
          2.0**15: "there it has stopped long ago", 2.0**24: "that is float32"}),
    "there the next number is two away",
)

which_way_stops = question(
    "pause-which-way-stops",
    "A weight is 1 and is kept in bf16. Each step adds 0.001, and the nearest number is taken. "
    "Where is it after 1,000 steps?",
    Asked("weight", 1.0, slips={
          2.0: "is the first sum nearer to the weight or to the next number?",
          1.0078125: "is the first sum nearer to that or to the old weight?"}, tolerance=1e-3),
    "each step is lost, and so are all of them",
)

one_of_448 = question(
    "pause-one-scale-for-all",
    "A tensor's largest number is 100 times its usual one. It is scaled so that the largest is "
    "448, and cast to E4M3. Do the usual numbers lose digits?",
    Chosen("digits", "none", {
           "some": "they become about 4.5: is that below the smallest normal number, 1/64?",
           "all": "they become about 4.5: is that below the smallest normal number, 1/64?"}),
    "a float has the same digits over its whole window, here a factor of 28,672",
)

bytes_of_a_scale = question(
    "pause-bits-of-a-scale",
    "Blocks of 32 numbers of four bits share a scale of eight bits. How many bits does a number "
    "take?",
    Asked("bits", 4 + 8 / 32, slips={
          4: "and the scale?", 12: "32 of them share it", 4.5: "that is blocks of 16"}),
    "a quarter of a bit for a window of one's own",
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

same_bits_twice = question(
    "pause-same-bits-twice",
    "A run is started twice with the same seed, on the same GPUs, with the same batches. A kernel "
    "adds gradients with atomic additions, in the order in which blocks end. Are the bits equal?",
    Chosen("equal", "not always", {
           "always": "is the order in which blocks end the same?",
           "never": "small sums may be exact in any order"}),
    "the order is not part of the program",
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
