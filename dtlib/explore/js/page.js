// The parts that every widget is made of: elements, the frame, sliders, the task, formulas.

const SVG = "http://www.w3.org/2000/svg";

function append(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

const h = (tag, attributes, ...children) =>
  append(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) =>
  append(document.createElementNS(SVG, tag), attributes, children);

function math(content, name = "") {
  const box = h("span", { class: "dt-math" });
  box.innerHTML = `<math displaystyle="true">${content}</math>`;
  if (name) box.firstChild.setAttribute("aria-label", name);
  return box;
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

function nearest(values, value, scale) {
  const distance =
    scale === "linear"
      ? (v) => Math.abs(v - value)
      : (v) => Math.abs(Math.log(v) - Math.log(Math.max(value, Number.MIN_VALUE)));
  let best = 0;
  values.forEach((v, i) => {
    if (distance(v) < distance(values[best])) best = i;
  });
  return best;
}

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
function frame(el, { title, hint, reset, task }) {
  const summary = h("p", { class: "dt-summary", "aria-live": "polite" });
  const parts = {
    stage: h("div", { class: "dt-stage" }),
    controls: h("div", { class: "dt-controls" }),
    readout: h("div", { class: "dt-readout" }),
    task: task ? taskLine(task) : null,
  };
  const root = h(
    "div",
    { class: "dt-widget", role: "group", "aria-label": title },
    h(
      "div",
      { class: "dt-head" },
      h("p", { class: "dt-title" }, title),
      h("button", { type: "button", class: "dt-button dt-reset", onclick: reset }, "Reset"),
    ),
    parts.task?.element,
    parts.stage,
    parts.controls,
    parts.readout,
    summary,
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
  const element = h(
    "p",
    { class: "dt-task" },
    sign,
    h("span", {}, h("strong", {}, "Try this: "), text, " ", answer),
  );
  let met = null;
  return {
    element,
    set(now) {
      if (now === met) return;
      met = now;
      element.classList.toggle("is-met", now);
      sign.textContent = now ? "✓" : "○";
      answer.textContent = now ? `Done. ${found}`.trim() : "";
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
    { class: "dt-slider" },
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
  return { element: box, fill };
}

// A wide formula scrolls inside its own line; only then it takes the keyboard's focus.
function watchOverflow(node, name) {
  const update = () => {
    const wide = node.scrollWidth > node.clientWidth + 1;
    for (const [key, value] of [
      ["tabindex", "0"],
      ["role", "group"],
      ["aria-label", name],
    ]) {
      if (wide) node.setAttribute(key, value);
      else node.removeAttribute(key);
    }
  };
  new ResizeObserver(update).observe(node);
  return update;
}

// Draw when the width is known, and again whenever it changes.
function whenSized(node, draw) {
  let known = 0;
  const observer = new ResizeObserver(() => {
    const width = Math.round(node.clientWidth);
    if (width && width !== known) draw((known = width));
  });
  observer.observe(node);
  return () => observer.disconnect();
}

// From values to pixels and back.
function scaleOf(low, high, scale, from, to) {
  const [turn, back] =
    scale === "linear" ? [(v) => v, (v) => v] : [(v) => (v > 0 ? Math.log(v) : -1e3), Math.exp];
  const [a, b] = [turn(low), turn(high)];
  const place = (v) => from + ((turn(v) - a) / (b - a)) * (to - from);
  place.invert = (px) => back(a + ((px - from) / (to - from)) * (b - a));
  return place;
}

function pathOf(px, py) {
  let pen = "M";
  let d = "";
  px.forEach((at, i) => {
    if (!Number.isFinite(py[i])) {
      pen = "M";
      return;
    }
    d += `${pen}${at.toFixed(1)} ${clamp(py[i], -1e4, 1e4).toFixed(1)}`;
    pen = "L";
  });
  return d;
}

// Move sorted positions apart, so that labels do not overlap; the last stays above `high`.
function spread(wanted, gap, high) {
  const placed = wanted.map((at) => Math.min(at, high));
  for (let round = 0; round < 60; round++) {
    for (let i = 1; i < placed.length; i++) {
      const lack = gap - (placed[i] - placed[i - 1]);
      if (lack > 0) {
        placed[i - 1] -= lack / 2;
        placed[i] += lack / 2;
      }
    }
  }
  const beyond = Math.max(0, placed[placed.length - 1] - high);
  return placed.map((at) => at - beyond);
}

// A pill with text, kept inside the plot.
function flag(text, x, top, box) {
  const half = text.length * 3.8 + 10;
  const middle = clamp(x, box.left + half - 10, box.right - half + 10);
  return [
    s("rect", { class: "dt-flag", x: middle - half, y: top, width: 2 * half, height: 22, rx: 11 }),
    s("text", { class: "dt-flag-text", x: middle, y: top + 15.5, "text-anchor": "middle" }, text),
  ];
}

// Pointer and touch: `move(x, y)` in the figure's own pixels, while a button or finger is down.
// A finger that begins on a grip does not scroll the page. The style `touch-action` is not heeded
// everywhere inside of a figure; a touchstart that is refused is, but it comes only when the grip is
// still there, and the first move draws the figure anew. So the drag begins after it.
function onDrag(svg, move, start) {
  let down = false;
  let corner; // as it was when the drag began: a task that is met pushes the figure down
  let held = null;
  const follow = (event) => {
    move(event.clientX - corner.left, event.clientY - corner.top);
  };
  const begin = (event) => {
    start();
    follow(event);
  };
  svg.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    down = true;
    corner = svg.getBoundingClientRect();
    svg.setPointerCapture(event.pointerId);
    if (event.pointerType === "touch" && event.target.closest(".dt-grab")) held = event;
    else begin(event);
  });
  svg.addEventListener(
    "touchstart",
    (event) => {
      if (!held) return;
      event.preventDefault();
      begin(held);
      held = null;
    },
    { passive: false },
  );
  svg.addEventListener("pointermove", (event) => {
    if (down) follow(event);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    svg.addEventListener(end, () => {
      down = false;
    });
  }
}

// The axes of a plot: grid lines with values beside them, ticks with values `drop` below, titles.
function plotAxes(box, across, up, { x, y, below, beside, title, drop }) {
  const right = { x: box.right, "text-anchor": "end" };
  return s(
    "g",
    { class: "dt-axes" },
    beside.map((v) => [
      s("line", { class: "dt-grid", x1: box.left, x2: box.right, y1: up(v), y2: up(v) }),
      s(
        "text",
        { x: box.left - 8, y: up(v) + 4, "text-anchor": "end" },
        formatQuantity(v, y.unit),
      ),
    ]),
    s("line", { class: "dt-axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }),
    below.map((v) => [
      s("line", {
        class: "dt-axis",
        x1: across(v),
        x2: across(v),
        y1: box.bottom,
        y2: box.bottom + 5,
      }),
      s(
        "text",
        { x: across(v), y: box.bottom + drop, "text-anchor": "middle" },
        formatQuantity(v, x.unit),
      ),
    ]),
    s("text", { class: "dt-axis-title", x: 4, y: 16 }, y.label),
    s("text", { class: "dt-axis-title", ...right, y: box.bottom + drop + 21 }, title),
  );
}

// Ids that stay unique when a page has several widgets.
const uniqueId = (name) => {
  globalThis.dtlibIds = (globalThis.dtlibIds ?? 0) + 1;
  return `dt-${name}-${globalThis.dtlibIds}`;
};
