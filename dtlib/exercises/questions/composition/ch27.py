"""Quick questions of chapter 27, Searching configurations."""

from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question

# fmt: off

which_rule = question(
    "pause-which-rule",
    "40 layers, 32 heads, 8 heads of keys, a feed-forward width of 11,264 and 64,000 words. Which "
    "is the largest tp among 8, 16, 32 and 64 that no rule forbids, if a multiple of the heads of "
    "keys is allowed, too?",
    Asked("tp", 32, slips={
          64: "what would half a head compute?",
          8: "several ranks may have the same head of keys, each with other heads of queries",
          16: "does twice as many divide heads, width and words as well?"}),
    "the heads set the limit; copies of keys are allowed",
)

larger_micro_batch = question(
    "pause-larger-micro-batch",
    "A layout does not fit with micro-batches of 4 sequences. Trials with 1, 2, 4, 8 and 16 were "
    "planned, each on a machine. How many of the five need not be tried?",
    Asked("trials", 3, slips={
          2: "4 itself is known already",
          4: "a smaller one may fit: 1 and 2 are open",
          1: "8 and 16 need at least as much as 4"}),
    "4 is known, and what is larger needs no less",
)

host_or_gpu = question(
    "pause-host-or-gpu",
    "In one pass through a layer the GPU has 3 ms of work, and its host needs 4 ms to start it "
    "all. How long does the pass take at least?",
    Asked("time", 4e-3, "s", slips={
          7e-3: "they work at the same time: the host starts what comes next",
          3e-3: "the GPU cannot compute what has not been started",
          1e-3: "that is how long the GPU waits"}),
    "the longer of the two, and never their sum",
)

eighth_of_a_matrix = question(
    "pause-eighth-of-a-matrix",
    "256 sequences on eight GPUs, one in a micro-batch. How many times as many micro-batches does "
    "a GPU compute with eight ranks to a layer, as with eight replicas?",
    Asked("times", 8, slips={
          1: "with eight replicas each has an eighth of the sequences; and with one?",
          1 / 8: "the other way round"}),
    "each rank works on all 256, an eighth of each matrix at a time",
)

one_at_a_time = question(
    "pause-one-at-a-time",
    "A layout with tp = 8 and pp = 8 is left behind by one with tp = 4 and pp = 16, and both are "
    "better than tp = 8, pp = 16 and tp = 4, pp = 8. Where does a search stop that begins at "
    "tp = 8, pp = 8 and changes one of the two at a time?",
    Chosen("stops", "where it began", {
        "at tp = 4 and pp = 16": "which step would it take first, and is that one better?",
        "it never stops": "it moves only to what is better"}),
    "both steps on the way are worse, so it takes neither",
)

which_cause = question(
    "pause-which-cause",
    "Layout A is predicted to take 10 s, of which 2 s are an exchange; B takes 10.5 s, with an "
    "exchange of 1 s. By which factor must the exchange be slower than predicted, in both, for B "
    "to be as fast as A?",
    Asked("factor", 1.5, slips={
          0.5: "by that much A's exchange would have to grow: relative to what?",
          1.25: "B's exchange grows, too",
          1.05: "that is the ratio of the two times: which part of them grows?"}),
    "rest over rest: the other parts differ by 1.5 s, the exchanges by 1 s",
)

last_tenth = question(
    "pause-last-tenth",
    "Two layouts on such a line differ by 1 % in time and by 10 GB in memory. The model may be off "
    "by 5 %. Which of the two would you rather run?",
    Chosen("end", "the one with less memory", {
        "the one with more memory": "what is one per cent worth, beside a run that stops for lack "
        "of memory?",
        "either": "their times are equal within the errors; their memories are not"}),
    "room is worth more than a difference that the model cannot see",
)

may_be_fastest = question(
    "pause-may-be-fastest",
    "Predictions are off by 10 % at most, in either direction. The least one is 9 s. Up to which "
    "prediction may a layout be the fastest?",
    Asked("prediction", 11.0, "s", slips={
          9.9: "the first may take that long; but the other one may be faster than predicted",
          10.0: "it may be a tenth faster; and the first a tenth slower",
          10.8: "a tenth of 9 s, twice? the other's tenth is of its own prediction"}),
    "1.1 over 0.9 times the least",
)

same_error = question(
    "pause-same-error",
    "All products take 20 % longer than predicted, on every layout. Two layouts have the same "
    "products. What becomes of the difference of their times?",
    Chosen("difference", "it stays", {
        "it grows by 20 %": "which part of the difference are products?",
        "it may change its sign": "the same number of seconds is added to both"}),
    "what two layouts have in common cancels, and so do its errors",
)

