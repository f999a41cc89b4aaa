// A filter for the rows of a page: type what you see, or choose a group, and the other rows step
// aside. Without this script every row is there. A long text, a message pasted whole, finds the
// rows whose own message is in it.
(() => {
  const PASTED = 5;
  const ENOUGH = 0.6;
  const words = (text) => text.toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];

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
    return {
      parts,
      group: first.closest("section"),
      text: parts.map((part) => part.textContent).join(" ").toLowerCase(),
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

  const title = (section) =>
    section.querySelector("h2, h3")?.cloneNode(true).textContent.replace(/#$/, "").trim() ?? "";

  function field(label, control) {
    const box = document.createElement("label");
    box.append(Object.assign(document.createElement("span"), { textContent: label }), control);
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
    const { rows: selector, noun, groups: kinds, label } = host.dataset;
    const rows = [...document.querySelectorAll(`article ${selector}`)].map(rowOf);
    const groups = [...new Set(rows.map((row) => row.group))];
    const search = Object.assign(document.createElement("input"), { type: "search" });
    search.autocomplete = "off";
    search.spellcheck = false;
    const choice = document.createElement("select");
    choice.append(new Option(`all ${kinds}`, ""));
    groups.forEach((group, index) => choice.append(new Option(title(group), String(index))));
    const count = document.createElement("p");
    count.setAttribute("role", "status");
    count.setAttribute("aria-live", "polite");

    function show() {
      const asked = words(search.value);
      const only = choice.value === "" ? null : groups[Number(choice.value)];
      let shown = 0;
      const alive = new Set();
      for (const row of rows) {
        const here = (!only || row.group === only) && fits(row, asked);
        for (const part of row.parts) part.hidden = !here;
        if (here) alive.add(row.group);
        shown += here;
      }
      for (const group of groups) group.hidden = !alive.has(group);
      const all = shown === rows.length;
      count.textContent = all ? `${shown} ${noun}` : `${shown} of ${rows.length} ${noun}`;
    }

    search.addEventListener("input", show);
    search.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      search.value = "";
      show();
    });
    choice.addEventListener("change", show);
    // A link to a row shows that row, whatever was filtered.
    addEventListener("hashchange", () => {
      const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
      if (!target?.closest("[hidden]")) return;
      search.value = choice.value = "";
      show();
      target.scrollIntoView();
    });
    host.append(field(label, search), field("Show", choice), count);
    document.querySelectorAll(".dt-cards").forEach(keepRoles);
    show();
  }

  function start() {
    document.querySelectorAll(".dt-filter").forEach(build);
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
