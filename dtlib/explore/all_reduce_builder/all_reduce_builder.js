// Ranks from top to bottom, their chunks from left to right, in each chunk the letters of the ranks
// whose part is in it. The reader drags chunks to other ranks, round by round; what would count
// twice is refused at once. state.rounds[t] are the drags of a round, each a list of sends; the one
// after those that are done is the round that is being made.

const HINT =
  "Drag chunks, or a rank by its name; or tap them, then the rank that is to get them. " +
  "With the keyboard: Tab to a rank, arrow keys, Enter.";

const levelOf = (spec, { level }) => spec.levels[level];
const numberOf = (value) => significant(value, 3);
const plural = (count, one, many = `${one}s`) => `${numberOf(count)} ${count === 1 ? one : many}`;
const spentIn = ({ latencies, buffers }) =>
  `${plural(latencies, "latency", "latencies")} and ${plural(buffers, "buffer")}`;
const isWatching = ({ plan }) => plan !== null;

// The rounds on show: the reader's, or those of a known algorithm.
function boardOf(spec, state) {
  const { P } = levelOf(spec, state);
  const rounds = isWatching(state) ? spec.known[state.plan].rounds[P] : state.rounds.map((drags) => drags.flat());
  const { states, messages } = playedRounds(P, rounds);
  const done = Math.min(state.done, rounds.length);
  return { P, rounds, states, messages, done, held: states[done], sends: rounds[done] ?? [] };
}

const finishedIn = (state, board) => !isWatching(state) && isFinished(board.states[board.rounds.length]);

function costOf(spec, { n }, { P, messages }, done) {
  const run = messages.slice(0, done);
  return {
    buffers: buffersOf(P, run),
    latencies: latenciesOf(P, run),
    seconds: timeOf(P, run, { n, ...spec.switch }),
  };
}

const fits = (cost, most) => most === null || cost <= most + 1e-9;

function isReached({ buffers, latencies }, board, cost) {
  return isFinished(board.held) && fits(cost.buffers, buffers) && fits(cost.latencies, latencies);
}

function view(spec, state) {
  const level = levelOf(spec, state);
  const board = boardOf(spec, state);
  const cost = costOf(spec, state, board, board.done);
  const reached = !isWatching(state) && isReached(level, board, cost);
  const hover = hoverOf(spec, state, board);
  return {
    ...board,
    names: { buffers: cost.buffers, latencies: cost.latencies, reached: +reached, seconds: cost.seconds },
    cost,
    hover,
    wrong: hover?.wrong ?? (hover ? null : state.wrong),
    task: { text: level.text, found: level.found },
    ticked: { level: state.solved },
    actions: actionsOf(spec, state, board, reached),
    plans: plansOf(spec, state, cost),
    code: writtenSchedule(board.P, boardOf(spec, { ...state, plan: null }).messages),
    said: hover?.words ?? state.note ?? saidOf(spec, state, board, cost, reached),
  };
}

function actionsOf(spec, state, { done, sends, rounds }, reached) {
  if (isWatching(state)) return [["Back to yours", { plan: null, done: state.rounds.length }]];
  const undo = ["Undo", { undo: true }];
  const next = spec.levels[state.level + 1];
  if (reached && next) return [[`Next: ${next.name.toLowerCase()}`, { level: state.level + 1 }], undo];
  if (reached) return [undo];
  const run = [`Run round ${done + 1}`, { done: done + 1 }, sends.length ? null : " "];
  return [run, ...(rounds.length ? [undo] : []), ["Hint", { hinted: true }]];
}

function saidOf(spec, state, board, cost, reached) {
  const { P, held, done, rounds, sends, messages } = board;
  const spent = spentIn(cost);
  const whole = held.flat().filter(isWhole).length;
  const sums = `${whole} of ${P * P} sums are complete`;
  if (isWatching(state)) {
    const { label } = spec.known[state.plan];
    return `${sentence(label)}: ${done} of ${plural(rounds.length, "round")} done, ${sums}; so far ${spent}.`;
  }
  if (isFinished(held)) return `Everybody has everything, for ${spent}.${wastedIn(board)}${reached ? "" : aimOf(levelOf(spec, state))}`;
  if (!rounds.length) return "Round 1: drag a chunk to another rank, which adds what comes to what it has.";
  const now = sends.length ? `${plural(messages[done].length, "message")} at once` : "nothing is on its way yet";
  return `Round ${done + 1}: ${now}; ${sums}, so far for ${spent}.`;
}

