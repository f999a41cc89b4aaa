// One bar for each expert, a line where its places end: blue is computed, vermilion is dropped,
// and dashed places are computed for nothing.

const HINT =
  "Blue copies are computed, vermilion ones dropped; dashed places stay empty and are sent and " +
  "computed all the same. Tab to the sliders and use the arrow keys.";
const HEIGHT = 250;

const percent = (value) => formatQuantity(value, "%", 2);

function render({ model, el }) {
  const spec = model.get("spec");
  const names = ["experts", "k", "skew", "capacity"];
  const state = { ...spec.start };
  const met = spec.task
    ? new Function(...names, "dropped", "wasted", "busiest", `"use strict"; return ${spec.task.js};`)
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

  const loads = () => spec.loads[`${state.experts} ${state.k} ${state.skew}`];

  function update() {
    const found = fillExperts(loads(), state.capacity);
    const values = [...names.map((name) => state[name]), found.dropped, found.wasted, found.busiest];
    page.task?.set(Boolean(met && met(...values)));
    page.say(summary(found));
    draw();
  }

  function summary(found) {
    return (
      `${formatQuantity(spec.tokens)} tokens, ${state.k} of ${state.experts} experts each, ` +
      `skew ${state.skew}, ${formatQuantity(found.capacity, "", 4)} places at every expert: ` +
      `${percent(found.dropped)} of the copies are dropped and ${percent(found.wasted)} of the ` +
      `places are empty. The busiest expert has ${formatQuantity(found.busiest, "×", 3)} the mean load.`
    );
  }

  function draw() {
    if (!width) return;
    const all = loads();
    const found = fillExperts(all, state.capacity);
    const mean = all.reduce((sum, load) => sum + load, 0) / all.length;
    const top = Math.max(found.busiest, state.capacity) * 1.04;
    const [left, right, bottom] = [44, width - 8, HEIGHT + 44];
    const up = scaleOf(0, top, "linear", bottom, 58);
    const room = (right - left) / all.length;
    const gap = room > 6 ? 2 : 0.5;
    const place = found.capacity / mean;
    const bars = all.flatMap((load, i) => {
      const at = { x: left + i * room, width: room - gap };
      const share = load / mean;
      const kept = Math.min(share, place);
      const piece = (name, from, to) =>
        to > from ? s("rect", { class: name, ...at, y: up(to), height: up(from) - up(to) }) : null;
      return [
        piece("dt-kept", 0, kept),
        piece("dt-dropped", place, share),
        piece("dt-empty", kept, place),
      ];
    });
    const marks = ticks(0, top, "linear", 5).map((v) => [
      s("line", { class: "dt-grid", x1: left, x2: right, y1: up(v), y2: up(v) }),
      s("text", { x: left - 6, y: up(v) + 4, "text-anchor": "end" }, formatQuantity(v, "×", 2)),
    ]);
    svg.setAttribute("viewBox", `0 0 ${width} ${bottom + 34}`);
    svg.setAttribute("height", bottom + 34);
    svg.setAttribute(
      "aria-label",
      `Loads of ${state.experts} experts over the mean; the places end at ${formatQuantity(place, "×", 3)}.`,
    );
    const key = `dropped ${percent(found.dropped)} · empty places ${percent(found.wasted)}`;
    svg.replaceChildren(
      ...[
        s("text", { class: "dt-router-key", x: 4, y: 18 }, key),
        s("text", { class: "dt-axis-title", x: 4, y: 40 }, "load of an expert, over the mean"),
        s("g", { class: "dt-axes" }, marks),
        bars,
        s("line", { class: "dt-capacity", x1: left, x2: right, y1: up(place), y2: up(place) }),
        s(
          "text",
          { class: "dt-halo", x: right - 4, y: up(place) - 7, "text-anchor": "end" },
          width < 480 ? "capacity" : "capacity: places end here",
        ),
        s(
          "text",
          { class: "dt-axis-title", x: right, y: bottom + 22, "text-anchor": "end" },
          "experts, the most popular first",
        ),
      ]
        .flat(Infinity)
        .filter(Boolean),
    );
  }

  update();
  return stop;
}

export default { render };
