"""The all-reduce builder: its rules are the checker's, its costs the library's, on any schedule."""

import random
from fractions import Fraction

import pytest
from page import opened
from scripts import FOLDER, Scripts

from dtlib.collectives import Schedule, Send, Switch, check_all_reduce, schedule_time, states
from dtlib.collectives.check import ScheduleError
from dtlib.drawing.svg import called
from dtlib.explore import AllReduceBuilder
from dtlib.explore.all_reduce_builder.all_reduce_builder import KNOWN, LEVELS, built_schedule
from dtlib.explore.stepper.stepper import without

ALPHA, BETA = 10e-6, 50e9
ONE, RING, PAIRS = 0, 1, 2
ALL = [0, 1, 2, 3]
# One drag a round, for everybody: (mode, from, to, chunks). The first level's rounds have several.
SOLUTIONS = [
    [[(ONE, r, 0, ALL) for r in (1, 2, 3)], [(ONE, 0, r, ALL) for r in (1, 2, 3)]],
    [[(RING, 0, 1, [chunk])] for chunk in (3, 2, 1, 0, 3, 2)],
    [[(PAIRS, 0, 1, ALL)], [(PAIRS, 0, 2, ALL)]],
    [[(PAIRS, 0, 2, [2, 3])], [(PAIRS, 0, 1, [1])], [(PAIRS, 0, 1, [0])], [(PAIRS, 0, 2, [0, 1])]],
    [[(PAIRS, 0, 4, [4, 5, 6, 7])], [(PAIRS, 0, 2, [2, 3])], [(PAIRS, 0, 1, [1])],
     [(PAIRS, 0, 1, [0])], [(PAIRS, 0, 2, [0, 1])], [(PAIRS, 0, 4, ALL)]],
]  # fmt: skip


def builder(**options) -> AllReduceBuilder:
    return AllReduceBuilder(title="Build it", alpha=ALPHA, beta=BETA, **options)


@pytest.fixture(scope="module")
def js():
    return Scripts("stepper/model.js", "all_reduce_builder/model.js")


# Rounds of sends tried one by one: what is refused, and what remains.
PLAY = """((P, tried) => {
  const [rounds, refused] = [[], []];
  let held = ownParts(P);
  for (const candidates of tried) {
    const sends = [];
    for (const send of candidates) {
      const again = sends.some((other) => other.join() === send.join());
      if (again) continue;
      if (faultsOf(held, [...sends, send]).length) refused.push([rounds.length, [...sends], send]);
      else sends.push(send);
    }
    if (!sends.length) continue;
    rounds.push(sends);
    held = afterRound(held, messagesOf(held, sends));
  }
  const { states, messages } = playedRounds(P, rounds);
  const cost = { n: 1e6, alpha: 1e-5, beta: 50e9 };
  return {
    rounds, refused, states, messages, seconds: timeOf(P, messages, cost),
    latencies: latenciesOf(P, messages), buffers: buffersOf(P, messages),
    unused: unusedIn(P, messages), finished: isFinished(states[states.length - 1]),
  };
})(P, tried)"""


def tried(rng: random.Random, P: int) -> list:
    """Sends that a reader might try: single chunks and runs of them, round by round."""
    rounds = []
    for _ in range(rng.randint(4, 5 * P)):
        candidates = []
        for _ in range(rng.randint(1, 3 * P)):
            src, dst = rng.sample(range(P), 2)
            first, count = rng.randrange(P), rng.choice((1, 1, 2, P))
            candidates += [[src, dst, c] for c in range(first, min(P, first + count))]
        rounds.append(candidates)
    return rounds


SEEDS = range(40)  # of each, five schedules


def schedules(js, seed):
    """What the page says of five random schedules, and the library's reading of each."""
    rng = random.Random(seed)
    for P in (2, 3, 4, 4, 8):
        found = js(PLAY, P=P, tried=tried(rng, P))
        yield P, found, built_schedule(P, [[sends] for sends in found["rounds"]]), rng


