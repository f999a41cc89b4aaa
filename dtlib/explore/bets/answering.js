// The answer to a bet: locked until the reader has bet or skipped, then both on one line.

const RIGHT = { log: 1.05, linear: 2 }; // a factor, or points: nearer than this is right

function offBy({ scale, answer }, value) {
  return scale === "linear" ? Math.abs(value - answer) : Math.max(value / answer, answer / value);
}

function verdict({ scale }, off) {
  if (off < RIGHT[scale]) return "right on the spot";
  return scale === "linear"
    ? `off by ${formatQuantity(off)} points`
    : `off by a factor ${formatQuantity(off)}`;
}

// Whether the bet was as near as the reader believed.
function believed({ answer }, value, sure) {
  if (!sure) return "";
  const within = Math.max(value / answer, answer / value) <= sure * RIGHT.log;
  return `, ${within ? "and" : "not"} ${SURE[sure]}, as you believed`;
}

function view(spec, { value, sure, settled }) {
  const off = settled === "placed" ? offBy(spec, value) : null;
  const said = {
    "": "The answer waits until you have bet, or skipped.",
    skipped: `It is ${spec.answer_text}.`,
    placed: `You said ${value && textOf(spec, value)}, it is ${spec.answer_text}, ${verdict(spec, off)}${believed(spec, value, sure)}.`,
  };
  return {
    names: { off },
    said: settled ? `${said[settled]} ${spec.conclusion}`.trim() : said[settled],
  };
}

const answerOf = ({ answer, answer_text }) => ({
  value: answer,
  text: answer_text,
  look: { fill: ink.fourthText, ...bold },
  sign: (x, y) =>
    mark.path({ d: `M${x} ${y - 10}l10 10l-10 10l-10 -10z`, fill: ink.fourth, stroke: ink.paper, "stroke-width": 2 }),
});

function draw(spec, { value, settled }, seen, width) {
  const anchor = anchorOf(spec);
  const own = settled === "placed" ? [betOf(value, `your bet: ${textOf(spec, value)}`)] : [];
  const right = settled ? [answerOf(spec)] : [];
  const signs = [...anchor, ...own, ...right];
  const { height, marks } = lineDrawing(spec, width, anchor.length + 2, signs);
  return {
    height,
    label: signs.map(({ text }) => text).join(", ") || "the line of the bet, without its answer",
    marks: [own.length ? between(spec, width, value, height - 42) : null, marks],
  };
}

// What separates the bet from the answer.
function between(spec, width, value, y) {
  const across = acrossOf(spec, width);
  const look = { stroke: ink.communication, "stroke-width": 6, "stroke-opacity": 0.55 };
  return mark.line({ x1: across(value), x2: across(spec.answer), y1: y, y2: y, ...look });
}

// The longest that can be said of a bet, without its numbers.
const longestOf = (spec) =>
  view(spec, { value: 1.23456 * spec.low, sure: 10, settled: "placed" }).said.replace(/\d/g, "0");

// The lock: what opens it.
function lock(place, spec, set) {
  const root = place.closest(".dt-widget");
  root.tabIndex = -1;
  const goThere = (event) => {
    const question = root.ownerDocument.getElementById(`bet-${spec.key}`);
    if (!question) return;
    event.preventDefault();
    question.scrollIntoView({ behavior: calm() ? "auto" : "smooth", block: "center" });
    question.querySelector("[role=slider]").focus({ preventScroll: true });
  };
  const skip = h(
    "button",
    { type: "button", class: "dt-button", onclick: () => set({ settled: "skipped" }) },
    "Skip",
  );
  const way = h("a", { href: `#bet-${spec.key}`, onclick: goThere }, "Place your bet first");
  const box = h("p", { class: "dt-bet-entry" }, way, "or", skip);
  place.append(box);
  root.append(h("p", { class: "dt-bet-room", "aria-hidden": "true" }, longestOf(spec)));
  return (rows, { settled }) => {
    if (settled && box.querySelector(":focus")) root.focus({ preventScroll: true });
    box.hidden = settled !== "";
  };
}

lock.room = () => 44;

export default widget({ view, draw, kept, readout: lock, again: null });
