// The run in words, the plot that is paper and then slider, and one step as a ring and as a bar.

const HINT =
  "By keys: Right draws on, Up and Down move the pen, Enter shows what happens; then the arrows slide.";
const WIDE = 620; // px: from there on the ring stands beside the rest
const SERIF = { "font-family": "var(--dt-serif, Georgia, serif)" };
const WORK = { fill: ink.forwardText, ...bold };
const TALK = { fill: ink.communicationText, ...bold };
const RANGE = [3600, 64 * 365.25 * DAY]; // seconds, of the vertical axis
const SHOWN = 2; // seconds of a step that the bar has room for

// Where everything stands; heights do not depend on what is told.
function placesOf(spec, width) {
  const wide = width >= WIDE;
  const ring = wide ? clamp(width * 0.35, 190, 380) : 128;
  const left = wide ? ring + clamp(width * 0.05, 24, 56) : 0;
  const top = wide ? 290 : 272;
  const box = { left: left + 66, right: width - 22, top, bottom: top + (wide ? 240 : 186) };
  const below = box.bottom + (wide ? 76 : 58);
  const bar = { left: wide ? left : ring + 18, right: width, top: below + (wide ? 0 : 36) };
  return {
    wide,
    left,
    size: wide ? clamp((width - left) / 7, 54, 92) : clamp(width / 5.4, 50, 66),
    box,
    bar,
    ring: { r: ring / 2 - 8, x: ring / 2, y: wide ? below / 2 + 30 : below + ring / 2 },
    height: below + (wide ? 62 : ring + 6),
    across: scaleOf(1, ranksAt(spec, lastOf(spec)), "log", box.left, box.right),
    up: scaleOf(...RANGE, "log", box.bottom, box.top),
  };
}

function draw(spec, state, seen, width) {
  const places = placesOf(spec, width);
  return {
    height: places.height,
    label: seen.said,
    slides: slidOver(spec, state, seen),
    marks: [
      headlineOf(seen, places),
      toldLines(seen, places, width),
      axesOf(spec, state, seen, places),
      handOf(spec, state, seen, places),
      seen.known ? truth(spec, state, seen, places) : null,
      seen.known ? slideOf(seen, places) : paperOf(spec, state, seen, places),
      ringOf(seen, places),
      barOf(seen, places),
    ],
  };
}

function headlineOf({ headline: [who, verb, number], guessed, known }, { wide, left: x, size }) {
  const small = { x, ...SERIF, "font-size": wide ? size * 0.43 : 25 };
  const look = guessed ? { fill: ink.soft, "font-style": "italic" } : { "font-weight": 600 };
  const big = { x: Math.max(0, x - 3), ...SERIF, ...look, "font-size": size, "letter-spacing": "-0.025em" };
  const lines = wide ? [`${who} ${verb}`] : [who, verb];
  const step = wide ? 0 : 29;
  const base = (wide ? 46 : 24) + step;
  return [
    lines.map((words, i) => mark.text({ ...small, y: base - step * (lines.length - 1 - i) }, words)),
    mark.text({ class: known ? "dt-later" : null, ...big, y: base + size * 0.93 }, number),
  ];
}

// Words in lines so wide at most, by the width of a usual letter.
function wrapped(words, most) {
  const lines = [""];
  for (const word of words.split(" ")) {
    const line = `${lines[lines.length - 1]} ${word}`.trim();
    if (line.length > most) lines.push(word);
    else lines[lines.length - 1] = line;
  }
  return lines;
}

function toldLines({ told: [says, asks], known }, { wide, left: x, size, box }, width) {
  const letters = wide ? 19 : 16;
  const most = Math.floor((width - x) / (letters * 0.47));
  const lines = [says, asks].flatMap((words, i) =>
    words ? wrapped(words, most).map((line) => [line, i ? { "font-weight": 600 } : {}]) : [],
  );
  const from = wide ? 46 + size * 0.93 + 46 : 24 + 29 + size * 0.93 + 32;
  const step = letters * 1.36;
  const at = { x, ...SERIF, "font-size": letters };
  const told = lines.map(([line, look], i) => mark.text({ ...at, ...look, y: from + i * step }, line));
  return mark.g({ class: known ? "dt-later" : null }, told);
}

