// A run of a balancer: above, the busiest load over the mean against the steps; below, the loads of
// all experts at the step that the reader chose.

const HINT =
  "Blue bars are loads at the chosen step, the line is their mean. Tab to the sliders and use the " +
  "arrow keys; Page Up and Page Down make larger steps.";

function render({ model, el }) {
  const spec = model.get("spec");
  const state = { ...spec.start };
  const met = spec.task
    ? new Function("gamma", "step", "busiest", `"use strict"; return ${spec.task.js};`)
    : null;
  let width = 0;

  const page = frame(el, { title: spec.title, hint: HINT, task: spec.task, reset });
  const sliders = spec.controls.map((control) =>
    slider(control, (value) => {
      state[control.name] = value;
      update();
    }),
  );
  page.controls.append(...sliders.map((control) => control.element));
  const svg = s("svg", { class: "dt-plot dt-router", role: "img" });
  page.stage.append(svg);
  const stop = whenSized(page.stage, (now) => {
    width = now;
    draw();
  });

  function reset() {
    Object.assign(state, spec.start);
    sliders.forEach((control, i) => control.set(spec.controls[i].index));
    update();
  }

  const run = () => spec.runs[state.gamma];
  const busiestOf = (loads) => (Math.max(...loads) * loads.length) / spec.copies;

  function update() {
    const busiest = busiestOf(run()[state.step / spec.every]);
    page.task?.set(Boolean(met && met(state.gamma, state.step, busiest)));
    page.say(
      `gamma ${state.gamma}, after ${state.step} steps: the busiest expert has ` +
        `${formatQuantity(busiest, "×", 3)} the mean load.`,
    );
    draw();
  }

  function draw() {
    if (!width) return;
    const ratios = run().map(busiestOf);
    const top = spec.top;
    const [left, right] = [44, width - 10];
    const across = scaleOf(0, spec.steps, "linear", left, right);
    const up = scaleOf(0, top, "linear", 170, 44);
    const now = run()[state.step / spec.every];
    const mean = spec.copies / now.length;
    const bars = scaleOf(0, top, "linear", 350, 224);
    const room = (right - left) / now.length;
    const marks = [1, 2, 3, 4, 5].filter((v) => v <= top);
    const levels = (scale) =>
      marks.map((v) => [
        s("line", { class: "dt-grid", x1: left, x2: right, y1: scale(v), y2: scale(v) }),
        s("text", { x: left - 6, y: scale(v) + 4, "text-anchor": "end" }, `${v}×`),
      ]);
    const xs = ratios.map((_, i) => across(i * spec.every));
    const here = { cx: across(state.step), cy: up(busiestOf(now)), r: 6 };
    svg.setAttribute("viewBox", `0 0 ${width} 380`);
    svg.setAttribute("height", 380);
    svg.setAttribute("aria-label", `Loads of ${now.length} experts after ${state.step} steps.`);
    const end = { x: right, "text-anchor": "end", class: "dt-axis-title" };
    svg.replaceChildren(
      ...[
        s(
          "text",
          { class: "dt-router-key", x: 4, y: 18 },
          `busiest expert ${formatQuantity(busiestOf(now), "×", 3)} the mean`,
        ),
        s("text", { class: "dt-axis-title", x: 4, y: 38 }, "busiest load over the mean"),
        s("g", { class: "dt-axes" }, levels(up)),
        s("path", { class: "dt-bias-run", d: pathOf(xs, ratios.map(up)) }),
        s("circle", { class: "dt-bias-now", ...here }),
        s("text", { ...end, y: 192 }, `step, 0 to ${spec.steps}`),
        s("text", { class: "dt-axis-title", x: 4, y: 216 }, "load of each expert, over the mean"),
        s("g", { class: "dt-axes" }, levels(bars)),
        now.map((load, i) => {
          const y = bars(load / mean);
          const at = { x: left + i * room, width: Math.max(room - 2, 1) };
          return s("rect", { class: "dt-kept", ...at, y, height: Math.max(350 - y, 0.5) });
        }),
        s("line", { class: "dt-capacity", x1: left, x2: right, y1: bars(1), y2: bars(1) }),
        s("text", { ...end, y: 372 }, "experts, at first the most popular first"),
      ].flat(Infinity),
    );
  }

  update();
  return stop;
}

export default { render };
