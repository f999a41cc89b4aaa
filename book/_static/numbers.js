// A number in prose shows the formula that it comes from: on hover, on focus and on a tap.
// Escape closes it, and the pointer may move onto it.
(() => {
  const SELECTOR = "data[data-formula]";
  const GAP = 6;
  let tip = null;
  let owner = null;
  let leaving = 0;

  function build() {
    tip = Object.assign(document.createElement("div"), {
      id: "dt-tip",
      className: "dt-tip",
      hidden: true,
    });
    tip.setAttribute("role", "tooltip");
    tip.addEventListener("pointerenter", () => clearTimeout(leaving));
    tip.addEventListener("pointerleave", leave);
    document.body.append(tip);
  }

  function open(element) {
    clearTimeout(leaving);
    if (owner === element) return;
    close();
    owner = element;
    tip.textContent = element.dataset.formula;
    if (element.dataset.yoursSaid) tip.append(document.createElement("br"), element.dataset.yoursSaid);
    tip.hidden = false;
    element.setAttribute("aria-describedby", tip.id);
    element.setAttribute("aria-expanded", "true");
    place(element.getClientRects()[0] ?? element.getBoundingClientRect());
  }

  // In the margin, beside the number's line, where there is one.
  function placeBeside(rect) {
    const style = getComputedStyle(document.documentElement);
    const gap = Number.parseFloat(style.getPropertyValue("--gap")) * Number.parseFloat(style.fontSize);
    const column = owner.closest("main")?.getBoundingClientRect();
    if (!gap || !column || rect.right > column.right) return false;
    tip.classList.add("is-beside");
    tip.style.left = `${column.right + gap + scrollX}px`;
    tip.style.top = `${rect.top + scrollY}px`;
    return true;
  }

  // Else above it if there is room, or below; never over the edge of the page.
  function place(rect) {
    tip.classList.remove("is-beside");
    if (placeBeside(rect)) return;
    const { offsetWidth: width, offsetHeight: height } = tip;
    const room = document.documentElement.clientWidth;
    const left = Math.min(Math.max(8, rect.left + rect.width / 2 - width / 2), room - width - 8);
    const above = rect.top - height - GAP;
    tip.style.left = `${left + scrollX}px`;
    tip.style.top = `${(above > 8 ? above : rect.bottom + GAP) + scrollY}px`;
  }

  function close() {
    if (!owner) return;
    owner.removeAttribute("aria-describedby");
    owner.setAttribute("aria-expanded", "false");
    owner = null;
    tip.hidden = true;
  }

  function leave() {
    leaving = setTimeout(close, 200);
  }

  function start() {
    const numbers = document.querySelectorAll(SELECTOR);
    if (!numbers.length) return;
    build();
    for (const number of numbers) {
      number.setAttribute("role", "button");
      number.setAttribute("aria-expanded", "false");
      number.tabIndex = 0;
      number.addEventListener(
        "pointerenter",
        (event) => event.pointerType === "mouse" && open(number),
      );
      number.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && leave());
      number.addEventListener("focus", () => open(number));
      number.addEventListener("blur", close);
      number.addEventListener("click", () => open(number));
      number.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          if (owner === number) close();
          else open(number);
        }
      });
    }
    addEventListener("keydown", (event) => {
      if (event.key === "Escape") close();
    });
    addEventListener("resize", close);
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