def compare(js, seed):
    for P, found, schedule, rng in schedules(js, seed):
        messages = [sorted([*map(int, send)] for send in round) for round in schedule]
        assert messages == [sorted(round) for round in found["messages"]]
        assert [state.tolist() for state in states(schedule)] == found["states"]
        assert found["latencies"] == time_of(schedule, 0, 1, 1)
        chunks = time_of(schedule, Fraction(P), 0, 1)
        assert found["buffers"] == pytest.approx(float(chunks / P), rel=1e-12)
        assert found["seconds"] == pytest.approx(time_of(schedule, 1e6, ALPHA, BETA), rel=1e-12)
        if found["finished"]:
            wasted = f"unused {found['unused']}" if found["unused"] else "right"
            assert verdict(schedule) == wasted
        else:
            assert verdict(schedule) == "unfinished"
        for t, sends, refused in rng.sample(found["refused"], min(6, len(found["refused"]))):
            rounds = [[one] for one in found["rounds"][:t]]
            wrong = built_schedule(P, [*rounds, [[*sends, refused]]])
            assert verdict(wrong) == "goes wrong", (rounds, sends, refused)


@pytest.mark.parametrize("seed", SEEDS)
def test_on_random_schedules_the_page_judges_and_counts_as_the_library_does(js, seed):
    compare(js, seed)


def time_of(schedule, n, alpha, beta):
    return schedule_time(schedule, n, Switch(schedule.P, alpha, beta))


def verdict(schedule) -> str:
    """What the checker says, in a word."""
    try:
        check_all_reduce(schedule)
    except ScheduleError as error:
        headline = str(error).splitlines()[0]
        if "goes wrong" in headline:
            return "goes wrong"
        unused = [p for p in error.problems if "never used" in p.what]
        return f"unused {len(unused)}" if unused else "unfinished"
    return "right"


def test_random_schedules_are_of_every_sort(js):
    """Right, wasteful, unfinished: otherwise the comparison would compare little."""
    found = [found for seed in SEEDS for _, found, *_ in schedules(js, seed)]
    finished = [one for one in found if one["finished"]]
    assert 20 < len(finished) < len(found) - 20
    assert {one["unused"] > 0 for one in finished} == {True, False}
    assert all(one["refused"] for one in found if len(one["states"][0]) > 2)


LIES = {
    "a part counts twice": ("return twice.length ?", "return false ?"),
    "a copy meets another message": ("if (others)", "if (false)"),
    "what leaves may be replaced": ("return leaving.has(place) ?", "return false ?"),
    "what is known is sent again": ("if (covers(here, news))", "if (false)"),
    "ports cost nothing": ("alpha + count * each", "alpha"),
    "neighbours go apart": ("first + count === chunk", "false"),
    "all that is sent is used": ("if (!reduce) wanted", "if (false) wanted"),
}


@pytest.mark.parametrize(("right", "wrong"), LIES.values(), ids=LIES)
def test_sabotage_a_page_with_another_rule_is_noticed(right, wrong):
    lying = Scripts("stepper/model.js")
    model = (FOLDER / "all_reduce_builder" / "model.js").read_text(encoding="utf-8")
    assert model.count(right) == 1
    lying.context.eval(model.replace(right, wrong))
    with pytest.raises(AssertionError):
        for seed in SEEDS:
            compare(lying, seed)


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.label)
@pytest.mark.parametrize("P", [4, 8])
def test_a_known_algorithm_is_the_library_s_and_costs_what_its_formula_says(js, known, P):
    one = builder().spec["known"][KNOWN.index(known)]
    sends = js("playedRounds(P, rounds).messages", P=P, rounds=one["rounds"][str(P)])
    parts = P // known.build(P).chunks
    theirs = [
        sorted([int(s.src), int(s.dst), int(s.chunk) * parts, int(s.reduce), int(s.count) * parts]
               for s in round)
        for round in known.build(P)
    ]  # fmt: skip
    assert [sorted(round) for round in sends] == theirs
    for n in (1e4, 1e9):
        value = {"n": n, "alpha": ALPHA, "beta": BETA}
        seconds = js("timeOf(P, sends, cost)", sends=sends, cost=value)
        assert seconds == pytest.approx(known.time(P=P, **value), rel=1e-12)
        assert seconds == pytest.approx(time_of(known.build(P), n, ALPHA, BETA), rel=1e-12)


