// A bar for each stage of a pipeline, a segment for each term of its memory, and the border that the
// bars must not cross. Below, the terms of one stage, each at its place in the bar, with its name.

const HINT =
  "Press a term to open its line, a bar to see another stage; " +
  "or Tab to the figure, go on with the arrow keys, and press Enter.";
const TERMS = {
  weights: ["W", ink.soft, 0.35],
  gradients: ["G", ink.backward, 0.4],
  passing: ["G", ink.backward, 0.4],
  main: ["G", ink.backward, 0.4],
  master: ["C", ink.fourth, 0.38],
  moments: ["M", ink.fourth, 0.38],
  activations: ["A", ink.forward, 0.42],
  again: ["R", ink.forward, 0.18],
  logits: ["L", ink.forward, 0.18],
  gathered: ["B", ink.communication, 0.5],
  sequence: ["B", ink.communication, 0.5],
  ring: ["B", ink.communication, 0.5],
  ahead: ["B", ink.communication, 0.5],
  reserve: ["", ink.soft, 0.06],
};
const ORDER = Object.keys(TERMS).flatMap((term) => [term, `expert_${term}`]);
const kindOf = (term) => TERMS[term.replace("expert_", "")];
const TOP = 30;
const WIDE = 480;
const [LINE, ABOVE] = [25, 15];
const WIDTH = 6.9; // of a letter
const REACHES = [1.15, 2.3, 4.6, 9.2, 20, 50, 120, 300, 1000];

const bytes = (value) => formatQuantity(value, "B", 3);

function view(spec, state) {
  const q = { ...spec.setting, ...state };
  const { hbm } = spec.gpus[q.gpu];
  const ranks = q.dp * q.tp * q.pp * q.cp;
  const why = refusedSplit(spec, q);
  if (why) {
    const names = { ...q, ranks, hbm, memory: Infinity, fullest: Infinity };
    return { names, why, said: why };
  }
  const stages = Array.from({ length: q.pp }, (_, place) => stageMemory(spec, q, place));
  const place = Math.min(state.place, q.pp - 1);
  const found = stages[place];
  const fullest = Math.max(...stages.map(({ memory }) => memory));
  const seen = { stages, place, found, parts: partsOf(found), gpu: spec.gpus[q.gpu], fullest };
  return {
    ...seen,
    open: openOf(state, seen),
    names: { ...q, ranks, memory: found.memory, fullest, hbm },
    rows: [splitRow(q, ranks)],
    said: saidOf(spec, q, ranks, seen),
  };
}

// The terms of a bar that are there, from where to where.
function partsOf(found) {
  let at = 0;
  return ORDER.filter((term) => found[term] > 0).map((term) => {
    const from = at;
    at += found[term];
    return { term, from, to: at };
  });
}

const largestPart = ({ parts }) =>
  parts.reduce((best, part) => (part.to - part.from > best.to - best.from ? part : best)).term;

// The line that is open: the one that was pressed, where the stage has it, else the largest term's.
const openOf = ({ open }, seen) => (seen.found[open] > 0 ? open : largestPart(seen));

const rankOf = ({ stages, place }) => (stages.length > 1 ? `a rank of stage ${place}` : "a rank");

function splitRow({ dp, tp, pp, cp }, ranks) {
  const factors = [
    [dp, "replica"],
    [tp, "tensor-parallel rank"],
    [pp, "pipeline stage"],
    [cp, "context-parallel rank"],
  ].filter(([n], i) => n > 1 || i === 0);
  return [factors.map(([n, word]) => counted(n, word)).join(" × "), counted(ranks, "GPU")];
}

function saidOf(spec, q, ranks, seen) {
  const { found, stages, gpu, fullest } = seen;
  const largest = largestPart(seen);
  const rest = gpu.hbm - found.memory;
  return (
    `${spec.models[q.model].label} on ${counted(ranks, "GPU")}: ${rankOf(seen)} needs ` +
    `${bytes(found.memory)}, ${bytes(Math.abs(rest))} ${rest < 0 ? "more" : "less"} than one ` +
    `${gpu.label} has. Largest part: ${spec.known[largest].label}, ${bytes(found[largest])}.` +
    (stages.length > 1 ? ` The fullest stage needs ${bytes(fullest)}.` : "")
  );
}

