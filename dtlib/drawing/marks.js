// A drawing is data: marks of SVG. A page draws them as elements, and the figure for print is
// the same marks as text. A paint is a colour of the page, or the book's own where a page has none,
// so that a drawing needs no style sheet.

const paint = (name, without) => `var(--dt-${name}, ${without})`;
const ink = {
  forward: paint("forward", "#0072b2"),
  backward: paint("backward", "#d55e00"),
  communication: paint("communication", "#cc79a7"),
  fourth: paint("fourth", "#009e73"),
  forwardText: paint("forward-text", "#00629b"),
  backwardText: paint("backward-text", "#a84a00"),
  communicationText: paint("communication-text", "#9b3f72"),
  fourthText: paint("fourth-text", "#00704f"),
  text: paint("ink", "currentColor"),
  soft: paint("soft", "#57606a"),
  line: paint("line", "#d8dee4"),
  paper: paint("surface", "#fff"),
  onCommunication: paint("on-communication", "#1f2328"),
};
// A colour for each of several: ranks, curves.
const inkOf = (i) => [ink.forward, ink.backward, ink.communication, ink.fourth][i % 4];
const inkTextOf = (i) =>
  [ink.forwardText, ink.backwardText, ink.communicationText, ink.fourthText][i % 4];
const soft = { fill: ink.soft, "font-size": 12.5 };
const bold = { "font-weight": 650 };
const middle = { "text-anchor": "middle" };
const end = { "text-anchor": "end" };
const halo = {
  "paint-order": "stroke",
  stroke: ink.paper,
  "stroke-width": 4,
  "stroke-linejoin": "round",
};

// mark.rect({ x, y, width, height, fill }), mark.text({ x, y, ...soft }, "words"), ... Where a mark
// has `set: { step: 3 }`, a press on it sets the state so; with `says`, its name for who listens, it
// is pressed by keys, too; a mark of class "dt-grab" can be dragged; one with `grip: "node"` is the
// slider of that control, and its `says` is the value in words. `keys` of one to press says what change
// other keys make there: { f: { kind: "F" }, "Shift+ArrowLeft": ... }.
const mark = Object.fromEntries(
  ["rect", "line", "text", "path", "circle", "g", "svg"].map((tag) => [
    tag,
    (at, ...inside) => ({ tag, at, inside: marksOf(inside) }),
  ]),
);
const marksOf = (nested) => [nested].flat(Infinity).filter((one) => one || one === 0);

const FOR_THE_PAGE = ["set", "says", "pressed", "grip", "keys"];
const attributesOf = (at) =>
  Object.entries(at)
    .filter(([name, value]) => !FOR_THE_PAGE.includes(name) && value !== null && value !== undefined)
    .map(([name, value]) => [
      name,
      typeof value === "number" ? Math.round(100 * value) / 100 : value,
    ]);

function drawn(one, set) {
  if (!one.tag) return String(one);
  const at = { ...Object.fromEntries(attributesOf(one.at)), ...pressOf(one.at, set), ...heldBy(one.at) };
  return s(one.tag, at, ...one.inside.map((inner) => drawn(inner, set)));
}

const heldBy = ({ grip: name, says }) => (name ? { "data-grip": name, "data-says": says } : {});

function pressOf({ set: change, says, pressed = null, keys = {} }, set) {
  if (!change) return {};
  const press = { onclick: () => set(change), style: "cursor: pointer" };
  if (!says) return press;
  const names = { role: "button", tabindex: -1, "aria-label": says };
  if (pressed !== null) names["aria-pressed"] = String(pressed);
  return { ...press, ...names, onkeydown: (event) => pressedKey(event, press.onclick, keys, set) };
}

const pressables = (round) => [...round.querySelectorAll("[role=button]")];
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

const keyName = ({ key, shiftKey }) =>
  key.length === 1 ? key.toLowerCase() : `${shiftKey ? "Shift+" : ""}${key}`;

function pressedKey(event, press, keys, set) {
  const change = event.altKey || event.ctrlKey || event.metaKey ? null : keys[keyName(event)];
  const way = ARROWS[event.key];
  if (change) set(change);
  else if (way) focusOn(neighbour(event.currentTarget, way) ?? event.currentTarget);
  else if (event.key === "Enter" || event.key === " ") press();
  else return;
  event.preventDefault();
}

// Of all that is pressed in a drawing, or in a place of class "dt-round", Tab reaches one, the arrow
// keys the others.
const roundOf = (node) => node.closest("svg.dt-drawing, .dt-round");

function reachable(round, node) {
  for (const one of pressables(round)) one.tabIndex = one === node ? 0 : -1;
}

function focusOn(node) {
  reachable(roundOf(node), node);
  node.focus({ preventScroll: true });
}

// The nearest mark to press that lies this way of another.
function neighbour(node, [right, down]) {
  const middleOf = (one) => {
    const { x, y, width, height } = one.getBoundingClientRect();
    return [x + width / 2, y + height / 2];
  };
  const [x, y] = middleOf(node);
  const [nearest] = pressables(roundOf(node))
    .map((one) => [one, middleOf(one)])
    .map(([one, [a, b]]) => [one, (a - x) * right + (b - y) * down, (a - x) * down + (b - y) * right])
    .filter(([, along]) => along > 1)
    .sort(([, a, acrossA], [, b, acrossB]) => a + 3 * Math.abs(acrossA) - b - 3 * Math.abs(acrossB));
  return nearest?.[0];
}

const escaped = (text) =>
  String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/"/g, "&quot;");

function written(one) {
  if (!one.tag) return escaped(one);
  const at = attributesOf(one.at).map(([name, value]) => ` ${name}="${escaped(value)}"`);
  const open = `<${one.tag}${at.join("")}`;
  return one.inside.length ? `${open}>${one.inside.map(written).join("")}</${one.tag}>` : `${open}/>`;
}

// A narrow screen scrolls a figure rather than showing letters below 11 px.
const LEAST_SCALE = 11 / 12;

// A whole drawing as an `<svg>` for a page without this script; one for a narrow page is hidden until
// a style sheet knows that the page is one.
function writtenFigure({ height, label, marks }, width, narrow = false) {
  const inside = marksOf(marks).map(written).join("\n");
  return (
    `<svg class="dt-at-${narrow ? "phone" : "page"}" role="img" aria-label="${escaped(label)}" ` +
    `viewBox="0 0 ${width} ${height}" style="${narrow ? "display: none; " : ""}width: ${width}px; max-width: 100%; height: auto; overflow: visible; ` +
    `--dt-least: ${Math.round(LEAST_SCALE * width)}px" ` +
    `fill="${ink.text}" font-family="inherit" font-size="13">\n${inside}\n</svg>`
  );
}