function axesOf(spec, { drawn: length }, { times, known }, { wide, box, across, up }) {
  const whole = times.run(1);
  const named = [...spec.axis, [inWords(whole), whole]];
  const shown = ([, at]) => at !== whole || known || length;
  const places = Array.from({ length: lastOf(spec) / spec.fine + 1 }, (_, i) => 2 ** i);
  const every = wide ? 2 : 4;
  return [
    named.map(([words, at]) => [
      mark.line({ x1: box.left, x2: box.right, y1: up(at), y2: up(at), stroke: ink.line }),
      shown([words, at]) ? mark.text({ x: box.left - 8, y: up(at) + 4, ...soft, ...end }, words) : null,
    ]),
    axisBelow(
      places.filter((_, i) => i % every === 0),
      across,
      box,
      20,
      (P) => formatQuantity(P, "", 6),
    ),
    mark.text({ x: (box.left + box.right) / 2, y: box.bottom + 40, ...soft, ...middle }, "GPUs"),
  ];
}

const curveThrough = (columns, spec, timeOf, { across, up }) =>
  pathOf(columns.map((k) => across(2 ** (k / spec.fine))), columns.map((k) => up(timeOf(k))));

// What happens: the true line, the work alone, and between them the talking.
function truth(spec, { fresh }, { times }, places) {
  const columns = Array.from({ length: lastOf(spec) + 1 }, (_, k) => k);
  const on = (f) => (k) => f(2 ** (k / spec.fine));
  const alone = curveThrough(columns, spec, on(times.alone), places);
  const real = curveThrough(columns, spec, on(times.run), places);
  const back = curveThrough([...columns].reverse(), spec, on(times.alone), places);
  const { wide, box, across, up } = places;
  const [low, high] = [2 ** 12.2, 2 ** 14.2];
  const new_ = (name) => (fresh ? `${name} dt-fresh` : name);
  return [
    framed({ ...box, top: box.top - 4 }, mark.path({ class: new_("dt-gap"), d: `${real}L${back.slice(1)}Z`, fill: ink.communication, "fill-opacity": 0.36 })),
    mark.path({ d: alone, fill: "none", stroke: ink.forward, "stroke-width": 2, "stroke-dasharray": "1 5", "stroke-linecap": "round" }),
    mark.path({ class: new_("dt-curve"), pathLength: 1, d: real, fill: "none", stroke: ink.text, "stroke-width": 3, "stroke-linejoin": "round" }),
    mark.text({ x: across(low) - 4, y: up(times.alone(low)) + 14, ...end, ...WORK, ...halo }, wide ? "the work alone, divided" : "work alone"),
    mark.text({ x: across(high), y: up(Math.sqrt(times.run(high) * times.alone(high))), ...middle, ...TALK }, "talking"),
  ];
}

const HAND = { fill: "none", stroke: ink.soft, "stroke-width": 2.5, "stroke-linecap": "round", "stroke-linejoin": "round" };

function handOf(spec, { hand, drawn: length }, { known, times }, places) {
  if (!length) return null;
  const columns = hand.map((_, k) => k);
  const d = curveThrough(columns, spec, (k) => hand[k], places);
  const k = Math.round(columns.length * 0.3);
  const above = hand[k] > times.run(2 ** (k / spec.fine));
  const at = { x: places.across(2 ** (k / spec.fine)) + (above ? 6 : -8), y: places.up(hand[k]) + (above ? -10 : 18) };
  const words = { ...at, ...soft, ...halo, "font-style": "italic", "text-anchor": above ? "start" : "end" };
  return [
    mark.path({ class: "dt-drawn", d, ...HAND, "stroke-dasharray": known ? "7 6" : null }),
    known ? mark.text(words, "your line") : null,
  ];
}

