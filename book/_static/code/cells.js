// A cell of the page that the reader runs and changes: its code becomes an editor in place, and what
// it puts out stands below what is printed in the book.
import { Bench } from "./bench.js";
import { element } from "./element.js";

const opened = new Map();
let count = 0;

const caption = (text) => element("p", { class: "dt-whose" }, text);

/** Opens the cell `place` (once), and gives its bench. */
export function open(place, elsewhere) {
  const id = place.dataset.cell;
  if (opened.has(id)) return opened.get(id);
  const input = place.querySelector(".cell_input");
  const printed = place.querySelector(":scope > .cell_output");
  const words = printed?.innerText.trim();
  const inBook = printed && caption("as printed in the book");
  const yours = caption("yours");
  const made = new Bench({
    id,
    code: input.querySelector("pre").textContent.replace(/\n$/, ""),
    label: `cell ${(count += 1)}`,
    elsewhere,
    done(result, asked, output) {
      const same = output.innerText.trim() === words;
      yours.textContent = same ? "yours: the same" : "yours";
      yours.hidden = output.hidden;
    },
    reset() {
      made.element.remove();
      below.remove();
      inBook?.remove();
      input.hidden = false;
      opened.delete(id);
      input.querySelector(".dt-run")?.focus();
    },
  });
  const below = element("div", { class: "dt-yours" }, yours, made.output);
  yours.hidden = true;
  input.hidden = true;
  input.after(made.element);
  if (printed) {
    printed.prepend(inBook);
    printed.after(below);
  } else made.element.append(below);
  opened.set(id, made);
  return made;
}
