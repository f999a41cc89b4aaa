"""Every check of chapter 22: the solution passes; the stub, wrong answers and dtlib's own fail."""

from fractions import Fraction

import numpy as np
import pytest
from exercise_cases import Case, EveryExercise

from dtlib.exercises import NotYet, check
from dtlib.exercises.chapter_22 import _fetches, _fewest
from dtlib.memory import hiding_lookahead, simulate_offload, streamed, streamed_layer_time

LAYER = (4.375 / 80, 0.025)
SHARES = (100 / 185, 100 / 105, 100 / 101, 0.0)
NEEDED = (400e12 / (24 * 4096), 400e12 / 8192, 400e12 / 2048, {"act", "weights"})
ADAM = (2 * 14 / 64 + 196 / 250, 196 / 250, 210 / 250)
PACKED = (10 / 7, 10 / 10.5 + 5, 10 / 10.5 + 0.2, 5.0, 10 / 7 + 0.2)
PLAN = {"a": 8e12, "b": False, "c": 12e12 / 28e9, "d": 1e12 / 256e9, "e": 2e12 / 256e9}


def layer_time(compute, fetch, latency, buffers):
    return max(compute, fetch, (fetch + latency + compute) / buffers)


def printed_layer_time(compute, fetch, latency, buffers):
    return max(compute, (fetch + latency) / (buffers - 1))


def swap(store, x, use):
    store.put("x", x).wait()
    use(x)
    store.get("x", into=x).wait()
    return x


def swap_without(*forgotten):
    def swapped(store, x, use):
        leaving = store.put("x", x.clone() if "memory" in forgotten else x)
        if "first" not in forgotten:
            leaving.wait()
        if "use" not in forgotten:
            use(x.clone() if "other" in forgotten else x)
        coming = store.get("x", into=x)
        if "second" not in forgotten:
            coming.wait()
        return x.clone() if "place" in forgotten else x

    return swapped


def swap_beside(store, x, use):
    store.put("x", x).wait()
    use(x)
    return x.copy_(store.get("x").wait())


def swap_by_hand(store, x, use):
    kept = x.clone()
    use(x)
    return x.copy_(kept)


