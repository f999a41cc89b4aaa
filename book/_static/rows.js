// A filter for the rows of a page: type what you see, or choose, and the other rows step aside.
// Without this script every row is there. A long text, a message pasted whole, finds the rows whose
// own message is in it. What else a row can be chosen by stands in its element .dt-facts; of
// several values, between bars, each counts. A choice can be in the address: ?kind=design.
(() => {
  const PASTED = 5;
  const ENOUGH = 0.6;
  const TITLES = { where: "Part or chapter", most: "Minutes", done: "Solved", sort: "Order" };
  const words = (text) => text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];
  const capital = (text) => text[0].toUpperCase() + text.slice(1);

  // A row is an element with what hangs on it: a table's row alone, a term with its definitions.
  function members(first) {
    const found = [first];
    if (first.localName !== "dt") return found;
    for (let next = first.nextElementSibling; next?.localName === "dd"; ) {
      found.push(next);
      next = next.nextElementSibling;
    }
    return found;
  }

  function rowOf(first) {
    const parts = members(first);
    const codes = [...first.querySelectorAll("code")].map((code) => code.textContent).join(" ");
    const facts = { ...first.querySelector(".dt-facts")?.dataset };
    const said = parts.map((part) => part.textContent).join(" ");
    return {
      parts,
      facts,
      group: first.closest("section"),
      text: `${said} ${facts.words ?? ""}`.toLowerCase(),
      message: new Set(words(codes).filter((word) => word.length > 2 && !/^\d+$/.test(word))),
    };
  }

  function fits(row, asked) {
    if (asked.every((word) => row.text.includes(word))) return true;
    if (asked.length < PASTED || row.message.size < 3) return false;
    const pasted = new Set(asked);
    const shared = [...row.message].filter((word) => pasted.has(word));
    return shared.length >= ENOUGH * row.message.size;
  }

  const values = (row, name) => (row.facts[name] ?? "").split("|");

  const title = (section) =>
    section.querySelector("h2, h3")?.cloneNode(true).textContent.replace(/#$/, "").trim() ?? "";

  // The fields of a filter: each an element of the form and the rows that it lets through.

  function wordField(label) {
    const input = Object.assign(document.createElement("input"), { type: "search" });
    input.autocomplete = "off";
    input.spellcheck = false;
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      input.value = "";
      input.dispatchEvent(new Event("input"));
    });
    return { name: "words", label, input, keeps: (row) => fits(row, words(input.value)) };
  }

  function choice(name, any, options, keeps) {
    const input = document.createElement("select");
    input.append(new Option(any, ""));
    for (const [text, value] of options) input.append(new Option(text, value));
    const label = TITLES[name] ?? capital(name);
    return { name, label, input, keeps: (row) => input.value === "" || keeps(row, input.value) };
  }

  function groupField(groups, kinds) {
    const options = groups.map((group, index) => [title(group), String(index)]);
    return choice("show", `all ${kinds}`, options, (row, value) => row.group === groups[value]);
  }

  // In the order of the page; a chapter stands below its part.
  function facetField(name, rows) {
    const found = new Map();
    for (const row of rows) {
      values(row, name).forEach((value, depth) => {
        const inset = name === "where" && depth ? "\u2003" : "";
        if (value && !found.has(value)) found.set(value, inset + value);
      });
    }
    const options = [...found].map(([value, text]) => [text, value]);
    if (name !== "where") options.sort(([one], [other]) => (one < other ? -1 : 1));
    return choice(name, "all", options, (row, value) => values(row, name).includes(value));
  }

  function mostField(name, rows) {
    const all = rows.map((row) => Number(row.facts[name])).sort((a, b) => a - b);
    const quarters = [0.25, 0.5, 0.75].map((share) => all[Math.floor(share * all.length)]);
    const options = [...new Set(quarters)].map((most) => [`at most ${most}`, String(most)]);
    return choice("most", "any", options, (row, most) => Number(row.facts[name]) <= Number(most));
  }

  function doneField(prefix, rows) {
    for (const row of rows) {
      row.facts.done = dtKept.read(prefix + row.facts.slug)?.passed === true ? "solved" : "not yet";
      if (row.facts.done !== "solved") continue;
      const tick = Object.assign(document.createElement("span"), { className: "dt-solved" });
      tick.textContent = "✓ solved";
      row.parts[0].querySelector(".dt-facts").after(tick);
    }
    return facetField("done", rows);
  }

  function sortField(names, rows) {
    const places = new Map(rows.map((row, place) => [row, place]));
    const size = (row, name) => Number(row.facts[name]) || row.facts[name].length;
    const field = choice("sort", "of the book", names.map((name) => [`by ${name}`, name]), () => true);
    field.input.addEventListener("input", () => {
      const name = field.input.value;
      const before = (a, b) => (name && size(a, name) - size(b, name)) || places.get(a) - places.get(b);
      const home = rows[0].parts[0].parentElement;
      home.append(...rows.toSorted(before).map((row) => row.parts[0]));
    });
    return field;
  }

  function fieldsOf({ label, groups: kinds, facets = "", most, kept, sort }, rows, groups) {
    const fields = [wordField(label)];
    if (kinds) fields.push(groupField(groups, kinds));
    for (const name of facets.split(" ").filter(Boolean)) fields.push(facetField(name, rows));
    if (most) fields.push(mostField(most, rows));
    if (kept) fields.push(doneField(kept, rows));
    if (sort) fields.push(sortField(sort.split(" "), rows));
    return fields;
  }

  function labelled({ label, input }) {
    const box = document.createElement("label");
    box.append(Object.assign(document.createElement("span"), { textContent: label }), input);
    return box;
  }

  // A row is laid out as a card, which would be no table any more to a screen reader.
  function keepRoles(table) {
    const roles = { table: "table", thead: "rowgroup", tbody: "rowgroup", tr: "row", td: "cell" };
    for (const [name, role] of Object.entries(roles)) {
      for (const node of table.querySelectorAll(name)) node.setAttribute("role", role);
    }
    for (const head of table.querySelectorAll("th")) head.setAttribute("role", "columnheader");
    table.setAttribute("role", "table");
  }

  function build(host) {
    const { rows: selector, noun } = host.dataset;
    const rows = [...document.querySelectorAll(`article ${selector}`)].map(rowOf);
    const groups = [...new Set(rows.map((row) => row.group))];
    const fields = fieldsOf(host.dataset, rows, groups);
    const count = document.createElement("p");
    count.setAttribute("role", "status");
    count.setAttribute("aria-live", "polite");

    function show() {
      const alive = new Set();
      let shown = 0;
      for (const row of rows) {
        const here = fields.every((field) => field.keeps(row));
        for (const part of row.parts) part.hidden = !here;
        if (here) alive.add(row.group);
        shown += here;
      }
      for (const group of groups) group.hidden = groups.length > 1 && !alive.has(group);
      const all = shown === rows.length;
      count.textContent = all ? `${shown} ${noun}` : `${shown} of ${rows.length} ${noun}`;
    }

    const asked = new URLSearchParams(location.search);
    for (const { name, input } of fields) {
      if (asked.has(name)) input.value = asked.get(name);
      input.addEventListener("input", show);
    }
    // A link to a row shows that row, whatever was filtered.
    addEventListener("hashchange", () => {
      const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
      if (!target?.closest("[hidden]")) return;
      for (const { input } of fields) input.value = "";
      show();
      target.scrollIntoView();
    });
    host.append(...fields.map(labelled), count);
    document.querySelectorAll(".dt-cards, .dt-index").forEach(keepRoles);
    show();
  }

  function start() {
    document.querySelectorAll(".dt-filter").forEach(build);
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