// A finger anywhere on the paper draws, and does not scroll the page.
function paperOf(spec, { hand, pen, drawn: length }, seen, { box, across, up }) {
  const [cx, cy] = [across(2 ** (pen / spec.fine)), up(hand[pen])];
  const { left: x, right, top, bottom } = box;
  const arrow = `M${cx + 26} ${cy}h58m-9 -7l9 7l-9 7`;
  const look = { stroke: ink.text, "stroke-width": 2.5, "stroke-linecap": "round", fill: "none" };
  const words = { x: cx + 96, y: cy + 5, fill: ink.text, "font-size": 15, ...bold, ...halo };
  const edge = { x1: right, x2: right, y1: top, y2: bottom, ...look, "stroke-dasharray": "2 6" };
  return [
    length ? null : mark.g({ class: "dt-nudge" }, mark.path({ d: arrow, ...look }), mark.text(words, "draw on from here")),
    length && !seen.whole ? mark.line(edge) : null,
    mark.circle({ cx, cy, r: 20, fill: ink.text, "fill-opacity": 0.2 }),
    mark.circle({ class: "dt-handle", cx, cy, r: 11, fill: ink.text }),
    mark.rect({ class: "dt-grab dt-paper", x: x - 30, y: top - 16, width: right - x + 52, height: bottom - top + 16, fill: ink.paper, "fill-opacity": 0 }),
  ];
}

// The number of GPUs, to be slid.
function slideOf({ P, times, longer }, { box, across, up }) {
  const [cx, cy] = [across(P), up(times.run(P))];
  const foot = { cx, cy: box.bottom, stroke: ink.paper, "stroke-width": 2 };
  return [
    mark.line({ x1: cx, x2: cx, y1: box.top, y2: box.bottom, stroke: ink.text }),
    mark.circle({ ...foot, cy, r: 6, fill: ink.text }),
    mark.circle({ ...foot, class: "dt-handle", r: 11, fill: ink.text }),
    mark.circle({ class: "dt-grab", cx, cy: box.bottom, r: 26, fill: ink.paper, "fill-opacity": 0 }),
  ];
}

// One step as a ring of GPUs: all compute; then sums go round, then copies of the whole. It is seen once
// after each change, in the true proportions, which stay as the circle inside.
const MOST_DOTS = { wide: 64, narrow: 32 };
const STARS = 16; // chunks that are seen on their way

function ringOf({ P, known, times }, { wide, ring }) {
  const seats = MOST_DOTS[wide ? "wide" : "narrow"];
  const each = Math.ceil(P / seats);
  const share = known ? times.work(P) / times.step(P) : 1;
  return [
    circleOf(Math.ceil(P / each), seats, share, ring),
    known || P === 1 ? clockOf(share, ring, wide) : null,
    P > 1 && known ? chunksOf(Math.ceil(P / each), share, ring) : null,
    middleOf(P, each, share, known, ring, wide),
  ];
}

const around = ({ x, y, r }, turn, inwards = 0) => ({
  cx: x + (r - inwards) * Math.sin(2 * Math.PI * turn),
  cy: y - (r - inwards) * Math.cos(2 * Math.PI * turn),
});
const discs = (count, ring, look) =>
  Array.from({ length: count }, (_, i) => mark.circle({ ...around(ring, i / count), ...look }));
// What happens in a part of the step, as the times of an animation: its progress at each share of it.
const paced = (...stops) => `animation-timing-function: linear(${stops.map(([done, at]) => `${done} ${(100 * at).toFixed(1)}%`).join(", ")})`;

function circleOf(count, seats, share, ring) {
  const r = clamp((Math.PI * ring.r * 0.7) / count, 1.5, ring.r / 9);
  const stops = [[0, 0], [0, share], [1, share], [1, 1]];
  return [
    count < seats ? discs(seats, ring, { r: 1.5, fill: ink.soft, "fill-opacity": 0.5 }) : null,
    mark.g({ class: "dt-busy", style: paced(...stops) }, discs(count, ring, { r, fill: ink.forward })),
  ];
}

