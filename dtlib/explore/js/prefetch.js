// The GPU's row and its workers' rows over a stretch of time, the ready batches below, and the
// share of the whole run for which the GPU computes.

const MOST_ROWS = 16;

function render({ model, el }) {
  const spec = model.get("spec");
  const state = { ...spec.start };
  const names = ["spread", "workers", "depth"];
  const met = spec.task
    ? new Function(...names, "in_order", "busy", `"use strict"; return ${spec.task.js};`)
    : null;
  let run = [];
  let busy = 0;
  let from = 0;
  let width = 0;

  const page = frame(el, { title: spec.title, hint: HINT, task: spec.task, reset });
  const sliders = spec.controls.map((control) =>
    slider(control, (value) => {
      state[control.name] = value;
      simulate();
    }),
  );
  const order = h("input", { type: "checkbox", checked: state.in_order, onchange: takeInOrder });
  const orderLabel = h("label", { class: "dt-check" }, order, " the GPU takes batches in order");
  const window_ = h("input", {
    type: "range",
    class: "dt-range",
    min: 0,
    step: 1,
    value: 0,
    "aria-label": "Part of the run that is shown",
    oninput: () => {
      from = +window_.value * spec.step;
      sayWindow();
      draw();
    },
  });
  page.controls.append(...sliders.map((control) => control.element), orderLabel);
  const svg = s("svg", { class: "dt-plot dt-prefetch", role: "img" });
  const scroller = h(
    "label",
    { class: "dt-slider dt-window" },
    h("span", { class: "dt-slider-name" }, "part of the run that is shown"),
    window_,
  );
  page.stage.append(svg, scroller);
  sayWindow();
  const stop = whenSized(page.stage, (now) => {
    width = now;
    draw();
  });

  function sayWindow() {
    window_.style.setProperty("--dt-fill", window_.value / window_.max);
    window_.setAttribute("aria-valuetext", `from ${formatQuantity(from, "s", 3)}`);
  }

  function takeInOrder() {
    state.in_order = order.checked;
    simulate();
  }

  function reset() {
    Object.assign(state, spec.start);
    sliders.forEach((control, i) => control.set(spec.controls[i].index));
    order.checked = state.in_order;
    from = 0;
    window_.value = 0;
    simulate();
  }

  function simulate() {
    const draws = spec.draws[spec.spreads.indexOf(state.spread)];
    const fetches = draws.map((draw) => draw * spec.fetch);
    run = runPrefetch(fetches, spec.step, state.workers, state.depth, state.in_order);
    busy = busyShare(run, spec.step);
    const end = Math.max(...run.map((batch) => batch.taken)) + spec.step;
    window_.max = Math.max(1, Math.floor((end - spec.window) / spec.step));
    window_.value = Math.min(window_.value, window_.max);
    from = +window_.value * spec.step;
    sayWindow();
    page.task?.set(Boolean(met(...names.map((name) => state[name]), state.in_order, busy)));
    draw();
    page.say(summary());
  }

  function summary() {
    const little = spec.fetch / spec.step;
    const share = formatQuantity(busy, "%", 3);
    const said = [
      `${state.workers} workers, ${state.depth} batches ahead, spread ${state.spread}, `,
      `taken ${state.in_order ? "in order" : "as they become ready"}: `,
      `over ${formatQuantity(run.length)} batches the GPU computes ${share} of the time. `,
      `Little's law asks for ${formatQuantity(little, "", 3)} in flight on average`,
      `${state.workers < little ? ", more than there are workers" : ""}.`,
    ];
    return said.join("");
  }

  function draw() {
    if (!width || !run.length) return;
    const to = from + spec.window;
    const wide = width >= 560;
    const left = wide ? 78 : 34;
    const rows = Math.min(state.workers, MOST_ROWS);
    const row = rows > 8 ? 11 : rows > 4 ? 16 : 22;
    const top = 34;
    const gpuTop = top + rows * row + 8;
    const traceTop = gpuTop + 50;
    const traceHeight = 70;
    const height = traceTop + traceHeight + 44;
    const x = scaleOf(from, to, "linear", left, width - 8);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    svg.setAttribute("aria-label", figureName(to));
    const shown = run.filter((batch) => batch.ready > from && batch.begun < to);
    svg.replaceChildren(
      ...[
        heading(left, wide),
        workerRows(shown, { x, top, row, rows, left, wide, from, to }),
        gpuRow({ x, gpuTop, left, wide, from, to }),
        readyPlot({ x, traceTop, traceHeight, left, wide, from, to }),
        axis(x, height, from, to),
      ]
        .flat(Infinity)
        .filter(Boolean),
    );
  }

  function figureName(to) {
    const waits = stalls(run, spec.step).filter(([a, b]) => b > from && a < to);
    const lost = waits.reduce((sum, [a, b]) => sum + Math.min(b, to) - Math.max(a, from), 0);
    const part = `From ${formatQuantity(from, "s", 3)} to ${formatQuantity(to, "s", 3)}`;
    return `${part} the GPU waits for ${formatQuantity(lost, "s", 3)}.`;
  }

  function heading(left, wide) {
    const text = `GPU computes ${formatQuantity(busy, "%", 3)} of the whole run`;
    const bar = (name, size) =>
      s("rect", { class: name, x: width - 148, y: 8, width: size, height: 12, rx: 3 });
    return [
      s("text", { class: "dt-share", x: wide ? left : 4, y: 20 }, text),
      wide ? [bar("dt-share-all", 140), bar("dt-share-busy", 140 * busy)] : null,
    ];
  }

  const clipped = (a, b, { x, from, to }) => {
    const start = x(Math.max(a, from));
    return { x: start, width: Math.max(x(Math.min(b, to)) - start - 1, 0.6) };
  };

  function workerRows(shown, at) {
    const bars = shown
      .filter((batch) => batch.worker < at.rows)
      .map((batch) =>
        s("rect", {
          class: "dt-fetch",
          y: at.top + batch.worker * at.row + 1.5,
          height: at.row - 3,
          rx: 2,
          ...clipped(batch.begun, batch.ready, at),
        }),
      );
    const more = state.workers - at.rows;
    const labels = Array.from({ length: at.rows }, (_, w) => {
      const y = at.top + (w + 0.5) * at.row + 4;
      if (at.row < 15 && w % 4) return null;
      const place = { class: "dt-soft", x: at.left - 8, y, "text-anchor": "end" };
      return s("text", place, at.wide ? `worker ${w}` : w);
    });
    const rest = more > 0 ? `and ${more} more workers` : "";
    const note = { class: "dt-soft dt-halo", x: width - 10, y: at.top + 12, "text-anchor": "end" };
    return [bars, labels, rest ? s("text", note, rest) : null];
  }

  function gpuRow(at) {
    const y = at.gpuTop;
    const steps = run
      .filter(({ taken }) => taken + spec.step > at.from && taken < at.to)
      .map(({ taken }) =>
        s("rect", {
          class: "dt-step",
          y,
          height: 24,
          rx: 2,
          ...clipped(taken, taken + spec.step, at),
        }),
      );
    const waits = stalls(run, spec.step)
      .filter(([a, b]) => b > at.from && a < at.to)
      .map(([a, b]) => s("rect", { class: "dt-stall", y: y + 2, height: 20, ...clipped(a, b, at) }));
    const name = { class: "dt-gpu", x: at.left - 8, y: y + 16, "text-anchor": "end" };
    return [waits, steps, s("text", name, "GPU")];
  }

  function readyPlot(at) {
    const trace = readyTrace(run, at.from, at.to);
    const most = Math.max(4, ...trace.map(([, count]) => count));
    const bottom = at.traceTop + at.traceHeight;
    const y = (count) => bottom - (count / most) * at.traceHeight;
    const points = trace.map(([time, count], k) => {
      const before = k ? `L${at.x(time).toFixed(1)} ${y(trace[k - 1][1]).toFixed(1)}` : "";
      return `${before}${k ? "L" : "M"}${at.x(time).toFixed(1)} ${y(count).toFixed(1)}`;
    });
    const area = `${points.join("")}L${at.x(at.to)} ${bottom}L${at.x(at.from)} ${bottom}Z`;
    const label = (text, py) =>
      s("text", { class: "dt-soft", x: at.left - 8, y: py, "text-anchor": "end" }, text);
    return [
      s("text", { class: "dt-soft", x: at.left, y: at.traceTop - 8 }, "batches ready and waiting"),
      s("path", { class: "dt-ready", d: area }),
      s("line", { class: "dt-axis", x1: at.left, x2: width - 8, y1: bottom, y2: bottom }),
      label("0", bottom + 1),
      label(most, at.traceTop + 8),
    ];
  }

  function axis(x, height, from, to) {
    return ticks(from, to, "linear", width / 90).map((value) =>
      s(
        "text",
        { class: "dt-soft", x: x(value), y: height - 22, "text-anchor": "middle" },
        formatQuantity(value, "s", 3),
      ),
    );
  }

  simulate();
  return stop;
}

const HINT =
  "Vermilion gaps are time in which the GPU waits. Tab to the sliders and use the arrow keys; " +
  "the slider under the figure shows other parts of the run.";

export default { render };
