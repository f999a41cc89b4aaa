// One batch on two curves: steps against samples above, and time against the batch below.

const HINT =
  "Drag the handle along the lower curve, or Tab to the sliders and use the arrow keys; Page Up " +
  "and Page Down make larger steps.";
const MOST = 300; // times the fewest, on both axes of the upper plot
const UPPER = { top: 50, bottom: 220 };
const LOWER = { top: 290, bottom: 450 };
const TIMES = [1 / 24, 1 / 8, 1 / 2, 1, 3, 10, 30, 100, 365.25, 3652.5].map((days) => 86400 * days);

const count = (value) => formatQuantity(value, "", 3);
const times = (value) => `${count(value)}×`;

function view(spec, state) {
  const value = valuesAt(spec, state);
  const [steps, samples, time, cost] = spec.curves.map(({ js }) => value(js)());
  const { fewest_steps: fewest } = Object.fromEntries(spec.fixed);
  const over = { steps: steps / fewest, samples: samples / (fewest * state.noise_batch) };
  const fits = Number(state.batch >= state.P);
  const money = `${formatQuantity(cost, "USD", 3)}`;
  const [many, much] = [times(over.steps), times(over.samples)];
  const short = fits ? "" : " There are fewer samples than ranks, so some have none.";
  return {
    names: { ...namesOf(spec, [steps, samples, time, cost]), fits },
    over,
    time,
    soonest: value(spec.soonest)(),
    rows: [
      ["steps", `${many} the fewest`],
      ["samples", `${much} the fewest`],
      ["time to the loss", formatQuantity(time, "s", 3)],
      ["price", money],
    ],
    said:
      `A batch of ${count(state.batch)} on ${count(state.P)} ranks: ${many} the fewest ` +
      `steps, ${much} the fewest samples, ${formatQuantity(time, "s", 3)}, ${money}.${short}`,
  };
}

const sidesOf = (width) => ({ left: 64, right: width - 14 });

function lowerOf(spec, state, width) {
  const box = { ...sidesOf(width), ...LOWER };
  const { values } = spec.controls[0];
  const value = valuesAt(spec, state);
  const seconds = (batch) => value(spec.curves[2].js)({ batch });
  const [low, high] = [values[0], values[values.length - 1]];
  const grid = Array.from({ length: 81 }, (_, i) => low * (high / low) ** (i / 80));
  const all = grid.map(seconds);
  const ends = [Math.min(...all) / 1.6, Math.max(...all) * 1.2];
  const across = scaleOf(low, high, "log", box.left, box.right);
  return { box, values, grid, across, seconds, ends, up: scaleOf(...ends, "log", box.bottom, box.top) };
}

function draw(spec, state, seen, width) {
  const { steps, samples } = seen.over;
  return {
    height: LOWER.bottom + 44,
    label:
      `Above, steps against samples, both over the fewest: ${times(steps)} and ` +
      `${times(samples)}. Below, the time to the loss against the batch.`,
    marks: [upper(seen, width), lower(spec, state, seen, width)],
  };
}

function upper({ over }, width) {
  const box = { ...sidesOf(width), ...UPPER };
  const across = scaleOf(1, MOST, "log", box.left, box.right);
  const up = scaleOf(1, MOST, "log", box.bottom, box.top);
  const bends = Array.from({ length: 121 }, (_, i) => 10 ** (-3.5 + (7 * i) / 120));
  const curve = pathOf(bends.map((b) => across(1 + 1 / b)), bends.map((b) => up(1 + b)));
  const dot = { cx: across(Math.min(over.steps, MOST)), cy: up(Math.min(over.samples, MOST)), r: 7 };
  return [
    headline(`${times(over.steps)} the fewest steps, ${times(over.samples)} the fewest samples`),
    mark.text({ x: 4, y: 38 }, "samples over the fewest ↑"),
    levels([1, 10, 100], box.left, box.right, up, times),
    framed(box, mark.path({ d: curve, ...curveOf(0) })),
    axisBelow([1, 2, 10, 100], across, box, 20, times),
    mark.text({ x: box.right, y: box.bottom + 40, ...end }, "steps over the fewest →"),
    mark.circle({ ...dot, fill: ink.backward, stroke: ink.paper, "stroke-width": 2 }),
  ];
}

function lower(spec, state, { time, soonest }, width) {
  const { box, values, grid, across, seconds, ends, up } = lowerOf(spec, state, width);
  const edge = clamp(across(state.P), box.left, box.right);
  const best = clamp(across(soonest), box.left, box.right);
  const valley = pathOf(grid.map(across), grid.map((batch) => up(seconds(batch))));
  const idle = { x: box.left, y: box.top, width: edge - box.left, height: box.bottom - box.top };
  const write = (v) => formatQuantity(v, "s", 2);
  const name = { x: clamp(best, box.left + 30, box.right - 30), y: box.bottom - 8 };
  return [
    mark.text({ x: 4, y: box.top - 12 }, "time to the loss ↑"),
    mark.text({ x: box.right, y: box.top - 12, ...soft, ...end }, "shaded: fewer samples than ranks"),
    levels(TIMES.filter((time) => time > ends[0] && time < ends[1]), box.left, box.right, up, write),
    framed(
      box,
      mark.rect({ ...idle, fill: ink.communication, "fill-opacity": 0.18 }),
      mark.path({ d: valley, ...curveOf(0) }),
    ),
    mark.line({ x1: best, x2: best, y1: box.top, y2: box.bottom, ...guideLook }),
    mark.text({ ...name, ...middle, ...soft, ...halo }, "soonest"),
    axisBelow(ticks(values[0], values[values.length - 1], "log", width / 80), across, box, 20, (v) =>
      formatQuantity(v, "", 3),
    ),
    mark.text({ x: box.right, y: box.bottom + 40, ...end }, "batch, samples →"),
    grip(across(state.batch), up(time)),
  ];
}

function drag(spec, state, seen, width, { x }) {
  const { box, values, across } = lowerOf(spec, state, width);
  return { batch: values[nearest(values, across.invert(clamp(x, box.left, box.right)), "log")] };
}

export default widget({ hint: HINT, view, draw, drag });
