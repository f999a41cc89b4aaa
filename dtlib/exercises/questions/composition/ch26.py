"""Quick questions of chapter 26, Failures and checkpoints."""

import math

from dtlib.composition import failure_shares, restarting_multiplier
from dtlib.composition.checkpoint.boxes import boxes_of_run, common
from dtlib.exercises.declarations.numbers import Asked, Chosen
from dtlib.exercises.declarations.question import question
from dtlib.foundations import retried_time, young_interval

# fmt: off
_SWITCHES = failure_shares({"GPU": (1000, 40e3), "switch": (100, 20e3)})["switch"]
_AS_LONG = retried_time(piece=1, restart_time=0, mtbf=1)
_NOTHING_ELSE = 1 / restarting_multiplier(1e-6, write_time=0, restart_time=10, mtbf=20)
_STATE = 8e12

who_is_to_blame = question(
    "pause-who-is-to-blame",
    "A job needs 1,000 GPUs with a mean life of 40,000 hours each, and 100 switches with a mean "
    "life of 20,000 hours. Which share of the failures is due to the switches?",
    Asked("share", _SWITCHES, slips={
          1 / 11: "that is their share of the parts; each of them fails twice as often",
          2 / 3: "per part a switch fails twice as often; and how many are there?",
          0.2: "that is switches over GPUs; over all, please"}),
    "0.005 failures an hour of 0.03 in all",
)

restarts_that_fail = question(
    "pause-restarts-that-fail",
    "A restart takes as long as the mean time between failures, and one that is interrupted begins "
    "anew. How many mean times is it until the job works again?",
    Asked("mean times", _AS_LONG, slips={
          1: "a restart succeeds at once with probability 1/e only",
          math.e: "of e attempts on average the last one succeeds; what do the others last?",
          2: "exactly, by step 1: exp(R / mu) - 1"}),
    "e - 1: restarts are work in one piece",
)

writes_for_nothing = question(
    "pause-writes-for-nothing",
    "Writes cost nothing, so a job saves all the time and loses no work. Failures come every 20 "
    "minutes on average, and a restart takes 10. Which share of the time is work?",
    Asked("share", _NOTHING_ELSE, slips={
          0.5: "it works for 20 minutes and restarts for 10, and restarts fail, too",
          2 / 3: "that is 20 of 30 minutes; but restarts fail, too",
          1 - _NOTHING_ELSE: "that is what is lost"}),
    "exp(-R / mu), whatever is done about writes",
)

shorter_than_the_lag = question(
    "pause-shorter-than-the-lag",
    "A save copies for 2 s, and arrives 25 s after the run has gone on. The run saves after every "
    "20 s of work. For how many seconds does each save wait for the one before it?",
    Asked("seconds", 25 - 20, slips={
          25: "of these the run has worked for 20",
          7: "the copy of the new save has not begun, that of the old one is over",
          0: "is the save before it there when the next one is due?"}),
    "the interval is then 27 s long at least, however often it is asked for",
)

several_writes_at_once = question(
    "pause-several-writes-at-once",
    "Let three checkpoints be on their way at all times, each of which takes three intervals. "
    "Again no failure may lose more than five minutes. What must the storage take in?",
    Asked("bandwidth", 4 * _STATE / 300, "bytes/s", {
          2 * _STATE / 300: "an interval and the three of its way fit into five minutes",
          _STATE / 100: "the worst failure loses one interval more than those on the way",
          6 * _STATE / 300: "how long is an interval if four fit into five minutes?"}),
    "an interval is 75 s now: to write in parallel is worse",
)

four_copies = question(
    "pause-four-copies",
    "A rank's state has n bytes, and each node has one rank. Not counting the state that it trains "
    "on, how many times n bytes does a node keep at most while the states of a new step arrive?",
    Asked("n", 4, slips={
          2: "its own and another's, of one step; and the old ones?",
          1: "it keeps its own as well: the step at which all meet",
          3: "two of the old step, and how many of the new?"}),
    "two of the old step, which may go only when all have the two of the new",
)

lost_with_its_buddy = question(
    "pause-lost-with-its-buddy",
    "Eight nodes stand in a ring, and each keeps its state at the next. Two of them are lost at "
    "once, any two as likely as any other. With which probability must the disk help?",
    Asked("probability", 8 / math.comb(8, 2), slips={
          1 / 7: "given one of the two, which nodes must the other not be?",
          1 / 4: "any two of eight: how many pairs are there?",
          1 / 28: "how many of the pairs are neighbours?",
          1 - 8 / math.comb(8, 2): "that is with which probability both come back"}),
    "8 of the 28 pairs are neighbours; had they buddies two by two, 4 would be",
)

how_many_spares = question(
    "pause-how-many-spares",
    "How many nodes are in repair at a time, on average?",
    Asked("nodes", 48 * 2, slips={
          48: "each stays for two days", 24: "each stays for two days",
          12500: "that is the nodes of the job"}),
    "what comes in a day, times how many days it stays",
)

ten_and_ten = question(
    "pause-ten-and-ten",
    "A run of 20 steps is resumed after 10, without the cursor of its data. Of its 20 batches, how "
    "many different ones has it seen?",
    Asked("batches", 10, slips={
          20: "where does the resumed run begin to read?",
          0: "it does read, but which batches?"}),
    "the first ten, twice: and the loss on them looks well",
)

