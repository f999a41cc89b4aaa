// The same term lights up wherever it stands in a section: in the text, in an equation, as a slider,
// as a row of a widget and its curve. It answers the pointer, the focus, and in an equation whose
// number has the focus, the arrow keys.
(() => {
  const NAMED = "[data-symbol], [data-value]";
  const NUMBER = ".eqno a";
  const LIT = "is-lit";
  const nameOf = ({ dataset }) => dataset.symbol ?? dataset.value;
  let lit = [];

  const sectionOf = (node) => node.closest("article > section > section") ?? node.closest("article");

  // A row of a widget shows its curve as if it were under the pointer itself.
  const tellRow = (node, type, origin) => {
    if (node.matches(".dt-row") && !node.closest(".dt-widget").contains(origin)) {
      node.dispatchEvent(new PointerEvent(type));
    }
  };

  function darken() {
    for (const node of lit) {
      node.classList.remove(LIT);
      node.style.removeProperty("--dt-lit");
      tellRow(node, "pointerleave", null);
    }
    lit = [];
  }

  function light(origin) {
    darken();
    const name = nameOf(origin);
    const same = [...sectionOf(origin).querySelectorAll(NAMED)].filter((node) => nameOf(node) === name);
    if (same.length < 2) return;
    lit = same;
    const row = same.find((node) => node.matches(".dt-row"));
    const colour = row && `color-mix(in srgb, ${getComputedStyle(row).getPropertyValue("--dt-c")} 28%, transparent)`;
    for (const node of same) {
      node.classList.add(LIT);
      if (colour) node.style.setProperty("--dt-lit", colour);
      tellRow(node, "pointerenter", origin);
    }
  }

  // From term to term of an equation, by the arrow keys on its number.
  function step(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const number = by && event.target.closest(NUMBER);
    if (!number) return;
    const terms = [...number.closest("div.math").querySelectorAll(NAMED)];
    if (!terms.length) return;
    event.preventDefault();
    const at = terms.indexOf(number.at) + by;
    number.at = terms[(at + terms.length) % terms.length];
    light(number.at);
  }

  function start() {
    const article = document.querySelector("article.chapter");
    if (!article) return;
    const termAt = ({ target }) => target.closest(NAMED);
    article.addEventListener("pointerover", (event) => {
      const term = termAt(event);
      if (term && !lit.includes(term)) light(term);
      else if (!term) darken();
    });
    article.addEventListener("pointerleave", darken);
    article.addEventListener("focusin", (event) => {
      const number = event.target.closest(NUMBER);
      const term = number ? number.closest("div.math").querySelector(NAMED) : termAt(event);
      if (number) number.at = term;
      if (term) light(term);
    });
    article.addEventListener("focusout", darken);
    article.addEventListener("keydown", step);
    document.documentElement.dataset.terms = "ready";
  }

  addEventListener("load", () => (globalThis.requestIdleCallback ?? setTimeout)(start));
})();
