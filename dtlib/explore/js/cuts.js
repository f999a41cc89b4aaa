// Two matrices, cut by the reader: who holds which part of everything, and what must be sent.

function render({ model: widget, el }) {
  const spec = widget.get("spec");
  const met = spec.task
    ? new Function(...spec.task.names, `"use strict"; return ${spec.task.js};`)
    : null;
  const state = { first: 0, second: 0, P: 4 };
  let width = 0;

  const page = frame(el, {
    title: spec.title,
    task: spec.task,
    hint:
      "One colour and letter is one rank. A dashed outline is a rank's summand, which covers the " +
      "whole matrix. Choose with the mouse, or Tab to a row and use the arrow keys.",
    reset,
  });
  const choices = [
    waysOf("W₁", (first) => set({ first })),
    waysOf("W₂", (second) => set({ second })),
  ];
  page.stage.before(h("div", { class: "dt-arrow-choices" }, ...choices.map((c) => c.element)));
  const svg = s("svg", { class: "dt-plot", role: "img" });
  page.stage.append(svg);
  const ranks = slider(spec.ranks, (P) => set({ P }), String);
  page.controls.append(ranks.element);
  const stop = whenSized(page.stage, (now) => {
    width = now;
    draw();
  });

  const steps = () => spec.cases[state.P][state.first][state.second];
  const sum = (way) => steps().reduce((total, { bytes }) => total + bytes[way], 0);

  function reset() {
    ranks.set(spec.ranks.index);
    set(spec.start);
  }

  function set(changes) {
    Object.assign(state, changes);
    choices[0].set(state.first);
    choices[1].set(state.second);
    if (width) draw();
    const collectives = steps().filter(({ forward }) => forward !== "nothing").length;
    const divided = [state.first, state.second].filter((i) => spec.ways[i] !== "undivided").length;
    page.task?.set(Boolean(met(divided, collectives, sum(0) + sum(1))));
    const total = (way) => formatQuantity(sum(way), "B", 3);
    page.readout.replaceChildren(
      row("is-head", "", "forward", "backward"),
      ...steps().map(({ place, forward, backward, bytes }) =>
        row("", place, sent(forward, bytes[0]), sent(backward, bytes[1])),
      ),
      row("is-sum", "each rank sends", total(0), total(1)),
    );
    page.say(
      `First matrix ${words(state.first)}, second ${words(state.second)}: ` +
        `${collectives} collective${collectives === 1 ? "" : "s"} forward, ` +
        `${total(0)} sent forward and ${total(1)} backward.`,
    );
  }

  const words = (i) => (spec.ways[i] === "undivided" ? "undivided" : `by ${spec.ways[i]}`);
  const sent = (message, bytes) =>
    message === "nothing" ? "nothing" : `${message}, ${formatQuantity(bytes, "B", 3)}`;

  function row(look, ...cells) {
    const spans = cells.map((text) => h("span", { class: text === "nothing" ? "is-idle" : "" }, text));
    return h("div", { class: `dt-cut-step ${look}` }, ...spans);
  }

  // X W1 = Z, gelu(Z) W2 = Y, as boxes: how each lies on the ranks follows from the two cuts.
  function draw() {
    const [first, second] = [spec.ways[state.first], spec.ways[state.second]];
    const made = { columns: "columns", rows: "sums", undivided: "all" };
    const taken = { columns: "all", rows: "columns", undivided: "all" };
    const boxes = [
      ["X", taken[first], 1, 1.5],
      ["W₁", first, 2.4, 1],
      ["Z", made[first], 2.4, 1.5],
      ["gelu(Z)", taken[second], 2.4, 1.5],
      ["W₂", second, 1, 2.4],
      ["Y", made[second], 1, 1.5],
    ];
    const gap = width < 480 ? 8 : 26;
    const unit = (width - gap * (boxes.length + 1)) / boxes.reduce((all, [, , w]) => all + w, 0);
    const middle = 26 + 1.2 * unit;
    svg.setAttribute("viewBox", `0 0 ${width} ${52 + 2.4 * unit}`);
    svg.setAttribute("height", 52 + 2.4 * unit);
    svg.setAttribute("aria-label", boxes.map(([name, how]) => `${name}: ${said(how)}`).join("; "));
    let left = gap;
    svg.replaceChildren(
      ...boxes.flatMap(([name, how, w, tall]) => {
        const box = { x: left, y: middle - (tall * unit) / 2, width: w * unit, height: tall * unit };
        left += w * unit + gap;
        return [
          s("rect", { class: "dt-cut-frame", ...box }),
          ...parts(how, box),
          s("text", { x: box.x + box.width / 2, y: 14, "text-anchor": "middle" }, name),
        ];
      }),
    );
  }

  const said = (how) =>
    ({ all: "every rank has all", undivided: "every rank has all", sums: "summands" })[how] ??
    `by ${how}`;

  function parts(how, box) {
    const { P } = state;
    const letter = (i, x, y) =>
      s("text", { class: "dt-soft", x, y: y + 4, "text-anchor": "middle" }, "abcdefgh"[i]);
    const all = Array.from({ length: P }, (_, i) => i);
    if (how === "all" || how === "undivided") {
      return [letterRow("a…" + "abcdefgh"[P - 1], box, "")];
    }
    if (how === "sums") {
      return all.map((i) => {
        const shift = (i * Math.min(14, box.width / 3)) / P;
        const place = { x: box.x + shift, y: box.y + shift };
        const size = { width: box.width - 2 * shift, height: box.height - 2 * shift };
        return s("rect", { class: `dt-cut-part is-sum dt-c${i % 4}`, ...place, ...size });
      }).concat(letterRow("Σ", box, ""));
    }
    return all.flatMap((i) => {
      const piece =
        how === "columns"
          ? { x: box.x + (i * box.width) / P, y: box.y, width: box.width / P, height: box.height }
          : { x: box.x, y: box.y + (i * box.height) / P, width: box.width, height: box.height / P };
      return [
        s("rect", { class: `dt-cut-part dt-c${i % 4}`, ...piece }),
        // Where parts are too thin for letters, colours say whose they are.
        ...(Math.min(piece.width, piece.height) < 9
          ? []
          : [letter(i, piece.x + piece.width / 2, piece.y + piece.height / 2)]),
      ];
    });
  }

  const letterRow = (text, box) =>
    s(
      "text",
      { class: "dt-soft", x: box.x + box.width / 2, y: box.y + box.height / 2 + 4, "text-anchor": "middle" },
      text,
    );

  function waysOf(legend, choose) {
    const name = uniqueId("cut");
    const inputs = spec.ways.map((_, i) =>
      h("input", { type: "radio", name, onchange: () => choose(i) }),
    );
    const labels = spec.ways.map((way, i) =>
      h("label", { class: "dt-arrow-choice" }, inputs[i], way === "undivided" ? way : `by ${way}`),
    );
    return {
      element: h("fieldset", {}, h("legend", {}, legend), labels),
      set(i) {
        inputs[i].checked = true;
      },
    };
  }

  reset();
  return stop;
}

export default { render };
