// A grid of stages and time that the reader fills, and below each stage what it holds meanwhile.

const HINT =
  "Press a cell to put a tile, drag a tile along its row. With the keyboard: arrow keys, F, B and W put " +
  "a tile, Delete takes it, Shift with an arrow moves it, N finds the next free place, U undoes.";

const percent = (share) => formatQuantity(share, "%", 3);
const batches = (count) => `${count} micro-batch${count === 1 ? "" : "es"}`;

function view(spec, state) {
  const level = spec.levels[state.level];
  const built = builtOf(level, tilesOf(state));
  const { makespan, idle, peaks, solved } = built;
  const peak = Math.max(...peaks);
  const others = tilesOf(state).filter((tile) => tile !== state.without);
  const refused = state.refused && refusalOf(level, others, state.refused);
  const room = level.room ? ` (room for ${level.room})` : "";
  return {
    names: { time: makespan, idle, peak, solved: +solved },
    task: level,
    ticked: { level: state.won },
    level,
    built,
    refused,
    rows: [
      [`time (goal ${level.goal})`, `${makespan}`],
      ["waiting, of all stages' time", percent(idle)],
      [`most that a stage holds${room}`, batches(peak)],
    ],
    actions: [
      ["Undo", state.past.length ? { ask: ["undo"] } : {}],
      ["Reset", { ask: ["clear"] }],
      ["Hint", { hint: true, refused: null }],
    ],
    said: refused?.words ?? (state.hint ? level.hint : saidOf(level, tilesOf(state), built)),
  };
}

function saidOf(level, tiles, { makespan, idle, peaks, actions, complete }) {
  const wrong = actions.find(({ lacks }) => lacks.length);
  if (wrong) return waitingWords(wrong.kind, wrong.batch, wrong.rank, wrong.lacks[0]).words;
  if (!complete) {
    const left = kindsOf(level).map((kind) => `${leftOf(level, tiles, kind)} ${shownKind(kind)}`);
    return `Still to be put: ${left.join(", ")}. Coloured cells are open.`;
  }
  return (
    `The step takes ${makespan}, ${percent(idle)} of the stages' time is waiting, and a stage holds ` +
    `at most ${batches(Math.max(...peaks))}.`
  );
}

const leftOf = ({ p, m }, tiles, kind) => p * m - tiles.filter(([, , other]) => other === kind).length;

function drag(spec, state, { level }, width, { x, y, figure, from, last }) {
  if (figure) return {};
  const grid = gridOf(level, width);
  const cell = (px, py) => {
    const rank = Math.floor((py - grid.top) / grid.row);
    return [clamp(rank, 0, level.p - 1), Math.floor((px - grid.left) / grid.unit)];
  };
  const [rank, time] = cell(x, y);
  const inside = clamp(time, 0, level.columns - 1) === time;
  if (from.y < grid.top || from.y >= grid.top + level.p * grid.row) return {};
  if (last === from) return inside ? { ask: ["press", rank, time, grid.reach] } : {};
  const before = cell(last.x, last.y);
  if (before[0] === rank && before[1] === time) return {};
  if (state.held) return { ask: ["move", state.held.tile, time - state.held.grip, state.held.grip], more: true };
  return { ask: ["sweep", rank, time], more: true };
}

// What a change entails: an answer to what was asked, an empty grid's tools at another level.
function changed(spec, state, change) {
  if ("level" in change) return { ...FRESH, brush: "F", past: [], stroke: null, beside: null, at: null };
  return change.ask ? answered(spec, state, change) : {};
}

// Numbers; once the level is done the next one, known schedules below it, and the rows as text.
function readout(place, spec, set) {
  const [rows, after] = [h("div", {}), h("div", { class: "dt-after" })];
  place.append(rows, after);
  const showRows = plainRows(rows);
  let shown = null;
  return (numbers, state, { level, built }) => {
    showRows(numbers);
    const now = built.solved ? state.level : null;
    if (now !== shown) after.replaceChildren(...(built.solved ? afterwards(spec, now, set) : []));
    shown = now;
    if (!built.solved) return;
    const known = [...after.querySelectorAll("[aria-pressed]")];
    known.forEach((button, i) => button.setAttribute("aria-pressed", String(state.beside === i)));
    after.querySelector("pre").textContent = rowsAsText(level, built.actions);
  };
}
readout.room = plainRows.room;

// The next level begins where its figure is, and the keyboard goes there too: the button is gone.
function begin({ target }, level, set) {
  const whole = target.closest(".dt-widget");
  set({ level });
  whole.querySelector(".dt-task").scrollIntoView({ block: "start", behavior: "instant" });
  whole.querySelector(`.dt-choice label:nth-of-type(${level + 1}) input`).focus({ preventScroll: true });
}

function afterwards({ levels }, at, set) {
  const button = (words, look, press) =>
    h("button", { type: "button", class: `dt-button ${look}`, onclick: press }, words);
  const next = levels[at + 1];
  const known = levels[at].known.map((one, i) => {
    const numbers = h("small", {}, knownWords(runPipeline(one, { f: 1, b: 1, w: 1 })));
    const made = button([one.label, numbers], "", () => {
      set({ beside: made.getAttribute("aria-pressed") === "true" ? null : i });
    });
    return append(made, { "aria-pressed": "false" }, []);
  });
  return [
    next ? button(`Next: ${next.name} ›`, "is-primary", (event) => begin(event, at + 1, set)) : "",
    h("p", {}, "Lay a known schedule below yours, on the same clock:"),
    h("div", { class: "dt-known", role: "group", "aria-label": "known schedules" }, known),
    h("details", {}, h("summary", {}, "Your rows, as the library reads them"), h("pre", { tabindex: 0 })),
  ];
}

// The browser keeps the tiles of every level, and which levels were done.
const kept = {
  as: "dtlib-scene:",
  was: "dtlib-bet:",
  write: (spec, { level, work, won }) => ({ level, work, won }),
  read: (spec, stored) => stored ?? {},
};

export default widget({ hint: HINT, near: true, view, draw, drag, changed, readout, kept, again: null });
