// Five tracks with a border each, which one ratio moves, and a mark on each track that is dragged.

const HINT =
  "Move the ratio, choose a link or a model, or drag a mark along its track; the last five " +
  "sliders do the same by arrow keys.";
const ROW = 66;
const TOP = 8;
const WIDE = 520;
const SIGNS = { hidden: "✓ hidden", exposed: "× exposed", "no experts": "no experts" };

const count = (value) => formatQuantity(value, "", 3);

function tracksOf({ tracks, models, ports }, state) {
  const { lengths, factors } = models[state.model];
  return tracks.map(({ key, words }, i) => {
    const length = state[key] || lengths[i];
    const carriers = ports[state.link][i];
    const border = (factors[i] * state.rho) / carriers;
    const share = length ? border / length : null;
    const verdict = share === null ? "no experts" : share <= 1 ? "hidden" : "exposed";
    return { key, words, length, carriers, border, share, verdict };
  });
}

function view(spec, state) {
  const found = tracksOf(spec, state);
  const those = (word) => found.filter(({ verdict }) => verdict === word).map(({ key }) => key);
  const list = (word) => those(word).join(", ") || "none";
  const published = Number(spec.tracks.every(({ key }) => state[key] === 0));
  return {
    names: { hidden: those("hidden").length, published },
    found,
    rows: found.map(rowOf),
    said:
      `${published ? spec.models[state.model].label : "Lengths of your own"} at ` +
      `${formatQuantity(state.rho, "FLOP/B", 3)}: hidden are ${list("hidden")}; ` +
      `exposed are ${list("exposed")}.`,
  };
}

function rowOf({ key, length, carriers, border, share, verdict }) {
  if (share === null) return [key, verdict];
  const on = carriers > 1 ? ` on ${carriers} ports` : "";
  const against = `${key} ${count(length)} against ${count(border)}${on}`;
  return [against, `${verdict}: ${formatQuantity(share, "×", 2)}`];
}

const endsOf = (width) => ({ left: 10, right: width - 10 });
const acrossOf = ({ ends }, width) => scaleOf(...ends, "log", ...Object.values(endsOf(width)));

function draw(spec, state, { found }, width) {
  const across = acrossOf(spec, width);
  const bottom = TOP + ROW * found.length;
  return {
    height: bottom + 44,
    label: found.map(({ key, verdict }) => `${key}: ${verdict}`).join(", "),
    marks: [axis(spec.ends, across, bottom, width), found.map((one, i) => track(one, i, across, width))],
  };
}

function axis([low, high], across, bottom, width) {
  const anchor = (v) => (v === low ? "start" : v === high ? "end" : "middle");
  const title = width < WIDE ? "shaded: hidden" : "shaded: long enough to hide";
  return [
    ticks(low, high, "log", width / 80).map((v) => [
      mark.line({ x1: across(v), x2: across(v), y1: TOP, y2: bottom, stroke: ink.line }),
      mark.text({ x: across(v), y: bottom + 16, ...soft, "text-anchor": anchor(v) }, count(v)),
    ]),
    mark.text({ x: endsOf(width).left, y: bottom + 37 }, `length (a count); ${title}`),
  ];
}

function track({ key, words, length, border, verdict }, i, across, width) {
  const { left, right } = endsOf(width);
  const y = TOP + ROW * i;
  const inside = (value) => clamp(across(value), left, right);
  const edge = inside(border);
  const lane = { y: y + 26, height: 26 };
  const title = width < WIDE ? key : `${key}: ${words}`;
  const fill = { hidden: ink.forwardText, exposed: ink.backwardText }[verdict];
  return [
    mark.text({ x: left, y: y + 16, ...halo }, title),
    mark.text({ x: right, y: y + 16, fill, ...bold, ...end, ...halo }, SIGNS[verdict]),
    mark.rect({ class: "dt-track", ...lane, x: left, width: right - left, fill: ink.backward, "fill-opacity": 0.08, stroke: ink.line }),
    mark.rect({ ...lane, x: edge, width: right - edge, fill: ink.forward, "fill-opacity": 0.26 }),
    mark.line({ x1: edge, x2: edge, y1: y + 22, y2: y + 56, stroke: ink.text, "stroke-width": 2 }),
    length ? signed(inside(length), y + 39, verdict === "hidden") : null,
  ];
}

// The mark of a length: a tick where it hides, a cross where it does not.
function signed(x, y, hides) {
  const stroke = hides ? ink.forward : ink.backward;
  const sign = hides ? `M${x - 4} ${y}l3 3l5 -6` : `M${x - 3.5} ${y - 3.5}l7 7m0 -7l-7 7`;
  return [
    mark.circle({ class: "dt-handle", cx: x, cy: y, r: 10, fill: ink.paper, stroke, "stroke-width": 3 }),
    mark.path({ d: sign, fill: "none", stroke: ink.text, "stroke-width": 1.5 }),
    mark.circle({ class: "dt-grab", cx: x, cy: y, r: 24, fill: ink.paper, "fill-opacity": 0 }),
  ];
}

// The mark of the track that was taken goes to the pointer.
function drag(spec, state, seen, width, { x, from }) {
  const held = clamp(Math.floor((from.y - TOP) / ROW), 0, spec.tracks.length - 1);
  const { key } = spec.tracks[held];
  const { values } = spec.controls.find(({ name }) => name === key);
  const { left, right } = endsOf(width);
  const wanted = acrossOf(spec, width).invert(clamp(x, left, right));
  return { [key]: values[1 + nearest(values.slice(1), wanted, "log")] };
}

// A link brings its ratio, a model its lengths.
const changed = ({ ratios, tracks }, state, change) => ({
  ...("link" in change ? { rho: ratios[change.link] } : {}),
  ...("model" in change ? Object.fromEntries(tracks.map(({ key }) => [key, 0])) : {}),
});

export default widget({ hint: HINT, view, draw, drag, changed });
