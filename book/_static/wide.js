// What is wider than its column: a box that scrolls sideways fades out at the edge where more of it
// is hidden, and takes the focus, so that keys scroll it.
(() => {
  const SCROLLING = "pre, .dt-figure, .dt-compare, .table-box, .dt-formula";

  const isWide = (box) => box.scrollWidth > box.clientWidth + 1;

  // In a table of predictions a unit may leave its number's line. All are measured before one is
  // changed: each change alone would lay out the whole page again.
  function narrow() {
    const tables = [...document.querySelectorAll(".dt-compare")].filter(isWide);
    for (const table of tables) table.classList.add("dt-wide");
  }

  function mark(box) {
    const wide = isWide(box);
    const hidden = box.scrollWidth - box.clientWidth - box.scrollLeft;
    box.classList.toggle("dt-more", wide && hidden > 2);
    if (wide) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }

  function start() {
    narrow();
    const boxes = [...document.querySelectorAll(SCROLLING)];
    const sizes = new ResizeObserver((entries) => entries.forEach((entry) => mark(entry.target)));
    for (const box of boxes) {
      sizes.observe(box);
      box.addEventListener("scroll", () => mark(box), { passive: true });
    }
    addEventListener("resize", narrow);
  }

  if (document.readyState === "complete") start();
  else addEventListener("load", start);
})();
