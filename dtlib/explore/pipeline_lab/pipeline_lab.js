// A pipeline schedule as a grid of ranks and time, and below it what the marked rank has to hold.

const HINT =
  "Press an action to follow its micro-batch, and again to let go. With the keyboard: Tab to the " +
  "grid, arrow keys from action to action, Enter to press.";
const [TOP, CURVE] = [30, 74];
const LOOK = { F: "pale forward", B: "pale backward", BW: "pale backward", W: "pale weight" };
const WORDS = {
  F: "forward pass of",
  B: "input gradient of",
  W: "weight gradient of",
  BW: "backward pass of",
};

const count = (value) => formatQuantity(value, "", 3);
const forwards = (time) => `${count(time)} forward times`;
const batchesOf = (value) => `${count(value)} micro-batch${value === 1 ? "" : "es"}`;

function view(spec, state) {
  const { schedule, p, m, ratio, marked = null } = state;
  const stored = spec.schedules[schedule][`${p} ${m}`];
  const label = spec.controls.find(({ name }) => name === "schedule").words[schedule];
  if (stored.refused) return refusal(label, stored.refused);
  const run = runPipeline(stored, { f: 1, b: ratio / 2, w: ratio / 2 });
  const peak = Math.max(...run.peaks);
  const now = marked === null ? null : run.spans[marked];
  const [idle, step] = [formatQuantity(run.idle, "%", 3), forwards(run.makespan)];
  return {
    names: { idle: run.idle, peak, wait: run.wait, step: run.makespan },
    run,
    now,
    rows: rowsWith(idle, step, forwards(run.wait), batchesOf(peak)),
    said: now
      ? storyOf(run, now)
      : `${sentence(label)}, ${p} ranks, ${m} micro-batches: the step takes ${step}, ` +
        `${idle} of all ranks' time is idle, and a rank holds at most ${batchesOf(peak)}.`,
  };
}

const rowsWith = (idle, step, wait, peak) => [
  ["idle, of all ranks' time", idle],
  ["length of the step", step],
  ["longest idle time between a rank's first and last action", wait],
  ["most activations that a rank holds", peak],
];

const refusal = (label, why) => ({
  names: { idle: NaN, peak: NaN, wait: NaN, step: NaN },
  rows: rowsWith("–", "–", "–", "–"),
  said: `${sentence(label)}: ${why}`,
});

function storyOf(run, span) {
  const waited = span.start - span.free;
  const cause = makersOf(run, span).find((other) => other.stop === span.start);
  const why =
    waited > 0 && cause
      ? ` Its rank waited ${forwards(waited)} for ${pipelineName(cause)} on rank ${cause.rank}.`
      : "";
  const held = run.held[span.rank].filter(([start]) => start <= span.start);
  return (
    `${pipelineName(span)}, ${WORDS[span.kind]} micro-batch ${span.batch} through stage ` +
    `${span.stage}, starts on rank ${span.rank} at ${count(span.start)}.${why} ` +
    `The rank then holds ${batchesOf(held[held.length - 1][1])}.`
  );
}

// The actions whose results, such as 1B0, this one needs.
const makersOf = (run, { needs }) =>
  needs.map((result) => {
    const [stage, batch] = result.split(/[FB]/).map(Number);
    const kind = result.includes("F") ? "F" : "B";
    const makes = (span) => span.stage === stage && span.batch === batch && span.kind[0] === kind;
    return run.spans.find(makes);
  });