function boxOf({ stages, fullest, gpu }, width) {
  const several = stages.length > 1;
  const high = stages.length > 4 ? 22 : several ? 34 : 44;
  const [left, right] = [several && width >= WIDE ? 62 : 26, width - (width < WIDE ? 58 : 70)];
  const reach = REACHES.find((k) => fullest < k * gpu.hbm);
  const across = scaleOf(0, reach * gpu.hbm, "linear", left, right);
  const below = TOP + stages.length * (high + 6) + (several ? 24 : 4);
  const top = (place) => TOP + place * (high + 6);
  return { several, high, left, right, reach: reach * gpu.hbm, across, top, below, width };
}

function draw(spec, state, seen, width) {
  if (seen.why) {
    const words = mark.text({ x: 0, y: 20, fill: ink.backwardText, ...bold }, "There is no such split.");
    return { height: 30, label: seen.why, marks: [words] };
  }
  const box = boxOf(seen, width);
  const { several, below } = box;
  const { lines, bottom } = termLines(spec, seen, box);
  return {
    height: bottom + 44,
    label: `The memory of ${counted(seen.stages.length, "stage")}, term by term.`,
    marks: [
      axis(box, bottom),
      seen.stages.map((found, place) => bar(found, place, seen, box)),
      limit(seen.gpu, box, bottom),
      seen.stages.map((found, place) => total(found, place, seen, box)),
      several ? mark.text({ x: 0, y: below - 8, ...soft }, `stage ${seen.place}:`) : null,
      lines,
    ],
  };
}

function axis({ left, right, across, reach, width }, bottom) {
  const values = quantityTicks(0, reach, "linear", width / 90, "B");
  return [
    values.map((v) =>
      mark.line({ x1: across(v), x2: across(v), y1: TOP, y2: bottom, stroke: ink.line }),
    ),
    axisBelow(values, across, { left, right, bottom }, 18, (v) => (v ? formatQuantity(v, "B") : "0")),
    mark.text({ x: right, y: bottom + 36, ...soft, ...end }, "memory of one rank"),
  ];
}

const paintOf = (term) => {
  const [, fill, strength] = kindOf(term);
  const look = { fill, "fill-opacity": strength, stroke: fill, "stroke-width": 1 };
  return term === "reserve" ? { ...look, "stroke-dasharray": "3 2" } : look;
};

function bar(found, place, { stages, place: chosen, gpu }, box) {
  const { across, several, high, left } = box;
  const y = box.top(place);
  const verdict = found.memory > gpu.hbm ? "too much" : "it fits";
  const press = {
    set: { place },
    says: `stage ${place}: ${bytes(found.memory)}, ${verdict}, ${heldOf(found)} under way`,
    pressed: place === chosen,
  };
  const ring = { x: left - 2, y: y - 2, width: across(found.memory) - left + 4, height: high + 4, rx: 3 };
  const look = { fill: ink.paper, "fill-opacity": 0, stroke: ink.text, "stroke-width": 2 };
  return [
    mark.g(several ? press : {}, [
      several && place === chosen ? mark.rect({ ...ring, ...look }) : null,
      partsOf(found).map((part) => segment(part, found, place, box)),
    ]),
    partsOf(found).map((part) => segmentName(part, found, place, box)),
  ];
}

const heldOf = ({ in_flight: held }) => counted(held, "micro-batch", "micro-batches");

const segmentBox = ({ from, to }, place, { across, high, top }) => ({
  x: across(from) + 0.5,
  y: top(place),
  width: Math.max(across(to) - across(from) - 1, 0.5),
  height: high,
});

// How many micro-batches a term stands for.
const heldIn = ({ term }, { in_flight: held }, { several }) =>
  several && term.endsWith("activations") ? held : 1;

// A term of a bar; the activations of micro-batches that are under way lie side by side.
function segment(part, found, place, box) {
  const at = segmentBox(part, place, box);
  const held = heldIn(part, found, box);
  const between = { y1: at.y, y2: at.y + at.height, stroke: ink.paper, "stroke-width": 1.5 };
  return [
    mark.rect({ ...at, ...paintOf(part.term), set: { place, open: part.term } }),
    Array.from({ length: held - 1 }, (_, i) => {
      const x = at.x + ((i + 1) * at.width) / held;
      return mark.line({ x1: x, x2: x, ...between, ...untouched });
    }),
  ];
}

// What stands in it, beside the limit.
function segmentName(part, found, place, box) {
  const { x, y, width, height } = segmentBox(part, place, box);
  const [letter] = kindOf(part.term);
  const words = [heldIn(part, found, box) > 1 ? heldOf(found) : letter, letter];
  const [start, stop] = clearOf(box.across(found.hbm), x, x + width);
  const fits = words.find((one) => WIDTH * one.length < stop - start - 6);
  const at = { x: (start + stop) / 2, y: y + height / 2 + 4.5, ...middle, "font-size": 12.5 };
  return fits ? mark.text({ ...at, ...untouched }, fits) : null;
}

