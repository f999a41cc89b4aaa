// A feed-forward block, divided by the reader: how each value lies, what is sent, or why it is refused.

const HINT =
  "One colour and letter is one rank; a dashed outline is a rank's summand. Whole is replicated. " +
  "Copied (from whole) and gathered (from pieces): copies for each rank's own use. z = x W₁ is sent " +
  "before the gelu. y goes back to where x lay by one line, where there is one.";
const NAMES = { x: "x", w1: "W₁", z: "z", w2: "W₂", y: "y" };
const SHAPES = { x: [1, 1.5], w1: [2.2, 1], z: [2.2, 1.5], w2: [1, 2.2], y: [1, 1.5] };
const DRAWN = { rows: "rows", columns: "columns", partial: "sums" };

const bytes = (count) => formatQuantity(count, "B", 3);

function view(spec, state) {
  const at = ["x", "w1", "z", "w2"].reduce((index, name) => {
    const { values } = spec.controls.find((one) => one.name === name);
    return index * values.length + values.indexOf(state[name]);
  }, 0);
  const one = spec.outcomes[spec.table[at]];
  const { why, lines, forward, backward, work, held, divided } = one;
  const sent = forward + backward;
  const kept = `${bytes(held)} of ${bytes(spec.weights)}`;
  return {
    names: { typed: why ? 0 : 1, sent, least: spec.least, divided, held, forward, backward, work },
    one,
    rows: [
      ...lines.map(([place, name, ahead, back]) => [
        `${NAMES[place]}: ${name}`,
        `forward ${bytes(ahead)} · backward ${bytes(back)}`,
      ]),
      ["each rank sends", why ? "nothing: it is refused" : `forward ${bytes(forward)} · backward ${bytes(backward)}`],
      ["each rank keeps of the weights", kept],
    ],
    said: why
      ? `Refused. ${why}.`
      : `It types. Each rank sends ${bytes(sent)} in a forward and backward pass, keeps ${kept} of ` +
        `the weights, and does ${formatQuantity(work, "%", 3)} of the products.`,
  };
}

function draw(spec, state, { one }, width) {
  const places = Object.keys(SHAPES);
  const gap = width < 480 ? 10 : 30;
  const all = places.reduce((sum, place) => sum + SHAPES[place][0], 0);
  const unit = Math.min(84, (width - gap * (places.length + 1)) / all);
  const [top, center] = [26, 26 + 1.1 * unit];
  const below = top + 2.2 * unit;
  let left = (width - unit * all - gap * (places.length - 1)) / 2;
  return {
    height: below + (width < 480 ? 44 : 26),
    label: places.map((place, i) => `${NAMES[place]}: ${one.lies[i]}`).join("; "),
    marks: places.map((place, i) => {
      const [wide, tall] = SHAPES[place].map((length) => length * unit);
      const box = { x: left, y: center - tall / 2, width: wide, height: tall };
      left += wide + gap;
      return valueBox(NAMES[place], one.lies[i], spec.P, box, below + (width < 480 && i % 2 ? 36 : 18));
    }),
  };
}

// What was not reached, because a line before it was refused, is an empty box.
function valueBox(name, lies, P, box, below) {
  const missing = lies === "?";
  const x = box.x + box.width / 2;
  const edge = missing ? { stroke: ink.backward, "stroke-dasharray": "5 4" } : { stroke: ink.line };
  return [
    mark.rect({ ...box, fill: "none", "stroke-width": missing ? 2 : 1, ...edge }),
    missing ? nameOf("?", box) : partsOf(DRAWN[lies] ?? "all", P, box),
    mark.text({ x, y: 14, ...middle }, name),
    mark.text({ x, y: below, ...soft, ...middle }, missing ? "refused" : lies),
  ];
}

export default widget({ hint: HINT, view, draw, near: true });
