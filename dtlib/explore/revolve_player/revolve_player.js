// A chain that runs backward with few kept states: time from left to right, states downwards.

const HINT = "Choose layers and slots, then play, step, or move the slider below the figure.";
const [LEFT, TOP, TALL] = [34, 12, 250];
const MOVES = [
  ["A", { stroke: ink.forward, "stroke-width": 1.1 }],
  ["T", { stroke: ink.forward, "stroke-width": 3 }],
  ["B", { stroke: ink.backward, "stroke-width": 2.2 }],
];

const plural = (count, what) => `${formatQuantity(count)} ${what}${count === 1 ? "" : "s"}`;
const actionsOf = (spec, { layers, slots }) => parseActions(spec.schedules[`${layers} ${slots}`]);

function view(spec, state) {
  const { layers, slots, done } = state;
  const actions = actionsOf(spec, state);
  const whole = playActions(actions, layers, actions.length);
  const now = playActions(actions, layers, done);
  const last = actions[done - 1];
  const least = spec.least[`${layers} ${slots}`];
  const [run, needed] = [now.advances, least].map((count) => formatQuantity(count, "", 4));
  return {
    names: { advances: whole.advances, repeats: whole.repeats },
    now,
    time: whole.time,
    rows: [
      ["now", last ? `${last.word}: ${wordsOf(last)}` : "nothing has run yet"],
      ["slots in use", `${now.kept.length} of ${slots}`],
      ["layers run without a tape, so far", run],
      ["in the whole schedule", `${needed}: ${significant(least / layers, 3)} passes through the chain`],
    ],
    said:
      `${layers} layers, ${plural(slots, "slot")}: ${run} of ${needed} layers have run without ` +
      `a tape; no layer does so more than ${plural(whole.repeats, "time")}. ` +
      `${plural(now.left, "layer")} left to go back through.`,
  };
}

function draw(spec, { layers }, { now, time }, width) {
  const right = width - 10;
  const across = scaleOf(0, time, "linear", LEFT, right);
  const down = scaleOf(0, layers, "linear", TOP, TOP + TALL);
  const bottom = TOP + TALL + 10;
  const kept = [...now.bars, ...[...now.since].map(([state, from]) => [state, from, now.time])];
  const moves = MOVES.map(([kind, look]) => {
    const lines = now.lines.filter(([one]) => one === kind);
    const d = lines.map(([, a, from, b, to]) => pathOf([across(a), across(b)], [down(from), down(to)]));
    return mark.path({ d: d.join(""), fill: "none", ...look });
  });
  const every = Math.ceil(layers / 8);
  const states = Array.from({ length: layers + 1 }, (_, i) => i).filter((i) => i % every === 0);
  return {
    height: bottom + 24,
    label: "The schedule in time: state down, time to the right",
    marks: [
      states.map((i) => mark.text({ x: LEFT - 7, y: down(i) + 4, ...soft, ...end }, i)),
      kept.map(([state, from, to]) => {
        const [x1, x2] = [across(from), Math.max(across(to), across(from) + 1)];
        const y = down(state);
        return mark.line({ x1, x2, y1: y, y2: y, stroke: ink.fourth, "stroke-width": 3.5 });
      }),
      moves,
      mark.circle({ cx: across(now.time), cy: down(now.running ?? now.left), r: 4.5, fill: ink.text }),
      mark.line({ x1: LEFT, x2: right, y1: bottom, y2: bottom, stroke: ink.soft }),
      mark.text({ x: 2, y: bottom + 19, ...soft }, "state"),
      mark.text(
        { x: right, y: bottom + 19, ...soft, ...end },
        `time: ${formatQuantity(time, "", 4)} layers, forward or back`,
      ),
    ],
  };
}

export default widget({
  hint: HINT,
  view,
  draw,
  player: {
    name: "done",
    unit: "action",
    every: 260,
    last: (spec, state) => actionsOf(spec, state).length,
  },
  changed: () => ({ done: Infinity }),
});