function wastedIn({ P, messages, done }) {
  const unused = unusedIn(P, messages.slice(0, done));
  return unused ? ` Nobody used ${unused} of the chunks that were sent.` : "";
}

function aimOf({ buffers, latencies }) {
  const aims = [
    buffers === null ? [] : [plural(buffers, "buffer")],
    latencies === null ? [] : [`${numberOf(latencies)} latencies`],
  ];
  return ` The aim is ${aims.flat().join(" in ")}: undo, or begin anew.`;
}

// What the finger that drags is over: what would come of letting go.
function hoverOf(spec, state, board) {
  const { held: hand } = state;
  if (!hand?.moved || hand.over === null) return null;
  const found = offered(spec, state, board, hand.rank, hand.over, hand.chunks);
  const what = hand.chunks.length === board.P ? "everything" : chunksInWords(hand.chunks);
  const all = state.mode ? ", and everybody does likewise" : "";
  return { ...found, words: found.why ?? `Let go: rank ${hand.rank} sends ${what} to rank ${hand.over}${all}.` };
}

const chunksInWords = (chunks) => `${chunks.length === 1 ? "chunk" : "chunks"} ${chunks.join(", ")}`;
const sameSend = (a, b) => a.every((value, i) => value === b[i]);

// The sends that a drag makes, or why it cannot be.
function offered(spec, state, board, src, dst, chunks) {
  if (isWatching(state)) return { why: "This one only plays. Back to yours?" };
  if (isFinished(board.held)) return { why: "Everybody has everything: undo, or begin anew." };
  const { held, sends } = board;
  const wanted = likewise(state.mode, board.P, src, dst, chunks).filter(
    (send) => !sends.some((other) => sameSend(send, other)),
  );
  if (!wanted.length) return { why: "That is on its way already." };
  const fresh = wanted.filter(([from, to, chunk]) => !covers(held[to][chunk], held[from][chunk]));
  const made = fresh.length && chunks.length > 1 ? fresh : wanted;
  const [wrong] = faultsOf(held, [...sends, ...made]);
  return wrong ? { wrong, why: whyNot(held, wrong) } : { sends: made };
}

function whyNot(held, { what, send: [src, dst, chunk], twice, sum }) {
  const [comes, here] = [held[src][chunk], held[dst][chunk]].map(lettersOf);
  if (what === "old") return `Nothing new: rank ${dst} has ${here} in chunk ${chunk} already.`;
  if (what === "meets")
    return `Two at once: what rank ${src} sends would take the place of chunk ${chunk} of rank ${dst} while another message arrives there.`;
  if (what === "leaves")
    return `Still in flight: rank ${dst} sends its chunk ${chunk} in this round; it can be replaced in the next.`;
  const letters = twice.map((k) => "abcdefgh"[k]).join(" and ");
  return `${sentence(letters)} would count twice: ${lettersOf(sum)} + ${comes} in chunk ${chunk}, and nobody can take it out of a sum again.`;
}

// The reader's schedule and the algorithms that were found, by their time.
function plansOf(spec, state, cost) {
  const { P } = levelOf(spec, state);
  const open = new Set(state.solved.flatMap((level) => spec.levels[level].opens));
  const given = ["n", "P", "alpha", "beta"].map((name) => ({ name }));
  const value = valuesAt({ fixed: [], controls: given }, { P, n: state.n, ...spec.switch });
  const counted = (js) => ({
    seconds: value(js)(),
    latencies: value(js)({ n: 0, alpha: 1, beta: 1 }),
    buffers: value(js)({ n: 1, alpha: 0, beta: 1 }),
  });
  return {
    yours: cost,
    known: spec.known.map(({ label, js }, i) => ({ label, open: open.has(i), ...counted(js) })),
    least: counted(spec.bound),
  };
}

// What a change of the reader's entails.

