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
// has `set: { step: 3 }`, a press on it sets the state so; a mark of class "dt-grab" can be dragged.
const mark = Object.fromEntries(
  ["rect", "line", "text", "path", "circle", "g"].map((tag) => [
    tag,
    (at, ...inside) => ({ tag, at, inside: marksOf(inside) }),
  ]),
);
const marksOf = (nested) => [nested].flat(Infinity).filter((one) => one || one === 0);

const attributesOf = (at) =>
  Object.entries(at)
    .filter(([name, value]) => name !== "set" && value !== null && value !== undefined)
    .map(([name, value]) => [
      name,
      typeof value === "number" ? Math.round(100 * value) / 100 : value,
    ]);

function drawn(one, set) {
  if (!one.tag) return String(one);
  const press = one.at.set ? { onclick: () => set(one.at.set), style: "cursor: pointer" } : {};
  const at = { ...Object.fromEntries(attributesOf(one.at)), ...press };
  return s(one.tag, at, ...one.inside.map((inner) => drawn(inner, set)));
}

const escaped = (text) =>
  String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/"/g, "&quot;");

function written(one) {
  if (!one.tag) return escaped(one);
  const at = attributesOf(one.at).map(([name, value]) => ` ${name}="${escaped(value)}"`);
  return `<${one.tag}${at.join("")}>${one.inside.map(written).join("")}</${one.tag}>`;
}

// A whole drawing as an `<svg>` for a page without this script.
function writtenFigure({ height, label, marks }, width) {
  const inside = marksOf(marks).map(written).join("\n");
  return (
    `<svg role="img" aria-label="${escaped(label)}" viewBox="0 0 ${width} ${height}" ` +
    `style="width: ${width}px; max-width: 100%; height: auto; overflow: visible" ` +
    `fill="${ink.text}" font-family="inherit" font-size="13">\n${inside}\n</svg>`
  );
}