function chunksOf(count, share, ring) {
  const half = (1 + share) / 2;
  const hops = (count - 1) / count;
  const r = clamp(ring.r / 22, 3, 7);
  const origin = `transform-origin: ${ring.x.toFixed(1)}px ${ring.y.toFixed(1)}px; --dt-way: ${(720 * hops).toFixed(1)}deg`;
  const goes = (fill) => mark.g({ class: "dt-goes", style: `${paced([0, 0], [0, share], [1, 1])}; ${origin}` }, discs(Math.min(count, STARS), ring, { r, fill }));
  const seen = (from, to) => paced([0, 0], [0, from], [1, from], [1, to], [0, to], [0, 1]);
  return [
    mark.g({ class: "dt-comes", opacity: 0, style: seen(share, half) }, goes(ink.communication)),
    mark.g({ class: "dt-comes", opacity: 0, style: seen(half, 1) }, goes(ink.fourth)),
  ];
}

// The step as a clock: computing from the top on, then the talking.
function clockOf(share, ring, wide) {
  const inside = { ...ring, r: ring.r - (wide ? 26 : 13) };
  const width = wide ? 7 : 4;
  const arc = (from, to, stroke) => {
    const [a, b] = [around(inside, from), around(inside, Math.min(to, from + 0.9999))];
    const [r, large] = [inside.r, to - from > 0.5 ? 1 : 0];
    return mark.path({ d: `M${a.cx} ${a.cy}A${r} ${r} 0 ${large} 1 ${b.cx} ${b.cy}`, fill: "none", stroke, "stroke-width": width });
  };
  return [share < 1 ? arc(share, 1, ink.communication) : null, arc(0, share, ink.forward)];
}

function middleOf(P, each, share, known, { x, y }, wide) {
  const size = wide ? 40 : 20;
  const small = { x, ...soft, ...middle, "font-size": wide ? 14 : 11 };
  const step = wide ? 20 : 14;
  const busy = `${significant(100 * share, share < 0.1 ? 1 : 2)} % ${wide ? "computing" : "busy"}`;
  return [
    mark.text({ x, y: y + size * 0.1, ...middle, ...bold, "font-size": size }, formatQuantity(P, "", 6)),
    mark.text({ ...small, y: y + size * 0.1 + step }, P === 1 ? "GPU" : "GPUs"),
    known ? mark.text({ ...small, y: y + size * 0.1 + 2 * step, fill: ink.forwardText }, busy) : null,
    wide && each > 1 ? mark.text({ ...small, y: y + size * 0.1 + 3 * step }, `one dot is ${formatQuantity(each, "", 6)}`) : null,
  ];
}

// One step as a bar that ends at the right: with few GPUs it begins far outside of the page.
function barOf({ P, known, times }, { wide, bar: { left, right, top } }) {
  const [work, talk] = [times.work(P), times.talk(P)];
  const second = (right - left) / SHOWN;
  const [y, height] = [top, 30];
  const blind = !known && P > 1;
  const size = { "font-size": 13.5 };
  const ticks = wide ? [0, 0.5, 1, 1.5, 2] : [0, 1, 2];
  return [
    mark.rect({ x: left, y, width: right - left, height, fill: ink.line, "fill-opacity": 0.5 }),
    blind ? mark.text({ x: (left + right) / 2, y: y + 20, ...soft, ...middle, "font-style": "italic" }, "first you draw") : stepBars({ work, talk, second, left, right, y, height }),
    blind ? null : mark.text({ x: left, y: y - 9, ...WORK, ...size }, `${wide ? "one step: computing" : "work"} ${seconds(work)}`),
    talk && known ? mark.text({ x: right, y: y - 9, ...end, ...TALK, ...size }, `${wide ? "talking" : "talk"} ${seconds(talk)}`) : null,
    ticks.map((at) => [
      mark.line({ x1: right - at * second, x2: right - at * second, y1: y + height, y2: y + height + 5, stroke: ink.soft }),
      mark.text({ x: right - at * second, y: y + height + 19, ...soft, "text-anchor": at === SHOWN ? "start" : at ? "middle" : "end" }, at ? `${at} s` : wide ? "the step ends" : "end"),
    ]),
  ];
}

