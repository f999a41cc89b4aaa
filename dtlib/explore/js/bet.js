// A bet on a logarithmic line, kept in the browser under its key, and its answer further on.

const STEPS = 400;

function render({ model, el }) {
  const spec = model.get("spec");
  return spec.kind === "bet" ? renderBet(spec, el) : renderAnswer(spec, el);
}

const textOf = (spec, value, digits = 2) =>
  spec.base
    ? formatQuantity(value * spec.size, spec.base, digits)
    : `${formatQuantity(value, "", digits)}${spec.unit === "×" ? "" : " "}${spec.unit}`.trim();

// A tick needs no word that the field below says already.
const tickOf = (spec, value) =>
  spec.base || "%×".includes(spec.unit) ? textOf(spec, value) : formatQuantity(value);

// "4 s", "4000" or "4,000 ms": a number in the bet's unit, or in one that it carries.
function readNumber(text, spec) {
  const match = text
    .trim()
    .replace(/(\d),(?=\d{3}(\D|$))/g, "$1")
    .replace(",", ".")
    .match(/^([\d.]+(?:e[+-]?\d+)?)\s*(\S*)$/i);
  if (!match || !(+match[1] > 0)) return null;
  if (!match[2] || match[2] === spec.unit) return +match[1];
  const name = match[2].replace("μ", "µ");
  const found = (LADDERS[spec.base] ?? []).find(([unit]) => unit === name);
  const size = found ? found[1] : SIZES[name === "us" ? "us" : ""];
  return size ? (+match[1] * size) / spec.size : null;
}

function renderBet(spec, el) {
  const place = scaleOf(spec.low, spec.high, "log", 0, STEPS);
  const state = { value: spec.anchor ?? Math.sqrt(spec.low * spec.high), open: true };

  const input = h("input", {
    type: "range",
    class: "dt-range dt-bet-range",
    min: 0,
    max: STEPS,
    step: 1,
    "aria-label": `Your bet, ${spec.unit}`,
    oninput: () => {
      state.value = neat(place.invert(+input.value));
      show();
    },
  });
  const field = h("input", {
    type: "text",
    inputmode: "decimal",
    class: "dt-bet-field",
    autocomplete: "off",
    "aria-label": `Your bet in ${spec.unit || "numbers"}`,
    onchange: () => {
      const value = readNumber(field.value, spec);
      if (value) state.value = clamp(value, spec.low, spec.high);
      show();
    },
    onkeydown: (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      field.dispatchEvent(new Event("change"));
      commit();
    },
  });
  const said = h("p", { class: "dt-bet-said", "aria-live": "polite" });
  const yes = h(
    "button",
    { type: "button", class: "dt-button is-primary", onclick: commit },
    "I bet",
  );
  const skip = h(
    "button",
    { type: "button", class: "dt-button", onclick: () => settle({ skipped: true }) },
    "Skip",
  );
  const again = h(
    "button",
    {
      type: "button",
      class: "dt-button",
      onclick: () => {
        storage.write(spec.key, null);
      },
    },
    "Bet again",
  );
  const line = h("div", { class: "dt-bet-line" });
  const entry = h(
    "div",
    { class: "dt-bet-entry" },
    h("span", { class: "dt-bet-number" }, field, h("span", {}, spec.unit)),
    yes,
    skip,
  );
  el.append(
    h(
      "div",
      {
        class: "dt-widget dt-bet",
        role: "group",
        "aria-label": `Your bet: ${spec.title}`,
        id: `bet-${spec.key}`,
      },
      h("p", { class: "dt-kicker" }, "Your bet"),
      h("p", { class: "dt-title" }, spec.title),
      h("div", { class: "dt-bet-place" }, line, input),
      entry,
      h("div", { class: "dt-bet-done" }, said, again),
    ),
  );

  function neat(value) {
    const snapped = +value.toPrecision(2);
    return spec.anchor && Math.abs(Math.log(value / spec.anchor)) < 0.02
      ? spec.anchor
      : clamp(snapped, spec.low, spec.high);
  }
  function commit() {
    settle({ value: state.value });
  }
  function settle(bet) {
    storage.write(spec.key, { ...bet, unit: spec.unit });
    again.focus({ preventScroll: true });
  }
  function show() {
    input.value = place(state.value);
    input.style.setProperty("--dt-fill", 0);
    input.setAttribute("aria-valuetext", textOf(spec, state.value));
    field.value = formatQuantity(state.value, "", 2);
  }
  function sync() {
    const bet = storage.read(spec.key);
    const open = !bet;
    const root = line.closest(".dt-bet");
    root.classList.toggle("is-settled", !open);
    entry.hidden = !open;
    again.parentElement.hidden = open;
    input.disabled = !open;
    if (bet?.value) state.value = bet.value;
    said.textContent = open
      ? ""
      : bet.skipped
        ? "Skipped. The answer comes below."
        : `You bet ${textOf(spec, bet.value)}. The answer comes below.`;
    show();
  }
  const heard = (event) => {
    if (event.detail === spec.key) sync();
  };
  addEventListener(EVENT, heard);
  const stop = whenSized(line, (width) => {
    drawLine(line, spec, width, anchorOf(spec), 14);
  });
  sync();
  return () => {
    removeEventListener(EVENT, heard);
    stop();
  };
}

