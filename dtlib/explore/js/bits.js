// The error of a sum over the ranks against its condition number: one vector under the probe, and a
// cloud of others, each added in the order that is chosen.

const HINT =
  "Tab to the choices and the sliders and use the arrow keys; Page Up and Page Down make larger steps.";
const FLOOR = 1e-10; // a sum without an error is drawn here

function render({ model: widget, el }) {
  const spec = widget.get("spec");
  const { formats, orders, conditions, y } = spec;
  const met = new Function(...spec.task.names, `"use strict"; return ${spec.task.js};`);
  const state = {};
  let width = 0;
  const page = frame(el, { title: spec.title, hint: HINT, task: spec.task, reset });
  const sets = [
    ["order", "Order", orders],
    ["kind", "Format", formats.map(([name]) => name)],
  ].map(([key, legend, names]) => {
    const group = uniqueId(key);
    const inputs = names.map((label, i) =>
      h("input", { type: "radio", name: group, onchange: () => set({ [key]: i }) }),
    );
    const labels = names.map((label, i) => h("label", { class: "dt-bits-choice" }, inputs[i], label));
    page.stage.before(h("fieldset", { class: "dt-bits-set" }, h("legend", {}, legend), labels));
    return { key, inputs };
  });
  const sliders = spec.sliders.map((c) => slider(c, (value) => set({ [c.name]: value })));
  page.controls.append(...sliders.map(({ element }) => element));
  const shown = ["exact sum", "sum of the ranks", "relative error", "no order does worse than"].map(
    (name) => {
      const value = h("span", { class: "dt-row-value" });
      page.readout.append(h("div", { class: "dt-row" }, h("span", {}, name), value));
      return value;
    },
  );
  const svg = s("svg", { class: "dt-plot", role: "img" });
  page.stage.append(svg);
  const stop = whenSized(page.stage, (now) => {
    width = now;
    draw();
  });

  function set(changes) {
    Object.assign(state, changes);
    update();
  }

  function reset() {
    Object.assign(state, spec.start);
    sliders.forEach((control, i) => control.set(spec.sliders[i].index));
    update();
  }

  const errorAt = (condition, seed) => {
    const values = hardNumbers(state.P, condition, seed);
    const error = errorOf(orders[state.order], values, formats[state.kind][1], seed % state.P);
    return { values, error };
  };

  function update() {
    for (const { key, inputs } of sets) inputs.forEach((input, i) => (input.checked = i === state[key]));
    const [name, bits] = formats[state.kind];
    const { values, error } = errorAt(state.condition, 0);
    const exact = exactSum(values);
    const got = sumIn(orders[state.order], values, bits, 0);
    const bound = boundOf(state.P, conditionOf(values), bits);
    const words = [exact.toExponential(3), got.toExponential(3), percent(error), percent(bound)];
    shown.forEach((node, i) => (node.textContent = words[i]));
    page.task.set(Boolean(met(error, bound, state.P, state.condition, state.kind, state.order)));
    page.say(
      `${state.P} ranks, ${orders[state.order]}, ${name}, condition number ` +
        `${formatQuantity(state.condition, "", 3)}: the sum is off by ${words[2]}.`,
    );
    if (width) draw();
  }

  const percent = (v) => (v < 1e-4 ? v.toExponential(1) : v > 1e3 ? `${v.toExponential(1)} times` : formatQuantity(v, "%", 3));

  function draw() {
    const box = { left: 84, right: width - 26, top: 34, bottom: 34 + clamp(width * 0.5, 230, 340) };
    const height = box.bottom + 54;
    const [low, high] = [conditions[0], conditions[conditions.length - 1]];
    const across = scaleOf(low, high, "log", box.left, box.right);
    const up = scaleOf(...y.range, "log", box.bottom, box.top);
    const inside = (v) => clamp(up(Math.max(v, FLOOR)), box.top, box.bottom);
    const bits = formats[state.kind][1];
    const cloud = conditions.flatMap((condition, i) =>
      [0, 1, 2].map((k) => {
        const { values, error } = errorAt(condition, 1 + 3 * i + k);
        return s("circle", {
          class: "dt-bits-point",
          cx: across(clamp(conditionOf(values), low, high)),
          cy: inside(error),
          r: 3,
        });
      }),
    );
    const ends = [low, high].map((c) => boundOf(state.P, c, bits));
    const one = errorAt(state.condition, 0);
    const px = across(state.condition);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    svg.setAttribute("aria-label", `${y.label} against the condition number; the bound is a line.`);
    svg.replaceChildren(
      ...[
        plotAxes(box, across, up, {
          x: { unit: "" },
          y,
          below: ticks(low, high, "log", (box.right - box.left) / 64),
          beside: ticks(...y.range, "log", (box.bottom - box.top) / 34),
          title: "condition number  Σ|g| / |Σg| →",
          drop: 22,
        }),
        s("line", { class: "dt-bits-all", x1: box.left, x2: box.right, y1: up(1), y2: up(1) }),
        s("text", { class: "dt-soft dt-halo", x: box.left + 6, y: up(1) - 6 }, "as large as the sum itself"),
        s("path", {
          class: "dt-curve dt-c0",
          d: pathOf([low, high].map(across), ends.map((v) => up(Math.min(v, 1e30)))),
          "clip-path": null,
        }),
        cloud,
        s("line", { class: "dt-bits-probe", x1: px, x2: px, y1: box.top, y2: box.bottom }),
        s("circle", { class: "dt-bits-one", cx: px, cy: inside(one.error), r: 7 }),
      ].flat(Infinity),
    );
  }

  reset();
  return stop;
}

export default { render };
