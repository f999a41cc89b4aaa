// A backward pass in buckets on two lanes, and below it the time for each number of buckets.

const HINT =
  "Vermilion is the backward pass, purple the network; beside the network the backward pass is " +
  "slower. Tab to the sliders and use the arrow keys.";
const PLOT = 130;

const milliseconds = (value) => formatQuantity(value / 1e3, "s", 3);
const commOf = (spec, { beta }) => (1e3 * spec.gradient) / beta;
const timeOf = (state, comm) => bucketSteps(state, comm)[state.k - 1].over;

function view(spec, state) {
  const comm = commOf(spec, state);
  const steps = bucketSteps(state, comm);
  const { ready, over: time } = steps[state.k - 1];
  const counts = spec.controls[0].values;
  const times = counts.map((k) => timeOf({ ...state, k }, comm));
  const best = Math.min(...times);
  const last = comm / state.k + state.start;
  return {
    names: { time, exposed: time - ready, last, off: time / best - 1 },
    steps,
    counts,
    times,
    comm,
    rows: [
      ["a bucket", formatQuantity((spec.gradient * 1e9) / state.k, "B", 3)],
      ["network busy", milliseconds(comm + state.k * state.start)],
      ["backward pass over after", milliseconds(ready)],
      ["sticks out", milliseconds(time - ready)],
      ["the last bucket", milliseconds(last)],
    ],
    said:
      `${state.k} ${state.k > 1 ? "buckets" : "bucket"}, a backward pass of ` +
      `${milliseconds(state.backward)} and an all-reduce of ${milliseconds(comm)}: all is over ` +
      `after ${milliseconds(time)}. The backward pass ends after ${milliseconds(ready)}, and ` +
      `${milliseconds(time - ready)} stick out, of which the last bucket is ${milliseconds(last)}.`,
  };
}

const draw = (...given) => [drawLanes(...given), drawTimes(...given)];

function drawLanes(spec, { k }, { steps, names }, width) {
  const wide = width >= 560;
  const [left, right] = [wide ? 78 : 50, width - 8];
  const rows = [
    { label: wide ? "backward" : "backw.", height: 28, gap: 6 },
    { label: wide ? "network" : "netw.", height: 28 },
  ];
  const spans = steps.flatMap(({ i, began, ready, sent, over }) => [
    { row: 0, start: began, stop: ready, look: "backward", name: k <= 22 ? i : null },
    { row: 1, start: sent, stop: over, look: "communication", name: k <= 22 ? i : null },
  ]);
  const all = gantt({ rows, spans, to: names.time, left, right, top: 33 });
  const words = `all is over after ${milliseconds(names.time)}`;
  return {
    height: all.bottom + 16,
    label: `Two lanes; after the backward pass ${milliseconds(names.exposed)} stick out.`,
    marks: [
      headline(words, wide ? left : 4),
      all.marks,
      timeTicks(ticks(0, names.time, "linear", width / 110), all.across, all.bottom + 10, right, milliseconds),
    ],
  };
}

function drawTimes(spec, { k, backward }, { counts, times, comm, names }, width) {
  const least = Math.max(backward, comm);
  const most = Math.max(...times);
  const [left, right] = [56, width - 14];
  const [top, bottom] = [34, 34 + PLOT];
  const up = scaleOf(Math.min(...times, least) * 0.92, most * 1.04, "linear", bottom, top);
  const across = scaleOf(1, counts[counts.length - 1], "log", left + 10, right - 10);
  const curve = pathOf(counts.map(across), times.map(up));
  const floor = { x1: left, x2: right, y1: up(least), y2: up(least), "stroke-width": 2 };
  const longer = comm > backward ? "the network alone" : "the backward pass alone";
  return {
    height: bottom + 42,
    label: `The time for each number of buckets; the least is ${milliseconds(Math.min(...times))}.`,
    marks: [
      levels(ticks(up.invert(bottom), most, "linear", 4), left, right, up, milliseconds),
      mark.text({ x: 4, y: 16 }, "time until all is over, by number of buckets"),
      mark.line({ ...floor, stroke: ink.soft, "stroke-dasharray": "6 4" }),
      mark.text({ x: right, y: up(least) + 15, ...soft, ...end, ...halo }, longer),
      mark.path({ d: curve, fill: "none", stroke: ink.text, "stroke-width": 2 }),
      mark.circle({ cx: across(k), cy: up(names.time), r: 7, fill: ink.text, stroke: ink.paper, "stroke-width": 2 }),
      ticks(1, counts[counts.length - 1], "log", width / 80).map((count) =>
        mark.text({ x: across(count), y: bottom + 18, ...soft, ...middle }, count),
      ),
      mark.text({ x: right, y: bottom + 36, ...end }, "buckets"),
    ],
  };
}

export default widget({ hint: HINT, view, draw });