const BLANK = { rounds: [], done: 0, plan: null, picked: null, held: null, note: null, wrong: null };

function changed(spec, state, change, before) {
  const entails = entailedBy(spec, state, change, before);
  return "done" in change ? { ...entails, solved: solvedIn(spec, { ...state, ...entails }) } : entails;
}

function entailedBy(spec, state, change, before) {
  if ("level" in change) return { ...BLANK, mode: 0 };
  if ("n" in change || ("held" in change && !change.tap && !change.send)) return {};
  const blank = { picked: null, note: null, wrong: null };
  if (change.tap) return tapped(spec, before, ...change.tap);
  if (change.send) return sent(spec, before, ...change.send);
  if (change.undo) return { ...blank, ...undone(before) };
  if (change.hinted) return { ...blank, note: levelOf(spec, before).hint };
  if ("mode" in change) return { ...blank, note: MODES[change.mode] };
  return blank;
}

const MODES = [
  "A drag is one rank's.",
  "Everybody does as you do, one further round the ring: if 0 sends chunk 3 to 1, then 1 sends chunk 0 to 2, and so on.",
  "Everybody does as you do with a partner of their own: if 0 sends chunk 1 to 1, then 1 sends chunk 0 to 0, and 2 and 3 do the same.",
];

function solvedIn(spec, state) {
  const board = boardOf(spec, state);
  const reached = !isWatching(state) && isReached(levelOf(spec, state), board, costOf(spec, state, board, board.done));
  return reached && !state.solved.includes(state.level) ? [...state.solved, state.level] : state.solved;
}

function sent(spec, state, src, dst, chunks) {
  const board = boardOf(spec, state);
  const { sends, wrong = null, why } = offered(spec, state, board, src, dst, chunks);
  if (!sends) return { note: why, wrong };
  const now = state.rounds[board.done] ?? [];
  const rounds = [...state.rounds.slice(0, board.done), [...now, sends]];
  return { rounds, picked: null, note: sentInWords(board.held, sends), wrong: null };
}

function sentInWords(held, sends) {
  const [[src, dst, chunk], more] = [sends[0], messagesOf(held, sends).length];
  if (more > 1) return `${more} messages at once. More in this round, or run it.`;
  const [comes, here] = [held[src][chunk], held[dst][chunk]].map(lettersOf);
  const does = isAdded(held, sends[0]) ? "is added to" : "takes the place of";
  return `Rank ${src} to rank ${dst}: ${comes} ${does} ${here}. More in this round, or run it.`;
}

// A tap picks what is to be sent, and a tap on another rank sends it there.
function tapped(spec, state, rank, chunk) {
  const { picked } = state;
  if (picked && picked.rank !== rank) return sent(spec, state, picked.rank, rank, picked.chunks);
  const { P } = levelOf(spec, state);
  const had = picked?.chunks ?? [];
  const turned = had.includes(chunk) ? had.filter((one) => one !== chunk) : [...had, chunk].sort();
  const chunks = chunk !== null ? turned : picked ? [] : upTo(P);
  if (!chunks.length) return { picked: null, note: null, wrong: null };
  const what = chunks.length === P ? "everything" : chunksInWords(chunks);
  const note = `Rank ${rank}, ${what}: now tap the rank that is to get it.`;
  return { picked: { rank, chunks }, note, wrong: null };
}

// The last drag is taken back, or where nothing is on its way, the last round.
function undone({ rounds, done }) {
  const now = rounds[done] ?? [];
  if (!now.length) return { done: Math.max(0, done - 1), rounds: rounds.slice(0, done) };
  const left = now.slice(0, -1);
  return { rounds: [...rounds.slice(0, done), ...(left.length ? [left] : [])] };
}

// What a pointer does: a move of more than a few pixels is a drag, none is a tap.

const SLACK = 8; // px

function drag(spec, state, { P }, width, { x, y, from, last }) {
  const at = layoutOf(P, width);
  if (last === from) {
    const [rank, chunk] = cellAt(at, P, x, y);
    if (rank === null) return { held: null };
    const mine = state.picked?.rank === rank && state.picked.chunks.includes(chunk);
    const chunks = chunk === null ? upTo(P) : mine ? state.picked.chunks : [chunk];
    return { held: { rank, chunk, chunks, over: null, moved: false, x, y } };
  }
  if (!state.held) return {};
  const moved = state.held.moved || Math.hypot(x - from.x, y - from.y) > SLACK;
  const [rank] = cellAt(at, P, x, y);
  return { held: { ...state.held, moved, over: rank === state.held.rank ? null : rank, x, y } };
}

