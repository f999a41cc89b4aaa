// A bet: a line that is a slider, a field for who would rather write, and what has been said.

const STEPS = 1000;
const ALIASES = { x: "×", times: "×", us: "µs", days: "d", hours: "h", percent: "%" };
const FACTORS = { k: 1e3, K: 1e3, M: 1e6, G: 1e9, million: 1e6, billion: 1e9 };

// An end of the line: in the unit that reads best, unless that takes more than two digits to say.
function endOf(spec, value) {
  const short = textOf(spec, value, 2);
  return short === textOf(spec, value) ? short : textOf({ ...spec, base: "" }, value);
}

const endsOf = (spec) => `from ${endOf(spec, spec.low)} to ${endOf(spec, spec.high)}`;

// The size of a unit that the reader wrote: the bet's own, or one that it carries.
function sizeOf(name, { unit, base, size }) {
  const plain = (word) => ALIASES[word] ?? word.replace("μ", "µ");
  if (!name || plain(name) === plain(unit)) return size;
  if (!base) return FACTORS[name] * size;
  const known = Object.fromEntries(LADDERS[base] ?? []);
  const large = name.replace(/^k/, "K");
  return known[plain(name)] ?? known[large] ?? known[large + base];
}

// A number as it was written: "4 s", "4000" or "4,000 ms". A comma before three digits parts
// thousands, as on the page; any other is a decimal comma.
function readNumber(text, spec) {
  const plain = text
    .trim()
    .replaceAll("−", "-")
    .replace(/^([+-]?[1-9]\d{0,2})((?:,\d{3})+)(?![\d,])/, (_, head, tail) => head + tail.replaceAll(",", ""))
    .replace(/^([+-]?\d+),(\d+)(?![\d.,])/, "$1.$2");
  const match = plain.match(/^([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*([^\d\s.,].*)?$/i);
  const value = match && (match[1] * sizeOf(match[2], spec)) / spec.size;
  return value === null || Number.isNaN(value) ? null : +value.toPrecision(12);
}

// Why a text is no bet, and what would be one; "" for a bet.
function problemOf(text, spec) {
  const written = text.trim();
  if (!written) return `Write a number ${endsOf(spec)} first, or mark the line, or skip.`;
  const value = readNumber(written, spec);
  if (value === null)
    return `“${written}” is not a number${spec.unit ? ` in ${spec.unit}` : ""}. Write one ${endsOf(spec)}.`;
  return spec.low <= value && value <= spec.high
    ? ""
    : `“${written}” is not on the line, which goes ${endsOf(spec)}.`;
}

const betIn = (text, spec) => (problemOf(text, spec) ? null : readNumber(text, spec));

// The nearest value of the line that has two digits; of a share, the nearest per cent.
function neat({ low, high, scale }, value) {
  const near = scale === "linear" ? Math.round(value) : +value.toPrecision(2);
  return clamp(near, low, high);
}

// What every key makes of a bet; the first begins in the middle of the line.
function keysOf(spec, value) {
  const along = scaleOf(spec.low, spec.high, spec.scale, 0, 1);
  const from = value ?? neat(spec, along.invert(0.5));
  const unit = (way) =>
    spec.scale === "linear" ? 1 : 10 ** (Math.floor(Math.log10(from) + 1e-9 * way) - 1);
  const step = (way) => ({ value: neat(spec, from + way * unit(way)) });
  const leap = (way) => ({ value: neat(spec, spec.scale === "linear" ? from + 10 * way : from * 10 ** (way / 4)) });
  return {
    ArrowRight: step(1),
    ArrowUp: step(1),
    ArrowLeft: step(-1),
    ArrowDown: step(-1),
    PageUp: leap(1),
    PageDown: leap(-1),
    Home: { value: spec.low },
    End: { value: spec.high },
    Enter: value === null ? null : { settled: "placed" },
  };
}

function view(spec, { value, settled, sure }) {
  const within = sure === null ? "" : `, ${SURE[sure]}`;
  const said = {
    "": value === null
      ? `Before you read on: mark the line, or write a number ${endsOf(spec)}.`
      : `Your mark is at ${textOf(spec, value)}. Place it, or move it.`,
    placed: `You bet ${value === null ? "" : textOf(spec, value)}${within}. The answer comes below.`,
    skipped: "Skipped. The answer comes below.",
  };
  return { names: {}, said: said[settled] };
}

function draw(spec, { value, settled }, seen, width) {
  const anchor = anchorOf(spec);
  const words = value === null ? "no bet yet" : textOf(spec, value);
  const own = value === null ? [] : [betOf(value, settled ? `your bet: ${words}` : words)];
  const { height, marks } = lineDrawing(spec, width, anchor.length + 1, [...anchor, ...own]);
  const y = height - 42;
  const along = scaleOf(spec.low, spec.high, spec.scale, 0, STEPS);
  return {
    height,
    label: [...anchor, ...own].map(({ text }) => text).join(", ") || "a line without a mark",
    slides: {
      label: ["Your bet", spec.unit].filter(Boolean).join(", "),
      words: settled === "skipped" ? "skipped" : words,
      at: value === null ? 0 : Math.round(along(value)),
      last: STEPS,
      keys: settled ? null : keysOf(spec, value),
    },
    marks: [
      settled ? null : trough(width, y),
      marks,
      settled || value !== null ? null : invitation(spec, width, y, anchor),
      settled || value === null ? null : grabbed(acrossOf(spec, width)(value), y),
    ],
  };
}

const trough = (width, y) =>
  mark.rect({ x: 2, y: y - 19, width: width - 4, height: 38, rx: 19, fill: ink.communication, "fill-opacity": 0.13 });

const grabbed = (cx, cy) =>
  mark.circle({ class: "dt-grab", cx, cy, r: 24, fill: ink.paper, "fill-opacity": 0 });

// Where there is most room beside the anchor.
function invitation(spec, width, y, anchor) {
  const at = anchor.length ? acrossOf(spec, width)(spec.anchor) : 0;
  const [x, room] = at > width / 2 ? [at / 2, at] : [(at + width) / 2, width - at];
  const words = room > 270 ? "mark the line where you think it is" : "mark the line";
  return mark.text({ x, y: y - 28, ...middle, ...halo, fill: ink.communicationText, ...bold }, words);
}

const drag = (spec, { settled }, seen, width, { x }) =>
  settled
    ? {}
    : { value: neat(spec, acrossOf(spec, width).invert(clamp(x, INSET, width - INSET))) };

const button = (words, onclick, look = "") =>
  h("button", { type: "button", class: `dt-button ${look}`, onclick }, words);

// What Enter does in a field; in a list it would open the list, as Space does.
const onEnter = (entered) => (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  if (!event.repeat) entered();
};

// How near the reader believes to be; nobody has to say.
function sureness(set, entered) {
  const kinds = { 2: "within 2×", 10: "within 10×", 0: "no idea" };
  const options = [2, 10, 0].map((kind) => h("option", { value: kind }, kinds[kind]));
  const choice = h(
    "select",
    {
      class: "dt-bet-field dt-bet-sure",
      "aria-label": "How sure are you, within what factor? You need not say.",
      onchange: () => set({ sure: choice.value === "" ? null : Number(choice.value) }),
      onkeydown: onEnter(entered),
    },
    h("option", { value: "" }, "how sure?"),
    options,
  );
  return choice;
}

// The field for who would rather write, and what is done when it is typed in, left, entered.
function numberField(spec, problem, { typed, left, entered }) {
  return h("input", {
    type: "text",
    inputmode: "decimal",
    class: "dt-bet-field",
    autocomplete: "off",
    placeholder: "?",
    "aria-label": `Your bet in ${spec.unit || "numbers"}`,
    "aria-describedby": problem.id,
    oninput: typed,
    onchange: left,
    onkeydown: onEnter(entered),
  });
}

// The field and the buttons.
function entry(place, spec, set) {
  const root = place.closest(".dt-widget");
  const why = root.querySelector(".dt-summary");
  const problem = h("p", { class: "dt-bet-problem", role: "alert", id: uniqueId("problem") });
  const field = numberField(spec, problem, {
    typed: () => set({ value: betIn(field.value, spec) }),
    left: () => refuse(field.value.trim() && problemOf(field.value, spec)),
    entered: commit,
  });
  const sureOf = sureness(set, commit);
  const yes = button("I bet", commit, "is-primary");
  yes.setAttribute("aria-describedby", (why.id = uniqueId("why")));
  const open = h(
    "div",
    { class: "dt-bet-entry" },
    h("span", { class: "dt-bet-number" }, field, h("span", {}, spec.unit)),
    sureOf,
    yes,
    button("Skip", () => set({ value: null, sure: null, settled: "skipped" })),
  );
  const done = h(
    "div",
    { class: "dt-bet-entry" },
    button("Erase my bet", () => set({ value: null, sure: null, settled: "" })),
  );
  place.append(open, problem, done);
  root.id = `bet-${spec.key}`;

  function refuse(fault) {
    problem.textContent = fault;
    field.setAttribute("aria-invalid", String(Boolean(fault)));
  }
  function commit() {
    const fault = problemOf(field.value, spec);
    refuse(fault);
    if (!fault) set({ settled: "placed" });
  }
  return (rows, { value, settled, sure }) => {
    const left = settled ? open : done;
    const focused = left.querySelector(":focus");
    if (betIn(field.value, spec) !== value)
      field.value = value === null ? "" : formatQuantity(value, "", DIGITS);
    if (value !== null || settled) refuse("");
    sureOf.value = sure ?? "";
    yes.disabled = value === null;
    open.inert = settled !== "";
    done.inert = settled === "";
    if (focused) root.querySelector("[role=slider]").focus({ preventScroll: true });
  };
}

entry.room = (spec, seen, width) => (width < 560 ? 94 : 44);

export default widget({ view, draw, drag, kept, readout: entry, again: null });
