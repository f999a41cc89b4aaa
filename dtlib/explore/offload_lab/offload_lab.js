// Layers that come over a link: the link, the buffers and the arithmetic on one line of time, and
// below it what a layer takes with 1 to 8 buffers. All times are those that the library exported.

const HINT =
  "Purple is a transfer, blue arithmetic, vermilion waiting; a grey buffer is full and waits for " +
  "its turn, a dotted one for the latency. Tab to the sliders and use the arrow keys.";
const PLOT = 130;

const milliseconds = (value) => formatQuantity(value / 1e3, "s", 3);

function view(spec, state) {
  const { buffers, ratio, jitter, latency } = state;
  const [r, j, l] = ["ratio", "jitter", "latency"].map((name) => placeOf(spec, state, name));
  const runs = spec.runs.map((of) => of[r][j][l]);
  const times = runs.map(([time]) => time);
  const transfer = spec.computing * ratio;
  const time = times[buffers - 1];
  const fewer = times[Math.max(1, buffers - 1) - 1];
  return {
    names: { time, gain: fewer / time },
    layers: unpackRun(runs[buffers - 1], spec.fetches[r][j], spec.computing, latency).layers,
    times,
    transfer,
    said:
      `${buffers} ${buffers > 1 ? "buffers" : "buffer"}, ` +
      `${milliseconds(spec.computing)} of arithmetic and ${milliseconds(transfer)} of transfer, ` +
      `jitter ${formatQuantity(jitter, "%")}, latency ${milliseconds(latency)}: ` +
      `in the long run a layer takes ${milliseconds(time)}. ` +
      (buffers > 1
        ? `One buffer fewer: ${milliseconds(fewer)}.`
        : "With one buffer nothing overlaps."),
  };
}

const draw = (...given) => [drawLines(...given), drawTimes(...given)];

function drawLines(spec, { buffers }, { layers, names }, width) {
  const wide = width >= 560;
  const [left, right] = [wide ? 78 : 50, width - 8];
  const rows = [
    { label: "link", height: 24, gap: 6 },
    { label: buffersIn(wide, buffers), height: buffers > 4 ? 13 : 20, lanes: buffers },
    { label: wide ? "arithmetic" : "arith.", height: 26 },
  ];
  const spans = layers.flatMap(({ i, began, left: moved, ready, start, stop }) => {
    const buffer = { row: 1, lane: i % buffers };
    const before = i ? layers[i - 1].stop : 0;
    return [
      { row: 0, start: began, stop: moved, look: "communication", name: i },
      { ...buffer, start: began, stop: moved, look: "filling" },
      { ...buffer, start: moved, stop: ready, look: "unseen" },
      { ...buffer, start: ready, stop: start, look: "full" },
      { ...buffer, start, stop, look: "forward" },
      { row: 2, start: before, stop: start, look: "waiting" },
      { row: 2, start, stop, look: "forward", name: i },
    ];
  });
  const all = gantt({ rows, spans, to: spec.window, left, right, top: 33 });
  const times = ticks(0, spec.window, "linear", width / 110);
  const waited = milliseconds(waitedBefore(layers, spec.window));
  const words = `in the long run a layer takes ${milliseconds(names.time)}`;
  return {
    height: all.bottom + 16,
    label: `In the first ${milliseconds(spec.window)} the arithmetic waits for ${waited}.`,
    marks: [
      headline(words, wide ? left : 4),
      all.marks,
      timeTicks(times, all.across, all.bottom + 10, right, milliseconds),
    ],
  };
}

const buffersIn = (wide, count) => (wide ? (count > 1 ? "buffers" : "buffer") : "buf.");

function drawTimes(spec, { buffers }, { times, transfer }, width) {
  const most = Math.max(...times, transfer) * 1.05;
  const wide = width >= 560;
  const [left, right] = [wide ? 78 : 56, width - (wide ? 104 : 84)];
  const [top, bottom] = [34, 34 + PLOT];
  const up = scaleOf(0, most, "linear", bottom, top);
  const across = scaleOf(1, times.length, "linear", left + 14, right - 14);
  const floors = [
    [spec.computing, "arithmetic", "forward", null],
    [transfer, "link alone", "communication", "6 4"],
  ].sort((a, b) => b[0] - a[0]);
  const places = spread(floors.map(([v]) => up(v) + 4), 16, bottom);
  const guides = floors.map(([v, words, look, dash], i) => {
    const line = { x1: left, x2: right, y1: up(v), y2: up(v), "stroke-width": 2 };
    return [
      mark.line({ ...line, stroke: ink[look], "stroke-dasharray": dash }),
      mark.text({ x: right + 6, y: places[i], fill: ink[`${look}Text`] }, words),
    ];
  });
  const dots = times.map((time, i) => {
    const [r, fill, stroke] = i === buffers - 1 ? [7, ink.text, ink.paper] : [5, ink.paper, ink.text];
    const at = { cx: across(i + 1), cy: up(time), r };
    return [
      mark.circle({ ...at, fill, stroke, "stroke-width": 2 }),
      mark.text({ x: across(i + 1), y: bottom + 18, ...soft, ...middle }, i + 1),
    ];
  });
  return {
    height: bottom + 42,
    label: `Time of a layer with 1 to ${times.length} buffers: ${times.map(milliseconds).join(", ")}.`,
    marks: [
      levels(ticks(0, most, "linear", 4), left, right, up, milliseconds),
      mark.text({ x: 4, y: 16 }, "time of a layer, in the long run"),
      guides,
      dots,
      mark.text({ x: right, y: bottom + 36, ...end }, "buffers"),
    ],
  };
}

export default widget({ hint: HINT, view, draw });