function draw(spec, state, { run, now }, width) {
  if (!run) {
    const words = "There is no such schedule.";
    return { height: 40, label: words, marks: [mark.text({ x: 8, y: 26, ...soft }, words)] };
  }
  const wide = width >= 560;
  const [left, right] = wide ? [58, width - 66] : [20, width - 34];
  const row = state.p > 4 ? 24 : 34;
  const rows = run.peaks.map((_, rank) => ({
    label: wide ? `rank ${rank}` : `${rank}`,
    height: row,
    gap: 0,
  }));
  const spans = run.spans.map((span, i) => barOf(span, i, state, now));
  const all = gantt({ rows, spans, to: run.makespan, left, right, top: TOP });
  const yOf = (rank) => TOP + (rank + 0.5) * row;
  const bottom = all.bottom + 62 + CURVE;
  const times = ticks(0, run.makespan, "linear", width / 80);
  const at = now ? all.across(now.start) : 0;
  const start = { x1: at, x2: at, y1: TOP - 4, y2: bottom, "stroke-dasharray": "2 3" };
  const unit = wide ? "time (forward times of a stage)" : "time (forward times)";
  return {
    height: bottom + 12,
    label: `${state.p} ranks in time; ${formatQuantity(run.idle, "%", 3)} of it is idle.`,
    marks: [
      ganttKey(keyOf(run), Math.min(left, 20), 16),
      all.marks,
      run.peaks.map((peak, rank) =>
        mark.text({ x: right + 6, y: yOf(rank) + 4, ...soft }, (wide ? "peak " : "") + count(peak)),
      ),
      timeTicks(times, all.across, all.bottom + 18, right, count),
      mark.text({ x: right, y: all.bottom + 34, ...soft, ...end }, unit),
      heldCurve(run, now ? now.rank : 0, { across: all.across, left, right, bottom, wide }),
      now ? mark.line({ ...start, stroke: ink.text }) : null,
      now ? needsOf(run, now, all.across, yOf) : null,
    ],
  };
}

const keyOf = ({ split }) => [
  ["pale forward", "forward"],
  ["pale backward", split ? "input gradient" : "backward (both gradients)"],
  ...(split ? [["pale weight", "weight gradient"]] : []),
];

// A bar is pale where another micro-batch is marked, and fuller in a rank's second stage.
function barOf(span, i, { p }, now) {
  const { rank, kind, batch, stage, start, stop } = span;
  const edge = now === span ? { stroke: ink.text, "stroke-width": 2.5 } : {};
  return {
    row: rank,
    start,
    stop,
    look: LOOK[kind],
    name: batch,
    over: { ...(stage >= p ? { "fill-opacity": 0.62 } : {}), ...edge },
    at: {
      set: { marked: now === span ? null : i },
      says: `${pipelineName(span)} on rank ${rank}`,
      pressed: now === span,
      opacity: now && now.batch !== batch ? 0.25 : null,
    },
  };
}

// What every rank holds over time; that of one rank is filled.
function heldCurve(run, chosen, { across, left, right, bottom, wide }) {
  const most = Math.max(...run.peaks);
  const up = scaleOf(0, most, "linear", bottom, bottom - CURVE);
  const lineOf = (steps) => {
    const stairs = steps.flatMap(([time, now], k) => [[time, k ? steps[k - 1][1] : 0], [time, now]]);
    const last = [run.makespan, stairs[stairs.length - 1][1]];
    const points = [...stairs, last];
    return pathOf(points.map(([time]) => across(time)), points.map(([, now]) => up(now)));
  };
  const look = (rank) =>
    rank === chosen
      ? { stroke: ink.communication, "stroke-width": 2 }
      : { stroke: ink.soft, "stroke-width": 0.8 };
  const title = wide
    ? `activations held by rank ${chosen} (micro-batches); thin: the other ranks`
    : `held by rank ${chosen} (micro-batches)`;
  const area = `${lineOf(run.held[chosen])}L${right} ${bottom}L${left} ${bottom}Z`;
  return [
    mark.path({ d: area, fill: ink.communication, "fill-opacity": 0.28 }),
    run.held.map((steps, rank) => mark.path({ d: lineOf(steps), fill: "none", ...look(rank) })),
    mark.line({ x1: left, x2: right, y1: bottom, y2: bottom, stroke: ink.soft }),
    [0, most].map((value) =>
      mark.text({ x: left - 8, y: up(value) + 4, ...soft, ...end }, count(value)),
    ),
    mark.text({ x: left, y: bottom - CURVE - 10, ...soft }, title),
  ];
}

// From the actions that the marked one needs to where it starts.
const needsOf = (run, now, across, yOf) =>
  makersOf(run, now)
    .filter((other) => other.rank !== now.rank)
    .map((other) =>
      mark.line({
        x1: across(other.stop), y1: yOf(other.rank), x2: across(now.start), y2: yOf(now.rank),
        stroke: ink.text, "stroke-width": 1.6,
      }),
    );

export default widget({
  hint: HINT,
  view,
  draw,
  changed: (spec, state, change) => ("marked" in change ? {} : { marked: null }),
});
