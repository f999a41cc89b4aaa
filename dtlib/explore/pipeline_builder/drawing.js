// The grid as marks: its cells, the tiles, what each stage holds, and a known schedule below.

const [LANE, STRIP, PALETTE, FINGER] = [40, 20, 56, 20];
const LOOK = { F: "pale forward", B: "pale backward", BW: "pale backward", W: "pale weight" };
const OPEN = { F: ink.forward, B: ink.backward, BW: ink.backward, W: ink.fourth };
const WORDS = { F: "forward", B: "backward", W: "weight gradient" };

// Where everything is: on a phone a stage's name stands above its row, which takes the whole width.
function gridOf({ columns, begun }, width) {
  const wide = width >= 560;
  const above = wide ? 0 : 20;
  const [left, right] = [wide ? 92 : 1, width - 6];
  const unit = Math.min(56, (right - left) / columns);
  const top = (begun ? 0 : PALETTE) + 24;
  const row = above + LANE + STRIP + 14;
  return {
    wide, left, unit, top, above, row,
    x: (time) => left + time * unit,
    y: (rank) => top + rank * row + above,
    reach: Math.floor(FINGER / unit),
  };
}

function draw(spec, state, { level, built, refused }, width) {
  const grid = gridOf(level, width);
  const bottom = grid.top + level.p * grid.row;
  const palette = level.begun ? [] : paletteOf(level, state, width);
  const [rank, time] = state.at ?? [];
  const board = {
    height: bottom + 22,
    label: `${level.name}: ${level.p} stages in time, ${level.m} micro-batches.`,
    here: state.at ? palette.length + rank * level.columns + time : undefined,
    marks: [
      palette,
      timesOf(level, built, grid, bottom),
      range(level.p).map((rank) => laneOf(level, state, built, grid, rank)),
      tilesIn(level, state, built, grid),
      refused && state.refused ? refusedMarks(state.refused, refused, grid) : null,
      cellsOf(level, state, built, grid),
    ],
  };
  const beside = state.beside === null ? null : level.known[state.beside];
  return beside ? [board, besideOf(level, beside, grid, width)] : board;
}

// What can be put: a press chooses it.
function paletteOf(level, state, width) {
  const kinds = [...kindsOf(level), "erase"];
  const wide = Math.min(150, (width + 2) / kinds.length);
  return kinds.map((kind, i) => {
    const box = { x: 2 + i * wide, y: 2, width: wide - 8, height: 44, rx: 6 };
    const chosen = state.brush === kind;
    const left = kind === "erase" ? "" : `${leftOf(level, tilesOf(state), kind)} left`;
    const name = kind === "erase" ? "Erase" : shownKind(kind);
    const at = { x: box.x + box.width / 2, ...middle };
    const says = kind === "erase" ? name : `${name}, ${WORDS[name]}, ${left}`;
    return mark.g({ set: { brush: kind, at: null, refused: null, hint: false }, says, pressed: chosen }, [
      mark.rect({ ...box, ...(LOOKS[LOOK[kind]] ?? { fill: "none", stroke: ink.soft }) }),
      chosen ? mark.rect({ ...box, fill: "none", stroke: ink.text, "stroke-width": 2.5 }) : null,
      mark.text({ ...at, y: left ? 21 : 29, ...bold }, name),
      mark.text({ ...at, y: 38, "font-size": 12, fill: ink.text }, left),
    ]);
  });
}

// The clock above; the end of what lies there and the goal through all rows.
function timesOf({ columns, goal }, { actions, makespan }, { x, unit, top, left }, bottom) {
  const every = unit < 20 ? 3 : unit < 30 ? 2 : 1;
  const begin = Math.min(columns, ...actions.map(({ start }) => start));
  const first = actions.length ? begin : 0;
  const [now, aim] = [first + makespan, first + goal];
  const line = (time, look) =>
    mark.line({ x1: x(time), x2: x(time), y1: top - 4, y2: bottom - 2, "stroke-width": 1.6, ...look });
  const word = (time, words, fill) =>
    mark.text({ x: clamp(x(time), left + 40, x(columns) - 40), y: bottom + 14, ...middle, ...bold, "font-size": 12.5, fill }, words);
  const reached = makespan === goal;
  return [
    range(columns + 1)
      .filter((time) => time % every === 0)
      .map((time) => {
        const anchor = time ? (time === columns ? end : middle) : x(0) < 20 ? {} : middle;
        return mark.text({ x: x(time), y: top - 9, ...soft, "font-size": 12, ...anchor }, time);
      }),
    line(aim, { stroke: ink.fourth, "stroke-dasharray": reached ? null : "4 4" }),
    word(aim, reached ? `${goal}, the goal` : `goal ${goal}`, ink.fourthText),
    makespan && !reached ? line(now, { stroke: ink.text }) : null,
    makespan && Math.abs(x(now) - x(aim)) > 66 ? word(now, `now ${makespan}`, ink.text) : null,
  ];
}

