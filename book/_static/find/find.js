// The search of the book: answers below the field while the reader types, and a whole page of them.
// It is asked for when a field gets the focus, and so is Pagefind's index, piece by piece.
import { excerpt, ranked, wordsOf, worthOf } from "./rank.js";

const HOME = new URL("../../", import.meta.url);
const FEW = 8;
const MANY = 30;
const LOOKED_AT = 12; // entries whose titles are weighed, besides those that are shown
const CODE_BEGINS = "⁂";
const GONE = "The search did not come. The map of the parts leads to every chapter.";
const LOCAL = "The search needs a served site: python -m http.server in the site's folder.";

let engine = null;

function ready() {
  engine ??= import(new URL("pagefind/pagefind.js", HOME)).then(async (pagefind) => {
    await pagefind.init();
    return pagefind;
  });
  return engine;
}

// What answers a question: at most so many entries, each with its text.
async function answers(question, count) {
  const words = wordsOf(question);
  if (!words.length) return { words, found: [] };
  const pagefind = await ready();
  const lists = await Promise.all(words.map(async (word) => (await pagefind.search(word)).results));
  const entries = new Map(lists.flat().map((entry) => [entry.id, entry]));
  const best = ranked(lists).slice(0, count + LOOKED_AT);
  const read = async ({ id, worth }) => {
    const entry = await entries.get(id).data();
    return { entry, worth: worthOf(worth, entry.meta, words) };
  };
  const weighed = (await Promise.all(best.map(read))).sort((a, b) => b.worth - a.worth);
  return { words, found: weighed.slice(0, count).map(({ entry }) => entry) };
}

function element(name, className, ...content) {
  const made = document.createElement(name);
  made.className = className;
  made.append(...content);
  return made;
}

// The text of an entry without its title and that of its page, with which it begins, and its code.
function textOf({ content, meta }) {
  const text = content.split(CODE_BEGINS)[0];
  const from = meta.page ? text.indexOf(meta.page, meta.title.length) + meta.page.length : meta.title.length;
  return text.slice(from).replace(/^[.\s]+/, "");
}

function hit(entry, words) {
  const { title, page, address } = entry.meta;
  const said = excerpt(textOf(entry), words).map(({ text, marked }) => (marked ? element("mark", "", text) : text));
  const link = element("a", "hit", element("b", "", title), element("span", "", ...said));
  if (page) link.insertBefore(element("small", "", page), link.lastChild);
  link.href = new URL(address, HOME).href;
  return link;
}

function sentence(question, count, most) {
  if (!count) return `Nothing was found for “${question}”.`;
  const places = count === 1 ? "One place" : `${count === most ? "The first " : ""}${count} places`;
  return `${places} for “${question}”`;
}

// Only the latest question may answer.
function asker(field, count, show) {
  let latest = 0;
  return async () => {
    const mine = ++latest;
    const question = field.value.trim();
    try {
      const { words, found } = await answers(question, count);
      if (mine === latest) show(question, found.map((entry) => hit(entry, words)));
    } catch (error) {
      console.error(error);
      if (mine === latest) show(question, null);
    }
  };
}

const trouble = () => (location.protocol === "file:" ? LOCAL : GONE);

// One of the hits below a field is chosen by the arrows.
function chooser(field, list) {
  let hits = [];
  let active = -1;
  const chosen = () => hits[active];
  function choose(index) {
    chosen()?.removeAttribute("aria-selected");
    active = index;
    chosen()?.setAttribute("aria-selected", "true");
    chosen()?.scrollIntoView({ block: "nearest" });
    if (chosen()) field.setAttribute("aria-activedescendant", chosen().id);
    else field.removeAttribute("aria-activedescendant");
  }
  function put(links) {
    choose(-1);
    hits = links;
    for (const [index, link] of hits.entries()) {
      Object.assign(link, { id: `found-${index}`, tabIndex: -1 });
      link.setAttribute("role", "option");
    }
    list.replaceChildren(...hits);
    list.hidden = !hits.length;
  }
  function step(by) {
    const from = active < 0 && by < 0 ? 0 : active;
    if (hits.length) choose((from + by + hits.length) % hits.length);
  }
  return { put, step, chosen, leave: () => choose(-1) };
}

function panelBelow(field) {
  const list = element("div", "found");
  const said = element("p", "found-said");
  const box = element("div", "found-panel", list, said);
  list.id = "found";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Places in the book");
  said.setAttribute("role", "status");
  box.hidden = true;
  field.form.append(box);
  for (const [name, value] of [["role", "combobox"], ["aria-controls", "found"], ["aria-autocomplete", "list"]]) {
    field.setAttribute(name, value);
  }
  return { list, said, box };
}

// The panel below the field of the bar.
function panel(field) {
  const { list, said, box } = panelBelow(field);
  const hits = chooser(field, list);
  const open = (shown) => {
    box.hidden = !shown;
    field.setAttribute("aria-expanded", String(shown));
    if (!shown) hits.leave();
  };
  open(false);
  const ask = asker(field, FEW, (question, links) => {
    hits.put(links ?? []);
    said.textContent = links ? sentence(question, links.length, FEW) : trouble();
    open(question !== "" && document.activeElement === field);
  });
  const keys = {
    ArrowDown: () => (open(true), hits.step(1), true),
    ArrowUp: () => (open(true), hits.step(-1), true),
    Enter: () => (hits.chosen()?.click(), Boolean(hits.chosen())),
    Escape: () => !box.hidden && (open(false), true),
  };
  field.addEventListener("keydown", (event) => {
    if (!field.value.trim() || !keys[event.key]?.()) return;
    event.preventDefault();
    event.stopPropagation();
  });
  field.addEventListener("input", ask);
  field.addEventListener("focus", () => field.value.trim() && ask());
  field.addEventListener("blur", () => open(false));
  // A finger or a mouse on a hit must not close the panel before it is heard.
  box.addEventListener("pointerdown", (event) => event.preventDefault());
  if (field.value.trim()) ask();
}

// The page of what was found: its address holds the question.
function whole(field) {
  const list = document.getElementById("search-results");
  const said = document.getElementById("search-said");
  const ask = asker(field, MANY, (question, links) => {
    list.replaceChildren(...(links ?? []).map((link) => element("li", "", link)));
    said.textContent = !links ? trouble() : question ? sentence(question, links.length, MANY) : "";
    history.replaceState(null, "", question ? `?q=${encodeURIComponent(question)}` : location.pathname);
  });
  field.value = new URLSearchParams(location.search).get("q") ?? "";
  field.addEventListener("input", ask);
  field.form.addEventListener("submit", (event) => event.preventDefault());
  ask();
}

const sheet = document.createElement("link");
sheet.rel = "stylesheet";
sheet.href = new URL(`find.css${new URL(import.meta.url).search}`, import.meta.url).href;
document.head.append(sheet);
ready().catch(() => {}); // who asks is told

for (const field of document.querySelectorAll(".find input")) panel(field);
for (const field of document.querySelectorAll(".ask input")) whole(field);
