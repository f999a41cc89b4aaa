// What is wider than its column: an equation is broken before its operators, and a box
// that still scrolls sideways fades out at the edge where more of it is hidden, and takes the
// focus, so that keys scroll it.
(() => {
  const EQUATIONS = "mjx-container[display]";
  const IN_TEXT = "mjx-container:not([display])";
  const SCROLLING = `pre, .dt-figure, .dt-compare, .pst-scrollable-table-container, ${EQUATIONS}`;
  const RELATIONS = "=≈<>≤≥";
  const OPERATORS = `${RELATIONS}+−-⋅·×`;
  const FENCES = { "(": 1, "[": 1, "⌊": 1, "⌈": 1, ")": -1, "]": -1, "⌋": -1, "⌉": -1 };

  const ROWS = "mjx-mrow, mjx-texatom, mjx-mstyle";

  // How an equation may break, one way after the other until it fits: before operators outside of
  // parentheses, inside of them as well, between factors as well.
  const WAYS = [
    { depth: 0, factors: false },
    { depth: 1, factors: false },
    { depth: 1, factors: true },
  ];

  const isWide = (box) => box.scrollWidth > box.clientWidth + 1;

  // A formula in a line of text that is longer than the line.
  function isLong(formula) {
    const text = formula.closest("p, li, dd, td, figcaption");
    return text && formula.getBoundingClientRect().width > text.clientWidth + 1;
  }

  // The symbol of an operator; a glyph of MathJax is a class that ends in its code point.
  function symbol(node) {
    const glyph = node.localName === "mjx-mo" && node.querySelector('[class*="mjx-c"]');
    const code = glyph && glyph.getAttribute("class").match(/mjx-c([0-9A-F]+)/);
    return code ? String.fromCodePoint(Number.parseInt(code[1], 16)) : "";
  }

  // A space: a thin one stands between factors, a wide one between formulas.
  function space(node) {
    const found = node.localName === "mjx-mstyle" && node.querySelector(":scope > mjx-mspace");
    return found ? Number.parseFloat(found.style.width) : 0;
  }

  // The nodes of a row in pieces that stay whole: an operator with what follows it, say. The
  // left-hand side stays with the relation and the first term.
  function pieces(nodes, way, outer) {
    const found = [[]];
    let depth = outer;
    let related = outer < 0;
    let comma = false;
    for (const node of nodes) {
      const sign = symbol(node);
      const relation = sign && RELATIONS.includes(sign);
      const begun = found.at(-1).some((other) => symbol(other) !== "(" && !space(other));
      const here =
        (comma && sign !== ")") ||
        (sign && OPERATORS.includes(sign) && (related || !relation)) ||
        (depth <= 0 && (space(node) >= 1 || (way.factors && space(node) > 0)));
      if (here && begun && depth <= way.depth) found.push([]);
      depth += FENCES[sign] ?? 0;
      related ||= relation;
      comma = sign === "," && depth > 0;
      found.at(-1).push(node);
    }
    return found;
  }

  // The row of an equation that has something to break: rows of rows have one member each.
  function rowOf(equation) {
    let row = equation.querySelector("mjx-math");
    while (row?.children.length === 1 && row.firstElementChild.matches(ROWS)) {
      row = row.firstElementChild;
    }
    return row;
  }

  function split(row, way, outer = 0) {
    for (const piece of row.querySelectorAll(":scope > .dt-piece")) {
      piece.replaceWith(...piece.childNodes);
    }
    const nodes = [...row.children];
    for (const node of nodes) {
      if (way.depth && node.localName === "mjx-mrow") split(node, way, -1);
    }
    const parts = pieces(nodes, way, outer);
    const inside = row.querySelector(":scope > .dt-pieces");
    if (parts.length < 2 && !inside) return;
    row.classList.add("dt-pieces");
    if (parts.length < 2) return;
    for (const members of parts) {
      const piece = document.createElement("span");
      piece.className = "dt-piece";
      members[0].before(piece);
      piece.append(...members);
    }
  }

  // First the number of an equation makes room, then the equation breaks; in a table of predictions
  // a unit may leave its number's line. All are measured before one is changed: each change alone
  // would lay out the whole page again.
  function narrow() {
    const wide = (boxes) => [...document.querySelectorAll(boxes)].filter(isWide);
    for (const box of wide(`.dt-compare, ${EQUATIONS}`)) {
      (box.closest("div.math") ?? box).classList.add("dt-wide");
    }
    for (const way of WAYS) {
      const long = [...document.querySelectorAll(IN_TEXT)].filter(isLong);
      for (const row of [...wide(EQUATIONS), ...long].map(rowOf)) row && split(row, way);
    }
  }

  function mark(box) {
    const wide = isWide(box);
    const hidden = box.scrollWidth - box.clientWidth - box.scrollLeft;
    box.classList.toggle("dt-more", wide && hidden > 2);
    if (box.matches("pre, mjx-container")) return;
    if (wide) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }

  function start() {
    narrow();
    const boxes = [...document.querySelectorAll(SCROLLING)];
    const sizes = new ResizeObserver((entries) => entries.forEach((entry) => mark(entry.target)));
    for (const box of boxes) {
      sizes.observe(box);
      box.addEventListener("scroll", () => mark(box), { passive: true });
    }
    addEventListener("resize", narrow);
  }

  // MathJax is loaded later than this script; its promise is there once it has begun.
  async function whenTypeset() {
    await globalThis.MathJax?.startup?.promise;
    start();
  }

  if (document.readyState === "complete") whenTypeset();
  else addEventListener("load", whenTypeset);
})();
