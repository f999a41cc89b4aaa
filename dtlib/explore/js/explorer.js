// Curves over one variable: sliders, a probe on the axis, and the formulas with live numbers.

const HINT = "Drag in the figure or use Tab and the arrow keys; Page Up and Page Down make larger steps.";

function render({ model, el }) {
  const spec = model.get("spec");
  const { x, y } = spec;
  const names = [x.name, ...spec.sliders.map((c) => c.name), ...spec.fixed.map(([name]) => name)];
  const compile = (js, more = []) => new Function(...names, ...more, `"use strict"; return ${js};`);
  const curves = spec.curves.map((c) => ({ ...c, at: compile(c.js) }));
  const guides = spec.guides.map((g) => ({ ...g, at: compile(g.js) }));
  const marks = spec.marks.map((m) => ({ ...m, at: compile(m.js) }));
  const keys = curves.map((c) => c.key);
  const met = spec.task ? compile(spec.task.js, keys) : null;

  const state = {};
  const restore = () => {
    for (const c of [x, ...spec.sliders]) state[c.name] = c.values[c.index];
    for (const [name, value] of spec.fixed) state[name] = value;
    state.range = [...y.range];
  };
  restore();
  const call = (f, at = state[x.name]) =>
    f(...names.map((name) => (name === x.name ? at : state[name])));

  const page = frame(el, { title: spec.title, hint: HINT, task: spec.task, reset });
  const probe = h("input", {
    type: "range", class: "dt-probe", min: 0, max: x.values.length - 1, step: 1, value: x.index,
    "aria-label": `Probe: ${x.label}, ${x.plain}`,
    oninput: () => { state[x.name] = x.values[probe.value]; update(); },
  });
  const sliders = spec.sliders.map((c) =>
    slider(c, (value) => { state[c.name] = value; update(); }));
  page.controls.append(...sliders.map((control) => control.element));

  const rows = curves.map((c, i) => readoutRow(c, i));
  page.readout.append(...rows.map((row) => row.element));

  function readoutRow(c, i) {
    const value = h("span", { class: "dt-row-value" });
    const numbers = substitution(c.body, c.parts);
    const formula = h("div", { class: "dt-row-formula" },
      math(`${c.symbol}<mo>=</mo>${c.body}`), numbers.element);
    const key = h("button", {
      type: "button", class: "dt-key", "aria-pressed": "false",
      title: "Highlight this curve",
      onclick: () => pin(c.key),
    }, sample(i), c.label);
    const element = h("div", {
      class: `dt-row dt-c${i}`, "data-key": c.key,
      onpointerenter: () => highlight(c.key), onpointerleave: () => highlight(pinned),
    }, key, value, formula);
    const overflow = watchOverflow(formula, `${c.label}, formula`);
    const parts = c.parts.map(([name, js]) => [name, compile(js)]);
    return {
      element, key,
      show() {
        numbers.fill(Object.fromEntries(parts.map(([name, f]) => [name, call(f)])));
        value.textContent = formatQuantity(call(c.at), y.unit, 3);
        overflow();
      },
    };
  }

  let pinned = null;
  function pin(key) {
    pinned = pinned === key ? null : key;
    rows.forEach((row, i) => row.key.setAttribute("aria-pressed", String(keys[i] === pinned)));
    highlight(pinned);
  }
  function highlight(key) {
    page.root.classList.toggle("has-highlight", key !== null);
    for (const node of page.root.querySelectorAll("[data-key]")) {
      node.classList.toggle("is-on", node.dataset.key === key);
    }
  }

  function reset() {
    restore();
    probe.value = x.index;
    sliders.forEach((control, i) => control.set(spec.sliders[i].index));
    if (pinned) pin(pinned);
    update();
  }

  function update() {
    if (width) draw();
    rows.forEach((row) => row.show());
    probe.setAttribute("aria-valuetext", formatQuantity(state[x.name], x.unit, 3));
    if (met) page.task.set(Boolean(met(...names.map((n) => state[n]), ...curves.map((c) => call(c.at)))));
    page.say(summary());
  }

  function summary() {
    const where = [x, ...spec.sliders]
      .map((c) => `${c.plain} = ${formatQuantity(state[c.name], c.unit, 3)}`).join(", ");
    const found = curves.map((c) => [c.label, call(c.at)]).sort((a, b) => a[1] - b[1]);
    const values = found.map(([label, v]) => `${label} ${formatQuantity(v, y.unit, 3)}`).join(", ");
    const [low, high] = [found[0][1], found[found.length - 1][1]];
    const ratio = found.length > 1 && low > 0
      ? ` The largest is ${formatQuantity(high / low, "×", 3)} the smallest.` : "";
    return `At ${where}: ${values}.${ratio}`;
  }

  let width = 0;
  const svg = s("svg", { class: "dt-plot", role: "img" });
  page.stage.append(probe, svg);
  const stop = whenSized(page.stage, (now) => { width = now; draw(); });

  function draw() {
    const wide = width >= 560;
    const box = {
      left: 62, right: width - (wide ? 132 : 14), top: 46,
      bottom: clamp(width * 0.5, 230, 350) + 46,
    };
    const height = box.bottom + 54;
    const [xs, ys] = [scaleOf(x.values[0], x.values[x.values.length - 1], x.scale, box.left, box.right)];
    const samples = samplesOf(xs, box);
    const lines = curves.map((c) => samples.map((at) => call(c.at, at)));
    grow(lines.flat());
    const up = scaleOf(...state.range, y.scale, box.bottom, box.top);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    svg.setAttribute("aria-label",
      `${y.label} against ${x.label}: ${curves.map((c) => c.label).join(", ")}.`);
    const clip = `dt-clip-${clipNumber}`;
    const path = (values) => pathOf(samples.map(xs), values.map((v) => up(v)));
    const layers = [
      s("defs", {}, s("clipPath", { id: clip },
        s("rect", { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top }))),
      axes(box, xs, up, width),
      s("g", { "clip-path": `url(#${clip})` },
        guides.map((g) => s("path", { class: "dt-guide", d: path(samples.map((at) => call(g.at, at))) })),
        curves.map((c, i) => s("path", { class: `dt-curve dt-c${i}`, "data-key": c.key, d: path(lines[i]) }))),
      guideLabels(box, samples, up, xs),
      markLines(box, xs),
      endLabels(box, lines, up, wide),
      probeLine(box, xs, up),
    ];
    svg.replaceChildren(...layers.flat(Infinity).filter(Boolean));
  }

  function samplesOf(xs, box) {
    if (x.scale === "powers of two") return x.values;
    const count = Math.round((box.right - box.left) / 3);
    const all = Array.from({ length: count + 1 }, (_, i) => xs.invert(box.left + (i * (box.right - box.left)) / count));
    const inner = marks.map((m) => call(m.at)).filter((v) => v > all[0] && v < all[count]);
    return [...all, ...inner].sort((a, b) => a - b);
  }

  // The vertical axis only grows, so that a curve is seen to move; reset brings it back.
  function grow(values) {
    const found = values.filter((v) => Number.isFinite(v) && (y.scale === "linear" || v > 0));
    const [low, high] = [Math.min(...found), Math.max(...found)];
    if (y.scale === "linear") {
      if (high > state.range[1]) state.range[1] = high * 1.08;
      return;
    }
    if (low < state.range[0]) state.range[0] = low / 1.5;
    if (high > state.range[1]) state.range[1] = high * 1.5;
  }

  function axes(box, xs, up, w) {
    const across = ticks(x.values[0], x.values[x.values.length - 1], x.scale, (box.right - box.left) / 64);
    const upward = ticks(...state.range, y.scale, (box.bottom - box.top) / 34);
    return s("g", { class: "dt-axes" },
      upward.map((v) => s("g", {},
        s("line", { class: "dt-grid", x1: box.left, x2: box.right, y1: up(v), y2: up(v) }),
        s("text", { x: box.left - 8, y: up(v) + 4, "text-anchor": "end" }, formatQuantity(v, y.unit)))),
      s("line", { class: "dt-axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }),
      across.map((v) => s("g", {},
        s("line", { class: "dt-axis", x1: xs(v), x2: xs(v), y1: box.bottom, y2: box.bottom + 5 }),
        s("text", { x: xs(v), y: box.bottom + 28, "text-anchor": "middle" }, formatQuantity(v, x.unit)))),
      s("text", { class: "dt-axis-title", x: 4, y: 16 }, y.label),
      s("text", { class: "dt-axis-title", x: box.right, y: box.bottom + 49, "text-anchor": "end" },
        `${x.label} ${x.plain} →`));
  }

  function guideLabels(box, samples, up, xs) {
    return guides.map((g) => {
      const at = samples[Math.round(samples.length * 0.04)];
      const v = clamp(up(call(g.at, at)), box.top + 12, box.bottom - 6);
      return s("text", { class: "dt-guide-label dt-halo", x: xs(at), y: v - 6 }, g.label);
    });
  }

  function markLines(box, xs) {
    return marks.map((m) => {
      const at = call(m.at);
      const px = xs(at);
      if (!(px >= box.left && px <= box.right)) return null;
      const left = px > (box.left + box.right) / 2;
      return s("g", { class: "dt-mark" },
        s("line", { x1: px, x2: px, y1: box.top, y2: box.bottom }),
        s("text", { class: "dt-halo", x: px + (left ? -6 : 6), y: box.top + 10, "text-anchor": left ? "end" : "start" },
          `${m.label} ${m.plain} = ${formatQuantity(at, x.unit, 3)}`));
    });
  }

  function endLabels(box, lines, up, wide) {
    const gap = wide ? 36 : 18;
    const wanted = lines.map((line, i) => ({ i, at: clamp(up(line[line.length - 1]), box.top, box.bottom) }))
      .sort((a, b) => a.at - b.at);
    const placed = spread(wanted.map((w) => w.at - (wide ? 0 : 12)), gap, box.top + 6, box.bottom - 8);
    return wanted.map(({ i, at }, k) => {
      const c = curves[i];
      const py = placed[k];
      const value = formatQuantity(call(c.at), y.unit, 3);
      if (!wide) {
        return s("text", { class: `dt-label dt-halo dt-c${i}`, "data-key": c.key, x: box.right - 4, y: py + 4, "text-anchor": "end" }, c.label);
      }
      return s("g", { class: `dt-label dt-c${i}`, "data-key": c.key },
        s("path", { class: "dt-leader", d: `M${box.right + 2} ${at}L${box.right + 10} ${py}` }),
        s("text", { x: box.right + 14, y: py + 4 }, c.label),
        s("text", { class: "dt-label-value", x: box.right + 14, y: py + 20 }, value));
    });
  }

  function probeLine(box, xs, up) {
    const px = xs(state[x.name]);
    const text = `${x.plain} = ${formatQuantity(state[x.name], x.unit, 3)}`;
    const half = text.length * 3.8 + 10;
    const cx = clamp(px, box.left + half - 10, box.right - half + 10);
    return s("g", { class: "dt-probe-line" },
      s("line", { x1: px, x2: px, y1: box.top - 6, y2: box.bottom }),
      s("rect", { x: cx - half, y: box.top - 28, width: 2 * half, height: 22, rx: 11 }),
      s("text", { x: cx, y: box.top - 13, "text-anchor": "middle" }, text),
      curves.map((c, i) => {
        const py = up(call(c.at));
        return py >= box.top - 1 && py <= box.bottom + 1
          ? s("circle", { class: `dt-dot dt-c${i}`, "data-key": c.key, cx: px, cy: py, r: 5 }) : null;
      }),
      s("circle", { class: "dt-handle", cx: px, cy: box.bottom, r: 9 }),
      s("path", { class: "dt-grip", d: `M${px - 2.5} ${box.bottom - 3.5}v7M${px + 2.5} ${box.bottom - 3.5}v7` }));
  }

  let dragging = false;
  const follow = (event) => {
    const wide = width >= 560;
    const [left, right] = [62, width - (wide ? 132 : 14)];
    const scale = scaleOf(x.values[0], x.values[x.values.length - 1], x.scale, left, right);
    const px = clamp(event.clientX - svg.getBoundingClientRect().left, left, right);
    probe.value = nearest(x.values, scale.invert(px), x.scale);
    state[x.name] = x.values[probe.value];
    update();
  };
  svg.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    dragging = true;
    svg.setPointerCapture(event.pointerId);
    probe.focus({ preventScroll: true });
    follow(event);
  });
  svg.addEventListener("pointermove", (event) => { if (dragging) follow(event); });
  for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, () => { dragging = false; });

  const clipNumber = (globalThis.dtlibClips = (globalThis.dtlibClips ?? 0) + 1);
  update();
  return stop;
}

const sample = (i) => s("svg", { class: `dt-sample dt-c${i}`, viewBox: "0 0 26 10", "aria-hidden": "true" },
  s("path", { class: `dt-curve dt-c${i}`, d: "M1 5H25" }));

export default { render };