# The reader's changes, one after the other, and what is seen after each.
READ = """((spec, changes) => {
  const parts = { changed, player: { name: "done" } };
  const seen = [];
  changes.reduce((state, change) => {
    const next = { ...state, ...entailed(parts, spec, state, change) };
    seen.push({ ...view(spec, next), state: next });
    return next;
  }, startOf(parts, spec));
  return seen;
})(spec, changes)"""


def read(changes, widget=None) -> list[dict]:
    widget = widget or builder()
    script = widget._esm.replace("export default widget(", "const drawing = widget(")
    return called(script, READ, spec=widget.spec, changes=changes)


def moves(level: int) -> list[dict]:
    """What a reader does who knows the solution."""
    changes = [{"level": level}]
    for t, drags in enumerate(SOLUTIONS[level]):
        for mode, src, dst, chunks in drags:
            changes += [{"mode": mode}, {"held": None, "send": [src, dst, chunks]}]
        changes.append({"done": t + 1})
    return changes


@pytest.mark.parametrize("level", range(len(LEVELS)), ids=lambda i: LEVELS[i].name)
def test_every_level_s_solution_is_an_all_reduce_that_reaches_what_is_asked(level):
    seen = read(moves(level))
    assert [one["names"]["reached"] for one in seen] == [0] * (len(seen) - 1) + [1]
    last = seen[-1]
    schedule = eval(last["code"], {"Schedule": Schedule, "Send": Send})
    check_all_reduce(schedule)
    state = last["state"]
    assert schedule == built_schedule(LEVELS[level].P, state["rounds"])
    expected = builder().names(level=level, rounds=state["rounds"], done=state["done"])
    assert {name: last["names"][name] for name in expected} == pytest.approx(expected)
    assert state["solved"] == [level]
    assert last["said"].startswith("Everybody has everything, for ")
    assert "Nobody used" not in last["said"]


@pytest.mark.parametrize("level", range(len(LEVELS)), ids=lambda i: LEVELS[i].name)
def test_a_known_algorithm_appears_when_its_level_is_solved_and_plays(level):
    before, *_, last = read([*moves(level), {"plan": 2, "done": 0}, {"done": 3}])[-3:]
    assert [i for i, one in enumerate(before["plans"]["known"]) if one["open"]] == sorted(
        LEVELS[level].opens
    )
    assert not any(one["open"] for one in read([{"level": level}])[0]["plans"]["known"])
    ring = list(states(KNOWN[2].build(LEVELS[level].P)))
    assert last["held"] == ring[3].tolist()
    assert last["names"]["reached"] == 0
    assert last["actions"] == [["Back to yours", {"plan": None, "done": len(SOLUTIONS[level])}]]


def test_the_aims_are_the_bounds_and_the_algorithms_that_reach_them():
    by_name = {one.label: one for one in KNOWN}
    ring, doubling, halving = (by_name[name] for name in ("ring", "doubling", "halving"))
    asked = [(level.P, level.buffers, level.latencies) for level in LEVELS]
    assert asked == [(4, None, None), (4, 1.5, None), (4, None, 2), (4, 1.5, 4), (8, 1.75, 6)]
    for level, known in zip(LEVELS[1:], (ring, doubling, halving, halving), strict=True):
        schedule = known.build(level.P)
        cost = [time_of(schedule, 1, 0, 1), time_of(schedule, 0, 1, 1)]
        assert level.is_reached(True, *cost)
        assert not level.is_reached(False, *cost)
        fewer = [most - 1e-6 for most in cost]
        assert not level.is_reached(True, fewer[0] + 1, fewer[1] + 9)


