// What sets a value of the state: a slider over a list, a choice of a few, a switch. Each is made
// from what Python says of it, calls `changed(value)`, and shows any value it is given.

function controlOf(control, changed) {
  return { slider: sliderOf, choice: choiceOf, toggle: toggleOf }[control.kind](control, changed);
}

function sliderOf(control, changed) {
  const { values, size = 1 } = control;
  const write = (value, unit) => formatQuantity(value * size, unit, 3);
  const { element, set } = slider(control, changed, write);
  return { element, show: (value) => set(values.indexOf(value)) };
}

function choiceOf({ label, values, words }, changed) {
  const name = uniqueId("choice");
  const radios = values.map((value) =>
    h("input", { type: "radio", name, onchange: () => changed(value) }),
  );
  const element = h(
    "fieldset",
    { class: "dt-choice" },
    h("legend", {}, label),
    radios.map((radio, i) => h("label", {}, radio, ` ${words[i]}`)),
  );
  const show = (value) =>
    radios.forEach((radio, i) => {
      radio.checked = values[i] === value;
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
