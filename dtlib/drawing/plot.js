// What plots are made of: a headline, titles of axes, levels with their values, ticks.

const headline = (words, x = 4) =>
  mark.text({ class: "dt-headline", x, y: 18, ...bold }, words);

// Grid lines across a plot, with what each stands for at its left.
const levels = (values, left, right, up, write) =>
  values.map((v) => [
    mark.line({ x1: left, x2: right, y1: up(v), y2: up(v), stroke: ink.line }),
    mark.text({ x: left - 6, y: up(v) + 4, ...soft, ...end }, write(v)),
  ]);

// Values of time below an axis; the last one ends where the axis ends.
const timeTicks = (values, across, y, right, write) =>
  values.map((v) => {
    const anchor = v === values[0] ? "start" : across(v) > right - 20 ? "end" : "middle";
    return mark.text({ x: across(v), y, ...soft, "text-anchor": anchor }, write(v));
  });

// A line across a plot that means something: a mean, a capacity.
const rule = (left, right, y) =>
  mark.line({ x1: left, x2: right, y1: y, y2: y, stroke: ink.text, "stroke-width": 1.6 });

// Powers of ten from `low` to `high`, so many at most.
function decades(low, high, most) {
  const [first, last] = [Math.ceil(Math.log10(low)), Math.floor(Math.log10(high))];
  const step = Math.max(1, Math.ceil((last - first) / Math.max(1, Math.floor(most))));
  const found = [];
  for (let power = first; power <= last; power += step) found.push(10 ** power);
  return found;
}

// The look of one of several curves: a colour, and dashes that tell it apart without colours.
const DASHES = [null, "9 4", "2.5 3.5", "11 4 2.5 4"];
const curveOf = (i) => ({
  fill: "none",
  stroke: inkOf(i),
  "stroke-width": 2.5,
  "stroke-dasharray": DASHES[i % 4],
  "stroke-linejoin": "round",
});
const guideLook = { fill: "none", stroke: ink.soft, "stroke-width": 1.2, "stroke-dasharray": "3 4" };

// Of these marks only what lies in the box is seen.
const framed = ({ left: x, right, top: y, bottom }, ...inside) => {
  const [width, height] = [right - x, bottom - y];
  return mark.svg({ x, y, width, height, viewBox: `${x} ${y} ${width} ${height}` }, inside);
};

// What stands below a tick is centred, but at the right end of the axis nothing sticks out far.
const STICKS_OUT = 12; // px
const tickAnchor = (x, right, words) =>
  x + 3.5 * String(words).length > right + STICKS_OUT ? end : middle;

// Ticks of a horizontal axis with their values below, and the axis itself.
const axisBelow = (values, across, { left, right, bottom }, drop, write) => [
  mark.line({ x1: left, x2: right, y1: bottom, y2: bottom, stroke: ink.soft }),
  values.map((v) => [
    mark.line({ x1: across(v), x2: across(v), y1: bottom, y2: bottom + 5, stroke: ink.soft }),
    mark.text(
      { x: across(v), y: bottom + drop, ...soft, ...tickAnchor(across(v), right, write(v)) },
      write(v),
    ),
  ]),
];

// A pill with text, kept inside the plot.
function flag(words, x, top, { left, right }) {
  const half = words.length * 3.8 + 10;
  const at = clamp(x, left + half - 10, right - half + 10);
  return [
    mark.rect({ x: at - half, y: top, width: 2 * half, height: 22, rx: 11, fill: ink.text }),
    mark.text({ x: at, y: top + 15.5, ...middle, fill: ink.paper, "font-weight": 600 }, words),
  ];
}

// What is dragged: a round handle, and around it the room that a finger needs.
const grip = (cx, cy) => [
  mark.circle({ class: "dt-handle", cx, cy, r: 9, fill: ink.paper, stroke: ink.text, "stroke-width": 2 }),
  mark.path({ d: `M${cx - 2.5} ${cy - 3.5}v7M${cx + 2.5} ${cy - 3.5}v7`, stroke: ink.text, "stroke-width": 1.5 }),
  mark.circle({ class: "dt-grab", cx, cy, r: 24, fill: ink.paper, "fill-opacity": 0 }),
];
