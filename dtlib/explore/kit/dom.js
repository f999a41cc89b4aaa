// Elements of a page: made, watched, named, dragged.

const SVG = "http://www.w3.org/2000/svg";

function append(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

const h = (tag, attributes, ...children) =>
  append(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) =>
  append(document.createElementNS(SVG, tag), attributes, children);

function math(content, name = "") {
  const box = h("span", { class: "dt-math" });
  box.innerHTML = `<math displaystyle="true">${content}</math>`;
  if (name) box.firstChild.setAttribute("aria-label", name);
  return box;
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// Ids that stay unique when a page has several widgets.
const uniqueId = (name) => {
  globalThis.dtlibIds = (globalThis.dtlibIds ?? 0) + 1;
  return `dt-${name}-${globalThis.dtlibIds}`;
};

// A wide formula scrolls inside its own line; only then it takes the keyboard's focus.
function watchOverflow(node, name) {
  const update = () => {
    const wide = node.scrollWidth > node.clientWidth + 1;
    for (const [key, value] of [
      ["tabindex", "0"],
      ["role", "group"],
      ["aria-label", name],
    ]) {
      if (wide) node.setAttribute(key, value);
      else node.removeAttribute(key);
    }
  };
  new ResizeObserver(update).observe(node);
  return update;
}

// Draw when the width is known, and again whenever it changes.
function whenSized(node, draw) {
  let known = 0;
  const observer = new ResizeObserver(() => {
    const width = Math.round(node.clientWidth);
    if (width && width !== known) draw((known = width));
  });
  observer.observe(node);
  return () => observer.disconnect();
}

// Pointer and touch: `move(x, y)` in the figure's own pixels, while a button or finger is down.
// A finger that begins on a grip does not scroll the page. The style `touch-action` is not heeded
// everywhere inside of a figure; a touchstart that is refused is, but it comes only when the grip is
// still there, and the first move draws the figure anew. So the drag begins after it.
// `undo` is called when the page takes the finger away, because it scrolls; `drop`, when it lets go.
// A mark that is pressed, and no place to drag from, is left to its press.
function onDrag(svg, move, start, undo = () => {}, drop = () => {}) {
  let down = false;
  let corner; // as it was when the drag began: a task that is met pushes the figure down
  let held = null;
  const follow = (event) => {
    move(event.clientX - corner.left, event.clientY - corner.top);
  };
  const begin = (event) => {
    start();
    follow(event);
  };
  svg.addEventListener("pointerdown", (event) => {
    if (event.button || event.target.closest("[role=button]:not(.dt-grab)")) return;
    down = true;
    corner = svg.getBoundingClientRect();
    svg.setPointerCapture(event.pointerId);
    if (event.pointerType === "touch" && event.target.closest(".dt-grab")) held = event;
    else begin(event);
  });
  svg.addEventListener(
    "touchstart",
    (event) => {
      if (!held) return;
      event.preventDefault();
      begin(held);
      held = null;
    },
    { passive: false },
  );
  svg.addEventListener("pointermove", (event) => {
    if (down) follow(event);
  });
  svg.addEventListener("pointerup", () => {
    if (down) drop();
    down = false;
  });
  svg.addEventListener("pointercancel", () => {
    if (down && !held) undo();
    down = false;
    held = null;
  });
}
