// The frame of every widget: title, reset, task, figure, controls, readout, a sentence in words.

// Where every widget begins. Its style sheet holds inside of this place only, and what takes the
// focus there keeps its keys: JupyterLab would delete a cell at d d, but looks for this mark first.
const within = (kind, render) => (view) => {
  view.el.classList.add(kind);
  view.el.addEventListener("focusin", (event) => {
    event.target.setAttribute("data-lm-suppress-shortcuts", "true");
  });
  return render(view);
};

// The frame: title, reset, task, a place for the figure, controls, readout, a sentence in words.
// Controls are below the figure, or `beside` it, where there is room for a column so wide.
// The sentence is the last of them, or `near` the figure, where it answers what a hand does there.
// Where the figure is the `whole`, it says title, task and sentence itself.
function frame(el, { title, hint, reset, task, beside, whole, near = false }) {
  const summary = h("p", { class: "dt-summary", "aria-live": "polite" });
  const parts = {
    stage: h("div", { class: "dt-stage" }),
    controls: h("div", { class: "dt-controls" }),
    readout: h("div", { class: "dt-readout" }),
    task: task ? taskLine(task) : null,
  };
  const figure = near ? [parts.stage, summary] : [parts.stage];
  const root = h(
    "div",
    { class: whole ? "dt-widget is-whole" : "dt-widget", role: "group", "aria-label": title },
    h(
      "div",
      { class: "dt-head" },
      h("p", { class: "dt-title" }, title),
      reset
        ? h("button", { type: "button", class: "dt-button dt-reset", onclick: reset }, "Reset")
        : null,
    ),
    parts.task?.element,
    beside
      ? h("div", { class: "dt-beside", style: `--dt-beside: ${beside}px` }, h("div", { class: "dt-column" }, figure), parts.controls)
      : [figure, parts.controls],
    parts.readout,
    near ? null : summary,
    hint ? h("p", { class: "dt-hint" }, hint) : null,
  );
  el.append(root);
  let timer = 0;
  const say = (text) => {
    clearTimeout(timer);
    if (!summary.textContent) summary.textContent = text;
    else
      timer = setTimeout(() => {
        summary.textContent = text;
      }, 250);
  };
  return { root, say, ...parts };
}

function taskLine({ text, found }) {
  const sign = h("span", { class: "dt-task-sign", "aria-hidden": "true" }, "○");
  const answer = h("span", { class: "dt-task-answer", role: "status" });
  const asked = h("span", {}, text);
  const element = h(
    "p",
    { class: "dt-task" },
    sign,
    h("span", {}, h("strong", {}, "Try this: "), asked, " ", answer),
  );
  let met = null;
  return {
    element,
    // Whether it is met, and its words, where they follow the state.
    set(now, words = { text, found }) {
      if (asked.textContent !== words.text) [asked.textContent, met] = [words.text, null];
      if (now === met) return;
      met = now;
      element.classList.toggle("is-met", now);
      sign.textContent = now ? "✓" : "○";
      answer.textContent = now ? `Done. ${words.found}`.trim() : "";
    },
  };
}

// A slider over a list of values. `changed(value)` is called while it moves.
function slider(control, changed, write = (value, unit) => formatQuantity(value, unit, 3)) {
  const output = h("span", { class: "dt-value" });
  const input = h("input", {
    type: "range",
    class: "dt-range",
    min: 0,
    max: control.values.length - 1,
    step: 1,
    "aria-label": `${control.label}, ${control.plain}`,
  });
  const element = h(
    "label",
    { class: "dt-slider", "data-symbol": control.name },
    h("span", { class: "dt-slider-name" }, control.label, " ", math(control.symbol)),
    output,
    input,
  );
  const show = () => {
    const text = write(control.values[input.value], control.unit);
    output.textContent = text;
    input.setAttribute("aria-valuetext", text);
    input.style.setProperty("--dt-fill", input.value / (control.values.length - 1));
  };
  input.addEventListener("input", () => {
    show();
    changed(control.values[input.value]);
  });
  const set = (index) => {
    input.value = index;
    show();
  };
  set(control.index);
  return { element, input, set };
}
