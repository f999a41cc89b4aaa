// What sets a value of the state: a slider over a list, a choice of a few, a switch. Each is made
// from what Python says of it, calls `changed(value)`, and shows any value it is given. A grip is a
// slider whose place is in the figure.

function controlOf(control, changed) {
  const kinds = { slider: sliderOf, choice: choiceOf, toggle: toggleOf, grip: gripOf };
  return kinds[control.kind](control, changed);
}

function sliderOf(control, changed) {
  const { values, size = 1 } = control;
  const write = (value, unit) => readable(value * size, unit);
  const { element, set } = slider(control, changed, write);
  return { element, show: (value) => set(values.indexOf(value)) };
}

function choiceOf({ label, values, words }, changed) {
  const name = uniqueId("choice");
  const radios = values.map((value) =>
    h("input", { type: "radio", name, onchange: () => changed(value) }),
  );
  const ticks = values.map(() => h("span", { class: "dt-tick" }));
  const element = h(
    "fieldset",
    { class: "dt-choice" },
    h("legend", {}, label),
    radios.map((radio, i) => h("label", {}, radio, ` ${words[i]}`, ticks[i])),
  );
  const show = (value, ticked = []) =>
    radios.forEach((radio, i) => {
      radio.checked = values[i] === value;
      ticks[i].textContent = ticked.includes(values[i]) ? " ✓" : "";
    });
  return { element, show };
}

function toggleOf({ label, values }, changed) {
  const box = h("input", { type: "checkbox", onchange: () => changed(values[+box.checked]) });
  const show = (value) => {
    box.checked = value === values[1];
  };
  return { element: h("label", { class: "dt-toggle" }, box, ` ${label}`), show };
}

// A grip's element is a mark of the figure, which the easel draws anew.
const gripOf = () => ({ element: null, show() {} });

// So many values further on.
const GRIP_KEYS = {
  ArrowLeft: -1,
  ArrowDown: -1,
  ArrowRight: 1,
  ArrowUp: 1,
  PageDown: -10,
  PageUp: 10,
  Home: -Infinity,
  End: Infinity,
};

const gripsOf = (svg) => [...svg.querySelectorAll("[data-grip]")];

// A mark of a figure as the slider of its control.
function gripped(node, { controls }, state, set) {
  const control = controls.find(({ name }) => name === node.dataset.grip);
  const { name, label, unit, values } = control;
  const [at, last] = [values.indexOf(state[name]), values.length - 1];
  const aria = {
    label,
    valuemin: 0,
    valuemax: last,
    valuenow: at,
    valuetext: node.dataset.says ?? formatQuantity(state[name], unit, 3),
  };
  for (const [key, value] of Object.entries(aria)) node.setAttribute(`aria-${key}`, value);
  const onkeydown = (event) => {
    if (!(event.key in GRIP_KEYS) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    set({ [name]: values[clamp(at + GRIP_KEYS[event.key], 0, last)] });
  };
  append(node, { role: "slider", tabindex: 0, onkeydown }, []);
}

// Buttons below the figure, or below the sentence that stands there, as `view` says them: [words,
// change, why it cannot be yet].
function buttonRow(stage, set) {
  const row = h("div", { class: "dt-actions", hidden: true });
  const next = stage.nextElementSibling;
  (next?.matches(".dt-summary") ? next : stage).after(row);
  return (actions) => {
    const focused = [...row.children].indexOf(document.activeElement);
    const buttons = actions.map(([words, change, whyNot], i) => {
      const look = i ? "dt-button" : "dt-button is-primary";
      const press = { disabled: Boolean(whyNot), onclick: () => set(change) };
      return h("button", { type: "button", class: look, ...press }, words);
    });
    const reasons = actions.map(([, , whyNot]) => (whyNot ? h("span", {}, whyNot) : null));
    row.hidden = !actions.length;
    row.replaceChildren(...buttons, ...reasons.filter(Boolean));
    row.children[focused]?.focus({ preventScroll: true });
  };
}

// What is `folded` lies below the others, closed.
const foldOf = (elements) =>
  h(
    "details",
    { class: "dt-fold", hidden: !elements.length },
    h("summary", {}, "More"),
    h("div", { class: "dt-controls" }, elements),
  );

const plainRows = (place) => (rows) => place.replaceChildren(...rowsOf(rows));

// Rows below a figure: a name, its value, and where the row has a share, a bar of it.
const rowsOf = (rows) =>
  rows.map(([name, value, share]) =>
    h(
      "div",
      { class: "dt-row" },
      h("span", {}, name),
      h("span", { class: "dt-row-value" }, value),
      share === undefined
        ? null
        : h("div", { class: "dt-meter", "aria-hidden": "true" }, h("div", { style: `width: ${100 * share}%` })),
    ),
  );
