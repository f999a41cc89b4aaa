// A chain that runs backward with few kept states: time from left to right, states downwards.

const TICK_MS = 260;

function render({ model, el }) {
  const spec = model.get("spec");
  const state = { ...spec.start, done: 0, playing: 0 };
  const met = spec.task
    ? new Function("layers", "slots", "advances", "repeats", `"use strict"; return ${spec.task.js};`)
    : null;
  let actions = [];
  let whole = null;
  let width = 0;

  const page = frame(el, {
    title: spec.title,
    task: spec.task,
    hint: "Choose layers and slots, then play, step, or move the slider below the figure.",
    reset,
  });
  const svg = s("svg", { class: "dt-plot dt-revolve", role: "img" });
  page.stage.append(svg);
  const stop = whenSized(page.stage, (now) => {
    width = now;
    draw();
  });
  const sliders = spec.controls.map((control) =>
    slider(control, (value) => choose({ [control.name]: value }), (value) => `${value}`),
  );

  const button = (text, name, onclick, look = "") =>
    h(
      "button",
      { type: "button", class: `dt-button ${look}`, "aria-label": name, title: name, onclick },
      text,
    );
  const back = button("‹ Back", "One action back", () => go(state.done - 1));
  const play = button("▶ Play", "Play", togglePlay, "is-primary dt-play");
  const step = button("Step ›", "One action on", () => go(state.done + 1));
  const scrub = h("input", {
    type: "range",
    class: "dt-range dt-scrub",
    min: 0,
    step: 1,
    "aria-label": "Actions done",
    oninput: () => go(+scrub.value),
  });
  page.controls.append(...sliders.map((one) => one.element));
  const transport = h("div", { class: "dt-transport" }, back, play, step, scrub);
  page.controls.before(transport);

  const action = h("span", { class: "dt-row-value" });
  const slots = h("span", { class: "dt-row-value" });
  const advances = h("span", { class: "dt-row-value" });
  const bound = h("span", { class: "dt-row-value" });
  const row = (name, value) => h("div", { class: "dt-revolve-row" }, h("span", {}, name), value);
  page.readout.append(
    row("now", action),
    row("slots in use", slots),
    row("layers run without a tape, so far", advances),
    row("in the whole schedule", bound),
  );

  function choose(change) {
    pause();
    Object.assign(state, change);
    const key = `${state.layers} ${state.slots}`;
    actions = parseActions(spec.schedules[key]);
    whole = playActions(actions, state.layers, actions.length);
    go(actions.length);
  }

  function reset() {
    for (const [i, control] of spec.controls.entries()) sliders[i].set(control.index);
    choose(spec.start);
  }

  function go(done) {
    state.done = clamp(done, 0, actions.length);
    update();
  }

  function togglePlay() {
    if (state.playing) return pause();
    if (state.done === actions.length) go(0);
    const tick = () => {
      go(state.done + Math.max(1, Math.round(actions.length / 150)));
      if (state.done === actions.length) pause();
    };
    state.playing = setInterval(tick, TICK_MS);
    namePlay();
  }

  function pause() {
    clearInterval(state.playing);
    state.playing = 0;
    namePlay();
  }

  function namePlay() {
    play.textContent = state.playing ? "❚❚ Pause" : "▶ Play";
    play.setAttribute("aria-label", state.playing ? "Pause" : "Play");
  }

  function update() {
    const now = playActions(actions, state.layers, state.done);
    scrub.max = actions.length;
    scrub.value = state.done;
    scrub.style.setProperty("--dt-fill", state.done / actions.length);
    scrub.setAttribute("aria-valuetext", `${state.done} of ${actions.length} actions`);
    back.disabled = state.done === 0;
    step.disabled = state.done === actions.length;
    const last = actions[state.done - 1];
    action.textContent = last ? `${last.word}: ${wordsOf(last)}` : "nothing has run yet";
    slots.textContent = `${now.kept.length} of ${state.slots}`;
    advances.textContent = formatQuantity(now.advances, "", 4);
    const least = spec.least[`${state.layers} ${state.slots}`];
    const share = significant(least / state.layers, 3);
    bound.textContent = `${formatQuantity(least, "", 4)}: ${share} passes through the chain`;
    if (width) draw(now);
    const repeats = whole.repeats;
    if (met) page.task.set(Boolean(met(state.layers, state.slots, whole.advances, repeats)));
    page.say(
      `${state.layers} layers, ${plural(state.slots, "slot")}: ${formatQuantity(now.advances, "", 4)} ` +
        `of ${formatQuantity(least, "", 4)} layers have run without a tape; ` +
        `no layer does so more than ${plural(repeats, "time")}. ` +
        `${plural(now.left, "layer")} left to go back through.`,
    );
  }

  function draw(now = playActions(actions, state.layers, state.done)) {
    const [left, top, height] = [34, 12, 250];
    const across = scaleOf(0, whole.time, "linear", left, width - 10);
    const down = scaleOf(0, state.layers, "linear", top, top + height);
    svg.setAttribute("viewBox", `0 0 ${width} ${top + height + 34}`);
    svg.setAttribute("height", top + height + 34);
    svg.setAttribute("aria-label", "The schedule in time: state down, time to the right");
    const bars = [...now.bars, ...[...now.since].map(([at, from]) => [at, from, now.time])];
    const path = (kind) =>
      now.lines
        .filter(([one]) => one === kind)
        .map(([, a, from, b, to]) => `M${across(a).toFixed(1)} ${down(from).toFixed(1)}L${across(b).toFixed(1)} ${down(to).toFixed(1)}`)
        .join("");
    const every = Math.ceil(state.layers / 8);
    const names = Array.from({ length: state.layers + 1 }, (_, i) => i)
      .filter((i) => i % every === 0)
      .map((i) =>
        s("text", { class: "dt-soft", x: left - 7, y: down(i) + 4, "text-anchor": "end" }, `${i}`),
      );
    const bottom = top + height + 10;
    const at = now.running === null ? now.left : now.running;
    svg.replaceChildren(
      ...names,
      ...bars.map(([i, a, b]) =>
        s("line", {
          class: "dt-revolve-kept",
          x1: across(a),
          x2: Math.max(across(b), across(a) + 1),
          y1: down(i),
          y2: down(i),
        }),
      ),
      s("path", { class: "dt-revolve-advance", d: path("A") }),
      s("path", { class: "dt-revolve-tape", d: path("T") }),
      s("path", { class: "dt-revolve-back", d: path("B") }),
      s("circle", { class: "dt-revolve-now", cx: across(now.time), cy: down(at), r: 4.5 }),
      s("line", { class: "dt-axis", x1: left, x2: width - 10, y1: bottom, y2: bottom }),
      s("text", { class: "dt-soft", x: 2, y: bottom + 19 }, "state"),
      s(
        "text",
        { class: "dt-soft", x: width - 10, y: bottom + 19, "text-anchor": "end" },
        `time: ${formatQuantity(whole.time, "", 4)} layers, forward or back`,
      ),
    );
  }

  reset();
  return () => {
    stop();
    pause();
  };
}

const plural = (count, what) => `${formatQuantity(count)} ${what}${count === 1 ? "" : "s"}`;

export default { render };