const anchorOf = (spec) =>
  spec.anchor
    ? [
        {
          value: spec.anchor,
          kind: "anchor",
          text: [spec.anchor_label, textOf(spec, spec.anchor)].filter(Boolean).join(": "),
        },
      ]
    : [];

// The line: a tick for each power of ten, and marks above it.
function drawLine(box, spec, width, marks, inset) {
  const place = scaleOf(spec.low, spec.high, "log", inset, width - inset);
  const found = ticks(spec.low, spec.high, "log", width / 62);
  const y = 12 + marks.length * 22;
  const within = (x, text) => {
    const half = Math.min(text.length * 3.9 + 2, width / 2);
    return clamp(x, half, width - half);
  };
  box.replaceChildren(
    s(
      "svg",
      {
        class: "dt-plot dt-line",
        viewBox: `0 0 ${width} ${y + 34}`,
        height: y + 34,
        role: "img",
        "aria-label": marks.map((m) => m.text).join(", ") || "a logarithmic line",
      },
      s("line", { class: "dt-axis", x1: inset, x2: width - inset, y1: y, y2: y }),
      found.map((v) =>
        s(
          "g",
          {},
          s("line", { class: "dt-axis", x1: place(v), x2: place(v), y1: y - 4, y2: y + 4 }),
          s(
            "text",
            {
              class: "dt-soft",
              x: within(place(v), tickOf(spec, v)),
              y: y + 28,
              "text-anchor": "middle",
            },
            tickOf(spec, v),
          ),
        ),
      ),
      marks.map((mark, i) => {
        const x = place(mark.value);
        const top = 14 + 22 * i;
        return s(
          "g",
          { class: `dt-bet-mark is-${mark.kind}` },
          s("line", { x1: x, x2: x, y1: top + 5, y2: y }),
          mark.kind === "anchor"
            ? s("path", { d: `M${x} ${y}l-5 -8h10z` })
            : mark.kind === "bet"
              ? s("circle", { cx: x, cy: y, r: 6.5 })
              : s("path", { d: `M${x} ${y - 8}l8 8l-8 8l-8 -8z` }),
          s("text", { x: within(x, mark.text), y: top, "text-anchor": "middle" }, mark.text),
        );
      }),
    ),
  );
}

function renderAnswer(spec, el) {
  const line = h("div", { class: "dt-bet-line" });
  const said = h("p", { class: "dt-bet-verdict", "aria-live": "polite" });
  const buttons = h("div", { class: "dt-bet-entry" });
  let shown = false;
  let width = 0;
  el.append(
    h(
      "div",
      { class: "dt-widget dt-answer", role: "group", "aria-label": `The answer: ${spec.title}` },
      h("p", { class: "dt-kicker" }, "The answer"),
      h("p", { class: "dt-question" }, spec.title),
      line,
      said,
      buttons,
    ),
  );

  const bet = () => {
    const found = storage.read(spec.key);
    return found?.value ? found.value : null;
  };
  function sync() {
    const value = bet();
    const open = value !== null || shown || Boolean(storage.read(spec.key)?.skipped);
    line.hidden = !open;
    const answer = h("strong", {}, spec.answer_text);
    const close = spec.conclusion ? ` ${spec.conclusion}` : "";
    if (value !== null)
      said.replaceChildren(
        `You bet ${textOf(spec, value)}. It is `,
        answer,
        `: ${verdict(value, spec.answer)}.${close}`,
      );
    else if (open) said.replaceChildren("It is ", answer, `.${close}`);
    else
      said.textContent =
        "You have not bet yet. A number of your own, even a wild one, makes the answer worth more.";
    buttons.replaceChildren(
      ...(open
        ? []
        : [
            h(
              "button",
              { type: "button", class: "dt-button is-primary", onclick: goToBet },
              "Make a bet",
            ),
            h(
              "button",
              {
                type: "button",
                class: "dt-button",
                onclick: () => {
                  shown = true;
                  sync();
                },
              },
              "Show the answer",
            ),
          ]),
    );
    if (open && width) draw(width);
  }
  function goToBet() {
    const place = document.getElementById(`bet-${spec.key}`);
    if (!place) {
      shown = true;
      sync();
      return;
    }
    place.scrollIntoView({ behavior: calm() ? "auto" : "smooth", block: "center" });
    place.querySelector("input[type=range]")?.focus({ preventScroll: true });
  }
  function draw(now) {
    width = now;
    if (line.hidden) return;
    const value = bet();
    const marks = [
      ...anchorOf(spec),
      { value: spec.answer, text: spec.answer_text, kind: "answer" },
    ];
    if (value !== null)
      marks.unshift({ value, text: `your bet ${textOf(spec, value)}`, kind: "bet" });
    drawLine(line, spec, now, marks, 14);
  }
  const heard = (event) => {
    if (event.detail === spec.key) sync();
  };
  addEventListener(EVENT, heard);
  const stop = whenSized(el, (now) => draw(Math.min(now, 860) - 38));
  sync();
  return () => {
    removeEventListener(EVENT, heard);
    stop();
  };
}

function verdict(bet, truth) {
  const ratio = bet > truth ? bet / truth : truth / bet;
  if (ratio < 1.05) return "you were right on the spot";
  const where = bet > truth ? "too high" : "too low";
  if (ratio < 1.5) return `you were close, ${formatQuantity(ratio - 1, "%")} ${where}`;
  return `you were ${formatQuantity(ratio, "", 2)} times ${where}`;
}

export default { render };
