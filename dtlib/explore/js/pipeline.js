// A pipeline schedule as a grid of ranks and time, and below it what the marked rank has to hold.

function render({ model, el }) {
  const spec = model.get("spec");
  const state = {};
  const names = ["schedule", "p", "m", "ratio", "idle", "peak", "wait", "step"];
  const met = spec.task
    ? new Function(...names, `"use strict"; return ${spec.task.js};`)
    : null;
  const id = uniqueId("pipeline");
  let run = null;
  let width = 0;

  const page = frame(el, { title: spec.title, hint: HINT, task: spec.task, reset });
  const radios = spec.schedules.map(({ label }, i) =>
    h("input", {
      type: "radio",
      name: `${id}-schedule`,
      "aria-label": label,
      onchange: () => set({ schedule: i }),
    }),
  );
  page.stage.before(
    h(
      "fieldset",
      { class: "dt-pipe-choices" },
      h("legend", { class: "dt-hidden" }, "Schedule"),
      spec.schedules.map(({ label }, i) => h("label", {}, radios[i], ` ${label}`)),
    ),
  );
  const svg = s("svg", { class: "dt-plot dt-pipe" });
  const cursor = s("rect", {
    class: "dt-pipe-cursor",
    role: "slider",
    tabindex: "0",
    onkeydown: (event) => {
      if (walk(event.key)) event.preventDefault();
    },
  });
  const story = h("p", { class: "dt-pipe-story" });
  page.stage.append(svg, story);
  const sliders = spec.controls.map((control) =>
    slider(control, (value) => set({ [control.name]: value })),
  );
  page.controls.append(...sliders.map(({ element }) => element));
  const rows = {
    idle: h("span", { class: "dt-row-value" }),
    step: h("span", { class: "dt-row-value" }),
    wait: h("span", { class: "dt-row-value" }),
    peak: h("span", { class: "dt-row-value" }),
  };
  page.readout.append(
    h("div", { class: "dt-row" }, h("strong", {}, "idle, of all ranks' time"), rows.idle),
    h("div", { class: "dt-row" }, "length of the step", rows.step),
    h("div", { class: "dt-row" }, "longest idle time between a rank's first and last action", rows.wait),
    h("div", { class: "dt-row" }, h("strong", {}, "most activations that a rank holds"), rows.peak),
  );
  svg.addEventListener("click", (event) => {
    const at = Number(event.target.dataset?.span);
    if (event.target.dataset?.span) mark(at);
  });
  const stop = whenSized(page.stage, (now) => {
    width = now;
    draw();
  });

  function reset() {
    Object.assign(state, spec.start);
    sliders.forEach((control, i) => control.set(spec.controls[i].index));
    play();
  }

  function set(change) {
    Object.assign(state, change);
    play();
  }

  // The stored schedule of these choices, played with the times of these choices.
  function play() {
    radios.forEach((radio, i) => {
      radio.checked = i === state.schedule;
    });
    const stored = spec.schedules[state.schedule].stored[`${state.p} ${state.m}`];
    const half = state.ratio / 2;
    run = stored.refused ? null : runPipeline(stored, { f: 1, b: half, w: half });
    state.marked = null;
    if (run) run.byRank = Array.from({ length: state.p }, (_, r) => run.spans.filter((x) => x.rank === r));
    story.textContent = run ? "" : stored.refused;
    for (const [name, node] of Object.entries(rows)) node.textContent = run ? shown()[name] : "–";
    page.task?.set(Boolean(run && met(...names.map((name) => values()[name]))));
    if (width) draw();
    page.say(run ? summary() : `${label()}: ${stored.refused}`);
  }

  const label = () => spec.schedules[state.schedule].label;
  const values = () => ({
    ...state,
    idle: run.idle,
    peak: Math.max(...run.peaks),
    wait: run.wait,
    step: run.makespan,
  });
  const forwards = (time) => `${formatQuantity(time, "", 3)} forward times`;
  const batches = (count) =>
    `${formatQuantity(count, "", 3)} micro-batch${count === 1 ? "" : "es"}`;

  function shown() {
    return {
      idle: formatQuantity(run.idle, "%", 3),
      step: forwards(run.makespan),
      wait: forwards(run.wait),
      peak: batches(Math.max(...run.peaks)),
    };
  }

  function summary() {
    const { idle, step, peak } = shown();
    return (
      `${sentence(label())}, ${state.p} ranks, ${state.m} micro-batches: the step takes ${step}, ` +
      `${idle} of all ranks' time is idle, and a rank holds at most ${peak}.`
    );
  }

  // Mark an action, its micro-batch in the whole grid, and its rank in the curve below.
  function mark(index) {
    state.marked = index;
    draw();
    cursor.focus({ preventScroll: true });
    page.say(tell());
  }

  function tell() {
    const span = run.spans[state.marked];
    const what = {
      F: "forward pass of",
      B: "input gradient of",
      W: "weight gradient of",
      BW: "backward pass of",
    };
    const name = pipelineName(span);
    const at = formatQuantity(span.start, "", 3);
    const waited = span.start - span.free;
    const cause = span.needs
      .map(maker)
      .find((other) => other.stop === span.start);
    const why =
      waited > 0 && cause ? ` Its rank waited ${forwards(waited)} for ${pipelineName(cause)} on rank ${cause.rank}.` : "";
    const held = heldAt(span.rank, span.start);
    return (
      `${name}, ${what[span.kind]} micro-batch ${span.batch} through stage ${span.stage}, starts on rank ` +
      `${span.rank} at ${at}.${why} The rank then holds ${batches(held)}.`
    );
  }

  // The action that gives a result such as 1B0.
  function maker(result) {
    const [stage, batch] = result.split(/[FB]/).map(Number);
    const kind = result.includes("F") ? "F" : "B";
    return run.spans.find((span) => span.stage === stage && span.batch === batch && span.kind[0] === kind);
  }

  function heldAt(rank, time) {
    return run.held[rank].filter(([start]) => start <= time).at(-1)[1];
  }

  function walk(key) {
    if (!run) return false;
    if (key === "Escape") {
      state.marked = null;
      draw();
      cursor.focus({ preventScroll: true });
      page.say(summary());
      return true;
    }
    const now = run.spans[state.marked] ?? run.byRank[0][0];
    const own = run.byRank[now.rank];
    const steps = { ArrowLeft: -1, ArrowRight: 1 };
    const moves = { ArrowUp: -1, ArrowDown: 1 };
    let to = null;
    if (state.marked === null && (key in steps || key in moves)) to = now;
    else if (key in steps) to = own[clamp(own.indexOf(now) + steps[key], 0, own.length - 1)];
    else if (key === "Home") to = own[0];
    else if (key === "End") to = own[own.length - 1];
    else if (key in moves) {
      const other = run.byRank[clamp(now.rank + moves[key], 0, state.p - 1)];
      to = other.reduce((best, span) =>
        Math.abs(span.start - now.start) < Math.abs(best.start - now.start) ? span : best,
      );
    }
    if (!to) return false;
    mark(run.spans.indexOf(to));
    return true;
  }

  function draw() {
    const focused = document.activeElement === cursor;
    story.hidden = Boolean(run) && state.marked === null;
    if (!run) {
      svg.setAttribute("viewBox", `0 0 ${width} 40`);
      svg.setAttribute("height", 40);
      svg.replaceChildren(s("text", { class: "dt-soft", x: 8, y: 26 }, "There is no such schedule."));
      return;
    }
    const wide = width >= 560;
    const [left, right] = wide ? [58, 66] : [20, 34];
    const row = state.p > 4 ? 24 : 34;
    const top = 30;
    const x = scaleOf(0, run.makespan, "linear", left, width - right);
    const gridBottom = top + state.p * row;
    const curveTop = gridBottom + 62;
    const curveHeight = 74;
    const height = curveTop + curveHeight + 26;
    const now = state.marked === null ? null : run.spans[state.marked];
    if (now) story.textContent = tell();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    Object.entries({
      x: left - 3,
      y: top - 3,
      width: width - left - right + 6,
      height: gridBottom - top + 6,
      "aria-label": "Action",
      "aria-valuemin": 0,
      "aria-valuemax": run.spans.length - 1,
      "aria-valuenow": state.marked ?? 0,
      "aria-valuetext": now ? tell() : "none marked",
    }).forEach(([key, value]) => cursor.setAttribute(key, value));
    svg.replaceChildren(
      ...[
        hatches(),
        legend(left),
        cursor,
        run.spans.map((span, i) => bar(span, i, { x, top, row, now })),
        rankNames({ left, right, top, row, wide }),
        axis(x, gridBottom, wide),
        curve({ x, left, right, curveTop, curveHeight, now, wide }),
        now ? needs(now, { x, top, row }) : null,
      ]
        .flat(Infinity)
        .filter(Boolean),
    );
    if (focused) cursor.focus({ preventScroll: true });
  }

  const LOOK = { F: "is-forward", B: "is-backward", BW: "is-backward", W: "is-weight" };

  function hatches() {
    const lines = (name, d) =>
      s(
        "pattern",
        { id: `${id}-${name}`, width: 6, height: 6, patternUnits: "userSpaceOnUse" },
        s("path", { class: `dt-pipe-hatch ${LOOK[name]}`, d }),
      );
    return s("defs", {}, lines("B", "M-1 1L1 -1M0 6L6 0M5 7L7 5"), lines("W", "M1 1h1.6M4 4h1.6"));
  }

  function legend(left) {
    const words = run.split
      ? { F: "forward", B: "input gradient", W: "weight gradient" }
      : { F: "forward", BW: "backward (both gradients)" };
    let at = Math.min(left, 20);
    return Object.entries(words).map(([kind, text]) => {
      const place = at;
      at += 26 + 7.1 * text.length;
      return [block(kind, place, 6, 14, 12), s("text", { class: "dt-soft", x: place + 19, y: 16 }, text)];
    });
  }

  function block(kind, x, y, wide, high, more = {}) {
    const place = { x, y, width: wide, height: high };
    const face = s("rect", { class: `dt-pipe-bar ${LOOK[kind]} ${more.class ?? ""}`, ...place, "data-span": more.span });
    if (kind === "F") return face;
    return [face, s("rect", { class: "dt-pipe-over", fill: `url(#${id}-${kind[0]})`, ...place })];
  }

  // A bar is full where it belongs to the marked micro-batch, and pale where another one is marked.
  function bar(span, i, { x, top, row, now }) {
    const [from, to] = [x(span.start), x(span.stop)];
    const pale = now && now.batch !== span.batch ? "is-pale" : "";
    const on = now === span ? "is-on" : "";
    const later = span.stage >= state.p ? "is-later" : "";
    const y = top + span.rank * row + 2;
    const face = block(span.kind, from + 0.4, y, Math.max(to - from - 0.8, 0.6), row - 5, {
      class: `${pale} ${on} ${later}`,
      span: i,
    });
    const text = String(span.batch);
    if (to - from < 7.5 * text.length + 3) return face;
    const place = { x: (from + to) / 2, y: y + row / 2 + 1.5, "text-anchor": "middle" };
    return [face, s("text", { class: `dt-pipe-text ${pale}`, ...place }, text)];
  }

  function rankNames({ left, right, top, row, wide }) {
    return run.peaks.map((peak, rank) => {
      const y = top + (rank + 0.5) * row + 4;
      const text = wide ? `peak ${formatQuantity(peak, "", 3)}` : formatQuantity(peak, "", 3);
      return [
        s("text", { class: "dt-soft", x: left - 8, y, "text-anchor": "end" }, wide ? `rank ${rank}` : rank),
        s("text", { class: "dt-soft", x: width - right + 6, y }, text),
      ];
    });
  }

  function axis(x, bottom, wide) {
    const marks = ticks(0, run.makespan, "linear", width / 80);
    return [
      s("line", { class: "dt-axis", x1: x(0), x2: x(run.makespan), y1: bottom + 3, y2: bottom + 3 }),
      marks.map((v) =>
        s("text", { class: "dt-soft", x: x(v), y: bottom + 18, "text-anchor": "middle" }, formatQuantity(v, "", 3)),
      ),
      s(
        "text",
        { class: "dt-soft", x: x(run.makespan), y: bottom + 34, "text-anchor": "end" },
        wide ? "time (forward times of a stage)" : "time (forward times)",
      ),
    ];
  }

  // Steps of every rank's held activations; those of one rank filled.
  function curve({ x, left, right, curveTop, curveHeight, now, wide }) {
    const most = Math.max(...run.peaks);
    const bottom = curveTop + curveHeight;
    const y = (count) => bottom - (count / most) * curveHeight;
    const lineOf = (steps) => {
      let d = `M${x(0)} ${bottom}`;
      steps.forEach(([time, count], k) => {
        if (k) d += `L${x(time).toFixed(1)} ${y(steps[k - 1][1]).toFixed(1)}`;
        d += `L${x(time).toFixed(1)} ${y(count).toFixed(1)}`;
      });
      return `${d}L${x(run.makespan).toFixed(1)} ${y(steps.at(-1)[1]).toFixed(1)}`;
    };
    const chosen = now ? now.rank : 0;
    const others = run.held.map((steps, rank) =>
      rank === chosen ? null : s("path", { class: "dt-pipe-held is-other", d: lineOf(steps) }),
    );
    const own = lineOf(run.held[chosen]);
    const name = (text, py) =>
      s("text", { class: "dt-soft", x: left - 8, y: py, "text-anchor": "end" }, text);
    const title = wide
      ? `activations held by rank ${chosen} (micro-batches); thin: the other ranks`
      : `held by rank ${chosen} (micro-batches)`;
    return [
      s("path", { class: "dt-pipe-area", d: `${own}L${x(run.makespan)} ${bottom}Z` }),
      others,
      s("path", { class: "dt-pipe-held", d: own }),
      s("line", { class: "dt-axis", x1: left, x2: width - right, y1: bottom, y2: bottom }),
      name("0", bottom + 4),
      name(formatQuantity(most, "", 3), curveTop + 5),
      s("text", { class: "dt-soft", x: left, y: curveTop - 10 }, title),
      now
        ? s("line", { class: "dt-pipe-time", x1: x(now.start), x2: x(now.start), y1: 26, y2: bottom })
        : null,
    ];
  }

  // From the actions that the marked one needs to where it starts.
  function needs(now, { x, top, row }) {
    return now.needs
      .map(maker)
      .filter((other) => other.rank !== now.rank)
      .map((other) =>
        s("line", {
          class: "dt-pipe-need",
          x1: x(other.stop),
          y1: top + (other.rank + 0.5) * row,
          x2: x(now.start),
          y2: top + (now.rank + 0.5) * row,
        }),
      );
  }

  reset();
  return stop;
}

const HINT =
  "Press an action to follow its micro-batch. With the keyboard: Tab to the grid, arrow keys from " +
  "action to action, Escape to let go.";

export default { render };