// A stage's cells, coloured where the chosen kind can be put, its name, and what it holds.
function laneOf(level, state, built, grid, rank) {
  const { x, y, unit, wide, left } = grid;
  const [tiles, kind] = [tilesOf(state), state.brush];
  const open = (time) => kind !== "erase" && !refusalOf(level, tiles, [rank, time, kind]);
  const holds = `holds ${built.peaks[rank]}${level.room ? ` of ${level.room}` : ""}`;
  const name = { "font-size": 13, ...bold, ...halo };
  const note = { ...soft, ...halo };
  return [
    range(level.columns).map((time) => {
      const look = open(time) ? { fill: OPEN[kind], "fill-opacity": 0.22 } : { fill: ink.line, "fill-opacity": 0.4 };
      return mark.rect({ x: x(time) + 0.75, y: y(rank), width: unit - 1.5, height: LANE, rx: 2, ...look });
    }),
    wide
      ? [
          mark.text({ x: 2, y: y(rank) + 25, ...name }, `stage ${rank}`),
          mark.text({ x: 2, y: y(rank) + LANE + 17, ...note }, holds),
        ]
      : [
          mark.text({ x: left, y: y(rank) - 6, ...name }, `stage ${rank}`),
          mark.text({ x: x(level.columns), y: y(rank) - 6, ...note, ...end }, holds),
        ],
    memoryOf(level, built, grid, rank),
  ];
}

function memoryOf({ m, room, columns }, { held, peaks, actions }, { x, y }, rank) {
  const floor = y(rank) + LANE + STRIP + 2;
  const one = (STRIP - 3) / Math.max(room ?? m, ...peaks);
  const steps = held[rank];
  const last = Math.max(...actions.map(({ stop }) => stop));
  const line = { x1: x(0), x2: x(columns) };
  const border = floor - one * (room ?? 0) - 1;
  return [
    steps.map(([time, count], i) => {
      const until = steps[i + 1]?.[0] ?? (count ? last : time);
      const box = { x: x(time), y: floor - one * count, width: x(until) - x(time), height: one * count };
      return until > time ? mark.rect({ ...box, fill: ink.communication, "fill-opacity": 0.75 }) : null;
    }),
    mark.line({ ...line, y1: floor, y2: floor, stroke: ink.soft }),
    room
      ? mark.line({ ...line, y1: border, y2: border, stroke: ink.backwardText, "stroke-dasharray": "3 3" })
      : null,
  ];
}

function tilesIn(level, { held }, { actions }, grid) {
  const rows = range(level.p).map(() => ({ label: "", height: LANE, gap: grid.row - LANE }));
  const [hr, ht] = held?.tile ?? [];
  const spans = actions.map(({ rank, kind, batch, start, stop, lacks }) => {
    const wrong = { stroke: ink.text, "stroke-width": 2, "stroke-dasharray": "4 3", "fill-opacity": 0.1 };
    const inHand = rank === hr && start === ht ? { stroke: ink.text, "stroke-width": 2.5 } : {};
    const over = { rx: 4, ...(lacks.length ? wrong : inHand) };
    const name = [`${shownKind(kind)}${batch}`, batch];
    return { row: rank, start, stop, look: LOOK[kind], name, over, at: { class: "dt-grab" } };
  });
  const [left, right] = [grid.x(0), grid.x(level.columns)];
  return gantt({ rows, spans, to: level.columns, left, right, top: grid.y(0) }).marks;
}

