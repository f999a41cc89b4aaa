// Every schedule of the book, simulated or measured: rows of lanes from top to bottom, time from
// left to right, a bar for each span, with its name where there is room for it.

const LEAST_NAME = 11; // px
const OUTLINED = { "stroke-width": 1 };
const LOOKS = {
  forward: { fill: ink.forward },
  backward: { fill: ink.backward },
  weight: { fill: ink.fourth },
  communication: { fill: ink.communication },
  other: { fill: ink.soft },
  // a place that fills, is full, and is full but nobody knows yet
  filling: { ...OUTLINED, fill: ink.communication, "fill-opacity": 0.38, stroke: ink.communication },
  full: { ...OUTLINED, fill: ink.line, stroke: ink.soft },
  unseen: { ...OUTLINED, fill: "none", stroke: ink.communication, "stroke-dasharray": "2 3" },
  waiting: {
    ...OUTLINED,
    fill: ink.backward,
    "fill-opacity": 0.22,
    stroke: ink.backward,
    "stroke-dasharray": "3 2",
  },
};
// Paler, where many bars bear names.
for (const look of ["forward", "backward", "weight", "communication", "other"]) {
  const { fill } = LOOKS[look];
  LOOKS[`pale ${look}`] = { ...OUTLINED, fill, "fill-opacity": 0.35, stroke: fill };
}
const namePaint = (look) =>
  look === "communication" ? ink.onCommunication : LOOKS[look]["fill-opacity"] ? ink.text : ink.paper;

// What is told apart by colour is told apart by lines, too: which way they lean, and their dashes.
const HATCHES = {
  "pale backward": { every: 8 },
  "pale weight": { every: 6, "stroke-dasharray": "1.5 3" },
  "pale communication": { every: 8, falls: true },
};

// `rows` are [{ label, height, lanes = 1, gap = 8 }], where `height` is that of a lane; `spans` are
// [{ row, lane = 0, start, stop, look, name, at, over }]: `at` are attributes of the bar with its name,
// such as `set`, and `over` those of the bar alone; of several names the first that fits is written;
// `part` is the share of the lane's height, from and to. Only what is between `from` and `to` is drawn.
// Gives the marks, and the height below the last row.
function gantt({ rows, spans, from = 0, to, left, right, top }) {
  const across = scaleOf(from, to, "linear", left, right);
  const tops = [];
  let y = top;
  for (const { height, lanes = 1, gap = 8 } of rows) {
    tops.push(y);
    y += height * lanes + gap;
  }
  const drawn = spans
    .filter(({ start, stop }) => stop > start && start < to && stop > from)
    .map(({ row, lane = 0, start, stop, look, name: names, at = null, over = {}, part = [0, 1] }) => {
      const { height } = rows[row];
      const bar = { x: across(Math.max(start, from)), y: tops[row] + (lane + part[0]) * height + 1 };
      bar.width = Math.max(across(Math.min(stop, to)) - bar.x - 0.7, 0.6);
      bar.height = (part[1] - part[0]) * height - 2;
      const whole = start >= from && stop <= to && bar.height >= LEAST_NAME;
      const room = whole ? bar.width - 3 : 0;
      const fits = [names ?? []].flat().find((one) => 7 * String(one).length < room);
      const place = { x: bar.x + bar.width / 2, y: bar.y + bar.height / 2 + 4, ...middle };
      const words = { ...place, "font-size": clamp(bar.height - 1, LEAST_NAME, 12), fill: namePaint(look) };
      const clear = HATCHES[look] ? { ...halo, "stroke-width": 3 } : {};
      const name = fits === undefined ? null : mark.text({ ...words, ...clear }, fits);
      return { look, bar, over, at, name };
    });
  const labels = rows.map(({ label, height, lanes = 1 }, i) =>
    mark.text({ x: left - 8, y: tops[i] + (height * lanes) / 2 + 4, ...soft, ...end }, label),
  );
  return { marks: [ganttBars(drawn), labels], across, bottom: y };
}

