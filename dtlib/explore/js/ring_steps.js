// Left to right the steps of a ring, each rank's work in it as a bar; below, the mask of the whole
// sequence, with the part that one step computes.

function render({ model: widget, el }) {
  const spec = widget.get("spec");
  const met = spec.task
    ? new Function(...spec.task.names, `"use strict"; return ${spec.task.js};`)
    : null;
  const state = {};
  let width = 0;

  const page = frame(el, {
    title: spec.title,
    task: spec.task,
    hint: "Press a step in the upper figure, or move the slider, to see which part of the mask it is.",
    reset,
  });
  const name = uniqueId("layout");
  const radios = spec.layouts.map((label, i) =>
    h("input", { type: "radio", name, "aria-label": label, onchange: () => set({ layout: i }) }),
  );
  const mask = h("input", {
    type: "checkbox",
    onchange: () => set({ causal: Number(mask.checked) }),
  });
  page.stage.before(
    h(
      "fieldset",
      { class: "dt-seat-choices" },
      h("legend", { class: "dt-hidden" }, "Layout"),
      spec.layouts.map((label, i) => h("label", {}, radios[i], ` ${label}`)),
      h("label", {}, mask, " causal mask"),
    ),
  );
  const steps = s("svg", { class: "dt-plot dt-ring-steps" });
  const square = s("svg", { class: "dt-plot dt-ring-mask" });
  page.stage.append(steps, square);
  const ranks = slider(spec.ranks, (value) => set({ P: value, step: 0 }));
  const scrub = h("input", {
    type: "range",
    class: "dt-range",
    min: 0,
    step: 1,
    "aria-label": "step shown in the mask",
    oninput: () => set({ step: +scrub.value }),
  });
  const shown = h("span", { class: "dt-value" });
  page.controls.append(
    ranks.element,
    h("label", { class: "dt-control" }, h("span", {}, "step "), shown, scrub),
  );
  const result = h("span", { class: "dt-row-value" });
  const busy = h("span", { class: "dt-row-value" });
  page.readout.append(
    h("div", { class: "dt-row" }, h("strong", {}, "the last step is over after"), result),
    h("div", { class: "dt-row" }, "share of the ranks' time that is work", busy),
  );
  const stop = whenSized(page.stage, (now) => {
    width = now;
    draw();
  });

  function reset() {
    Object.assign(state, spec.start, { step: 1 });
    ranks.set(spec.ranks.index);
    update();
  }

  function set(change) {
    Object.assign(state, change);
    update();
  }

  const work = () =>
    state.causal ? spec.work[state.layout][String(state.P)] : fullWork(state.P);

  function update() {
    if (width) draw();
    radios.forEach((radio, i) => {
      radio.checked = i === state.layout;
    });
    mask.checked = Boolean(state.causal);
    scrub.max = state.P - 1;
    scrub.value = state.step;
    scrub.setAttribute("aria-valuetext", `step ${state.step} of ${state.P - 1}`);
    shown.textContent = `${state.step}`;
    const path = lastEnd(work());
    const share = busyShare(work());
    const times = significant(state.P / path, 3);
    result.textContent = `${significant(path, 3)} of ${state.P} blocks`;
    busy.textContent = `${Math.round(100 * share)} %`;
    page.task?.set(Boolean(met(path, state.P, state.layout, state.causal)));
    page.say(
      `${sentence(spec.layouts[state.layout])}, ${state.causal ? "causal" : "no mask"}, ` +
        `${state.P} ranks: over after ${significant(path, 3)} of ${state.P} blocks of time, ` +
        `${times} times as fast as without a mask.`,
    );
  }

  function draw() {
    const now = work();
    const starts = stepTimes(now);
    const P = state.P;
    const [left, row] = [34, P > 8 ? 14 : 22];
    const unit = (width - left - 8) / P;
    const height = P * row + 44;
    steps.setAttribute("viewBox", `0 0 ${width} ${height}`);
    steps.setAttribute("height", height);
    const columns = now.map((step, t) => {
      const x = left + starts[t] * unit;
      const wide = (starts[t + 1] - starts[t]) * unit;
      const bars = step.map((share, rank) =>
        s("rect", {
          class: "dt-ring-bar",
          x: x + 0.5,
          y: 18 + rank * row + 2,
          width: Math.max(0, share * unit - 1),
          height: row - 4,
          rx: 2,
        }),
      );
      const chosen = s("rect", {
        class: `dt-ring-step${t === state.step ? " is-chosen" : ""}`,
        x,
        y: 17,
        width: wide,
        height: P * row + 2,
      });
      const label =
        wide > 11
          ? s("text", { class: "dt-soft", x: x + wide / 2, y: 12, "text-anchor": "middle" }, `${t}`)
          : null;
      return s("g", { onclick: () => set({ step: t }) }, chosen, bars, label);
    });
    const labels = now.map((_, rank) =>
      rank % (P > 8 ? 2 : 1)
        ? null
        : s(
            "text",
            { class: "dt-soft", x: left - 8, y: 18 + rank * row + row / 2 + 4, "text-anchor": "end" },
            `${rank}`,
          ),
    );
    const end = left + starts[P] * unit;
    steps.replaceChildren(
      ...[
        s("text", { class: "dt-soft", x: 2, y: 12 }, "step"),
        columns,
        labels.filter(Boolean),
        s("line", { class: "dt-axis", x1: left, x2: width - 8, y1: height - 24, y2: height - 24 }),
        s("line", { class: "dt-ring-end", x1: end, x2: end, y1: 14, y2: height - 20 }),
        s(
          "text",
          { class: "dt-soft", x: width - 8, y: height - 8, "text-anchor": "end" },
          `time: ${P} blocks`,
        ),
        s("text", { class: "dt-soft", x: 2, y: height - 8 }, "rank"),
      ].flat(),
    );
    drawMask();
  }

  function drawMask() {
    const P = state.P;
    const owners = spec.owners[state.layout][String(P)];
    const side = Math.min(width - 44, 300);
    const cell = side / owners.length;
    const [left, top] = [38, 34];
    square.setAttribute("viewBox", `0 0 ${width} ${side + top + 6}`);
    square.setAttribute("height", side + top + 6);
    const cells = owners.flatMap((query, i) =>
      owners.map((key, j) => {
        if (state.causal && j > i) return null;
        const [x, y] = [left + j * cell, top + i * cell];
        const on = stepOf(query, key, P) === state.step ? " is-on" : "";
        const half = state.causal && i === j;
        return half
          ? s("path", {
              class: `dt-ring-cell${on}`,
              d: `M${x} ${y} l${cell} ${cell} h${-cell} z`,
            })
          : s("rect", { class: `dt-ring-cell${on}`, x, y, width: cell, height: cell });
      }),
    );
    const sparse = Math.ceil(12 / cell);
    const names = owners.map((owner, i) =>
      i % sparse
        ? null
        : [
            s(
              "text",
              {
                class: "dt-soft dt-ring-owner",
                x: left - 5,
                y: top + (i + 0.5) * cell + 3.5,
                "text-anchor": "end",
              },
              `${owner}`,
            ),
            s(
              "text",
              {
                class: "dt-soft dt-ring-owner",
                x: left + (i + 0.5) * cell,
                y: top - 4,
                "text-anchor": "middle",
              },
              `${owner}`,
            ),
          ],
    );
    const edge = s("rect", { class: "dt-ring-edge", x: left, y: top, width: side, height: side });
    const words = `queries down, keys across: whose they are; dark: step ${state.step}`;
    square.replaceChildren(
      ...[s("text", { class: "dt-soft", x: 2, y: 13 }, words), cells, edge, names]
        .flat(3)
        .filter(Boolean),
    );
  }

  reset();
  return stop;
}

export default { render };
