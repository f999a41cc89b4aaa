// Formulas over named variables: compiled, evaluated at the state of the moment, and written out.

function formulaModel(spec, variables) {
  const names = [...variables.map((c) => c.name), ...spec.fixed.map(([name]) => name)];
  const state = {};
  const model = {
    state,
    compile: (js, more = []) => new Function(...names, ...more, `"use strict"; return ${js};`),
    restore() {
      for (const c of variables) state[c.name] = c.values[c.index];
      for (const [name, value] of spec.fixed) state[name] = value;
    },
    // The value of a compiled formula at the state, with some variables set otherwise.
    call: (f, other = {}, ...more) =>
      f(...names.map((name) => other[name] ?? state[name]), ...more),
  };
  model.restore();
  model.curves = spec.curves.map((c) => ({
    ...c,
    at: model.compile(c.js),
    places: c.parts.map(([name, js]) => [name, model.compile(js)]),
  }));
  const met = spec.task
    ? model.compile(
        spec.task.js,
        model.curves.map((c) => c.key),
      )
    : null;
  model.taskMet = () =>
    Boolean(met && model.call(met, {}, ...model.curves.map((c) => model.call(c.at))));
  model.where = () =>
    variables.map((c) => `${c.plain} = ${formatQuantity(state[c.name], c.unit, 3)}`).join(", ");
  return model;
}

const sample = (i) =>
  s(
    "svg",
    { class: `dt-sample dt-c${i}`, viewBox: "0 0 26 10", "aria-hidden": "true" },
    s("path", { class: `dt-curve dt-c${i}`, d: "M1 5H25" }),
  );

// One row for each formula: its name, its value, and the equation with the numbers of the moment.
// Pointing at a row highlights what has the same data-key; pressing its name keeps it so.
function formulaRows(page, model, swatch = sample) {
  let pinned = null;
  const highlight = (key) => {
    page.root.classList.toggle("has-highlight", key !== null);
    for (const node of page.root.querySelectorAll("[data-key]")) {
      node.classList.toggle("is-on", node.dataset.key === key);
    }
  };
  const pin = (key) => {
    pinned = pinned === key ? null : key;
    rows.forEach((row, i) =>
      row.key.setAttribute("aria-pressed", String(model.curves[i].key === pinned)),
    );
    highlight(pinned);
  };
  const rows = model.curves.map((c, i) => {
    const value = h("span", { class: "dt-row-value" });
    const numbers = substitution(c.body, c.parts);
    const formula = h(
      "div",
      { class: "dt-row-formula" },
      math(`${c.symbol}<mo>=</mo>${c.body}`),
      c.parts.length ? numbers.element : null,
    );
    const key = h(
      "button",
      {
        type: "button",
        class: "dt-key",
        "aria-pressed": "false",
        title: `Highlight ${c.label}`,
        onclick: () => pin(c.key),
      },
      swatch(i),
      c.label,
    );
    const element = h(
      "div",
      {
        class: `dt-row dt-c${i}`,
        "data-key": c.key,
        onpointerenter: () => highlight(c.key),
        onpointerleave: () => highlight(pinned),
      },
      key,
      value,
      formula,
    );
    const overflow = watchOverflow(formula, `${c.label}, formula`);
    const show = (text) => {
      numbers.fill(Object.fromEntries(c.places.map(([name, f]) => [name, model.call(f)])));
      value.textContent = text;
      overflow();
    };
    return { element, key, show };
  });
  page.readout.append(...rows.map((row) => row.element));
  return {
    show: (texts) => rows.forEach((row, i) => row.show(texts[i])),
    highlightAgain: () => highlight(pinned),
    unpin: () => {
      if (pinned) pin(pinned);
    },
  };
}
