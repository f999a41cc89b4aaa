// A widget without a page, in its first state or with a change of it: its figures as text, what is
// said of them, and the room that the widget will take, so that nothing moves when it comes.

const STILL_WIDTH = 690;
const PHONE_WIDTH = 320;

function stillOf(parts, spec, change = {}) {
  const start = settled(parts, spec, startOf(parts, spec));
  const state = settled(parts, spec, { ...start, ...entailed(parts, spec, start, change) });
  const seen = parts.view(spec, state);
  const at = (width) => drawingsOf(parts, spec, state, seen, width);
  return {
    figures: at(STILL_WIDTH).map((figure) => writtenFigure(figure, STILL_WIDTH)),
    phone: at(PHONE_WIDTH).map((figure) => writtenFigure(figure, PHONE_WIDTH, true)),
    said: seen.said,
    whole: Boolean(parts.whole),
    names: { ...state, ...seen.names },
    wide: roomOf(parts, spec, state, seen, at, STILL_WIDTH),
    narrow: roomOf(parts, spec, state, seen, at, PHONE_WIDTH),
  };
}

// How many lines a label and its choices take.
function linesOf([label, ...words], width) {
  let [lines, at] = [1, 16 + 7.4 * label.length];
  for (const word of words) {
    const wide = 38 + 7.4 * word.length;
    if (at + wide > width + 16) [lines, at] = [lines + 1, 0];
    at += wide;
  }
  return lines;
}

// How many lines a text of this size takes.
function textLines(text, size, width) {
  const wanted = text.length * size * 0.49;
  return wanted <= width ? 1 : Math.ceil(wanted / (width - 16)); // the last word of a line
}

// A readout says what room it takes.
plainRows.room = (spec, { rows = [] }, width) =>
  rows.reduce((sum, [name, value, share]) => {
    const together = textLines(name + value, 16.5, width);
    const count = together > 1 ? textLines(name, 15, width) + textLines(value, 16.5, width) : 1;
    return sum + 9 + 22 * count + (share === undefined ? 0 : 10);
  }, 0);

equationRows.room = (spec, seen, width) =>
  plainRows.room(spec, seen, width) + equationsRoom(spec, width);

// The height of formulas below their names: of each on one line with its numbers, or on two.
function equationsRoom({ curves }, width) {
  const touch = width < 560 ? 44 : 32;
  const letters = (content) => content.replace(/<[^>]*>|&[^;]*;/g, "").length;
  return curves.reduce((sum, { symbol, body, parts }) => {
    const wanted = 11 * letters(symbol) + (parts.length ? 28 : 11) * letters(body);
    return sum + touch - 22 + (wanted < width ? 42 : 72);
  }, 0);
}

// The height of a widget whose inside has this width, from the sizes that its style sheet sets.
function roomOf(parts, spec, state, seen, figuresAt, width) {
  const { hint, beside = 0, near, whole, readout = plainRows } = parts;
  const narrow = width < 560;
  const touch = narrow ? 44 : 34;
  const column = narrow ? 0 : beside;
  const head = Math.max(narrow ? 44 : 32, 22 * textLines(spec.title, 17, width - 80));
  const task = spec.task ? 24 + 22 * textLines(`Try this: ${(seen.task ?? spec.task).text}`, 15, width - 52) : 0;
  const figures = figuresAt(column ? width - column - 28 : width);
  const stage = (whole ? 0 : 10) + figures.reduce((sum, { height }) => sum + height, 0);
  if (whole) return Math.round(stage);
  const panel = spec.controls.filter(({ kind }) => kind !== "grip");
  const open = panel.filter(({ folded }) => !folded);
  const choices = open.filter(({ kind }) => kind === "choice");
  const others = open.filter(({ kind }) => kind !== "choice");
  const heights = [
    ...choices.map(({ label, words }) => touch * linesOf([label, ...words], width)),
    ...(narrow || column ? others : others.filter((_, i) => i % 2 === 0))
      .map(({ kind }) => (kind === "toggle" ? 0 : 18) + touch),
    ...(open.length < panel.length ? [touch] : []), // the word that opens the others
  ];
  const controls = 8 + heights.reduce((sum, height) => sum + height + 4, -4);
  const transport = playedIn(parts, spec, state) ? (narrow ? 2 * touch + 16 : touch + 8) : 0;
  const actions = seen.actions?.length ? (narrow ? 52 : 40) : 0;
  const words = 8 + 20.3 * textLines(seen.said, 14, near && column ? width - column - 28 : width);
  const below = stage + transport + actions + (near ? words : 0);
  const inner = column ? Math.max(below, controls) : below + controls;
  const hints = hint ? 2 + 18.9 * textLines(hint, 13, width) : 0;
  const rows = 8 + readout.room(spec, seen, width);
  return Math.round(28 + head + task + inner + rows + (near ? 0 : words) + hints);
}
