// The workers' rows and the GPU's over a stretch of time, the ready batches below, and the share of
// the whole run for which the GPU computes.

const HINT = "Vermilion gaps are time in which the GPU waits.";
const MOST_ROWS = 16;
const TRACE = 70;

const seconds = (value) => formatQuantity(value, "s", 3);

function view(spec, state) {
  const { spread, workers, depth, in_order: inOrder, part } = state;
  const fetches = spec.draws[placeOf(spec, state, "spread")].map((draw) => draw * spec.fetch);
  const run = runPrefetch(fetches, spec.step, workers, depth, inOrder);
  const busy = busyShare(run, spec.step);
  const over = Math.max(...run.map((batch) => batch.taken)) + spec.step;
  const little = spec.fetch / spec.step;
  const share = formatQuantity(busy, "%", 3);
  return {
    names: { busy },
    run,
    from: (Math.max(0, over - spec.window) * part) / 100,
    share,
    said:
      `${workers} workers, ${depth} batches ahead, spread ${spread}, ` +
      `taken ${inOrder ? "in order" : "as they become ready"}: ` +
      `over ${formatQuantity(run.length)} batches the GPU computes ${share} of the time. ` +
      `Little's law asks for ${formatQuantity(little, "", 3)} in flight on average` +
      `${workers < little ? ", more than there are workers" : ""}.`,
  };
}

function draw(spec, { workers }, { run, from, share }, width) {
  const to = from + spec.window;
  const wide = width >= 560;
  const [left, right] = [wide ? 78 : 34, width - 8];
  const waits = stalls(run, spec.step);
  const { rows, spans } = scheduleOf(spec, run, waits, Math.min(workers, MOST_ROWS), wide);
  const all = gantt({ rows, spans, from, to, left, right, top: 33 });
  const bottom = all.bottom + 26 + TRACE;
  const seen = waits.filter(([a, b]) => b > from && a < to);
  const lost = seen.reduce((sum, [a, b]) => sum + Math.min(b, to) - Math.max(a, from), 0);
  const rest = { x: right - 2, y: 45, ...soft, ...end, ...halo };
  return {
    height: bottom + 22,
    label: `From ${seconds(from)} to ${seconds(to)} the GPU waits for ${seconds(lost)}.`,
    marks: [
      headline(`GPU computes ${share} of the whole run`, wide ? left : 4),
      all.marks,
      workers > MOST_ROWS ? mark.text(rest, `and ${workers - MOST_ROWS} more workers`) : null,
      readyPlot(readyTrace(run, from, to), { ...all, left, right, bottom }),
      timeTicks(ticks(from, to, "linear", width / 90), all.across, bottom + 18, right, seconds),
    ],
  };
}

// Every worker's fetches, and below them the GPU's steps with the gaps between.
function scheduleOf({ step }, run, waits, workers, wide) {
  const height = workers > 8 ? 11 : workers > 4 ? 16 : 22;
  const rows = Array.from({ length: workers }, (_, w) => ({
    label: height < 15 && w % 4 ? "" : wide ? `worker ${w}` : `${w}`,
    height,
    gap: w < workers - 1 ? 0 : 8,
  }));
  const fetches = run
    .filter(({ worker }) => worker < workers)
    .map(({ worker, begun, ready }) => ({ row: worker, start: begun, stop: ready, look: "filling" }));
  const gpu = { row: workers };
  return {
    rows: [...rows, { label: "GPU", height: 26, gap: 24 }],
    spans: [
      ...fetches,
      ...waits.map(([start, stop]) => ({ ...gpu, start, stop, look: "waiting" })),
      ...run.map(({ taken }) => ({ ...gpu, start: taken, stop: taken + step, look: "forward" })),
    ],
  };
}

// How many batches are ready, as stairs over time.
function readyPlot(trace, { across, left, right, bottom }) {
  const most = Math.max(4, ...trace.map(([, count]) => count));
  const up = scaleOf(0, most, "linear", bottom, bottom - TRACE);
  const stairs = trace.flatMap(([time, count], k) => [
    [time, trace[Math.max(0, k - 1)][1]],
    [time, count],
  ]);
  const line = pathOf(stairs.map(([time]) => across(time)), stairs.map(([, count]) => up(count)));
  const look = { fill: ink.fourth, "fill-opacity": 0.3, stroke: ink.fourth, "stroke-width": 1.5 };
  return [
    mark.text({ x: left, y: bottom - TRACE - 8, ...soft }, "batches ready and waiting"),
    mark.path({ d: `${line}L${right} ${bottom}L${left} ${bottom}Z`, ...look }),
    mark.line({ x1: left, x2: right, y1: bottom, y2: bottom, stroke: ink.soft }),
    [0, most].map((count) => mark.text({ x: left - 8, y: up(count) + 4, ...soft, ...end }, count)),
  ];
}

export default widget({ hint: HINT, view, draw });
