// From values to pixels and back, and room for what stands there.

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

function nearest(values, value, scale) {
  const distance =
    scale === "linear"
      ? (v) => Math.abs(v - value)
      : (v) => Math.abs(Math.log(v) - Math.log(Math.max(value, Number.MIN_VALUE)));
  let best = 0;
  values.forEach((v, i) => {
    if (distance(v) < distance(values[best])) best = i;
  });
  return best;
}

// From values to pixels and back.
function scaleOf(low, high, scale, from, to) {
  const [turn, back] =
    scale === "linear" ? [(v) => v, (v) => v] : [(v) => (v > 0 ? Math.log(v) : -1e3), Math.exp];
  const [a, b] = [turn(low), turn(high)];
  const place = (v) => from + ((turn(v) - a) / (b - a)) * (to - from);
  place.invert = (px) => back(a + ((px - from) / (to - from)) * (b - a));
  return place;
}

function pathOf(px, py) {
  let pen = "M";
  let d = "";
  px.forEach((at, i) => {
    if (!Number.isFinite(py[i])) {
      pen = "M";
      return;
    }
    d += `${pen}${at.toFixed(1)} ${clamp(py[i], -1e4, 1e4).toFixed(1)}`;
    pen = "L";
  });
  return d;
}

// Move sorted positions apart, so that labels do not overlap; the last stays above `high`.
function spread(wanted, gap, high) {
  const placed = wanted.map((at) => Math.min(at, high));
  for (let round = 0; round < 60; round++) {
    for (let i = 1; i < placed.length; i++) {
      const lack = gap - (placed[i] - placed[i - 1]);
      if (lack > 0) {
        placed[i - 1] -= lack / 2;
        placed[i] += lack / 2;
      }
    }
  }
  const beyond = Math.max(0, placed[placed.length - 1] - high);
  return placed.map((at) => at - beyond);
}
