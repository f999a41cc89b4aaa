// Models as points over parameters and tokens; the walls of memory and time move with the machine.

const HINT =
  "Drag the square, press a published model, or Tab to the sliders and use the arrow keys: the " +
  "first two are the model.";
const WIDE = 560;
const SNAP = 8; // px from the line of tokens per parameter, on which a dragged square stays
const NEAR = 10; // px from a published model, which is then taken
const TIMES = [["1 day", 86400], ["10 years", 10 * 365.25 * 86400]]; // prettier-ignore

// 5B parameters, 1.4T tokens: as the field writes counts.
function short(value) {
  const [name, size] = [["T", 1e12], ["B", 1e9], ["M", 1e6]].find(([, s]) => value >= s * 0.9995) ?? ["", 1]; // prettier-ignore
  return formatQuantity(value / size, "", 3) + name;
}

const quantity = (value, unit) => formatQuantity(value, unit, 3);
const fixedOf = ({ fixed }) => Object.fromEntries(fixed);
const machineOf = ({ gpus, links }, { gpu, link }) => ({ ...gpus[gpu], beta: links[link] });

// `at(name, other)`: a line's formula on the machine that is chosen.
function linesAt(spec, state) {
  const value = valuesAt(spec, { ...state, ...machineOf(spec, state) });
  return (name, other) => value(spec.lines[name])(other);
}

function view(spec, state) {
  const machine = machineOf(spec, state);
  const value = valuesAt(spec, { ...state, ...machine });
  const [bytes, seconds] = spec.curves.map(({ js }) => value(js)());
  const { deadline } = fixedOf(spec);
  const room = state.P * machine.memory;
  const cards = `${formatQuantity(state.P)} × ${gpuOf(spec, state)}`;
  return {
    names: { ...namesOf(spec, [bytes, seconds]), ...machine },
    seconds,
    rows: [...memoryRows(spec, state, bytes, room), ...timeRows(spec, state, seconds, deadline)],
    said:
      `${short(state.params)} parameters and ${short(state.tokens)} tokens on ${cards}: ` +
      `the state ${bytes <= room ? "fits" : "does not fit"}, the run takes ` +
      `${quantity(seconds, "s")}, ${seconds <= deadline ? "in time" : "too long"}.`,
  };
}

const gpuOf = ({ controls }, { gpu }) => controls.find(({ name }) => name === "gpu").words[gpu];

// What is asked, of what there is, as a bar that is full where more is asked.
const asked = (name, given, there, unit) => [
  name,
  `${quantity(given, unit)} of ${quantity(there, unit)}` +
    (given > there ? `: ${quantity(given / there, "×")} what there is` : ""),
  Math.min(1, given / there),
];

function memoryRows(spec, state, bytes, room) {
  const n = linesAt(spec, state)("devices");
  const cards = `${formatQuantity(n)} ${gpuOf(spec, state)}`;
  const held = n > state.P ? `that needs ${cards}` : `${cards} ${n === 1 ? "holds" : "hold"} that`;
  return [asked("memory", bytes, room, "B"), [`16 B × ${short(state.params)} parameters`, held]];
}

function timeRows(spec, state, seconds, deadline) {
  const { params, tokens, P, mfu, link } = state;
  const at = linesAt(spec, state);
  const talking = link ? 1 - at("late") / at("alone") : 0;
  const rate = quantity(P * machineOf(spec, state).peak * mfu, "FLOP/s");
  const left = `${quantity((1 - talking) * mfu, "%")} of the peak is left`;
  const work = (6 * params * tokens).toExponential(2);
  return [
    asked("time", seconds, deadline, "s"),
    [`6 × ${short(params)} × ${short(tokens)} = ${work} FLOP`, `at ${rate}`],
    [`adding up gradients takes ${quantity(talking, "%")} of the time`, left],
  ];
}

const boxOf = (width) => ({
  left: 52,
  right: width - 12,
  top: 30,
  bottom: 30 + clamp(width * 0.52, 270, 380),
});
const endsOf = ({ values }) => [values[0], values[values.length - 1]];

