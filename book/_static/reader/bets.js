// What answers a bet stays covered until the reader has bet or skipped, and where the text comes
// back to a bet it has the reader's own number. A cell names its bet by the tag `after-bet-<key>`;
// until this script is there the sheet hides what the cell put out, and without scripts nothing.
const dtBets = (() => {
  const TAG = "tag_after-bet-";
  const all = (selector) => [...document.querySelectorAll(selector)];
  const betOf = (key) => dtKept.read(`dtlib-bet:${key}`);
  const make = (tag, attributes) => Object.assign(document.createElement(tag), attributes);

  function coverOf(key, output) {
    const way = make("a", { href: `#bet-${key}`, textContent: "Your bet first" });
    way.addEventListener("click", (event) => {
      const question = document.getElementById(`bet-${key}`);
      if (!question) return;
      event.preventDefault();
      const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
      question.scrollIntoView({ behavior: calm ? "auto" : "smooth", block: "center" });
      question.querySelector("[role=slider]")?.focus({ preventScroll: true });
    });
    const skip = make("button", { type: "button", textContent: "Skip" });
    skip.addEventListener("click", () => {
      dtKept.write(`dtlib-bet:${key}`, { skipped: true });
      output.focus({ preventScroll: true });
    });
    const cover = make("div", { className: "bet-cover" });
    cover.append(way, " or ", skip);
    return cover;
  }

  function cover(cell) {
    const key = [...cell.classList].find((name) => name.startsWith(TAG)).slice(TAG.length);
    const output = cell.querySelector(":scope > .cell_output");
    if (!output) return () => {};
    output.tabIndex = -1;
    const lid = coverOf(key, output);
    return () => {
      const open = Boolean(betOf(key));
      cell.classList.toggle("is-open", open);
      if (open) lid.remove();
      else output.append(lid);
    };
  }

  // "400 ms": a bet in its own words.
  function said({ value, unit }) {
    const number = value.toLocaleString("en", { maximumSignificantDigits: 3 });
    return `${number}${unit === "×" ? "" : " "}${unit}`.trim();
  }

  function mention(place) {
    return () => {
      const bet = betOf(place.dataset.yourBet);
      if (!Number.isFinite(bet?.value)) return place.replaceChildren();
      place.textContent = ` (you said ${said(bet)})`;
    };
  }

  function start() {
    const shown = [...all(`[class*="${TAG}"]`).map(cover), ...all("[data-your-bet]").map(mention)];
    if (!shown.length) return;
    const show = () => shown.forEach((one) => one());
    dtKept.watch(show);
    show();
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
  return { said };
})();