// The larger part of a stretch that the limit cuts.
const clearOf = (cut, from, to) =>
  cut <= from || cut >= to ? [from, to] : cut - from > to - cut ? [from, cut] : [cut, to];

const untouched = { "pointer-events": "none" };

// What the bars must not cross, on top of them.
function limit({ label, hbm }, { across, below, several, width }, bottom) {
  const x = across(hbm);
  const words = `${label}: ${bytes(hbm)}`;
  const beside = x + 8 * words.length < width ? { x: x + 7 } : { x: x - 7, ...end };
  const stop = several ? below - 24 : below - 2;
  const at = { x1: x, x2: x, y1: 18, y2: stop, ...untouched };
  return [
    mark.line({ ...at, y1: stop, y2: bottom, ...guideLook }),
    mark.line({ ...at, stroke: ink.paper, "stroke-width": 6 }),
    mark.line({ ...at, stroke: ink.text, "stroke-width": 2.5 }),
    mark.text({ ...beside, y: 20, ...bold, ...halo }, words),
  ];
}

// What is beyond the limit, as a line below the bar, and the sum at its end.
function total(found, place, { gpu }, box) {
  const { across, high, several, left, width } = box;
  const y = box.top(place);
  const over = found.memory > gpu.hbm;
  const fill = over ? ink.backwardText : ink.text;
  const name = width < WIDE ? String(place) : `stage ${place}`;
  const [from, to] = [across(gpu.hbm), across(found.memory)];
  const words = bytes(found.memory);
  const cut = to < from && to + 12 + 8 * words.length > from;
  const after = { x: (cut ? from : to) + 7, y: y + high / 2 + 4.5 };
  return [
    over ? mark.rect({ x: from, y: y + high - 3, width: to - from, height: 5, fill: ink.backward }) : null,
    mark.text({ ...after, fill, ...bold, ...halo, ...untouched }, words),
    several ? mark.text({ x: left - 8, y: y + high / 2 + 4.5, ...soft, ...end }, name) : null,
  ];
}

// The terms at their places in the bar above, each with its name and amount.
function termLines({ known }, { parts, open }, box) {
  let bottom = box.below;
  const lines = parts.map(({ term, from, to }) => {
    const [name, amount] = [known[term].label, bytes(to - from)];
    const [x, stop] = [box.across(from), Math.max(box.across(to), box.across(from) + 1.5)];
    const texts = namedBeside(name, amount, x, stop, box);
    const y = bottom + (texts ? 0 : ABOVE);
    bottom = y + LINE;
    return termLine({ term, name, amount, x, stop, y, texts, chosen: term === open }, box);
  });
  return { lines, bottom: bottom + 4 };
}

function termLine({ term, name, amount, x, stop, y, texts, chosen }, { left, width }) {
  const words = `${name}: ${amount}`;
  const above = { x: Math.min(x, width - WIDTH * words.length), y: y - 1 };
  const level = { y: y + LINE / 2 + 4.5 };
  const top = texts ? y : y - ABOVE;
  const whole = { x: left, y: top, width: width - left, height: y + LINE - top };
  const look = chosen ? { ...paintOf(term), stroke: ink.text, "stroke-width": 2 } : paintOf(term);
  return [
    mark.g(
      { set: { open: term }, says: words, pressed: chosen },
      mark.rect({ ...whole, fill: ink.paper, "fill-opacity": 0 }),
      mark.rect({ ...look, x, y: y + 3, width: stop - x, height: LINE - 6 }),
      (texts ?? [[words, above]]).map(([text, at]) =>
        mark.text({ ...level, ...at, ...halo }, text),
      ),
    ),
    mark.text({ x: left - 8, ...level, ...soft, ...end }, kindOf(term)[0]),
  ];
}

// Where a name and an amount have room: right of a term, left of it, at both sides, or nowhere.
function namedBeside(name, amount, from, to, { left, width }) {
  const words = `${name}: ${amount}`;
  const [before, after] = [from - left, width - to].map((room) => (room - 9) / WIDTH);
  const [leftOf, rightOf] = [{ x: from - 7, ...end }, { x: to + 7 }];
  if (words.length < after) return [[words, rightOf]];
  if (words.length < before) return [[words, leftOf]];
  const apart = name.length < before && amount.length < after;
  return apart ? [[`${name}:`, leftOf], [` ${amount}`, rightOf]] : null; // prettier-ignore
}

export default widget({ hint: HINT, view, draw, readout: openedRows });