what_five_say = question(
    "pause-what-five-say",
    "Of two layouts of one width sums are 9 and 10 % of the step, of two others of unlike widths 5 "
    "and 20 %. All four times are off by 1 %. Which pair tells more of the sums?",
    Chosen("pair", "the unlike one", {
        "the one of one width": "how much of their difference is sums, and how much error?",
        "both alike": "a difference of 15 per cent, or of one: which drowns in the error?"}),
    "what differs most is seen best",
)

which_trials = question(
    "pause-which-trials",
    "Two causes are in doubt. Three layouts have been timed; the first cause has the same share of "
    "the step in all three, and so has the second. How many equations are these, errors aside?",
    Asked("equations", 1, slips={
          3: "divide each by its step: what is different then?",
          2: "two unknowns need two; do these three layouts say two things?"}),
    "the same shares, the same equation: a fourth layout must be unlike them",
)

whose_core = question(
    "pause-whose-core",
    "Four ranks on two cores are a pipeline of four equal stages, and the whole batch is one "
    "micro-batch. How many of the two cores compute on average?",
    Asked("cores", 1, slips={
          2: "which other rank has something to do?",
          0.5: "the rank that works has a core to itself",
          0.25: "there are two cores, and one rank that works"}),
    "one rank works at any time, at full pace: as fast as on four cores, and no faster",
)

which_program = question(
    "pause-which-program",
    "A plan has ZeRO's first stage and eight pipeline stages. Which of the three programs above "
    "can say both in its file?",
    Chosen("program", "megatron", {
        "torchtitan": "what does its list say of ZeRO's first stage?",
        "deepspeed": "where does its list say that the pipeline is built?"}),
    "a plan is worth what the program that runs it can say",
)

what_a_script_sends = question(
    "pause-what-a-script-sends",
    "The script is changed to reshard nothing after its forward passes, so that the backward pass "
    "finds all weights. How many of the three rows of collectives are left?",
    Asked("rows", 2, slips={
          3: "who would gather what is there already?",
          1: "the forward pass must gather, and gradients are still scattered"}),
    "the second gathering goes, and its bytes are held instead",
)

plan_and_batch = question(
    "pause-plan-and-batch",
    "A plan for 2,048 sequences a step is 10 % faster per sequence than one for 1,024. The larger "
    "batch needs 25 % more sequences to the same loss. How many times as long is the run with it?",
    Asked("times", 1.25 / 1.1, slips={
          1.25 * 1.1: "faster per sequence: divide",
          1 / 1.1: "and the additional sequences?",
          1.1 / 1.25: "the other way round"}),
    "what a step gains the run may lose",
)

younger_software = question(
    "pause-younger-software",
    "A new version of a library starts its kernels twice as fast. Which layouts become better "
    "beside the others?",
    Chosen("layouts", "wide ones with small micro-batches", {
        "narrow ones with large micro-batches": "who was waiting for the host there?",
        "all alike": "the host's time counts only where it is the longer one"}),
    "those whose kernels were short",
)

ask_which_layouts = question(
    "ask-which-layouts-are-left",
    "A model has 30 layers and a batch 96 sequences; 64 GPUs, one sequence at a time, no "
    "interleaving. Which of tp = 8, pp = 8, tp = 2 x pp = 32 and dp = 64 cannot be, if stages may "
    "be uneven and 8 divides the heads?",
    Chosen("layout", "both pp = 32 and dp = 64", {
        "pp = 8": "stages may be uneven",
        "pp = 32 alone": "64 replicas and 96 sequences: how many has each?",
        "dp = 64 alone": "32 stages of 30 layers: what does the last one have?"}),
    "a stage without a layer, and replicas without a whole number of sequences",
)

ask_when_an_order_turns = question(
    "ask-when-an-order-turns",
    "A takes 20 s, of which 4 s are sums; B takes 21 s, of which 2 s are sums. By which factor "
    "must sums be slower than predicted for B to be as fast?",
    Asked("factor", 1.5, slips={
          1.25: "B's sums become slower, too",
          1.05: "that is B over A",
          0.5: "count from 1"}),
    "one second of difference, two seconds of sums",
)

ask_which_to_time = question(
    "ask-which-to-time",
    "You doubt the network between nodes. You can time three layouts. Which?",
    Chosen("layouts", "some that send little between nodes and some that send much", {
        "the first three of the plan": "if they send alike, what does their difference say?",
        "the three that send most": "how would you tell the network from everything else?"}),
    "trials differ where the doubt is",
)