// Bars with their names. What a press or a style sheet takes by itself is one mark each; of the
// others, those that look alike share their look, which a page of a thousand bars says in half the bytes.
function ganttBars(bars) {
  const alone = ({ look, bar, over, at, name }) =>
    mark.g(at, mark.rect({ ...bar, rx: 2, ...LOOKS[look], ...over }), hatchOf([bar], look), name);
  const plain = bars.filter(({ at }) => !at);
  const looks = [...new Set(plain.map(({ look }) => look))];
  const together = looks.map((look) => {
    const alike = plain.filter((one) => one.look === look);
    const boxes = alike.map(({ bar, over }) => mark.rect({ ...bar, rx: 2, ...over }));
    return [mark.g(LOOKS[look], boxes), hatchOf(alike.map(({ bar }) => bar), look)];
  });
  const names = ganttNames(plain.flatMap(({ name }) => name ?? []));
  return [together, names, bars.filter(({ at }) => at).map(alone)];
}

// Names share what they have in common but their places.
function ganttNames(names) {
  const looks = new Map();
  for (const { at: { x, y, ...look }, inside } of names) {
    const key = JSON.stringify(look);
    if (!looks.has(key)) looks.set(key, mark.g(look));
    looks.get(key).inside.push(mark.text({ x, y }, inside));
  }
  return [...looks.values()];
}

// The kinds of spans, named above a schedule: a swatch and a word for each, in lines up to `right`.
function ganttKey(kinds, x, y, right = Infinity) {
  let [at, line] = [x, y];
  return kinds.map(([look, words]) => {
    const wide = 30 + 7 * words.length;
    if (at > x && at + wide > right + 16) [at, line] = [x, line + 20];
    const swatch = { x: at, y: line - 10, width: 14, height: 11, rx: 2, ...LOOKS[look] };
    const name = mark.text({ x: at + 19, y: line, ...soft }, words);
    const marks = [mark.rect(swatch), hatchOf([swatch], look), name];
    at += wide;
    return marks;
  });
}

// The lines over bars that look so.
function hatchOf(bars, look) {
  if (!HATCHES[look]) return null;
  const { every, falls, ...more } = HATCHES[look];
  const d = bars.map((bar) => slant(bar, every, falls)).join("");
  return mark.path({ d, fill: "none", stroke: LOOKS[look].fill, ...more });
}

// Lines at a slant through a box, as a path.
function slant({ x, y, width, height }, every, falls = false) {
  const tenth = (value) => Math.round(10 * value) / 10;
  const point = (right, down) => `${tenth(x + (falls ? width - right : right))} ${tenth(y + down)}`;
  let d = "";
  for (let at = every / 2; at < width + height; at += every) {
    const from = at < height ? point(0, at) : point(at - height, height);
    d += `M${from}L${at < width ? point(at, 0) : point(width, at - width)}`;
  }
  return d;
}

// A timeline as `Timeline` describes it, as a drawing of its own.
function timelineFigure({ rows, spans, kinds, stop, unit, label }, width) {
  const left = 20 + 7 * Math.max(...rows.map((row) => row.label.length));
  const right = width - 8;
  const key = kinds.length > 1 ? ganttKey(kinds, left, 14, right) : [];
  const top = key.length ? key[key.length - 1][0].at.y + 22 : 6;
  const { marks, across, bottom } = gantt({ rows, spans, to: stop, left, right, top });
  const times = quantityTicks(0, stop, "linear", width / 90, unit);
  return {
    height: bottom + 34,
    label,
    marks: [
      key,
      marks,
      mark.line({ x1: left, x2: right, y1: bottom, y2: bottom, stroke: ink.soft }),
      timeTicks(times, across, bottom + 16, right, (v) => formatQuantity(v, unit, 3)),
      mark.text({ x: right, y: bottom + 32, ...end }, unit ? "time" : "time (steps)"),
    ],
  };
}