// Where a tile was refused, and from whom it would have to wait.
function refusedMarks([rank, start, kind], { maker }, { x, y, unit }) {
  const look = { fill: "none", stroke: ink.backwardText, "stroke-width": 2.5 };
  const box = { x: x(start) + 1, y: y(rank) + 1, width: unit * LENGTH[kind] - 2, height: LANE - 2, rx: 4 };
  if (!maker) return mark.rect({ ...box, ...look, "stroke-dasharray": "4 3" });
  const [x0, y0] = [x(maker.stop) - 4, y(maker.rank) + LANE / 2];
  const [x1, y1] = [x(start) + 2, y(rank) + LANE / 2];
  const d = `M${x0} ${y0}C${x0 + 18} ${y0} ${x1 - 18} ${y1} ${x1} ${y1}`;
  return [
    mark.rect({ ...box, ...look, "stroke-dasharray": "4 3" }),
    mark.path({ d, ...look, stroke: ink.paper, "stroke-width": 7 }),
    mark.path({ d, ...look }),
    mark.circle({ cx: x0, cy: y0, r: 4, fill: ink.backwardText }),
    mark.path({ d: `M${x1 + 5} ${y1}l-10 -5v10z`, fill: ink.backwardText }),
  ];
}

// What the keyboard and who listens have of the grid: a button for each cell, in the order of the rows.
function cellsOf(level, state, { actions }, { x, y, unit }) {
  return range(level.p).map((rank) =>
    range(level.columns).map((time) =>
      mark.rect({
        x: x(time), y: y(rank), width: unit, height: LANE, rx: 3,
        fill: ink.paper, "fill-opacity": 0, "pointer-events": "none",
        set: { ask: ["press", rank, time] },
        says: cellWords(actions, rank, time),
        keys: keysOf(level, rank, time),
      }),
    ),
  );
}

function cellWords(actions, rank, time) {
  const there = actions.find((one) => one.rank === rank && one.start <= time && time < one.stop);
  const what = there ? `${shownKind(there.kind)}${there.batch} from ${there.start} to ${there.stop}` : "free";
  return `Stage ${rank}, time ${time}: ${what}`;
}

function keysOf(level, rank, time) {
  const to = (r, t) => ({ at: [clamp(r, 0, level.p - 1), clamp(t, 0, level.columns - 1)] });
  const ask = (what, ...rest) => ({ ask: [what, ...rest] });
  const kinds = kindsOf(level).map((kind) => [
    shownKind(kind).toLowerCase(),
    { brush: kind, ...ask("put", kind, rank, time) },
  ]);
  return {
    ArrowLeft: to(rank, time - 1),
    ArrowRight: to(rank, time + 1),
    ArrowUp: to(rank - 1, time),
    ArrowDown: to(rank + 1, time),
    Home: to(rank, 0),
    End: to(rank, level.columns),
    Delete: ask("take", rank, time),
    Backspace: ask("take", rank, time),
    "Shift+ArrowLeft": ask("shift", rank, time, -1),
    "Shift+ArrowRight": ask("shift", rank, time, 1),
    n: ask("find", rank, time),
    u: ask("undo"),
    ...Object.fromEntries(kinds),
  };
}

// A known schedule, on the same clock.
function besideOf(level, known, grid, width) {
  const run = runPipeline(known, { f: 1, b: 1, w: 1 });
  const row = 30;
  const rows = range(level.p).map((rank) => ({ label: grid.wide ? `rank ${rank}` : "", height: row, gap: 4 }));
  const spans = run.spans.map(({ rank, kind, batch, stage, start, stop }) => ({
    row: rank, start, stop, look: LOOK[kind],
    name: [`${shownKind(kind)}${batch}`, batch],
    over: stage >= level.p ? { "fill-opacity": 0.62 } : {},
  }));
  const [left, top] = [grid.x(0), 34];
  const right = Math.min(width - 2, grid.x(Math.max(level.columns, run.makespan)));
  const to = Math.max(level.columns, run.makespan);
  const { marks, across, bottom } = gantt({ rows, spans, to, left, right, top });
  const stop = across(run.makespan);
  return {
    height: bottom + 8,
    label: `${known.label}: ${knownWords(run)}.`,
    marks: [
      mark.text({ x: grid.wide ? 2 : 1, y: 20, ...bold, "font-size": 13 }, known.label),
      marks,
      mark.line({ x1: stop, x2: stop, y1: top - 6, y2: bottom, stroke: ink.text, "stroke-width": 1.6 }),
    ],
  };
}

const knownWords = ({ makespan, idle, peaks }) =>
  `time ${makespan}, waits ${percent(idle)}, holds ${Math.max(...peaks)}`;
