// Formulas over the variables of a spec: their values at a state, their equations with numbers.

const compiled = {};

// `valuesAt(spec, state)(js)({ n: 8 })`: a formula's value at a state, with some variables otherwise.
function valuesAt({ fixed, controls }, state) {
  const given = { ...Object.fromEntries(fixed), ...state };
  const names = [...new Set([...fixed, ...controls.map(({ name }) => [name])].map(([name]) => name))];
  return (js) => {
    const f = (compiled[`${names}: ${js}`] ??= new Function(...names, `return ${js};`));
    return (other = {}) => f(...names.map((name) => other[name] ?? given[name]));
  };
}

// What a task may ask about besides the variables: what is fixed, and the formulas by their keys.
const namesOf = ({ fixed, curves }, values) =>
  Object.fromEntries([...fixed, ...curves.map(({ key }, i) => [key, values[i]])]);

const whereOf = ({ controls }, state) =>
  controls
    .map(({ name, plain, unit }) => `${plain} = ${formatQuantity(state[name], unit, 3)}`)
    .join(", ");

// Which formula is singled out: the one under the pointer, else the one that was pressed.
const litOf = ({ lit, over }) => over ?? lit ?? null;
const dimmed = (state, key) => ([null, key].includes(litOf(state)) ? {} : { opacity: 0.25 });

// A row for each formula: its name, its value, and the equation with the numbers of the state.
function equationRows(place, spec, set) {
  const rows = spec.curves.map((curve, i) => equationRow(curve, i, set));
  place.append(...rows.map(({ element }) => element));
  return (texts, state) => {
    const value = valuesAt(spec, state);
    rows.forEach((row, i) => row.show(texts[i][1], value, state));
  };
}

function equationRow({ key, label, name: term, symbol, body, parts }, i, set) {
  let pressed = false;
  const value = h("span", { class: "dt-row-value" });
  const numbers = substitution(body, parts);
  const formula = h(
    "div",
    { class: "dt-row-formula" },
    inPieces(math(`${symbol}<mo>=</mo>${body}`)),
    parts.length ? numbers.element : null,
  );
  const name = h(
    "button",
    {
      type: "button",
      class: "dt-key",
      title: `Highlight ${label}`,
      onclick: () => set({ lit: pressed ? null : key }),
    },
    s(
      "svg",
      { class: "dt-sample", viewBox: "0 0 26 10", "aria-hidden": "true" },
      drawn(mark.path({ d: "M1 5H25", ...curveOf(i) })),
    ),
    label,
  );
  const element = h(
    "div",
    {
      class: `dt-row dt-c${i}`,
      "data-symbol": term,
      onpointerenter: () => set({ over: key }),
      onpointerleave: () => set({ over: null }),
    },
    name,
    value,
    formula,
  );
  const overflow = watchOverflow(formula, `${label}, formula`);
  const show = (text, valueOf, state) => {
    pressed = state.lit === key;
    name.setAttribute("aria-pressed", String(pressed));
    value.textContent = text;
    numbers.fill(Object.fromEntries(parts.map(([part, js]) => [part, valueOf(js)()])));
    overflow();
  };
  return { element, show };
}

// A formula, with a place for numbers: `fill(values)` writes them where the symbols stand.
// Where two numbers would then touch, the invisible times sign becomes a dot.
function substitution(body, parts, write = (value, unit) => formatQuantity(value, unit, 3)) {
  const box = math(`<mo>=</mo>${body}`);
  const slots = [...box.querySelectorAll("[data-value]")];
  for (const times of box.querySelectorAll(".dt-times")) {
    const before = times.previousElementSibling.matches("[data-value]");
    if (before || times.nextElementSibling.matches("[data-value], mfrac")) times.textContent = "·";
  }
  const units = Object.fromEntries(parts.map(([name, , unit]) => [name, unit]));
  const fill = (values) => {
    for (const slot of slots) {
      const name = slot.dataset.value;
      const text = write(values[name], units[name]);
      slot.innerHTML = `<mtext class="dt-number">${text.replace(" ", "\u202f")}</mtext>`;
    }
  };
  return { element: inPieces(box), fill };
}

// Where a formula that is too long goes on below: before an operator, and after a comma.
const BEFORE = ["=", "+", "−"];
const HELD = "mfrac, msub, msup, msubsup, msqrt, munder, munderover";
const endsPiece = (node) => node?.textContent === ",";
const isOperator = (node, among) => node.localName === "mo" && among.includes(node.textContent);

// A formula as several, which stand in one line or wrap. Numbers keep their places: nodes only move.
function inPieces(box) {
  const whole = box.firstElementChild;
  const pieces = [];
  let last = null;
  for (const node of looseParts(whole)) {
    const starts = isOperator(node, BEFORE) && last;
    if (starts || endsPiece(last) || !pieces.length) pieces.push(whole.cloneNode(false));
    if (starts) node.setAttribute("form", "infix");
    if (isOperator(node, ["(", ")"])) node.setAttribute("stretchy", "false"); // both alike
    pieces[pieces.length - 1].append(node);
    last = node;
  }
  box.replaceChildren(...pieces);
  return box;
}

// The parts of a row, and of the rows in it that may be divided: brackets hold together what they
// hold, except the arguments of a function.
function looseParts(row) {
  const breaks = (inner) => [...inner.querySelectorAll("mo")].filter((mo) => !mo.closest(HELD));
  const mayDivide = (inner) =>
    inner.localName === "mrow" &&
    !inner.dataset.value &&
    breaks(inner).some((mo) =>
      isOperator(mo, inner.firstElementChild.textContent === "(" ? [","] : [...BEFORE, ","]),
    );
  return [...row.children].flatMap((inner) => (mayDivide(inner) ? looseParts(inner) : [inner]));
}