def test_what_is_reached_with_a_message_fewer_is_no_all_reduce():
    """Sabotage: no message of a solution can be left out."""
    for level in range(len(LEVELS)):
        rounds = read(moves(level))[-1]["state"]["rounds"]
        schedule = built_schedule(LEVELS[level].P, rounds)
        with pytest.raises(ScheduleError):
            check_all_reduce(without(schedule, 0, 0))


def send(src, dst, chunks):
    return {"held": None, "send": [src, dst, chunks]}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([send(0, 1, [0]), {"done": 1}, send(1, 0, [0])], "ab takes the place of a"),
        ([send(0, 1, [0]), {"done": 1}, send(1, 0, [0]), send(1, 0, [0])], "on its way already"),
        ([send(0, 1, [0]), {"done": 1}, send(0, 1, [0])], "Nothing new: rank 1 has ab in chunk 0"),
        ([send(0, 1, [0]), send(1, 2, [0]), {"done": 1}, send(1, 2, [0])],
         "B would count twice: bc + ab in chunk 0"),
        ([send(0, 1, [0]), {"done": 1}, send(0, 2, [0]), send(1, 0, [0])], "Still in flight"),
        ([send(0, 1, [0]), {"done": 1}, send(1, 0, [0]), send(2, 0, [0])], "Two at once"),
        ([{"tap": [1, 2]}, {"tap": [1, 3]}], "Rank 1, chunks 2, 3: now tap the rank"),
        ([{"tap": [1, None]}], "Rank 1, everything"),
        ([{"tap": [1, None]}, {"tap": [0, 2]}], "Rank 1 to rank 0: b is added to a."),
        ([{"hinted": True}], "The plain way"),
        ([{"mode": 1}, send(0, 1, [3])], "4 messages at once"),
        ([send(0, 1, [0]), {"undo": True}], "Round 1: drag a chunk"),
    ],
)  # fmt: skip
def test_what_a_drag_comes_to_is_said_at_once(changes, said):
    seen = read(changes)[-1]
    assert said in seen["said"]
    refused = any(word in said for word in ("Nothing new", "twice", "flight", "Two at once"))
    assert bool(seen["wrong"]) == refused


def test_a_drag_that_is_refused_leaves_the_round_as_it_was_and_marks_both_letters():
    twice = [send(0, 1, [0]), send(1, 2, [0]), {"done": 1}, send(1, 2, [0])]
    before, after = read(twice)[-2:]
    assert after["state"]["rounds"] == before["state"]["rounds"]
    assert (after["wrong"]["twice"], after["wrong"]["send"]) == ([1], [1, 2, 0])


def test_a_hand_over_a_rank_is_answered_before_it_lets_go():
    hand = {"rank": 0, "chunk": 0, "chunks": [0], "moved": True, "over": 1, "x": 9, "y": 9}
    assert read([{"held": hand}])[0]["said"] == "Let go: rank 0 sends chunk 0 to rank 1."
    sent = read([send(0, 1, [0]), {"done": 1}, {"held": hand}])[-1]
    assert sent["wrong"]["what"] == "old"
    assert sent["said"].startswith("Nothing new")


def test_undo_takes_back_drags_and_then_rounds():
    changes = [send(0, 1, [0]), send(2, 3, [1]), {"done": 1}]
    seen = read([*changes, {"undo": True}, {"undo": True}, {"undo": True}, {"undo": True}])
    left = [
        (one["state"]["done"], [len(drags) for drags in one["state"]["rounds"]]) for one in seen
    ]
    assert left[2:] == [(1, [2]), (0, [2]), (0, [1]), (0, []), (0, [])]


# In a browser.

