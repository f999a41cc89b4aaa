// The lines of a sheet: formulas, and sums, each fed by what is given, by lines above it, by numbers.

const lineCalls = {};

// A formula of a line, called with what feeds the line.
function lineCall({ params, feeds }, js, found) {
  const f = (lineCalls[`${params}: ${js}`] ??= new Function(...params, `return ${js};`));
  return f(...feeds.map((x) => (typeof x === "number" ? x : found[x])));
}

// The value of every name; a line that is absent counts nothing.
function sheetValues(lines, given, absent = new Set()) {
  const found = { ...given };
  for (const line of lines) {
    if (absent.has(line.key)) found[line.key] = 0;
    else if (line.sum) found[line.key] = line.sum.reduce((sum, part) => sum + found[part], 0);
    else found[line.key] = lineCall(line, line.js, found);
  }
  return found;
}

const lineOf = ({ lines }, name) => lines.find(({ key }) => key === name);

// The name of a sum's largest part.
const largestOf = ({ sum }, found) =>
  sum.reduce((best, part) => (found[part] > found[best] ? part : best));

// What feeds a line, without the numbers that it holds itself: [name, letter].
const feedsOf = ({ sum, feeds, letters }) =>
  sum
    ? sum.map((part) => [part, ""])
    : feeds.map((x, i) => [x, letters[i]]).filter(([x]) => typeof x !== "number");

// One line, opened: its value, its equation with the numbers of the moment, and what feeds it.
// `known` has label, unit and source of every name; `opens(name)` is the change that opens that line
// in its turn, or null.
function openedLine(line, known, opens, set) {
  const value = h("span", { class: "dt-row-value" });
  const equation = line.sum ? null : lineEquation(line);
  const feeds = feedsOf(line).map(([name, letter]) => lineFeed(name, letter, known[name], opens(name), set));
  const element = h(
    "div",
    { class: "dt-opened", role: "group", "aria-label": line.label, tabindex: -1 },
    h("div", { class: "dt-row" }, h("span", {}, line.label), value),
    equation?.element,
    h("ul", { class: "dt-feeds dt-round" }, feeds.map((feed) => feed.element)),
    line.conditions ? h("p", { class: "dt-hint" }, `Holds when: ${line.conditions}`) : null,
  );
  const fill = (found) => {
    value.textContent = readable(found[line.key], line.unit);
    equation?.fill(found);
    for (const feed of feeds) feed.fill(found);
    reachable(element, pressables(element)[0]);
  };
  return { element, fill };
}

function lineEquation(line) {
  const numbers = substitution(line.body, line.parts, readable);
  const element = h(
    "div",
    { class: "dt-row-formula" },
    inPieces(math(`${line.symbol}<mo>=</mo>${line.body}`)),
    line.parts.length ? numbers.element : null,
  );
  const overflow = watchOverflow(element, `${line.label}, equation`);
  const fill = (found) => {
    numbers.fill(Object.fromEntries(line.parts.map(([name, js]) => [name, lineCall(line, js, found)])));
    overflow();
  };
  return { element, fill };
}

function lineFeed(name, letter, { label, unit, source }, change, set) {
  const value = h("span", { class: "dt-row-value" });
  const words = change
    ? h("span", { class: "dt-link", ...pressOf({ set: change, says: label }, set) }, label)
    : h("span", {}, source ? `${label} (${source})` : label);
  const element = h("li", { "data-symbol": name }, letter ? math(letter) : null, words, value);
  const fill = (found) => {
    value.textContent = readable(found[name], unit);
  };
  return { element, fill };
}

// A readout: rows of numbers, and below them the line of the sheet that is open. Who follows a feed
// from one line to the next goes along.
function openedRows(place, spec, set) {
  const [rows, line] = [h("div"), h("div")];
  place.append(rows, line);
  const opened = {};
  const opens = (name) => (lineOf(spec, name) ? { open: name } : null);
  const openedOf = (key) => openedLine(lineOf(spec, key), spec.known, opens, set);
  return (texts, state, { open, found }) => {
    rows.replaceChildren(...rowsOf(texts));
    if (!open) return line.replaceChildren();
    const { element, fill } = (opened[open] ??= openedOf(open));
    const followed = line.contains(document.activeElement) && element.parentNode !== line;
    if (element.parentNode !== line) line.replaceChildren(element);
    if (followed) element.focus({ preventScroll: true });
    fill(found);
  };
}
openedRows.room = (spec, seen, width) =>
  plainRows.room(spec, seen, width) +
  (seen.open ? lineRoom(lineOf(spec, seen.open), spec.known, width) : 0);

// The height of an opened line.
function lineRoom(line, known, width) {
  const letters = (content) => content.replace(/<[^>]*>|&[^;]*;/g, "").length;
  const wanted = line.sum ? 0 : 11 * letters(line.symbol) + 28 * letters(line.body);
  const equation = line.sum ? 0 : wanted < width ? 42 : 62;
  const feeds = feedsOf(line).map(([name]) => `${known[name].label}, a value`);
  const touch = width < 560 ? 33 : 30;
  const conditions = line.conditions ? 19 * textLines(`Holds when: ${line.conditions}`, 13, width) : 0;
  return 31 + equation + touch * linesOf(["", ...feeds], width) + conditions;
}
