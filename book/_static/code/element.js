// An element with its attributes, listeners (`onclick`) and children; what is undefined is left out.
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

// HTML that an object of the book made for itself, without what could act on its own.
export function inert(html) {
  const parsed = new DOMParser().parseFromString(html, "text/html").body;
  for (const node of parsed.querySelectorAll("script, iframe, object, embed, form, base, link")) node.remove();
  for (const node of parsed.querySelectorAll("*"))
    for (const { name, value } of [...node.attributes])
      if (name.startsWith("on") || /^\s*javascript:/i.test(value)) node.removeAttribute(name);
  return [...parsed.childNodes];
}