DESK = {"viewport": {"width": 1000, "height": 1000}, "reduced_motion": "reduce"}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def place(tab, rank: int, chunk: int | None):
    """The middle of a chunk, or of a rank's name."""
    name = f"rank {rank}" if chunk is None else f"rank {rank}, chunk {chunk}: "
    box = tab.locator(f'.dt-stage [aria-label^="{name}"]').first.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def dragged(tab, src, dst, chunk):
    tab.mouse.move(*place(tab, src, chunk))
    tab.mouse.down()
    tab.mouse.move(*place(tab, dst, 0 if chunk is None else chunk), steps=4)
    tab.mouse.up()


def pressed(tab, name):
    tab.get_by_role("button", name=name, exact=True).click()


def test_a_mouse_solves_the_level_of_bytes_the_ring_appears_plays_and_is_remembered(
    browser, tmp_path
):
    with opened(browser, tmp_path, builder(), **DESK) as tab:
        tab.get_by_label("Few bytes").check()
        tab.get_by_label("all, in a ring").check()
        assert not tab.get_by_role("button", name="▶ ring").is_visible()
        for t, chunk in enumerate((3, 2, 1, 0, 3, 2)):
            dragged(tab, 0, 1, chunk)
            pressed(tab, f"Run round {t + 1}")
        tab.wait_for_selector(".dt-task.is-met")
        assert tab.get_by_label("Few bytes ✓").is_checked()
        tab.locator(".dt-readout summary").click()
        schedule = eval(tab.locator("pre").inner_text(), {"Schedule": Schedule, "Send": Send})
        check_all_reduce(schedule)
        pressed(tab, "▶ ring")
        tab.wait_for_function("+document.querySelector('.dt-scrub').value > 0")
        assert tab.locator(".dt-task.is-met").count() == 0
        pressed(tab, "Back to yours")
        tab.wait_for_selector(".dt-task.is-met")
        pressed(tab, "Reset")
        assert tab.get_by_label("Few bytes ✓").is_checked()
        tab.reload()
        tab.wait_for_selector(".dt-stage svg")
        assert tab.get_by_label("Few bytes ✓").is_checked()
        assert tab.get_by_role("button", name="▶ ring").is_visible()


def test_a_finger_drags_and_taps_and_the_page_does_not_scroll(browser, tmp_path):
    with opened(browser, tmp_path, builder(), **PHONE) as tab:
        tab.locator(".dt-stage").scroll_into_view_if_needed()
        before = tab.evaluate("scrollY")
        touch = tab.context.new_cdp_session(tab)
        x, y = place(tab, 1, 0)
        to_x, to_y = place(tab, 0, 0)

        def finger(kind, *points):
            at = [{"x": px, "y": py} for px, py in points]
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": at})

        finger("touchStart", (x, y))
        for share in (0.3, 0.7, 1):
            finger("touchMove", (x + share * (to_x - x), y + share * (to_y - y)))
        finger("touchEnd")
        said(tab, "Rank 1 to rank 0: b is added to a.")
        assert tab.evaluate("scrollY") == before
        tab.touchscreen.tap(*place(tab, 2, 1))
        said(tab, "Rank 2, chunk 1: now tap the rank that is to get it.")
        tab.touchscreen.tap(*place(tab, 3, 3))
        said(tab, "Rank 2 to rank 3: c is added to d.")


def said(tab, words):
    tab.wait_for_function(
        "words => document.querySelector('.dt-summary').textContent.startsWith(words)", arg=words
    )


SMALL = """[...document.querySelectorAll(".dt-widget text")].map((one) =>
  [one.textContent, parseFloat(getComputedStyle(one).fontSize)]).filter(([, size]) => size < 11)"""


def test_on_a_phone_eight_ranks_have_their_letters_and_none_is_small(browser, tmp_path):
    with opened(browser, tmp_path, builder(), **PHONE) as tab:
        tab.get_by_label("Eight ranks").check()
        tab.wait_for_function("document.querySelectorAll('.dt-stage [role=button]').length === 72")
        assert tab.evaluate(SMALL) == []
        letters = tab.locator(".dt-stage [aria-label^='rank 7, chunk 7'] text").all_text_contents()
        assert letters == ["h"]
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
