// A run of a balancer: above, the busiest load over the mean against the steps; below, the loads of
// all experts at the step that the reader chose.

const HINT =
  "Blue bars are loads at the chosen step, the line is their mean. Tab to the sliders and use the " +
  "arrow keys; Page Up and Page Down make larger steps.";

function view({ runs, every, copies }, { gamma, step }) {
  const ratios = runs[gamma].map((loads) => (Math.max(...loads) * loads.length) / copies);
  const busiest = ratios[step / every];
  const many = formatQuantity(busiest, "×", 3);
  return {
    names: { busiest },
    ratios,
    loads: runs[gamma][step / every],
    many,
    said: `gamma ${gamma}, after ${step} steps: the busiest expert has ${many} the mean load.`,
  };
}

function draw(spec, { step }, { ratios, loads, many, names }, width) {
  const [left, right] = [44, width - 10];
  const across = scaleOf(0, spec.steps, "linear", left, right);
  const up = scaleOf(0, spec.top, "linear", 170, 44);
  const tall = scaleOf(0, spec.top, "linear", 350, 224);
  const room = (right - left) / loads.length;
  const mean = spec.copies / loads.length;
  const grid = (scale) => levels([1, 2, 3, 4, 5], left, right, scale, (v) => `${v}×`);
  const run = pathOf(ratios.map((_, i) => across(i * spec.every)), ratios.map(up));
  const now = { cx: across(step), cy: up(names.busiest), r: 6 };
  const edge = { stroke: ink.paper, "stroke-width": 2 };
  return {
    height: 380,
    label: `Loads of ${loads.length} experts after ${step} steps.`,
    marks: [
      headline(`busiest expert ${many} the mean`),
      mark.text({ x: 4, y: 38 }, "busiest load over the mean"),
      grid(up),
      mark.path({ d: run, fill: "none", stroke: ink.forward, "stroke-width": 1.8 }),
      mark.circle({ ...now, fill: ink.backward, ...edge }),
      mark.text({ x: right, y: 192, ...end }, `step, 0 to ${spec.steps}`),
      mark.text({ x: 4, y: 216 }, "load of each expert, over the mean"),
      grid(tall),
      loads.map((load, i) => {
        const y = tall(load / mean);
        const bar = { x: left + i * room, y, width: Math.max(room - 2, 1) };
        return mark.rect({ ...bar, height: Math.max(350 - y, 0.5), fill: ink.forward });
      }),
      rule(left, right, tall(1)),
      mark.text({ x: right, y: 372, ...end }, "experts, at first the most popular first"),
    ],
  };
}

export default widget({ hint: HINT, view, draw });