function planeOf(spec, width) {
  const [x, y] = spec.controls;
  const box = boxOf(width);
  const across = scaleOf(...endsOf(x), "log", box.left, box.right);
  return { x, y, box, width, across, up: scaleOf(...endsOf(y), "log", box.bottom, box.top) };
}

function draw(spec, state, { seconds }, width) {
  const plane = planeOf(spec, width);
  const { x, box, across, up } = plane;
  const at = linesAt(spec, state);
  const { deadline, tokens_per_param: ratio } = fixedOf(spec);
  const line = (tokensOf) => endsOf(x).map((params) => [across(params), up(tokensOf(params))]);
  const inTime = (name, time = deadline) => line((params) => at(name, { params, deadline: time }));
  const late = inTime("late");
  const counted = TIMES.map(([name, time]) => [name, inTime("late", time)]);
  const sized = line((params) => params * ratio);
  const wall = clamp(across(at("wall")), box.left, box.right);
  const perParameter = `${ratio} ${width < WIDE ? "" : "tokens "}per parameter`;
  const limit = quantity(deadline, "s");
  const thin = [...counted.map(([, points]) => points), sized];
  return {
    height: box.bottom + 48,
    label:
      "Training tokens against parameters, both logarithmic. The memory wall stands at " +
      `${short(at("wall"))} parameters.`,
    marks: [
      framed(
        box,
        grounds(box, late, inTime("alone"), wall, state.link),
        thin.map((points) => mark.path({ d: pathThrough(points), ...guideLook })),
        mark.path({ d: pathThrough(late), ...curveOf(1), "stroke-width": 3 }),
        mark.line({ x1: wall, x2: wall, y1: box.top, y2: box.bottom, stroke: ink.forward, "stroke-width": 3 }),
      ),
      axes(plane),
      counted.map(([name, points]) => along(points, box, name, 0.08, soft)),
      along(sized, box, perParameter, 0.16, soft),
      along(late, box, limit, 0.05, { fill: ink.backwardText, ...bold }),
      wallName(box, wall, at("wall")),
      published(spec.models, plane, state, inked(late, box, limit, 0.05)),
      yours(plane, state, seconds),
    ],
  };
}

