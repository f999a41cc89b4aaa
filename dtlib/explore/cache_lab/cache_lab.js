// The cache of one sequence against its length: one curve for each kind of attention.

const HINT = "Both axes are logarithmic. Tab to the sliders and use the arrow keys.";
const KINDS = ["plain", "grouped", "windowed", "latents"];
const [LEAST, MOST] = [0.001, 5000]; // GB

const bytes = (gb) => formatQuantity(gb * 1e9, "B", 3);
const count = (value) => formatQuantity(value, "", 3);
const wordsOf = ({ heads, groups }) => ({
  plain: "all heads",
  grouped: Math.min(groups, heads) === 1 ? "1 key head" : `${Math.min(groups, heads)} key heads`,
  windowed: "with window",
  latents: "latent",
});

function view({ model, memory, controls }, state) {
  const { seq, latent } = state;
  const found = keptOf(model, state, seq);
  const tokens = controls[0].values;
  const equal = (latent + model.rope_dim) / (2 * model.head_dim);
  const fit = (gb) => Math.floor(memory / gb);
  const each = (gb) => bytes(gb / seq / model.layers);
  const words = wordsOf(state);
  const { plain, grouped, windowed, latents } = found;
  return {
    names: {
      ...found,
      grouped_batch: fit(grouped),
      windowed_batch: fit(windowed),
      latent_batch: fit(latents),
      equal,
    },
    tokens,
    curves: tokens.map((s) => keptOf(model, state, s)),
    rows: [
      ["a token and layer: all heads", each(plain)],
      [`a token and layer: ${words.grouped}`, each(grouped)],
      ["a token and layer: latent", each(latents)],
      [`sequences in ${memory} GB: ${words.grouped}`, count(fit(grouped))],
      ["sequences with the window", count(fit(windowed))],
      ["sequences with the latent", count(fit(latents))],
      ["key heads that weigh as much as the latent", count(equal)],
    ],
    said:
      `${formatQuantity(seq, "", 7)} tokens: ${bytes(plain)} with all heads, ${bytes(grouped)} with ` +
      `${words.grouped}, ${bytes(windowed)} with the window, ${bytes(latents)} with the latent, ` +
      `which weighs as much as ${count(equal)} key heads. In ${memory} GB fit ` +
      `${count(fit(grouped))}, ${count(fit(windowed))} and ${count(fit(latents))} sequences.`,
  };
}

function draw({ memory }, state, { curves, tokens, names }, width) {
  const box = { left: 58, right: width - 92, top: 44, bottom: 304 };
  const last = tokens[tokens.length - 1];
  const across = scaleOf(tokens[0], last, "log", box.left, box.right);
  const up = scaleOf(LEAST, MOST, "log", box.bottom, box.top);
  const words = wordsOf(state);
  const ends = KINDS.map((kind, i) => ({ i, kind, y: up(curves[curves.length - 1][kind]) }));
  ends.sort((a, b) => a.y - b.y);
  const placed = spread(ends.map(({ y }) => y), 17, box.bottom);
  const shown = tokens.filter((_, i) => i % (width < 480 ? 5 : 2) === 0);
  return {
    height: 356,
    label: "Bytes of one sequence's cache against its tokens, for four kinds of attention.",
    marks: [
      mark.text({ x: 4, y: 18 }, "what is kept of one sequence"),
      levels(decades(LEAST, MOST, 5), box.left, box.right, up, bytes),
      mark.line({ x1: box.left, x2: box.right, y1: up(memory), y2: up(memory), ...guideLook }),
      mark.text({ x: box.left + 4, y: up(memory) - 6, ...soft, ...halo }, `${memory} GB`),
      mark.line({ x1: across(state.seq), x2: across(state.seq), y1: box.top, y2: box.bottom,
        stroke: ink.text, "stroke-dasharray": "4 3" }),
      KINDS.map((kind, i) => [
        mark.path({ d: pathOf(tokens.map(across), curves.map((at) => up(at[kind]))), ...curveOf(i) }),
        mark.circle({ cx: across(state.seq), cy: up(names[kind]), r: 5, fill: inkOf(i), stroke: ink.paper }),
      ]),
      ends.map(({ i, kind }, n) =>
        mark.text({ x: box.right + 6, y: placed[n] + 4, fill: inkTextOf(i), "font-size": 12.5 }, words[kind]),
      ),
      shown.map((s) =>
        mark.text({ x: across(s), y: box.bottom + 20, ...soft, ...middle }, formatQuantity(s / 1024, "", 4) + "K"),
      ),
      mark.text({ x: box.right, y: box.bottom + 42, ...end }, "tokens (1K = 1,024)"),
    ],
  };
}

export default widget({ hint: HINT, view, draw });
