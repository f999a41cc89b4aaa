// What plots are made of: a headline, titles of axes, levels with their values, ticks.

const headline = (words, x = 4) =>
  mark.text({ class: "dt-headline", x, y: 18, ...bold }, words);

// Grid lines across a plot, with what each stands for at its left.
const levels = (values, left, right, up, write) =>
  values.map((v) => [
    mark.line({ x1: left, x2: right, y1: up(v), y2: up(v), stroke: ink.line }),
    mark.text({ x: left - 6, y: up(v) + 4, ...soft, ...end }, write(v)),
  ]);

// Values of time below an axis; the last one ends where the axis ends.
const timeTicks = (values, across, y, right, write) =>
  values.map((v) => {
    const anchor = v === values[0] ? "start" : across(v) > right - 20 ? "end" : "middle";
    return mark.text({ x: across(v), y, ...soft, "text-anchor": anchor }, write(v));
  });

// A line across a plot that means something: a mean, a capacity.
const rule = (left, right, y) =>
  mark.line({ x1: left, x2: right, y1: y, y2: y, stroke: ink.text, "stroke-width": 1.6 });

// Powers of ten from `low` to `high`, so many at most.
function decades(low, high, most) {
  const [first, last] = [Math.ceil(Math.log10(low)), Math.floor(Math.log10(high))];
  const step = Math.max(1, Math.ceil((last - first) / Math.max(1, Math.floor(most))));
  const found = [];
  for (let power = first; power <= last; power += step) found.push(10 ** power);
  return found;
}
