// A box to write Python in: a textarea over the same text in colours, as high as its lines. Tab
// indents; Escape, then Tab leaves; Ctrl+Enter and Shift+Enter run.
import { element } from "./element.js";
import { highlighted } from "./highlight.js";
import { pasted } from "./paste.js";

const KEYS = "Tab indents; Escape, then Tab leaves. Control and Enter run it.";

/** `written` hears of every change, `run` of the keys that run; `id` must be the page's only. */
export function editor({ id, text, label, written, run }) {
  const colours = element("pre", { "aria-hidden": "true" });
  const box = element("textarea", {
    id,
    spellcheck: "false",
    autocapitalize: "off",
    autocomplete: "off",
    wrap: "off",
    "aria-label": label,
    "aria-describedby": `${id}-keys`,
  });
  const hint = element("span", { id: `${id}-keys`, hidden: true }, KEYS);
  const paint = () => {
    colours.innerHTML = `${highlighted(box.value)}\n`;
    box.rows = box.value.split("\n").length;
    colours.scrollLeft = box.scrollLeft;
  };
  box.value = text;
  box.addEventListener("input", () => {
    paint();
    written(box.value);
  });
  box.addEventListener("scroll", () => (colours.scrollLeft = box.scrollLeft));
  box.addEventListener("paste", (event) => {
    event.preventDefault();
    type(box, pasted(event.clipboardData.getData("text/plain"), lineOf(box).before));
  });
  hearKeys(box, run);
  paint();
  return {
    element: element("div", { class: "dt-editor" }, colours, box, hint),
    focus: () => box.focus(),
    get text() {
      return box.value;
    },
    replace(now) {
      box.select();
      type(box, now);
    },
  };
}

function hearKeys(box, run) {
  let leaving = false; // after Escape, Tab goes on to the next control
  box.addEventListener("blur", () => (leaving = false));
  box.addEventListener("keydown", (event) => {
    const { key } = event;
    const plain = !(event.ctrlKey || event.altKey || event.metaKey);
    if (key === "Enter" && (event.shiftKey || !plain)) {
      event.preventDefault();
      run();
    } else if (key === "Escape") leaving = true;
    else if (key === "Tab" && plain && !leaving) {
      event.preventDefault();
      if (event.shiftKey) outdent(box);
      else type(box, " ".repeat(4 - (lineOf(box).before.length % 4)));
    } else if (key === "Enter") {
      event.preventDefault();
      const { before } = lineOf(box);
      type(box, `\n${/^ */.exec(before)[0]}${/:\s*(#.*)?$/.test(before) ? "    " : ""}`);
    } else if (key !== "Shift" && key !== "Tab") leaving = false;
  });
}

/** Where the caret's line begins, and what of it stands before the caret. */
function lineOf(box) {
  const start = box.value.lastIndexOf("\n", box.selectionStart - 1) + 1;
  return { start, before: box.value.slice(start, box.selectionStart) };
}

function outdent(box) {
  const { start, before } = lineOf(box);
  const spaces = /^ {0,4}/.exec(box.value.slice(start))[0].length;
  if (!spaces) return;
  const caret = start + Math.max(0, before.length - spaces);
  box.setSelectionRange(start, start + spaces);
  type(box, "");
  box.setSelectionRange(caret, caret);
}

// As typed, so that the browser's own undo takes it back.
function type(box, text) {
  box.focus();
  if (document.execCommand(text ? "insertText" : "delete", false, text)) return;
  box.setRangeText(text, box.selectionStart, box.selectionEnd, "end");
  box.dispatchEvent(new Event("input"));
}
