// Widgets on the reader's machine: a button below each whose formulas rest on figures that differ.

import { onMachine } from "./roles.js";

const SYMBOLS = { alpha: "α", beta: "β", peak: "peak", bandwidth: "memory bandwidth", memory: "memory" };
const calledAs = (name) =>
  SYMBOLS[name] ?? name.replace(/_?(alpha|beta)_?/, (_, letter) => ` ${SYMBOLS[letter]} `).trim();

const listOf = (differs, whose) => differs.map((one) => `${calledAs(one.name)} ${one[whose]}`).join(", ");

// A button that turns from one to the other, with the conditions of both.
function offer(place, { spec, differs }, machine) {
  const line = Object.assign(document.createElement("p"), { className: "dt-theirs" });
  const button = Object.assign(document.createElement("button"), { type: "button" });
  const said = Object.assign(document.createElement("span"), { role: "status" });
  const { widget } = place;
  const say = () => {
    button.textContent = widget.isTheirs ? "Show it on the book's machine" : "Show it on yours";
    said.textContent = widget.isTheirs
      ? `Yours, ${machine}: ${listOf(differs, "yours")}. The book's: ${listOf(differs, "book")}.`
      : "";
  };
  button.addEventListener("click", async () => {
    widget.isTheirs = !widget.isTheirs;
    await widget.show(widget.isTheirs ? spec : widget.spec);
    say();
  });
  say();
  line.append(button, said);
  place.append(line);
}

// What was offered, or is shown, for another machine steps back first.
export function showIn(place, book, theirs, machine) {
  const { widget } = place;
  if (widget.isTheirs) widget.show(widget.spec);
  widget.isTheirs = false;
  place.querySelector(":scope > .dt-theirs")?.remove();
  const found = theirs && onMachine(widget.spec, book, theirs);
  if (found) offer(place, found, machine);
}
