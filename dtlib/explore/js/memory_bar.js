// A bar for each stage of a pipeline, a segment for each term of its memory, and the line that the
// bars must not cross. A term opens to its equation with the numbers of the moment.

const HINT =
  "Press a part, or Tab to it in the list, to see its equation; press again to let go. " +
  "Where there are several stages, press a bar, or go from bar to bar with the arrow keys.";
const LOOKS = {
  weights: ["weights", "W"],
  gradients: ["gradients", "G"],
  passing: ["gradients", "G"],
  main: ["gradients", "G"],
  master: ["optimizer", "C"],
  moments: ["optimizer", "M"],
  activations: ["activations", "A"],
  again: ["again", "R"],
  logits: ["again", "L"],
  gathered: ["buffers", "B"],
  sequence: ["buffers", "B"],
  ring: ["buffers", "B"],
  ahead: ["buffers", "B"],
  reserve: ["reserve", ""],
};
const lookOf = (term) => LOOKS[term.replace("expert_", "")];
const MOST_STAGES = 16;
const bytes = (value) => formatQuantity(value, "B", 3);

function render({ model: widget, el }) {
  const spec = widget.get("spec");
  const model = memoryModel(spec);
  const byKey = Object.fromEntries(spec.lines.map((l) => [l.key, l]));
  const label = (name) => (byKey[name] ?? spec.given[name]).label || name.replaceAll("_", " ");
  const unit = (name) => (byKey[name] ?? spec.given[name]).unit;
  const met = spec.task
    ? new Function("x", `"use strict"; const {${spec.names.join(", ")}} = x; return ${spec.task.js};`)
    : null;
  const state = {};
  let width = 0;
  let scene = null;
  const id = uniqueId("memory");

  const page = frame(el, { title: spec.title, hint: HINT, task: spec.task, reset });
  const setters = [];
  page.controls.append(...spec.first.map(controlOf));
  if (spec.more.length) {
    const inside = h("div", { class: "dt-controls" }, spec.more.map(controlOf));
    page.controls.append(
      h("details", { class: "dt-mem-more" }, h("summary", {}, "More of the split and the step"), inside),
    );
  }

  const svg = s("svg", { class: "dt-plot dt-mem" });
  const refused = h("p", { class: "dt-mem-refused", hidden: true });
  page.stage.append(svg, refused);
  const rows = Array.from({ length: MOST_STAGES }, (_, place) =>
    s("g", { class: "dt-mem-row", onkeydown: (event) => step(event, place) }),
  );
  const verdict = h("p", { class: "dt-mem-verdict" });
  const split = h("p", { class: "dt-mem-split" });
  const sums = spec.lines.find((l) => l.key === "memory").sum;
  const keys = [...new Set(spec.lines.flatMap((l) => (sums.includes(l.key) ? (l.sum ?? [l.key]) : [])))];
  const terms = Object.fromEntries(keys.map((key) => [key, termOf(key)]));
  const list = h("div", { class: "dt-mem-terms", role: "group", "aria-label": "Terms of the bar" });
  const detail = h("div", { class: "dt-mem-detail", id: `${id}-detail` });
  page.readout.append(verdict, split, list, detail);
  const details = {};
  const stop = whenSized(page.stage, (now) => {
    width = now;
    draw();
  });

  function controlOf(c) {
    if (c.kind === "slider") {
      const control = slider(c, (value) => set({ [c.name]: value }));
      setters.push(() => control.set(c.index));
      control.element.dataset.name = c.name;
      return control.element;
    }
    if (c.kind === "switch") {
      const input = h("input", {
        type: "checkbox",
        onchange: () => set({ [c.name]: Number(input.checked) }),
      });
      setters.push(() => {
        input.checked = Boolean(spec.start[c.name]);
      });
      return h("label", { class: "dt-mem-switch" }, input, " ", c.label);
    }
    const select = h(
      "select",
      { class: "dt-mem-select", "aria-label": c.label, onchange: () => set({ [c.name]: Number(select.value) }) },
      c.options.map((text, i) => h("option", { value: i }, text)),
    );
    setters.push(() => {
      select.value = spec.start[c.name];
    });
    return h("label", { class: "dt-mem-choice" }, h("span", { class: "dt-slider-name" }, c.label), select);
  }

  function termOf(key) {
    const [look, letter] = lookOf(key);
    const value = h("span", { class: "dt-row-value" });
    const element = h(
      "button",
      {
        type: "button",
        class: "dt-mem-term",
        "aria-pressed": "false",
        "aria-controls": `${id}-detail`,
        onclick: () => hold(key),
        onfocus: () => point(key),
        onblur: () => point(null),
        onpointerenter: () => point(key),
        onpointerleave: () => point(null),
      },
      h("span", { class: `dt-mem-swatch is-${look}`, "aria-hidden": "true" }, letter),
      h("span", { class: "dt-mem-name" }, byKey[key].label),
      value,
    );
    return { element, value };
  }

  function reset() {
    Object.assign(state, { q: { ...spec.start }, place: spec.place, held: null, at: null });
    setters.forEach((setter) => setter());
    update();
  }

  function set(change) {
    Object.assign(state.q, change);
    state.place = Math.min(state.place, state.q.pp - 1);
    update();
  }

  function hold(key) {
    state.held = state.held === key ? null : key;
    mark();
  }

  function point(key) {
    state.at = key;
    mark();
  }

  function choose(place) {
    state.place = place;
    update();
  }

  function step(event, place) {
    const by = { ArrowDown: 1, ArrowUp: -1, ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const pressed = event.key === "Enter" || event.key === " ";
    if (state.q.pp < 2 || (!by && !pressed)) return;
    event.preventDefault();
    const next = clamp(place + (by ?? 0), 0, state.q.pp - 1);
    choose(next);
    rows[next].focus({ preventScroll: true });
  }

  function update() {
    const { q } = state;
    const why = refusedSplit(spec, q);
    refused.hidden = !why;
    refused.textContent = why;
    svg.toggleAttribute("hidden", Boolean(why));
    page.readout.hidden = Boolean(why);
    const experts = spec.models[q.model].experts > 0;
    for (const node of page.controls.querySelectorAll('[data-name="ep"]')) node.hidden = !experts;
    if (why) {
      scene = null;
      page.task?.set(false);
      page.say(why);
      return;
    }
    const stages = Array.from({ length: q.pp }, (_, place) => model.evaluate(q, place));
    const found = stages[state.place];
    const ranks = q.dp * q.tp * q.pp * q.cp;
    const fullest = Math.max(...stages.map((one) => one.memory));
    scene = { stages, found, ranks, fullest, hbm: spec.gpus[q.gpu].hbm };
    const { memory, hbm } = { ...found, hbm: scene.hbm };
    page.task?.set(Boolean(met?.({ ...q, ranks, memory, fullest, hbm })));
    const shown = memoryTerms(spec, found);
    list.replaceChildren(...shown.map((key) => terms[key].element));
    for (const key of shown) terms[key].value.textContent = bytes(found[key]);
    if (state.held && !shown.includes(state.held)) state.held = null;
    verdict.textContent = verdictOf(memory);
    verdict.classList.toggle("is-over", memory > hbm);
    split.textContent = splitOf();
    if (width) draw();
    mark();
    const largest = shown.reduce((best, key) => (found[key] > found[best] ? key : best));
    page.say(
      `${spec.models[q.model].label} on ${countOf(ranks, "GPU")}: ${nameOf(state.place)}needs ` +
        `${bytes(memory)}, ${memory > hbm ? "more than" : "within"} ${bytes(hbm)}. ` +
        `Largest part: ${label(largest)}, ${bytes(found[largest])}. ` +
        (q.pp > 1 ? `The fullest stage needs ${bytes(fullest)}.` : ""),
    );
  }

  const countOf = (n, word) => `${formatQuantity(n, "", 6)} ${word}${n === 1 ? "" : "s"}`;
  const nameOf = (place) => (state.q.pp > 1 ? `a rank of stage ${place} ` : "a rank ");

  function verdictOf(memory) {
    const { hbm } = scene;
    const rest = bytes(Math.abs(hbm - memory));
    const gpu = spec.gpus[state.q.gpu].label;
    const words = memory > hbm ? `${rest} more than` : `${rest} less than`;
    return `${sentence(nameOf(state.place))}needs ${bytes(memory)}: ${words} the ${bytes(hbm)} of one ${gpu}.`;
  }

  function splitOf() {
    const { q } = state;
    const factors = [
      [q.dp, "replica"],
      [q.tp, "tensor-parallel rank"],
      [q.pp, "pipeline stage"],
      [q.cp, "context-parallel rank"],
    ].filter(([n], i) => n > 1 || i === 0);
    const words = factors.map(([n, word]) => countOf(n, word)).join(" × ");
    return `${words} = ${countOf(scene.ranks, "GPU")}`;
  }

  // The equation of the term that is pointed at or held, or the sum.
  function mark() {
    if (!scene) return;
    const key = state.at ?? state.held;
    for (const [name, { element }] of Object.entries(terms)) {
      element.setAttribute("aria-pressed", String(state.held === name));
      element.classList.toggle("is-on", key === name);
    }
    for (const node of svg.querySelectorAll("[data-term]"))
      node.classList.toggle("is-on", node.dataset.term === key);
    svg.classList.toggle("has-mark", Boolean(key));
    const one = (details[key ?? "memory"] ??= key ? equationsOf(key) : sumOf());
    one.fill(scene.found);
    detail.replaceChildren(one.element);
    one.resize?.();
  }

  function sumOf() {
    const element = h("p", { class: "dt-holds" });
    const fill = (found) => {
      const written = sums.filter((part) => found[part] > 0);
      const parts = written.map((part) => `${label(part)} ${bytes(found[part])}`);
      element.textContent = `All together: ${parts.join(" + ")} = ${bytes(found.memory)}`;
    };
    return { element, fill };
  }

  // A term's own equation, and those of the lines that feed it.
  function equationsOf(key) {
    const feeding = byKey[key].feeds.filter((x) => byKey[x] && !byKey[x].sum);
    const parts = [key, ...feeding].map((name) => equationOf(byKey[name]));
    const element = h("div", {}, parts.map((part) => part.element));
    return {
      element,
      fill: (found) => parts.forEach((part) => part.fill(found)),
      resize: () => parts.forEach((part) => part.resize()),
    };
  }

  function equationOf(l) {
    const numbers = substitution(l.body, l.places, (v, u) => readable(v, u));
    const scroll = h("div", { class: "dt-row-formula" }, math(`${l.symbol}<mo>=</mo>${l.body}`));
    if (l.places.length) scroll.append(numbers.element);
    const value = h("strong", {});
    scroll.append(value);
    const resize = watchOverflow(scroll, `${l.label}, equation`);
    const sources = l.feeds
      .map((x, i) => ({ x, i }))
      .filter(({ x }) => typeof x !== "number")
      .map(({ x, i }) => {
        const text = h("span", { class: "dt-row-value" });
        return { x, text, item: h("li", {}, math(l.letters[i]), " ", text, ` ${label(x)}`) };
      });
    const element = h(
      "div",
      { class: "dt-mem-equation" },
      h("p", { class: "dt-mem-caption" }, sentence(l.label)),
      scroll,
      h("ul", { class: "dt-feeds" }, sources.map((source) => source.item)),
      l.conditions ? h("p", { class: "dt-holds" }, `Holds when: ${l.conditions}`) : null,
    );
    const fill = (found) => {
      numbers.fill(model.places(l, found));
      value.textContent = `= ${readable(found[l.key], l.unit)}`;
      for (const { x, text } of sources) text.textContent = readable(found[x], unit(x));
    };
    return { element, fill, resize };
  }

  function draw() {
    if (!scene) return;
    const { stages, hbm, fullest } = scene;
    const several = stages.length > 1;
    const left = several ? (width < 480 ? 26 : 62) : 2;
    const right = width < 480 ? 58 : 70;
    const high = stages.length > 4 ? 22 : several ? 34 : 52;
    const top = 30;
    const bottom = top + stages.length * (high + 6);
    const reach = [1.15, 2.3, 4.6, 9.2, 20, 50, 120, 300].find((k) => fullest < k * hbm) ?? 1000;
    const x = scaleOf(0, reach * hbm, "linear", left, width - right);
    svg.setAttribute("viewBox", `0 0 ${width} ${bottom + 42}`);
    svg.setAttribute("height", bottom + 42);
    stages.forEach((found, place) => {
      const y = top + place * (high + 6);
      rowOf(rows[place], found, place, { x, y, high, left, several });
    });
    const marks = quantityTicks(0, reach * hbm, "linear", width / 90, "B");
    const line = x(hbm);
    const gpu = spec.gpus[state.q.gpu];
    const text = `${gpu.label}: ${bytes(hbm)}`;
    const near = line > width / 2;
    const focused = rows.find((row) => row === document.activeElement);
    svg.replaceChildren(
      hatch(),
      ...rows.slice(0, stages.length),
      s("line", { class: "dt-mem-limit", x1: line, x2: line, y1: 8, y2: bottom }),
      ...stages.map(({ memory }, place) => {
        const y = top + place * (high + 6) + high / 2 + 4;
        const look = memory > hbm ? " is-over" : "";
        return s("text", { class: `dt-mem-total${look}`, x: x(memory) + 6, y }, bytes(memory));
      }),
      s(
        "text",
        { class: "dt-mem-limit-text", x: near ? line - 7 : line + 7, y: 18, "text-anchor": near ? "end" : "start" },
        text,
      ),
      s("line", { class: "dt-axis", x1: left, x2: width - right, y1: bottom + 2, y2: bottom + 2 }),
      ...marks.map((v) =>
        s(
          "text",
          { class: "dt-soft", x: x(v), y: bottom + 18, "text-anchor": v ? "middle" : "start" },
          v ? formatQuantity(v, "B") : "0",
        ),
      ),
      s(
        "text",
        { class: "dt-soft", x: width - right, y: bottom + 36, "text-anchor": "end" },
        "memory of one rank",
      ),
    );
    focused?.focus({ preventScroll: true });
  }

  function hatch() {
    const pattern = { id: `${id}-over`, width: 8, height: 8, patternUnits: "userSpaceOnUse" };
    const d = "M-2 2L2 -2M0 8L8 0M6 10L10 6";
    return s("defs", {}, s("pattern", pattern, s("path", { class: "dt-mem-hatch", d })));
  }

  function rowOf(group, found, place, { x, y, high, left, several }) {
    let at = 0;
    const pieces = memoryTerms(spec, found).map((term) => {
      const [from, to] = [x(at), x(at + found[term])];
      at += found[term];
      const [look, letter] = lookOf(term);
      const box = s("rect", {
        class: `dt-mem-part is-${look}`,
        "data-term": term,
        x: from + 0.5,
        y,
        width: Math.max(to - from - 1, 0.5),
        height: high,
        onpointerenter: () => place === state.place && point(term),
        onpointerleave: () => point(null),
        onclick: (event) => {
          event.stopPropagation();
          if (place === state.place) hold(term);
          else choose(place);
        },
      });
      return [box, wordsOf(term, found[term], letter, from, to, y, high)];
    });
    const over = at > scene.hbm;
    const chosen = place === state.place;
    const end = x(at);
    group.setAttribute("class", `dt-mem-row${chosen && several ? " is-chosen" : ""}`);
    const facts = {
      role: several ? "button" : "img",
      tabindex: several ? "0" : "-1",
      "aria-pressed": several ? String(chosen) : "false",
      "aria-label": `${several ? `stage ${place}: ` : ""}${bytes(at)}, ${over ? "too much" : "fits"}`,
    };
    if (!several) delete facts["aria-pressed"];
    for (const name of ["role", "tabindex", "aria-pressed", "aria-label"]) {
      if (name in facts) group.setAttribute(name, facts[name]);
      else group.removeAttribute(name);
    }
    group.onclick = () => several && choose(place);
    const name = several ? (left < 40 ? String(place) : `stage ${place}`) : "";
    group.replaceChildren(
      ...[
        s("rect", { class: "dt-mem-frame", x: left - 1, y: y - 2, width: end - left + 2, height: high + 4, rx: 3 }),
        name
          ? s("text", { class: "dt-mem-stage", x: left - 7, y: y + high / 2 + 4, "text-anchor": "end" }, name)
          : null,
        pieces,
        over
          ? s("rect", {
              class: "dt-mem-beyond",
              fill: `url(#${id}-over)`,
              x: x(scene.hbm),
              y,
              width: end - x(scene.hbm),
              height: high,
            })
          : null,
      ]
        .flat(Infinity)
        .filter(Boolean),
    );
  }

  // As much as there is room for: name and bytes, the letter, or nothing.
  function wordsOf(term, value, letter, from, to, y, high) {
    const room = to - from - 6;
    const middle = { x: (from + to) / 2, "text-anchor": "middle", class: "dt-mem-text" };
    const fits = (text) => 7 * text.length < room;
    const name = byKey[term].label;
    if (high > 40 && fits(name) && fits(bytes(value)))
      return [
        s("text", { ...middle, y: y + high / 2 - 3 }, name),
        s("text", { ...middle, y: y + high / 2 + 14 }, bytes(value)),
      ];
    const text = fits(`${letter} ${bytes(value)}`) ? `${letter} ${bytes(value)}` : letter;
    return fits(text) && text ? s("text", { ...middle, y: y + high / 2 + 4 }, text.trim()) : null;
  }

  reset();
  return stop;
}

export default { render };
