// A schedule in the making: tiles [rank, start, kind] on a grid of ranks and time. What must wait for what,
// and what a rank holds, is said in the pipeline lab's model; here it is asked of every tile.

const LENGTH = { F: 1, B: 1, W: 1, BW: 2 };
const kindsOf = ({ split }) => (split ? ["F", "B", "W"] : ["F", "BW"]);
const shownKind = (kind) => (kind === "BW" ? "B" : kind);
const tilesOf = ({ level, work }) => work[level] ?? [];

// The tiles as actions: the first F of a row is that of micro-batch 0, and so on. Each has what it lacks:
// results that it needs, with the action that gives them too late, if there is one.
function actionsOf({ p }, tiles) {
  const count = {};
  const actions = [...tiles]
    .sort(([r, t], [s, u]) => r - s || t - u)
    .map(([rank, start, kind]) => {
      const batch = count[rank + kind] ?? 0;
      count[rank + kind] = batch + 1;
      return { kind, rank, stage: rank, batch, start, stop: start + LENGTH[kind] };
    });
  const makers = new Map();
  for (const action of actions)
    for (const kind of action.kind) makers.set(pipelineName({ ...action, kind }), action);
  const lacks = (action) =>
    pipelineNeeds(action, p - 1)
      .map((name) => ({ name, maker: makers.get(name) }))
      .filter(({ maker }) => !maker || maker.stop > action.start);
  return actions.map((action) => ({ ...action, lacks: lacks(action) }));
}

// What the tiles amount to: times, what is held, and whether this is a schedule that does the level.
function builtOf(level, tiles) {
  const { p, m, room, goal } = level;
  const actions = actionsOf(level, tiles);
  const sums = pipelineSums(actions, p, 1);
  const complete = tiles.length === kindsOf(level).length * p * m;
  const sound = actions.every(({ lacks }) => !lacks.length);
  const fits = !room || Math.max(...sums.peaks) <= room;
  return { actions, ...sums, complete, solved: complete && sound && fits && sums.makespan <= goal };
}

const tileAt = (tiles, rank, time) =>
  tiles.find(([r, start, kind]) => r === rank && start <= time && time < start + LENGTH[kind]);

// Why this tile cannot stand there, and the action that it would have to wait for; null if it can.
function refusalOf(level, tiles, [rank, start, kind]) {
  const stop = start + LENGTH[kind];
  const same = tiles.filter(([r, , other]) => r === rank && other === kind);
  if (start < 0 || stop > level.columns) return { words: "The grid ends here." };
  if (tiles.some(([r, t, k]) => r === rank && t < stop && start < t + LENGTH[k]))
    return { words: `Stage ${rank} is busy then.` };
  if (same.length === level.m)
    return { words: `Stage ${rank} has all its ${level.m} ${shownKind(kind)} already.` };
  const actions = actionsOf(level, [...tiles, [rank, start, kind]]);
  const { batch, lacks } = actions.find((one) => one.rank === rank && one.start === start);
  if (lacks.length) return { ...waitingWords(kind, batch, rank, lacks[0]), batch };
  const peak = pipelineSums(actions, level.p, 1).peaks[rank];
  if (level.room && peak > level.room) return { words: roomWords(level, rank, peak), batch };
  return null;
}

function waitingWords(kind, batch, rank, { name, maker }) {
  const [stage, of, needed] = name.split(/([FB])/);
  const when = maker ? `which ends at ${maker.stop}` : "which is not in the grid yet";
  return {
    maker,
    words: `${shownKind(kind)}${batch} of stage ${rank} must wait for ${of}${needed} of stage ${stage}, ${when}.`,
  };
}

const roomWords = ({ room, split }, rank, peak) =>
  `No room: stage ${rank} would hold ${peak} micro-batches and has room for ${room}. ` +
  `${split ? "A W" : "A backward pass"} frees one.`;