const pathThrough = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x} ${y}`).join("");

function grounds({ left, right, top, bottom }, late, alone, wall, talks) {
  const tint = (d, fill, strength) => mark.path({ d, fill, "fill-opacity": strength });
  const between = `${pathThrough(late)}L${alone[1].join(" ")}L${alone[0].join(" ")}Z`;
  return [
    tint(`${pathThrough(late)}V${bottom}H${left}Z`, ink.fourth, 0.2),
    tint(`${pathThrough(talks ? alone : late)}V${top}H${left}Z`, ink.backward, 0.1),
    talks ? tint(between, ink.communication, 0.38) : null,
    tint(`M${wall} ${top}H${right}V${bottom}H${wall}Z`, ink.forward, 0.22),
  ];
}

// A name written along a falling or rising line, at a share of the part that is in the plot.
function along(line, box, text, share, look) {
  const found = beside(line, box, text, share);
  if (!found) return null;
  const [x, y, turn] = found;
  return mark.text({ x, y: y - 6, transform: `rotate(${turn} ${x} ${y})`, ...look, ...halo }, text);
}

function beside([[x0, y0], [x1, y1]], box, text, share) {
  const slope = (y1 - y0) / (x1 - x0);
  const reach = [box.top, box.bottom].map((y) => x0 + (y - y0) / slope);
  const from = Math.max(box.left, Math.min(...reach));
  const to = Math.min(box.right, Math.max(...reach));
  if (to - from < text.length * 7 + 20) return null;
  const x = from + clamp((to - from) * share, 8, 400);
  return [x, y0 + (x - x0) * slope, (Math.atan(slope) * 180) / Math.PI];
}

// The area that a name along a falling line takes.
function inked(line, box, text, share) {
  const found = beside(line, box, text, share);
  if (!found) return [];
  const [left, top] = found;
  const reach = text.length * 7;
  return [{ left, right: left + reach, top: top - 18, bottom: top + reach }];
}

function wallName(box, wall, params) {
  const beyond = wall >= box.right - 2;
  const left = beyond || wall > box.right - 110;
  const at = { x: wall + (left ? -7 : 7), y: box.bottom - 9, "text-anchor": left ? "end" : "start" };
  const words = beyond ? `memory: ${short(params)} →` : "memory is full";
  return mark.text({ ...at, fill: ink.forwardText, ...bold, ...halo }, words);
}

// Each name goes to the side of its dot that is free; where none is, the dot stands alone.
function published(models, { box, across, up }, state, names) {
  const around = (x, y, room) => ({ left: x - room, right: x + room, top: y - room, bottom: y + room });
  const dots = models.map(([name, params, tokens]) => [name, across(params), up(tokens), { params, tokens }]);
  const taken = [...names, around(across(state.params), up(state.tokens), 9)];
  taken.push(...dots.map(([, x, y]) => around(x, y, 4)));
  return dots.map(([name, x, y, set]) => {
    const free = sidesOf(x, y, 7 * name.length).find(
      ({ area }) =>
        area.left > box.left && area.right < box.right && !taken.some((one) => meet(one, area)),
    );
    if (free) taken.push(free.area);
    return mark.g(
      { class: "dt-published", set, says: `${name}: put your model here` },
      mark.circle({ cx: x, cy: y, r: 4, fill: ink.soft, stroke: ink.paper, "stroke-width": 1.5 }),
      free ? mark.text({ ...free.at, "font-size": 12.5, ...halo }, name) : null,
    );
  });
}

const sidesOf = (px, py, size) =>
  [
    [px + 8, py + 4, "start", 0],
    [px - 8, py + 4, "end", size],
    [px, py - 9, "middle", size / 2],
    [px, py + 17, "middle", size / 2],
  ].map(([x, y, anchor, shift]) => ({
    at: { x, y, "text-anchor": anchor },
    area: { left: x - shift, right: x - shift + size, top: y - 10, bottom: y + 3 },
  }));

const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

function axes({ x, y, box, across, up }) {
  const { left, right, top, bottom } = box;
  const frame = { x: left, y: top, width: right - left, height: bottom - top };
  return [
    mark.rect({ class: "dt-map-frame", ...frame, fill: "none", stroke: ink.soft }),
    axisBelow(ticks(...endsOf(x), "log", (right - left) / 56), across, box, 20, short),
    ticks(...endsOf(y), "log", (bottom - top) / 30).map((v) =>
      mark.text({ x: left - 8, y: up(v) + 4, ...soft, ...end }, short(v)),
    ),
    mark.text({ x: 4, y: 16 }, `${y.label} ${y.plain} ↑`),
    mark.text({ x: right, y: bottom + 41, ...end }, `${x.label} ${x.plain} →`),
  ];
}

function yours({ box, across, up }, { params, tokens }, seconds) {
  const [x, y] = [across(params), up(tokens)];
  const square = { x: x - 8, y: y - 8, width: 16, height: 16, rx: 3 };
  const words = `${short(params)} on ${short(tokens)}: ${quantity(seconds, "s")}`;
  return [
    flag(words, x, y - box.top > 52 ? y - 42 : y + 18, box),
    mark.rect({ class: "dt-handle", ...square, fill: ink.fourth, stroke: ink.text, "stroke-width": 2 }),
    mark.circle({ class: "dt-grab", cx: x, cy: y, r: 26, fill: ink.paper, "fill-opacity": 0 }),
  ];
}

function drag(spec, state, seen, width, { x: px, y: py }) {
  const { x, y, box, across, up } = planeOf(spec, width);
  const near = spec.models.find(
    ([, params, tokens]) => Math.hypot(across(params) - px, up(tokens) - py) < NEAR,
  );
  if (near) return { params: near[1], tokens: near[2] };
  const valueAt = ({ values }, value) => values[nearest(values, value, "log")];
  const params = valueAt(x, across.invert(clamp(px, box.left, box.right)));
  const sized = valueAt(y, fixedOf(spec).tokens_per_param * params);
  const close = Math.abs(up(sized) - py) < SNAP;
  return { params, tokens: close ? sized : valueAt(y, up.invert(clamp(py, box.top, box.bottom))) };
}

export default widget({ hint: HINT, view, draw, drag });
