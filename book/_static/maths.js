// A formula is copied as the TeX that it was written in, alone or within a text.
(() => {
  const FORMULA = "math[data-tex]";

  const written = (math) =>
    math.getAttribute("display") ? `$$${math.dataset.tex}$$` : `$${math.dataset.tex}$`;

  // The formula that a place lies in is selected whole.
  function widened(range) {
    const around = (node) => (node.nodeType === 1 ? node : node.parentElement)?.closest(FORMULA);
    const first = around(range.startContainer);
    const last = around(range.endContainer);
    const whole = range.cloneRange();
    if (first) whole.setStartBefore(first);
    if (last) whole.setEndAfter(last);
    return whole;
  }

  // Text with the line breaks that it has on the page: only what is laid out has them.
  function plain(content) {
    const shelf = document.createElement("div");
    shelf.style.cssText = "position: fixed; left: -99999px; user-select: text";
    shelf.append(content);
    for (const math of shelf.querySelectorAll(FORMULA)) math.replaceWith(written(math));
    document.body.append(shelf);
    const text = shelf.innerText;
    shelf.remove();
    return text;
  }

  document.addEventListener("copy", (event) => {
    const selection = getSelection();
    if (event.defaultPrevented || !selection.rangeCount || selection.isCollapsed) return;
    const range = widened(selection.getRangeAt(0));
    const content = range.cloneContents();
    if (!content.querySelector(FORMULA)) return;
    const holder = document.createElement("div");
    holder.append(content.cloneNode(true));
    event.clipboardData.setData("text/html", holder.innerHTML);
    event.clipboardData.setData("text/plain", plain(content));
    event.preventDefault();
  });
})();