def least(compute, fetch, latency):
    return -(-(latency + fetch + compute) // max(compute, fetch)) - 1


def victim(here, coming):
    return max(here, key=lambda i: coming.index(i) if i in coming else len(coming))


def least_recently_here(here, coming):
    return here[0]


def used_soonest(here, coming):
    return min(here, key=lambda i: coming.index(i) if i in coming else len(coming))


def never_again_is_now(here, coming):
    return max(here, key=lambda i: coming.index(i) if i in coming else -1)


def stream(store, keys, work, lookahead, *, slip=""):
    ahead = {"serial": 0, "greedy": lookahead + 1}.get(slip, lookahead)
    coming = {key: store.get(key) for key in keys[: ahead + 1]}
    leaving = []
    order = list(reversed(keys)) if slip == "reversed" else keys
    for i, key in enumerate(order):
        if slip == "eager" and i + 1 < len(keys):
            coming[keys[i + 1]].wait()
        if slip == "reversed":
            coming.setdefault(key, store.get(key))
        done = work(coming.pop(key).wait())
        if slip == "late":
            leaving.append((key, done))
        elif slip != "never":
            transfer = store.put(key, done)
            leaving.append(transfer)
            if slip == "blocking":
                transfer.wait()
        for later in keys[i + ahead + 1 : i + ahead + 2]:
            coming[later] = store.get(later)
    for transfer in leaving:
        if slip == "late":
            store.put(*transfer).wait()
        elif slip != "gone":
            transfer.wait()


def streaming(slip):
    return lambda store, keys, work, lookahead: stream(store, keys, work, lookahead, slip=slip)


def flushed(store, keys, work, lookahead):
    stream(store, keys, work, lookahead, slip="gone")
    store.flush()


def by_the_library(store, keys, work, lookahead):
    for turn in streamed(store, keys, lookahead, back=True):
        turn.tensor = work(turn.tensor)


CASES = {
    "ex-seventy-billion-streamed": Case(
        solution=(4.375, LAYER, 2.1875),
        wrong=[
            ((2.1875, LAYER, 2.1875), "two bytes"),
            ((8.75, LAYER, 2.1875), "forward and a backward"),
            ((4.375, (54.6875, 25), 2.1875), "in seconds"),
            ((4.375, LAYER, 2), "is that enough"),
            ((4.375, LAYER, 1 / 2.1875), "other way up"),
        ],
        secret=[4.375, 4.375 / 80, 2.1875],
    ),
    "ex-what-is-left-to-hide": Case(
        solution=SHARES,
        wrong=[
            ((100 / 180, *SHARES[1:]), "meeting takes its time"),
            ((SHARES[0], 100 / 185, *SHARES[2:]), "only the longer one"),
            ((SHARES[0], 1, *SHARES[2:]), "not hidden"),
            ((*SHARES[:2], 1, 0), "short meeting"),
            ((*SHARES[:3], 0.04), "longer one"),
            ((*SHARES[:3], "0"), "must be a number"),
            ((54.05, 95.2, 99, 0), "not in percent"),
        ],
        secret=list(SHARES[:3]),
    ),
    "ex-who-leaves-first": Case(
        solution=NEEDED,
        wrong=[
            ((NEEDED[0] * 2, *NEEDED[1:]), "written and read"),
            ((NEEDED[0] * 24 / 18, *NEEDED[1:]), "computed twice"),
            ((NEEDED[0] / 1e9, *NEEDED[1:]), "bytes a second"),
            ((*NEEDED[:2], NEEDED[2] / 2, NEEDED[3]), "read and written"),
            ((NEEDED[0], 989e12 / 8192, *NEEDED[2:]), "not at the peak"),
            ((*NEEDED[:3], {"act"}), "compare each"),
            ((*NEEDED[:3], {"act", "weights", "optim"}), "compare each"),
            ((*NEEDED[:3], ["act"]), "must be a set"),
        ],
        secret=list(NEEDED[:3]),
    ),
    "ex-third-buffer": Case(
        solution=layer_time,
        wrong=[
            (printed_layer_time, "raises ZeroDivisionError"),
            (lambda c, t, a, b: max(c, t), "what of the latency"),
            (lambda c, t, a, b: max(c, (t + a) / b), "share the lane"),
            (lambda c, t, a, b: max(c, t, (t + a) / b), "is computed, too"),
            (lambda c, t, a, b: max(c, t, (c + t + a) / (b + 1)), "included"),
            (lambda c, t, a, b: max(c, t + a), "free for others"),
            (lambda c, t, a, b: max(c, (c + t + a) / b), "outruns the lane"),
            (lambda c, t, a, b: 80, "the result"),
            (lambda c, t, a, b: streamed_layer_time(c, t, a, b - 1), "library's own"),
        ],
    ),
    "ex-adam-on-the-host": Case(
        solution=ADAM,
        wrong=[
            ((0.4375, *ADAM[1:]), "processor needs its time"),
            ((14 / 64 + 196 / 250, *ADAM[1:]), "must come back"),
            ((ADAM[0], 0.4375, ADAM[2]), "two lanes"),
            ((ADAM[0], ADAM[0], ADAM[2]), "one after the other"),
            ((*ADAM[:2], ADAM[1]), "reads more now"),
            ((*ADAM[:2], 28 / 64), "the slowest, now"),
        ],
        secret=list(ADAM),
    ),
    "ex-pack-it": Case(
        solution=PACKED,
        wrong=[
            ((PACKED[0], 10 / 10.5, *PACKED[2:]), "unpacking takes"),
            ((PACKED[0], 10 / 7 + 5, *PACKED[2:]), "fewer bytes come"),
            ((PACKED[0], 10 / 10.5 + 10 / 3, *PACKED[2:]), "comes out"),
            ((*PACKED[:2], 10 / 10.5, *PACKED[3:]), "even a fast codec"),
            ((*PACKED[:3], PACKED[1], PACKED[4]), "overlap"),
            ((*PACKED[:3], 10 / 10.5, PACKED[4]), "which of the two"),
            ((*PACKED[:4], PACKED[2]), "noise does not pack"),
            ((*PACKED[:4], 10 / 7), "still be unpacked"),
        ],
        secret=list(PACKED),
    ),
    "ex-half-a-trillion": Case(
        solution=PLAN,
        wrong=[
            (PLAN | {"a": 6e12}, "weights and gradients"),
            (PLAN | {"b": True}, "leave the host"),
            (PLAN | {"b": 0}, "True or False"),
            (PLAN | {"c": 6e12 / 28e9}, "written back"),
            (PLAN | {"d": 1e12 / 32e9}, "eight links"),
            (PLAN | {"e": PLAN["d"]}, "backward pass needs"),
            ({"a": 8e12}, "keys a, b, c, d, e"),
        ],
        stub=dict.fromkeys("abcde", ...),
        secret=[8e12, PLAN["c"], PLAN["d"], PLAN["e"]],
    ),
    "ex-two-waits": Case(
        solution=swap,
        wrong=[
            (swap_without("first"), "was changed while it was on its way"),
            (swap_without("second"), "before its contents were back"),
            (swap_without("first", "second"), "before its contents were back|on its way"),
            (swap_without("memory"), "is a copy"),
            (swap_without("first", "memory"), "is a copy"),
            (swap_without("use"), "called 0 times"),
            (swap_without("other"), "given x itself"),
            (swap_without("place"), "in the memory in which it was"),
            (swap_beside, "into x itself"),
            (swap_by_hand, "nothing was sent"),
        ],
    ),
    "ex-least-lookahead": Case(
        solution=least,
        wrong=[
            (lambda c, t, a: -(-t // c), "does not hide a slow lane"),
            (lambda c, t, a: -(-(a + t) // c), "faster than the lane"),
            (lambda c, t, a: least(c, t, a) + 1, "that many buffers"),
            (lambda c, t, a: (a + t + c) // max(c, t) - 1, "rounded down"),
            (lambda c, t, a: -(-a // max(c, t)), "fetched and computed"),
            (lambda c, t, a: 1, "more than one"),
            (lambda c, t, a: least(c, t, a) + (a > 50), "less would do"),
            (lambda c, t, a: least(c, t, a) - (a > 50), "more would be faster"),
            (lambda c, t, a: 1.5, "whole number"),
            (lambda c, t, a: hiding_lookahead(c, t, a), "library's own"),
            (lambda c, t, a: len(simulate_offload(3, c, t).stop), "library's own"),
        ],
    ),
    "ex-farthest-use": Case(
        solution=victim,
        wrong=[
            (least_recently_here, "a loop of five layers"),
            (used_soonest, "fewer would do"),
            (never_again_is_now, "fewer would do"),
            (lambda here, coming: here[-1], "fewer would do"),
            (lambda here, coming: coming[0], "is not among those"),
            (lambda here, coming: max(here, key=coming.index), "raises ValueError"),
        ],
    ),
    "ex-the-loop": Case(
        solution=stream,
        also_right=[flushed],
        wrong=[
            (streaming("serial"), "too few have been asked for"),
            (streaming("greedy"), "too many have been asked for"),
            (streaming("eager"), "before its turn"),
            (streaming("blocking"), "until the one before is back"),
            (streaming("late"), "not on its way back"),
            (streaming("never"), "not on its way back"),
            (streaming("gone"), "may not be back"),
            (streaming("reversed"), "something else"),
            (by_the_library, "library's own"),
        ],
    ),
}


class TestEveryExercise(EveryExercise):
    cases = CASES


def test_the_repaired_law_is_the_simulation():
    for c, t, a in ((50, 80, 0), (80, 50, 0), (50, 40, 100), (8, 5, 20)):
        for buffers in (1, 2, 3, 5):
            run = simulate_offload(60 * buffers, c, t, alpha=a, lookahead=buffers - 1)
            law = layer_time(*map(Fraction, (c, t, a, buffers)))
            assert run.layer_time(20 * buffers) == law


def test_the_least_lookahead_is_the_least_that_the_simulation_needs():
    for c, t, a in ((5, 8, 0), (8, 5, 3), (8, 5, 4), (3, 3, 17)):
        k = least(c, t, a)
        took = [
            simulate_offload(60 * (n + 1), c, t, alpha=a, lookahead=n).layer_time(20 * (n + 1))
            for n in (k - 1, k, k + 3)
        ]
        assert took[0] > took[1] == took[2] == max(c, t)


def test_the_farthest_use_is_best_where_the_least_recent_one_is_worst():
    loop = [*range(5)] * 3
    assert _fewest(tuple(loop), 3) == _fetches(victim, loop, 3)
    assert _fetches(least_recently_here, loop, 3) == len(loop)


def test_numbers_and_truth_values_of_numpy_are_answers_too():
    check("ex-half-a-trillion", PLAN | {"b": np.bool_(False)})
    check("ex-what-is-left-to-hide", (*SHARES[:3], np.int64(0)))


def test_a_victim_that_knows_only_the_page_s_sequences_is_refused():
    def learned(here, coming):
        return victim(here, coming) if len(coming) > 9 else here[0]

    with pytest.raises(NotYet):
        check("ex-farthest-use", learned)
