// The pages of the built site as one document for paper. Each page becomes a section, whose ids bear
// its name, so that a link between two pages is one inside of the document. What is folded stands
// open, and the solutions of a chapter stand together at its end. Run by pdf.py in an empty page.

const NOT_PAPER = "script, noscript, button, input, select, .headerlink, .cta, .fold.how, .fold.trace";
const NAMES = ["for", "aria-labelledby", "aria-describedby", "aria-controls"];

function element(tag, attributes, ...inside) {
  const made = Object.assign(document.createElement(tag), attributes);
  made.append(...inside);
  return made;
}

const titleOf = (article) => article.querySelector("h1").textContent.trim();
const numbered = (article, name, from) => article.querySelector(name)?.textContent.trim() ?? from;

// A link leads to a section, to the public site, to another site, or, where none of them is, nowhere.
function follow(link, from, { sections, address }) {
  const to = new URL(link.getAttribute("href"), from);
  if (to.origin !== location.origin) return;
  const [name, place] = [sections.get(to.pathname), decodeURIComponent(to.hash.slice(1))];
  if (name) link.setAttribute("href", place ? `#${name}-${place}` : `#${name}`);
  else if (address) link.href = address + to.pathname.slice(1) + to.hash;
  else link.removeAttribute("href");
}

// What names an id within a page names that of the section.
function rename(one, section) {
  if (one.id) one.id = `${section}-${one.id}`;
  for (const { name, value } of [...one.attributes]) {
    if (NAMES.includes(name)) one.setAttribute(name, value.replace(/\S+/g, `${section}-$&`));
    else if (value.includes("url(#")) one.setAttribute(name, value.replaceAll("url(#", `url(#${section}-`));
    else if (name.endsWith("href") && value.startsWith("#") && one.localName !== "a")
      one.setAttribute(name, `#${section}-${value.slice(1)}`);
  }
}

// Solutions would answer the exercise just above them: they follow the chapter, and lead back.
function endWithSolutions(article) {
  let exercise = article;
  const solutions = element("section", {}, element("h2", { id: `${article.id}-solutions` }, "Solutions"));
  for (const one of article.querySelectorAll(".exercise, details.solution")) {
    if (one.matches(".exercise")) exercise = one;
    else {
      one.id ||= `${exercise.id}-solution`;
      const which = numbered(exercise, ".caption-number", "the exercise");
      const back = element("a", { href: `#${exercise.id}` }, which);
      one.querySelector("summary").replaceChildren("Solution of ", back);
      const on = element("a", { href: `#${one.id}` }, `Solution of ${which}`);
      exercise.append(element("p", { className: "to-solution" }, on));
      solutions.append(one);
    }
  }
  if (solutions.children.length > 1) article.append(solutions);
}

async function sectionOf({ page, depth }, id, book) {
  const from = new URL(page, document.baseURI);
  const text = await (await fetch(from)).text();
  const article = new DOMParser().parseFromString(text, "text/html").querySelector("article");
  for (const one of article.querySelectorAll(NOT_PAPER)) one.remove();
  for (const one of article.querySelectorAll("*")) rename(one, id);
  for (const one of article.querySelectorAll("a[href]")) follow(one, from, book);
  for (const one of article.querySelectorAll("[src]")) one.src = new URL(one.getAttribute("src"), from);
  for (const one of article.querySelectorAll("img")) one.loading = "eager";
  article.id = article.style.page = id;
  endWithSolutions(article);
  for (const one of article.querySelectorAll("details")) one.open = true;
  for (const one of article.querySelectorAll("h1, h2, h3, h4, h5"))
    one.ariaLevel = Number(one.localName[1]) + depth; // a chapter's are below those of its part
  return document.adoptNode(article);
}

function contentsOf(sections, pages) {
  const lines = sections.map((article, i) => {
    const link = element("a", { href: `#${article.id}` }, titleOf(article));
    const line = element("li", { className: `at-${pages[i].depth}` }, link, element("span", {}));
    line.dataset.begins = article.id;
    return line;
  });
  const heading = element("h1", {}, "Contents");
  return element("nav", { className: "paper-contents" }, heading, element("ol", {}, ...lines));
}

// Put all of a book in this document: `pages` as { page, depth }, its `title`, who wrote it (`by`),
// and the public `address` of the site, or "". A book of several pages has a title and contents.
async function gather({ pages, title, by, address }) {
  const paths = pages.map(({ page }) => new URL(page, document.baseURI).pathname);
  const book = { address, sections: new Map(paths.map((path, i) => [path, `s${i}`])) };
  const sections = await Promise.all(pages.map((page, i) => sectionOf(page, `s${i}`, book)));
  const heads = sections.map(
    (one) => `@page ${one.id} { @top-left { content: ${JSON.stringify(titleOf(one))} } }`,
  );
  document.head.append(element("style", {}, heads.join("\n")));
  document.title = sections.length > 1 ? title : `${titleOf(sections[0])} · ${title}`;
  if (sections.length > 1) {
    const cover = element("header", { className: "cover" }, element("p", {}, title), element("p", {}, by));
    document.body.append(cover, contentsOf(sections, pages));
  }
  document.body.append(element("main", {}, ...sections));
  await document.fonts.ready;
  await Promise.all([...document.images].map((image) => image.decode()));
  return lost();
}

// The links inside that lead nowhere: Chromium would leave them out, and say nothing.
function lost() {
  const links = [...document.querySelectorAll('a[href^="#"]')];
  const to = links.map((link) => link.getAttribute("href").slice(1));
  return [...new Set(to.filter((id) => !document.getElementById(id)))];
}

// Write into the contents where each section begins.
function fillIn(begins) {
  for (const line of document.querySelectorAll("[data-begins]"))
    line.lastChild.textContent = begins[line.dataset.begins];
}