boxes_of_a_line = question(
    "pause-boxes-of-a-run",
    "A matrix has 100 rows of 10 numbers, flattened row by row. How many boxes are the numbers "
    "from 37 to the last?",
    Asked("boxes", len(list(boxes_of_run((100, 10), 37, 1000))), slips={
          3: "does the run end within a row?",
          1: "it begins within a row", 97: "whole rows are one box"}),
    "the rest of a row, and whole rows: the run ends with one",
)

who_reads_what = question(
    "pause-who-reads-what",
    "A dimension of 24 lies on 4 ranks and is read by 3. How many old parts does each new one "
    "read?",
    Asked("parts", sum(common(((8, 16),), ((6 * old, 6 * old + 6),)) is not None
                       for old in range(4)), slips={
          1: "a part of 8 from parts of 6", 4: "which old parts have none of 8 to 15?",
          1.5: "those are the parts' lengths; how many files must it open?"}),
    "0 to 7 is in two parts, and so are 8 to 15 and 16 to 23",
)

checksum_of_theirs = question(
    "pause-checksum-of-theirs",
    "In a file that DCP has written one bit of a weight is flipped. What does its loader say?",
    Chosen("it says", "nothing", {
           "that a checksum differs": "which number in the metadata could have told it?",
           "that the file is too short": "it has as many bytes as before"}),
    "a wrong number is as good a number as any other",
)

overwritten_in_place = question(
    "pause-overwritten-in-place",
    "A job works for 300 s and then overwrites its one checkpoint in 30 s. A failure comes at a "
    "random moment. With which probability is there no whole checkpoint?",
    Asked("probability", 30 / 330, slips={
          0.1: "a round is the work and the write",
          0: "what is on the disk in the middle of a write?",
          0.5: "how much of a round is the write?"}),
    "one round in eleven is the write: and then all work since the start is lost",
)

which_byte = question(
    "pause-which-byte",
    "A weight lies in float32. Each of its 32 bits is as likely to flip as any other. With which "
    "probability would a check for infinite or undefined numbers notice nothing of it, if the "
    "weight is 1.0?",
    Asked("probability", 31 / 32, slips={
          1 / 32: "that is with which probability it would notice",
          24 / 32: "one flipped bit of the exponent of 1.0 seldom makes it all ones",
          0: "only one of 32 bits makes 1.0 infinite"}),
    "only the highest bit of the exponent makes 1.0 infinite; a checksum sees all 32",
)

mean_of_three_rows = question(
    "pause-mean-of-three-rows",
    "The twelve sequences go on five ranks: three, three, two, two and two. By which weight must "
    "the mean gradient of a rank with three sequences be multiplied before the sum?",
    Asked("weight", 3 / 12, slips={
          0.2: "a mean of means counts the sequences of small shares more",
          1 / 3: "that turns its sum into its mean; it has done so already",
          3: "the sum of all weights must be 1"}),
    "each sequence counts a twelfth, so three count a quarter",
)

all_or_none = question(
    "pause-all-or-none",
    "Four replicas are the quorum of a step. One dies when all have the sum of the gradients, and "
    "before it has voted. For how many of the other three does the step count?",
    Asked("replicas", 0, slips={
          3: "they have the sum, but one vote is missing: how could they tell this from a death "
             "within the sum?",
          4: "one of them is dead",
          2: "a step counts for all of them or for none"}),
    "for none: a vote is missing, so the three do the step again",
)

steps_in_vain = question(
    "pause-steps-in-vain",
    "A job saves after every fifth step, and a failure cuts its ninth step short. How many of the "
    "steps that it has tried does it do again?",
    Asked("steps", 9 - 5, slips={
          3: "and the one that was cut short?",
          9: "it does not begin at the beginning",
          1: "so it would be if all others kept their state"}),
    "the sixth to the ninth: a quorum would do one of them again",
)

bugs_and_buddies = question(
    "pause-bugs-and-buddies",
    "A bug stops all nodes at once, and then no copy in memory is left. If all other interruptions "
    "of the published table could be undone from a buddy, which share could not?",
    Asked("share", 54 / 419, slips={
          54 / 365: "of all interruptions, the bugs included",
          1 - 54 / 419: "that is what a buddy can undo",
          6 / 419: "those are the silent ones; how many rows are bugs?"}),
    "54 of 419: so the writes to disk stay, and may be rarer",
)

ask_half_the_life = question(
    "ask-half-the-life",
    "The job of a cluster saves at Young's interval, every 10 minutes. The cluster grows to four "
    "times as many GPUs of the same kind; a write takes as long as before. How many minutes now?",
    Asked("minutes", 10 * young_interval(30, 0.25) / young_interval(30, 1), slips={
          2.5: "the mean time is a quarter; what does the root make of that?",
          20: "failures come more often now",
          10: "the interval depends on the mean time between failures"}),
    "the root of a quarter",
)

ask_what_a_manifest_is_for = question(
    "ask-what-a-manifest-is-for",
    "A writer dies between two of the eight files of a checkpoint. What tells a loader so?",
    Chosen("sign", "no manifest", {
           "a checksum": "every file that is there is whole",
           "the time of the files": "clocks of eight machines say nothing about completeness",
           "a missing file": "how would it know that there should be eight?"}),
    "the manifest is written when all else is safe: without it there is no checkpoint",
)

ask_which_is_dearer = question(
    "ask-which-is-dearer",
    "Failures come every 30 minutes. You can make the restart 5 minutes shorter, or each write 5 "
    "seconds shorter than its 30. Which saves more of the time?",
    Chosen("buy", "restart", {
           "write": "5 minutes of every 30 or so, against the root of a sixth",
           "the same": "compare what each is per failure"}),
    "a restart is paid in full for each failure",
)