function drop(spec, { held }) {
  if (!held) return { held };
  if (!held.moved) return { held: null, tap: [held.rank, held.chunk] };
  return held.over === null ? { held: null } : { held: null, send: [held.rank, held.over, held.chunks] };
}

// The browser keeps which levels were solved, and which was the last.
const kept = {
  as: "dtlib-scene:",
  was: "dtlib-bet:",
  write: (spec, { solved, level }) => (solved.length ? { solved, level } : null),
  read(spec, stored) {
    const isLevel = (level) => level in spec.levels;
    const solved = (stored?.solved ?? []).filter(isLevel);
    return isLevel(stored?.level) ? { solved, level: stored.level } : { solved };
  },
};

// Below stand the algorithms beside one another: as points, and as bars of time.

function side(place, spec, set) {
  const map = s("svg", { class: "dt-drawing dt-map", role: "img", viewBox: `0 0 ${MAP.width} ${MAP.height}` });
  const code = h("pre", {});
  const buttons = spec.known.map(({ label }, i) =>
    h("button", { type: "button", class: "dt-button", onclick: () => set({ plan: i, done: 0 }) }, `▶ ${label}`),
  );
  const names = [h("strong", {}, "yours"), ...buttons, h("span", {}, "no less than")];
  const rows = names.map(raceRow);
  place.append(
    h("div", { class: "dt-side" }, map, h("div", {}, rows.map(({ element }) => element))),
    h("details", { class: "dt-fold" }, h("summary", {}, "Your schedule, as the library writes it"), code),
  );
  return (_, state, seen) => {
    const { yours, known, least } = seen.plans;
    const all = [{ ...yours, open: true }, ...known, { ...least, open: true }];
    const longest = Math.max(...all.filter(({ open }) => open).map(({ seconds }) => seconds));
    rows.forEach((row, i) => row.show(all[i], longest));
    map.setAttribute("aria-label", `${sentence(spentIn(yours))} so far; no less than ${spentIn(least)}.`);
    map.replaceChildren(...marksOf(mapOf(seen, levelOf(spec, state), seen.names.reached)).map((one) => drawn(one, set)));
    code.textContent = seen.code;
  };
}

// An algorithm's name, its cost, and its time as a bar.
function raceRow(name) {
  const [value, bar] = [h("span", { class: "dt-row-value" }), h("div", {})];
  const meter = h("div", { class: "dt-meter", "aria-hidden": "true" }, bar);
  const element = h("div", { class: "dt-row" }, name, value, meter);
  const show = ({ open, latencies, buffers, seconds }, longest) => {
    element.hidden = !open;
    value.textContent = `${numberOf(latencies)} α + ${numberOf(buffers)} n/β = ${formatQuantity(seconds, "s", 3)}`;
    bar.style.width = `${(100 * seconds) / longest}%`;
  };
  return { element, show };
}

// The height of the points, the bars, and the line that opens the schedule.
side.room = (spec, { plans }, width) => {
  const [narrow, open] = [width < 560, plans.known.filter(({ open }) => open).length];
  const bars = 2 * 43 + open * (narrow ? 65 : 55);
  return (narrow ? 226 * (width / MAP.width) + 12 + bars : Math.max(226, bars)) + (narrow ? 44 : 34);
};

export default widget({
  hint: HINT,
  view,
  draw,
  drag,
  drop,
  changed,
  kept,
  readout: side,
  near: true,
  beside: 216,
  lasts: ({ level, solved }) => ({ level, solved }),
  player: {
    name: "done",
    unit: "round",
    every: 900,
    glide: 560,
    last: (spec, state) => boardOf(spec, state).rounds.length,
    shown: (spec, state) => isWatching(state) || finishedIn(state, boardOf(spec, state)),
    begins: ({ plan = null }) => plan !== null,
  },
});