function stepBars({ work, talk, second, left, right, y, height }) {
  const talks = talk * second;
  const works = Math.min(work * second, right - left - talks);
  const outside = ((work + talk - SHOWN) * second * 0.0254) / 96; // metres, at 96 px to the inch
  const far = outside >= 1 ? `${outside.toFixed(1)} m` : `${Math.ceil(outside * 100)} cm`;
  const torn = `M${left - 1} ${y - 1}l7 5.3l-7 5.3l7 5.4l-7 5.3l7 5.4l-7 6.3z`;
  return [
    mark.rect({ x: right - talks - works, y, width: works, height, fill: ink.forward }),
    mark.rect({ x: right - talks, y, width: talks, height, fill: ink.communication }),
    outside > 0 ? mark.path({ d: torn, fill: ink.paper }) : null,
    outside > 0 && works > 190 ? mark.text({ x: left + 14, y: y + 20, fill: ink.paper, "font-size": 13 }, `← ${far} more on your screen`) : null,
  ];
}

// Keys of the one slider: first the pen's, then the number of GPUs.
function slidOver(spec, state, { known, guessed, P, time, whole }) {
  const last = lastOf(spec);
  if (known) {
    const { values } = spec.controls[1];
    const at = values.indexOf(P);
    const to = (i) => ({ P: values[clamp(i, 0, values.length - 1)] });
    const keys = { ArrowLeft: to(at - 1), ArrowRight: to(at + 1), ArrowDown: to(at - 1), ArrowUp: to(at + 1), PageDown: to(at - 8), PageUp: to(at + 8), Home: to(0), End: to(values.length) };
    return { label: "Number of GPUs, along the true line and your line", words: `${gpus(P)}: ${inWords(time)}`, at, last: values.length - 1, keys };
  }
  const told = whole ? "Enter shows what happens" : "Right draws on, Up and Down move the pen";
  const words = `${gpus(P)}: ${guessed ? "you say " : ""}${inWords(time)}. ${told}`;
  return { label: "Your line: how long the run takes", words, at: state.pen, last, keys: keysOfPen(spec, state, whole) };
}

function keysOfPen(spec, state, whole) {
  const { hand, pen, drawn: length } = state;
  const last = lastOf(spec);
  const before = { hand, pen: Math.max(0, pen - spec.fine) };
  const by = (factor) => (pen ? penTo(spec, before, pen, clamp(hand[pen] * factor, ...RANGE)) : {});
  const shows = { drawn: last + 1 };
  return {
    ArrowRight: whole ? shows : { drawn: Math.min(last, length + spec.fine) },
    ArrowLeft: { drawn: Math.max(0, length - spec.fine) },
    ArrowUp: by(2),
    ArrowDown: by(1 / 2),
    PageUp: by(16),
    PageDown: by(1 / 16),
    Home: { drawn: 0 },
    Enter: whole ? shows : {},
  };
}

function drag(spec, state, { known }, width, { x, y, from }) {
  const { box, across, up } = placesOf(spec, width);
  const far = 30; // px beside the plot that a hand may begin at
  if (from.y < box.top - far || from.y > box.bottom + far || from.x < box.left - 2 * far) return {};
  const P = clamp(across.invert(x), 1, ranksAt(spec, lastOf(spec)));
  if (known) return { P: spec.controls[1].values[nearest(spec.controls[1].values, P, "log")] };
  return penTo(spec, state, Math.round(columnOf(spec, P)), clamp(up.invert(y), ...RANGE));
}

// Who lets go of a whole line sees what happens.
const drop = (spec, { drawn: length }) => (length === lastOf(spec) ? { drawn: length + 1 } : {});

export default widget({ hint: HINT, whole: true, view, draw, drag, drop, changed });
