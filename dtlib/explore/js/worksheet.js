// Lines of formulas that open: each shows its value, its share of the sum it belongs to, and,
// opened, its equation with the numbers of the moment and where each of them comes from.

const HINT =
  "Press a line to open its equation. Up and down arrows go from line to line; a slider that has " +
  "the focus marks the lines that depend on it.";

function render({ model: widget, el }) {
  const spec = widget.get("spec");
  const { inputs, fixed, lines } = spec;
  const model = sheetModel(spec);
  const first = model.evaluate(model.start);
  const state = { ...model.start };
  const known = Object.fromEntries([...inputs, ...fixed].map((g) => [g.name, g]));
  const byKey = Object.fromEntries(lines.map((l) => [l.key, l]));
  const label = (name) => (byKey[name] ?? known[name]).label;
  const unit = (name) => (byKey[name] ?? known[name]).unit;
  const met = spec.task
    ? new Function("x", `"use strict"; const {${spec.names.join(", ")}} = x; return ${spec.task.js};`)
    : null;

  const page = frame(el, { title: spec.title, hint: HINT, task: spec.task, reset });
  const sliders = inputs.map((c) => {
    const moved = (value) => {
      state[c.name] = value;
      update();
    };
    const control = slider(c, moved, (value, unit) => readable(value, unit));
    control.input.addEventListener("focus", () => mark(c.name));
    control.input.addEventListener("blur", () => mark(null));
    return control;
  });
  page.controls.append(...sliders.map((control) => control.element));

  const rows = lines.map(row);
  const list = h("div", { class: "dt-sheet", role: "group", "aria-label": "Lines" });
  list.append(...rows.filter((_, i) => !lines[i].hidden).map((r) => r.element));
  list.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const keys = [...list.querySelectorAll(".dt-key")];
    const at = keys.indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    keys[clamp(at + step, 0, keys.length - 1)].focus();
  });
  page.readout.append(list);

  function row(l) {
    const id = uniqueId("line");
    const value = h("span", { class: "dt-row-value" });
    const change = h("span", { class: "dt-change" });
    const bar = h("span", { class: "dt-bar", "aria-hidden": "true" }, h("span", {}));
    const note = h("span", { class: "dt-note" });
    const detail = h("div", { class: "dt-detail", id, hidden: true });
    const opened = l.sum ? sumDetail(l, detail) : formulaDetail(l, detail);
    const key = h(
      "button",
      {
        type: "button",
        class: "dt-key",
        "aria-expanded": "false",
        "aria-controls": id,
        onclick: () => open(detail.hidden),
      },
      h("span", { class: "dt-arrow", "aria-hidden": "true" }, "▸"),
      l.label,
    );
    function open(now) {
      detail.hidden = !now;
      key.setAttribute("aria-expanded", String(now));
      if (now) opened.resize?.();
    }
    const kinds = ["dt-sheet-line", l.sum ? "dt-sum" : "", l.part ? "dt-part" : ""];
    const element = h(
      "div",
      { class: kinds.filter(Boolean).join(" ") },
      h("div", { class: "dt-sheet-line-head" }, key, bar, h("span", { class: "dt-amount" }, change, value)),
      note,
      detail,
    );
    function show(found) {
      value.textContent = readable(found[l.key], l.unit);
      const ratio = found[l.key] / first[l.key];
      const moved = Number.isFinite(ratio) && Math.abs(ratio - 1) > 1e-9;
      change.textContent = moved ? `×${formatQuantity(ratio, "", 3)}` : "";
      const whole = l.within ? found[l.within] : l.part ? found[l.part] : 0;
      bar.classList.toggle("is-there", whole > 0);
      bar.firstChild.style.width = `${clamp((100 * found[l.key]) / whole || 0, 0, 100)}%`;
      const over = Boolean(l.within) && found[l.key] > whole;
      element.classList.toggle("is-over", over);
      element.classList.toggle(
        "is-largest",
        Boolean(l.part) && largestOf(byKey[l.part], found) === l.key,
      );
      note.textContent = noteOf(l, found, over);
      opened.fill(found);
    }
    return { element, key, show, open };
  }

  function noteOf(l, found, over) {
    if (l.within) {
      const limit = `${readable(found[l.within], l.unit)} (${label(l.within)})`;
      return over ? `too much for ${limit}` : `within ${limit}`;
    }
    if (!l.part) return "";
    const share = formatQuantity(found[l.key] / found[l.part], "%", 2);
    const most = largestOf(byKey[l.part], found) === l.key ? "largest part, " : "";
    return `${most}${share} of ${label(l.part)}`;
  }

  function formulaDetail(l, detail) {
    const equation = math(`${l.symbol}<mo>=</mo>${l.body}`);
    const numbers = substitution(l.body, l.places, (v, u) => readable(v, u));
    const scroll = h("div", { class: "dt-row-formula" }, equation);
    if (l.places.length) scroll.append(numbers.element);
    const resize = watchOverflow(scroll, `${l.label}, equation`);
    const sources = l.feeds
      .map((x, i) => ({ x, i }))
      .filter(({ x }) => typeof x !== "number")
      .map(({ x, i }) => {
        const text = h("span", { class: "dt-row-value" });
        const goto = byKey[x] && !byKey[x].hidden
          ? h("button", { type: "button", class: "dt-link", onclick: () => jump(x) }, label(x))
          : h("span", {}, label(x), known[x]?.source ? ` (${known[x].source})` : "");
        return { x, text, item: h("li", {}, math(l.letters[i]), " ", text, " ", goto) };
      });
    detail.append(scroll, h("ul", { class: "dt-feeds" }, ...sources.map((source) => source.item)));
    if (l.conditions) detail.append(h("p", { class: "dt-holds" }, `Holds when: ${l.conditions}`));
    return {
      resize,
      fill(found) {
        numbers.fill(model.places(l, found));
        for (const { x, text } of sources) text.textContent = readable(found[x], unit(x));
        resize();
      },
    };
  }

  function sumDetail(l, detail) {
    const text = h("p", { class: "dt-holds" });
    detail.append(text);
    return {
      fill(found) {
        const parts = l.sum.map((part) => `${label(part)} ${readable(found[part], l.unit)}`);
        text.textContent = `= ${parts.join(" + ")}`;
      },
    };
  }

  function jump(name) {
    const target = rows[lines.indexOf(byKey[name])];
    target.open(true);
    target.key.focus();
    target.element.scrollIntoView({ block: "nearest", behavior: calm() ? "auto" : "smooth" });
  }

  function mark(name) {
    lines.forEach((l, i) =>
      rows[i].element.classList.toggle("is-fed", name !== null && l.needs.includes(name)),
    );
  }

  function update() {
    const found = model.evaluate(state);
    rows.forEach((r) => r.show(found));
    page.task?.set(Boolean(met?.(found)));
    page.say(summary(found));
  }

  function summary(found) {
    const where = inputs.map((c) => `${c.label} ${readable(state[c.name], c.unit)}`).join(", ");
    const said = lines
      .filter((l) => spec.headline.includes(l.key))
      .map((l) => {
        const limit = l.within
          ? `, ${found[l.key] > found[l.within] ? "more than" : "within"} ${readable(found[l.within], l.unit)}`
          : "";
        const most = l.sum ? `, most of it ${label(largestOf(l, found))}` : "";
        return `${l.label} ${readable(found[l.key], l.unit)}${limit}${most}`;
      });
    return `With ${where}: ${said.join("; ")}.`;
  }

  function reset() {
    Object.assign(state, model.start);
    sliders.forEach((control, i) => control.set(inputs[i].index));
    lines.forEach((l, i) => rows[i].open(l.open));
    update();
  }

  lines.forEach((l, i) => rows[i].open(l.open));
  update();
}

export default { render };
