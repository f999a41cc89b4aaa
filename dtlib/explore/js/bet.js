// A bet on a logarithmic line, kept in the browser under its key, and its answer further on.

const STEPS = 2000; // finer than the pixels of the line: the thumb stands on its tick
const KEY_STEPS = {
  ArrowRight: 0.013,
  ArrowUp: 0.013,
  ArrowLeft: -0.013,
  ArrowDown: -0.013,
  PageUp: 0.25,
  PageDown: -0.25,
  Home: -Infinity,
  End: Infinity,
}; // in powers of ten

function render({ model, el }) {
  const spec = model.get("spec");
  return spec.kind === "bet" ? renderBet(spec, el) : renderAnswer(spec, el);
}

// As many digits as anybody writes; what the line gives has two.
const MOST_DIGITS = 6;

const textOf = (spec, value, digits = MOST_DIGITS) =>
  spec.base
    ? formatQuantity(value * spec.size, spec.base, digits)
    : `${formatQuantity(value, "", digits)}${spec.unit === "×" ? "" : " "}${spec.unit}`.trim();

// A tick needs no word that the field below says already.
const tickOf = (spec, value) =>
  spec.base || "%×".includes(spec.unit) ? textOf(spec, value, 2) : formatQuantity(value);

// A number in the bet's unit, or in one that it carries: "4 s", "4000" or "4,000 ms". A comma before
// three digits parts thousands, as on the page; any other is a decimal comma.
function readNumber(text, spec) {
  const plain = text
    .trim()
    .replaceAll("−", "-")
    .replace(/^([+-]?[1-9]\d{0,2})((?:,\d{3})+)(?![\d,])/, (_, head, tail) => head + tail.replaceAll(",", ""))
    .replace(/^([+-]?\d+),(\d+)(?![\d.,])/, "$1.$2");
  const match = plain.match(/^([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*([^\d\s.,].*)?$/i);
  if (!match) return null;
  if (!match[2] || match[2] === spec.unit) return +match[1];
  const name = match[2].replace("μ", "µ");
  const found = (LADDERS[spec.base] ?? []).find(([unit]) => unit === name);
  const size = found ? found[1] : SIZES[name === "us" ? "us" : ""];
  return size ? +((+match[1] * size) / spec.size).toPrecision(12) : null;
}

// Why a text is no bet, and what would be one; "" for a bet.
function problemOf(text, spec) {
  const ends = `from ${textOf(spec, spec.low)} to ${textOf(spec, spec.high)}`;
  if (!text.trim()) return `Write a number ${ends} first, or move along the line, or skip.`;
  const value = readNumber(text, spec);
  if (value === null)
    return `“${text.trim()}” is not a number${spec.unit ? ` in ${spec.unit}` : ""}. Write one ${ends}.`;
  return spec.low <= value && value <= spec.high
    ? ""
    : `“${text.trim()}” is not on the line, which goes ${ends}.`;
}

function renderBet(spec, el) {
  const place = scaleOf(spec.low, spec.high, "log", 0, STEPS);
  const state = { value: null };

  const input = h("input", {
    type: "range",
    class: "dt-range dt-bet-range",
    min: 0,
    max: STEPS,
    step: 1,
    "aria-label": `Your bet, ${spec.unit}`,
    oninput: () => move(place.invert(+input.value)),
    onkeydown: (event) => {
      if (!(event.key in KEY_STEPS) || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      move(stepped(KEY_STEPS[event.key]));
    },
    // A press on the very place of the hidden thumb changes nothing, and is a bet all the same.
    onpointerup: () => move(place.invert(+input.value)),
  });
  const problem = h("p", { class: "dt-bet-problem", role: "alert", id: uniqueId("problem") });
  const field = h("input", {
    type: "text",
    inputmode: "decimal",
    class: "dt-bet-field",
    autocomplete: "off",
    placeholder: "?",
    "aria-label": `Your bet in ${spec.unit || "numbers"}`,
    "aria-describedby": problem.id,
    onchange: () => {
      if (field.value.trim()) return written();
      state.value = null;
      refuse("");
      show();
    },
    onkeydown: (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
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
      problem,
      h("div", { class: "dt-bet-done" }, said, again),
    ),
  );

  function neat(value) {
    const held = clamp(value, spec.low, spec.high);
    const near = spec.anchor && Math.abs(Math.log(held / spec.anchor)) < 0.02;
    return clamp(+(near ? spec.anchor : held).toPrecision(2), spec.low, spec.high);
  }
  // So many powers of ten further on: the next number of two digits where that is nearer.
  function stepped(powers) {
    const from = state.value ?? place.invert(STEPS / 2);
    const to = neat(from * 10 ** powers);
    const unit = 10 ** (Math.floor(Math.log10(from)) - 1);
    return to === state.value ? from + Math.sign(powers) * unit : to;
  }
  function move(value) {
    state.value = neat(value);
    field.value = formatQuantity(state.value, "", MOST_DIGITS);
    refuse("");
    show();
  }
  // Whether what is written is a bet; else the page says what would be one.
  function written() {
    const fault = problemOf(field.value, spec);
    state.value = fault ? null : readNumber(field.value, spec);
    if (!fault) field.value = formatQuantity(state.value, "", MOST_DIGITS);
    refuse(fault);
    show();
    return !fault;
  }
  function refuse(fault) {
    problem.textContent = fault;
    if (fault) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
  }
  function commit() {
    if (written()) settle({ value: state.value });
    else field.focus();
  }
  function settle(bet) {
    storage.write(spec.key, { ...bet, unit: spec.unit });
    again.focus({ preventScroll: true });
  }
  function show() {
    const none = state.value === null;
    input.classList.toggle("is-unset", none);
    input.value = none ? STEPS / 2 : place(state.value);
    input.style.setProperty("--dt-fill", 0);
    input.setAttribute("aria-valuetext", none ? "no bet yet" : textOf(spec, state.value));
  }
  function sync() {
    const bet = storage.read(spec.key);
    const open = !bet;
    const root = line.closest(".dt-bet");
    root.classList.toggle("is-settled", !open);
    entry.hidden = !open;
    again.parentElement.hidden = open;
    input.disabled = !open;
    state.value = bet?.value ?? null;
    field.value = "";
    refuse("");
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
          text: [spec.anchor_label, textOf(spec, spec.anchor, 2)].filter(Boolean).join(": "),
        },
      ]
    : [];

// The line: a tick for each power of ten, and marks above it.
function drawLine(box, spec, width, marks, inset) {
  const place = scaleOf(spec.low, spec.high, "log", inset, width - inset);
  const found = ticks(spec.low, spec.high, "log", width / 62);
  const y = 12 + marks.length * 22;
  const inside = (x, text) => {
    const half = Math.min(text.length * 3.9 + 2, width / 2);
    return clamp(x, half, width - half);
  };
  box.replaceChildren(
    s(
      "svg",
      {
        class: "dt-plot dt-bet-scale",
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
              x: inside(place(v), tickOf(spec, v)),
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
          s("text", { x: inside(x, mark.text), y: top, "text-anchor": "middle" }, mark.text),
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
