// The reader's own page: how near the bets were, every bet, what has been read and answered, and the
// one file of it. The book's side (questions, true values, exercises) comes with the page; the
// reader's side from kept.js.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const SURE = { 2: "within a factor of 2", 10: "within a factor of 10", 0: "no idea" };
  const build = (node, attributes, children) => {
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value !== undefined) node.setAttribute(name, value);
    }
    node.append(...children.flat(Infinity).filter((child) => child !== null));
    return node;
  };
  const h = (tag, attributes, ...children) =>
    build(document.createElement(tag), attributes, children);
  const s = (tag, attributes, ...children) =>
    build(document.createElementNS(SVG, tag), attributes, children);

  const rounded = (value) => Number(value.toPrecision(2)).toLocaleString("en");
  const count = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;

  const NEAR = 1.05; // what lies so near counts as right, and as inside
  const within = (off, factor) => off <= factor * NEAR;

  // Every bet of the book with what the reader made of it. `ratio` is the bet over the truth.
  function betsOf(course) {
    return course.flatMap((chapter) =>
      chapter.bets.map((bet) => {
        const own = dtKept.read(`dtlib-bet:${bet.key}`);
        const placed = Number.isFinite(own?.value) ? own : null;
        return {
          ...bet,
          chapter,
          skipped: Boolean(own?.skipped),
          own: placed,
          ratio: placed ? placed.value / bet.answer : null,
          off: placed ? Math.max(placed.value / bet.answer, bet.answer / placed.value) : null,
        };
      }),
    );
  }

  const median = (values) => [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) / 2)];

  // How near

  function summary(bets, made) {
    const near = (factor) => made.filter(({ off }) => within(off, factor)).length;
    const [low, high] = [made.filter(({ ratio }) => ratio < 1), made.filter(({ ratio }) => ratio > 1)];
    const skipped = bets.filter((bet) => bet.skipped).length;
    return h(
      "p",
      {},
      `You have made ${made.length} of ${count(bets.length, "bet")}${skipped ? ` and skipped ${skipped}` : ""}. `,
      h("strong", {}, `${near(2)} of ${made.length} were within a factor of 2`),
      `, ${near(10)} within a factor of 10; half of them were off by a factor of ${rounded(median(made.map(({ off }) => off)))} or less. `,
      `${low.length} said too little, ${high.length} too much.`,
    );
  }

  function sureness(made) {
    const rows = [2, 10, 0].map((sure) => made.filter(({ own }) => own.sure === sure));
    if (!rows.flat().length)
      return h("p", {}, "A bet may say how sure it is; none of yours has. Then nobody can tell luck from knowledge.");
    const held = (said, sure) =>
      sure ? `${said.filter(({ off }) => within(off, sure)).length} held` : `off by a factor of ${rounded(median(said.map(({ off }) => off)))} in the middle`;
    return h(
      "ul",
      {},
      [2, 10, 0].map((sure, i) =>
        rows[i].length
          ? h("li", {}, `You said '${SURE[sure]}' ${count(rows[i].length, "time")}: ${held(rows[i], sure)}.`)
          : null,
      ),
    );
  }

  // One row for each bet: where it was, between too little and too much, and what it claimed.
  function picture(made, width) {
    const ROW = 24;
    const [left, right, top] = [52, 14, 40];
    const farthest = Math.max(10, ...made.map(({ off }) => off));
    const decades = Math.ceil(Math.log10(farthest * 1.3));
    const across = (ratio) => {
      const share = (Math.log10(ratio) / decades + 1) / 2;
      return left + Math.min(1, Math.max(0, share)) * (width - left - right);
    };
    const height = top + ROW * made.length + 34;
    const band = (factor, name) =>
      s("rect", { class: name, x: across(1 / factor), y: top - 8, width: across(factor) - across(1 / factor), height: height - top - 22 });
    const text = (x, y, words, anchor = "middle") => s("text", { x, y, "text-anchor": anchor }, words);
    const ticks = [...Array(2 * decades + 1).keys()].map((i) => 10 ** (i - decades));
    const tick = (ratio) =>
      text(across(ratio), height - 8, ratio === 1 ? "right" : ratio > 1 ? `${ratio.toLocaleString("en")}×` : `1/${(1 / ratio).toLocaleString("en")}`, ratio === ticks[0] ? "start" : ratio === ticks.at(-1) ? "end" : "middle");
    const every = width < 500 && decades > 2 ? decades : 1;
    return s(
      "svg",
      { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": spoken(made) },
      band(10, "within-10"),
      band(2, "within-2"),
      s("line", { class: "truth", x1: across(1), x2: across(1), y1: top - 8, y2: height - 30 }),
      text(left, 16, "too little", "start"),
      text(across(1), 16, "within 2×"),
      text(width - right, 16, "too much", "end"),
      ticks.filter((_, i) => i % every === 0).map(tick),
      made.map((bet, i) => mark(bet, across, top + ROW * i + ROW / 2, text)),
    );
  }

  function mark({ key, ratio, off, own }, across, y, text) {
    const held = !own.sure || within(off, own.sure);
    const claim = own.sure
      ? s("line", { class: "claim", x1: across(ratio / own.sure), x2: across(ratio * own.sure), y1: y, y2: y })
      : null;
    return [
      text(0, y + 4, key, "start"),
      claim,
      s("circle", { class: held ? "bet" : "bet is-broken", cx: across(ratio), cy: y, r: 6 }),
    ];
  }

  const spoken = (made) =>
    `Your bets over the true values: ${made.map(({ key, ratio }) => `${key}: ${rounded(ratio)} times`).join(", ")}`;

  function near(place, course) {
    const bets = betsOf(course);
    const made = bets.filter(({ own }) => own);
    if (!made.length) return place.replaceChildren(nothingYet(bets));
    const figure = h("figure", { class: "your-figure" });
    const caption = h(
      "figcaption",
      {},
      "Each mark is a bet over the truth. The bar is what it claimed; an open mark claimed too much. ",
      "The bands are factors of 2 and 10.",
    );
    place.replaceChildren(summary(bets, made), sureness(made), figure);
    figure.append(picture(made, Math.min(figure.clientWidth || 640, 720)), caption);
  }

  function nothingYet(bets) {
    const first = bets[0];
    const words = `You have not made any of the ${count(bets.length, "bet")} of the book yet. When you have, this page says how often you were within a factor of 2, whether you knew it, and on which side you err. The first one is `;
    return h("p", {}, words, h("a", { href: `${first.chapter.address}#bet-${first.key}` }, `in Chapter ${first.chapter.number}`), ".");
  }

  // Every bet

  function oneBet({ key, question, own, skipped, says, off, ratio, chapter }) {
    const way = h("a", { href: `${chapter.address}#bet-${key}` }, question);
    if (!own) {
      const words = skipped ? `skipped; it is ${says}` : "not made yet";
      return h("li", { class: "is-open" }, way, h("span", {}, words));
    }
    const right = within(off, 1);
    const verdict = right ? "right on the spot" : `a factor ${rounded(off)} too ${ratio > 1 ? "much" : "little"}`;
    const sure = own.sure === undefined ? "" : `, ${SURE[own.sure]}`;
    return h(
      "li",
      {},
      way,
      h("span", {}, h("b", {}, `you: ${dtBets.said(own)}`), sure),
      h("span", {}, `it is ${says}: ${verdict}`),
    );
  }

  function everyBet(place, course) {
    const bets = betsOf(course);
    const groups = course.filter((chapter) => chapter.bets.length);
    place.replaceChildren(
      ...groups.map((chapter) =>
        h(
          "section",
          { class: "your-chapter" },
          h("h3", {}, h("a", { href: chapter.address }, `${chapter.number} · ${chapter.title}`)),
          h("ul", {}, bets.filter((bet) => bet.chapter === chapter).map(oneBet)),
        ),
      ),
    );
  }

  // Progress

  const solved = (slugs) => meter(slugs.filter(passed).length, slugs.length);
  const passed = (slug) => Boolean(dtKept.read(`dtlib-answer:${slug}`)?.passed);

  function progress(place, course) {
    const read = new Set(dtKept.read("dtlib-read"));
    const bets = betsOf(course);
    const row = (chapter) => {
      const own = bets.filter((bet) => bet.chapter === chapter);
      const settled = own.filter((bet) => bet.own || bet.skipped).length;
      return h(
        "tr",
        {},
        h("th", { scope: "row" }, h("a", { href: chapter.address }, `${chapter.number} · ${chapter.title}`)),
        h("td", {}, read.has(chapter.number) ? "✓" : "–"),
        h("td", {}, meter(settled, own.length)),
        h("td", {}, solved(chapter.questions)),
        h("td", {}, solved(chapter.exercises)),
      );
    };
    const answered = course.flatMap(({ exercises }) => exercises).filter(passed).length;
    const chapters = course.filter(({ number }) => read.has(number)).length;
    const left = course.find(({ number }) => !read.has(number));
    const way = left
      ? ["Next: ", h("a", { href: left.address }, `${left.number} · ${left.title}`), "."]
      : ["Nothing is left but the exercises."];
    place.replaceChildren(
      h("p", {}, `${chapters} of ${count(course.length, "chapter")} read to the end, ${count(answered, "exercise")} answered on their pages. `, ...way),
      h("div", { class: "table-box" }, h("table", { class: "your-table" }, head("chapter", "read", "bets", "questions", "exercises"), h("tbody", {}, course.map(row)))),
    );
  }

  const head = (...names) =>
    h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name))));

  const meter = (done, all) =>
    all
      ? h("span", { class: "your-meter", style: `--share: ${done / all}` }, `${done} of ${all}`)
      : "–";

  // The file

  function file(place) {
    const said = h("p", { role: "status" });
    const say = (words) => (said.textContent = words);
    const input = h("input", { type: "file", accept: "application/json,.json", id: "your-file", onchange: () => open(input, say) });
    const erase = h("button", { type: "button", onclick: () => sure(erase, say) }, "Erase everything");
    place.replaceChildren(
      h(
        "div",
        { class: "your-file" },
        h("button", { type: "button", onclick: () => save(say) }, "Save to a file"),
        h("label", { for: "your-file" }, "Open a file"),
        input,
        erase,
      ),
      said,
    );
  }

  function save(say) {
    dtKept.download();
    say(`Saved: ${count(dtKept.names().length, "entry", "entries")}.`);
  }

  async function open(input, say) {
    const [chosen] = input.files;
    input.value = "";
    if (!chosen) return;
    try {
      say(`Added ${count(dtKept.take(await chosen.text()), "entry", "entries")} of ${chosen.name}.`);
    } catch (error) {
      say(`${chosen.name} was not opened: ${error.message}.`);
    }
  }

  // The first press asks, the second one erases.
  function sure(button, say) {
    const many = count(dtKept.names().length, "entry", "entries");
    if (button.dataset.asked) {
      delete button.dataset.asked;
      button.textContent = "Erase everything";
      dtKept.erase();
      return say(`Erased: ${many}.`);
    }
    button.dataset.asked = "yes";
    button.textContent = `Really erase ${many}`;
    say("Press again to erase what the browser keeps of this book. There is no way back, but a saved file.");
  }

  function start() {
    const course = JSON.parse(document.getElementById("dt-course").textContent);
    const place = (name) => document.querySelector(`[data-yours="${name}"]`);
    const show = () => {
      near(place("near"), course);
      everyBet(place("bets"), course);
      progress(place("progress"), course);
    };
    file(place("file"));
    dtKept.watch(show);
    addEventListener("resize", () => near(place("near"), course));
    show();
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
