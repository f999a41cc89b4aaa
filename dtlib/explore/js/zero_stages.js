// Ranks as rows, layers as columns; in each cell weights, gradients and optimizer state as strips
// whose areas are bytes. The reader steps through the actions of one training step.

const ZERO_MS = 700;

function render({ model: widget, el }) {
  const spec = widget.get("spec");
  const state = {};
  const met = spec.task
    ? new Function(...spec.task.names, `"use strict"; return ${spec.task.js};`)
    : null;
  let width = 0;
  let timer = 0;

  const page = frame(el, {
    title: spec.title,
    task: spec.task,
    hint: "Choose a stage, then step with the buttons, or drag the slider. Areas are bytes; a whole hides the rank's own part of it, which counts, too.",
    reset,
  });
  const name = uniqueId("zero");
  const facts = spec.stages.map(() => h("span", { class: "dt-zero-facts" }));
  const radios = spec.stages.map((_, i) =>
    h("input", { type: "radio", name, onchange: () => set({ stage: i }) }),
  );
  page.stage.before(
    h(
      "fieldset",
      { class: "dt-zero-choices" },
      h("legend", { class: "dt-hidden" }, "Stage"),
      spec.stages.map((text, i) => h("label", {}, radios[i], h("strong", {}, text), facts[i])),
    ),
  );
  const said = h("p", { class: "dt-zero-action" });
  const svg = s("svg", { class: "dt-plot dt-zero", role: "img" });
  page.stage.append(said, svg, legend());

  const button = (text, label, onclick, look = "") =>
    h("button", { type: "button", class: `dt-button ${look}`, "aria-label": label, onclick }, text);
  const back = button("‹ Back", "One action back", () => go(state.done - 1));
  const play = button("▶ Play", "Play", toggle, "is-primary");
  const step = button("Step ›", "One action on", () => go(state.done + 1));
  const scrub = h("input", {
    type: "range",
    class: "dt-range dt-zero-scrub",
    min: 0,
    step: 1,
    "aria-label": "Actions done",
    oninput: () => go(+scrub.value),
  });
  const transport = h("div", { class: "dt-zero-transport" }, back, play, step, scrub);
  const sliders = spec.sliders.map((control) =>
    slider(control, (value) => set({ [control.name]: value })),
  );
  page.controls.before(transport);
  page.controls.append(...sliders.map(({ element }) => element));
  const meters = [meter("a rank holds now", "is-held"), meter("a rank has sent", "")];
  page.readout.append(...meters.map(({ element }) => element));

  const stop = whenSized(page.stage, (now) => {
    width = now;
    draw();
  });

  function reset() {
    pause();
    Object.assign(state, spec.start);
    sliders.forEach((control, i) => control.set(spec.sliders[i].index));
    update();
  }

  // Another step keeps its place: the same share of its actions.
  function set(change) {
    const before = count();
    const share = state.done / before;
    Object.assign(state, change);
    state.done = Math.round(share * count());
    update();
  }

  function go(done) {
    state.done = clamp(done, 0, count());
    update();
  }

  function toggle() {
    if (timer) return pause();
    if (state.done === count()) state.done = 0;
    timer = setInterval(() => {
      go(state.done + 1);
      if (state.done === count()) pause();
    }, ZERO_MS);
    namePlay();
    update();
  }

  function pause() {
    clearInterval(timer);
    timer = 0;
    namePlay();
  }

  function namePlay() {
    play.textContent = timer ? "❚❚ Pause" : "▶ Play";
    play.setAttribute("aria-label", timer ? "Pause" : "Play");
  }

  const count = () => zeroRun(spec, state).actions.length;
  const gb = (bytes) => formatQuantity(bytes, "B", 3);

  function now() {
    const action = zeroRun(spec, state).actions[state.done - 1];
    if (!action) return "Before the step: weights and optimizer state, no gradients";
    return sentence(zeroWords(action, state.stage, state.micro_batches > 1));
  }

  function update() {
    const bytes = zeroBytes(spec, state);
    const values = zeroValues(spec, state);
    const all = spec.stages.map((_, stage) => zeroValues(spec, { ...state, stage }));
    radios.forEach((radio, i) => {
      radio.checked = i === state.stage;
      facts[i].textContent = `holds at most ${gb(all[i].peak)}, sends ${gb(all[i].total)} a step`;
    });
    said.textContent = `${state.done} of ${count()}. ${now()}.`;
    scrub.max = count();
    scrub.value = state.done;
    scrub.style.setProperty("--dt-fill", state.done / count());
    scrub.setAttribute("aria-valuetext", `${state.done} of ${count()} actions. ${now()}`);
    back.disabled = state.done === 0;
    step.disabled = state.done === count();
    const [held, sent] = [bytes.held[state.done], bytes.sent[state.done]];
    meters[0].set(held, all[0].peak, all[0].peak, values.peak, "at most");
    meters[1].set(sent, Math.max(...all.map(({ total }) => total)), all[0].total, values.total, "in all");
    if (width) draw();
    if (met) page.task.set(Boolean(met(...spec.task.names.map((key) => values[key]))));
    page.say(
      `${sentence(spec.stages[state.stage])}, ${state.ranks} ranks, action ${state.done} of ` +
        `${count()}: ${now()}. A rank holds ${gb(held)} and has sent ${gb(sent)}; ` +
        `data parallelism holds ${gb(all[0].peak)} and sends ${gb(all[0].total)} a step.`,
    );
  }

  // A bar with a mark where data parallelism is.
  function meter(label, kind) {
    const fill = h("span", { class: `dt-zero-fill ${kind}` });
    const mark = h("span", { class: "dt-zero-mark" });
    const value = h("span", { class: "dt-value" });
    const note = h("span", { class: "dt-zero-note" });
    const element = h(
      "div",
      { class: "dt-zero-meter" },
      h("span", {}, label, " ", value, " ", note),
      h("span", { class: "dt-zero-bar" }, fill, mark),
    );
    const setMeter = (bytes, most, plain, end, words) => {
      value.textContent = gb(bytes);
      note.textContent = `${words} ${gb(end)}; mark: data parallelism, ${gb(plain)}`;
      fill.style.width = `${(100 * bytes) / most}%`;
      mark.style.left = `calc(${(100 * plain) / most}% - 2px)`;
    };
    return { element, set: setMeter };
  }

  function draw() {
    const run = zeroRun(spec, state);
    const { ranks, done } = state;
    const action = run.actions[done - 1];
    const left = 52;
    const gap = 10;
    const units = spec.units.length;
    const most = Math.max(...spec.units);
    const column = (width - left) / units;
    const perByte = (ranks > 4 ? 42 : 68) / spec.parts.reduce((a, b) => a + b, 0);
    const row = perByte * spec.parts.reduce((a, b) => a + b, 0) + 16;
    const top = 26;
    const height = top + ranks * row;
    const pattern = uniqueId("hatch");
    const nodes = [hatches(pattern)];
    spec.units.forEach((size, u) => {
      const busy = action && (action[1] === u || action[1] < 0);
      const x = left + u * column;
      nodes.push(
        s(
          "text",
          { class: busy ? "dt-zero-busy" : "dt-soft", x: x + (column - gap) / 2, y: 15, "text-anchor": "middle" },
          busy && action[1] >= 0 ? `${action[0]} ${u}` : `layer ${u}`,
        ),
      );
      const full = ((column - gap) * size) / most;
      for (let rank = 0; rank < ranks; rank++) {
        let y = top + rank * row;
        if (busy) {
          nodes.push(
            s("rect", { class: "dt-zero-ring", x: x - 3, y: y - 3, width: full + 6, height: row - 8, rx: 4 }),
          );
        }
        const letters = [
          run.weights[done][u],
          run.gradients[done][u] === "s" ? "sum" : run.gradients[done][u],
          state.stage ? "p" : "w",
        ];
        letters.forEach((letter, kind) => {
          const tall = perByte * spec.parts[kind];
          nodes.push(
            s("rect", { class: "dt-zero-slot", x, y, width: full, height: tall - 1 }),
            zeroStrips(letter, rank, ranks).map(([from, to, complete]) =>
              s("rect", {
                class: `dt-zero-k${kind}`,
                fill: complete ? null : `url(#${pattern}-${kind})`,
                style: complete ? null : `fill: url(#${pattern}-${kind})`,
                x: x + from * full,
                y,
                width: (to - from) * full,
                height: tall - 1,
              }),
            ),
          );
          y += tall;
        });
      }
    });
    for (let rank = 0; rank < ranks; rank++) {
      nodes.push(s("text", { class: "dt-soft", x: 0, y: top + rank * row + row / 2 - 4 }, `rank ${rank}`));
    }
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    svg.setAttribute("aria-label", `What each of ${ranks} ranks holds of ${units} layers. ${now()}`);
    svg.replaceChildren(...nodes.flat(Infinity));
  }

  function hatches(id) {
    const one = (kind) =>
      s(
        "pattern",
        { id: `${id}-${kind}`, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
        s("rect", { class: "dt-zero-slot", width: 5, height: 5 }),
        s("rect", { class: `dt-zero-k${kind}`, width: 2.2, height: 5 }),
      );
    return s("defs", {}, [0, 1, 2].map(one));
  }

  function legend() {
    const names = ["weights", "gradients", "optimizer state"];
    const [w, g, o] = spec.parts.map((bytes, kind) =>
      h("span", {}, h("i", { class: `dt-zero-key dt-zero-b${kind}` }), `${names[kind]}, ${bytes} B`),
    );
    const hatch = h("span", {}, h("i", { class: "dt-zero-key is-hatched" }), "own samples only, or old");
    return h("div", { class: "dt-zero-legend" }, "In each cell from the top, bytes of a parameter:", w, g, o, hatch);
  }

  reset();
  return () => {
    stop();
    pause();
  };
}

export default { render };
