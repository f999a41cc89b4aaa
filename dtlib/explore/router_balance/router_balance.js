// One bar for each expert, a line where its places end: blue is computed, vermilion is dropped,
// and dashed places are computed for nothing.

const HINT =
  "Blue copies are computed, vermilion ones dropped; dashed places stay empty and are sent and " +
  "computed all the same. Tab to the sliders and use the arrow keys.";

function view({ loads, tokens }, { experts, k, skew, capacity_factor: factor }) {
  const all = loads[`${experts} ${k} ${skew}`];
  const found = fillExperts(all, factor);
  const { dropped, wasted, busiest } = found;
  const [lost, empty] = [dropped, wasted].map((share) => formatQuantity(share, "%", 2));
  return {
    names: { dropped, wasted, busiest },
    loads: all,
    places: found.capacity,
    headline: `dropped ${lost} · empty places ${empty}`,
    said:
      `${formatQuantity(tokens)} tokens, ${k} of ${experts} experts each, ` +
      `skew ${skew}, ${formatQuantity(found.capacity, "", 4)} places at every expert: ` +
      `${lost} of the copies are dropped and ${empty} of the places are empty. ` +
      `The busiest expert has ${formatQuantity(busiest, "×", 3)} the mean load.`,
  };
}

function draw(spec, { experts, capacity_factor: factor }, { loads, places, names, headline: key }, width) {
  const mean = loads.reduce((sum, load) => sum + load, 0) / loads.length;
  const top = Math.max(names.busiest, factor) * 1.04;
  const [left, right, bottom] = [44, width - 8, 294];
  const up = scaleOf(0, top, "linear", bottom, 58);
  const room = (right - left) / loads.length;
  const place = places / mean;
  const dashed = { fill: ink.soft, "fill-opacity": 0.12, stroke: ink.soft, "stroke-dasharray": "3 2" };
  const bars = loads.map((load, i) => {
    const at = { x: left + i * room, width: room - (room > 6 ? 2 : 0.5) };
    const kept = Math.min(load / mean, place);
    const piece = (from, to, look) =>
      to > from ? mark.rect({ ...at, y: up(to), height: up(from) - up(to), ...look }) : null;
    return [
      piece(0, kept, { fill: ink.forward }),
      piece(place, load / mean, { fill: ink.backward }),
      piece(kept, place, { ...dashed, "stroke-width": 0.8 }),
    ];
  });
  const words = width < 480 ? "capacity" : "capacity: places end here";
  return {
    height: bottom + 34,
    label:
      `Loads of ${experts} experts over the mean; ` +
      `the places end at ${formatQuantity(place, "×", 3)}.`,
    marks: [
      headline(key),
      mark.text({ x: 4, y: 40 }, "load of an expert, over the mean"),
      levels(ticks(0, top, "linear", 5), left, right, up, (v) => formatQuantity(v, "×", 2)),
      bars,
      rule(left, right, up(place)),
      mark.text({ x: right - 4, y: up(place) - 7, ...end, ...halo }, words),
      mark.text({ x: right, y: bottom + 22, ...end }, "experts, the most popular first"),
    ],
  };
}

export default widget({ hint: HINT, view, draw });