// What the reader asks for, as a change of the state. A stroke of the pointer is one step to undo.
const ANSWERS = {
  put(level, state, kind, rank, time, reach = 0) {
    const tiles = tilesOf(state);
    const ways = range(2 * reach + 1).map((i) => (i % 2 ? -1 : 1) * Math.ceil(i / 2));
    const place = ways.find((way) => !refusalOf(level, tiles, [rank, time + way, kind]));
    if (place === undefined) return { refused: [rank, time, kind], at: [rank, time] };
    const stop = Math.min(time + place + LENGTH[kind], level.columns - 1);
    return { tiles: [...tiles, [rank, time + place, kind]], at: [rank, stop] };
  },
  press(level, state, rank, time, reach) {
    const found = tileAt(tilesOf(state), rank, time);
    if (state.brush === "erase") return ANSWERS.take(level, state, rank, time);
    if (found) return { held: { tile: found, grip: time - found[1] }, at: [rank, time] };
    return ANSWERS.put(level, state, state.brush, rank, time, reach);
  },
  sweep(level, state, rank, time) {
    const done = ANSWERS.press(level, state, rank, time);
    return done.tiles ? done : {};
  },
  take(level, state, rank, time) {
    const found = tileAt(tilesOf(state), rank, time);
    const others = tilesOf(state).filter((tile) => tile !== found);
    return { at: [rank, time], ...(found ? { tiles: others } : {}) };
  },
  move(level, state, [rank, start, kind], to, grip) {
    if (start === to) return {};
    const found = tileAt(tilesOf(state), rank, start);
    const others = tilesOf(state).filter((tile) => tile !== found);
    const tile = [rank, to, kind];
    if (!found || refusalOf(level, others, tile)) return { refused: tile, without: found };
    return { tiles: [...others, tile], held: { tile, grip }, at: [rank, to] };
  },
  shift(level, state, rank, time, by) {
    const found = tileAt(tilesOf(state), rank, time);
    if (!found) return {};
    const ways = range(level.columns).map((i) => found[1] + (i + 1) * by);
    const changes = ways.map((to) => ANSWERS.move(level, state, found, to, 0));
    return changes.find((change) => change.tiles) ?? changes[0];
  },
  find(level, state, rank, time) {
    const free = (t) => !refusalOf(level, tilesOf(state), [rank, t, state.brush]);
    const places = range(level.columns).filter(free);
    const next = places.find((t) => t > time) ?? places[0];
    return next === undefined ? { refused: [rank, time, state.brush] } : { at: [rank, next] };
  },
  undo: (level, { past }) => ({ tiles: past[past.length - 1], past: past.slice(0, -1) }),
  clear: (level) => ({ tiles: level.start }),
};

const range = (count) => Array.from({ length: count }, (_, i) => i);
const FRESH = { refused: null, without: null, held: null, hint: false };

// `more` says that a stroke goes on: what it changes is undone with what it changed before.
function answered(spec, state, { ask: [what, ...rest], more = false }) {
  const level = spec.levels[state.level];
  const { tiles, past, ...change } = ANSWERS[what](level, state, ...rest);
  const stroke = more ? state.stroke : { past: state.past, tiles: tilesOf(state) };
  const kept = more ? { held: state.held } : {};
  if (!tiles) return { ...FRESH, ...kept, stroke, ...change };
  const solved = builtOf(level, tiles).solved && !state.won.includes(state.level);
  return {
    ...FRESH,
    ...kept,
    stroke,
    past: past ?? [...stroke.past, stroke.tiles],
    work: { ...state.work, [state.level]: tiles },
    won: solved ? [...state.won, state.level] : state.won,
    ...change,
  };
}

// The rows as the library reads them.
function rowsAsText({ p, m }, actions) {
  const rows = range(p).map((rank) => {
    const own = actions.filter((action) => action.rank === rank);
    return `    "${own.map(pipelineName).join(" ")}",\n`;
  });
  return `PipelineSchedule([\n${rows.join("")}], m=${m}, name="my own")`;
}
