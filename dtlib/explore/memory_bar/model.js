// What each stage of a split must hold: the counts that feed the lines of the account, as
// dtlib.memory.account has them. Every amount of bytes is a line of its sheet.

const STATE = ["weights", "gradients", "passing", "main", "master", "moments"];
const FEEDS = { stream: "stream", split: "split", keys: "key", pair: "pair" };

const counted = (n, one = "", many = `${one}s`) =>
  `${formatQuantity(n, "", 6)}${one && ` ${n === 1 ? one : many}`}`;

// Why there is no such split, or nothing.
function refusedSplit(spec, q) {
  const { label, layers, experts, tps } = spec.models[q.model];
  if (!tps.includes(q.tp))
    return `${label} cannot be cut into ${q.tp} equal parts: heads, inner numbers or words do not divide.`;
  if (q.pp > layers) return `${label} has ${counted(layers, "layer")}, too few for ${q.pp} stages.`;
  if (q.sequence_parallel && q.tp > 1 && (q.seq / q.cp) % q.tp)
    return `${counted(q.seq / q.cp)} tokens do not divide among ${q.tp} ranks.`;
  if (!experts) return "";
  if (experts % q.ep) return `${q.ep} ranks cannot share ${experts} experts equally.`;
  if ((q.dp * q.cp) % q.ep)
    return `${q.ep} expert-parallel ranks need as many ranks with other data: replicas times context-parallel ranks, here ${q.dp * q.cp}, must be a multiple of ${q.ep}.`;
  return "";
}

// The layers of one stage, of two kinds, and what is its own: the first one has the table of
// tokens, the last one the head.
function stageOf(model, { pp }, place) {
  const sizes = model.stages.find((stages) => stages.length === pp);
  const first = sizes.slice(0, place).reduce((sum, n) => sum + n, 0);
  const layers = sizes[place];
  const dense = clamp(model.layers - model.expertLayers - first, 0, layers);
  const [start, last] = [place === 0, place === pp - 1];
  return { layers, dense, mixed: layers - dense, start, last };
}

// Parameters of one rank: of its layers, its tables, its experts.
function stageParams(model, q, { layers, dense, mixed, start, last }) {
  const copies = { first: +start, last: +last, "either end": +(start || last) };
  Object.assign(copies, { dense, mixed, all: layers, experts: mixed });
  const ways = { whole: 1, tp: q.tp, "kv heads": Math.min(q.tp, model.kvHeads) };
  const held = { layers: 0, tables: 0, experts: 0 };
  for (const { home, cut, kind, count } of model.groups)
    held[kind] += (copies[home] * count) / (ways[cut] * (home === "experts" ? q.ep : 1));
  return held;
}

// Everything that is given to the sheet of one stage.
function stageGiven(spec, q, place) {
  const model = spec.models[q.model];
  const stage = stageOf(model, q, place);
  const held = stageParams(model, q, stage);
  const { key, segment } = spec.policies[q.recompute];
  const { seq, micro_batch, tp, cp } = q;
  const copies = q.dp * cp;
  const given = {
    ...spec.constants,
    ...{ seq, micro_batch, tp, cp, segment, p: q.pp, rank: place, m: q.micro_batches },
    ...{ hidden: model.hidden, vocab: model.vocab, kv_heads: model.kvHeads },
    ...{ stream_ranks: q.sequence_parallel ? tp : 1, ring_key_bytes: model.keyBytes },
    ...{ zero: q.zero, dp: copies, expert_dp: copies / q.ep, hbm: spec.gpus[q.gpu].hbm },
    ...{ stage_layers: stage.layers, all_layers: stage.layers, expert_params: held.experts },
    rank_params: held.layers + held.tables,
    layer_params: held.layers + held.experts,
  };
  for (const part of STATE) given[`${part}_width`] = spec.recipes[q.recipe][part];
  return { ...given, ...layersGiven(model.tokens[`${key} ${q.flash}`], stage) };
}

// The layers of both kinds, and what a token leaves in each. A stage of one kind has no line of the
// other, whichever it is.
function layersGiven({ dense, mixed }, stage) {
  const both = stage.dense > 0 && stage.mixed > 0;
  const given = { layers: both ? stage.dense : stage.layers, expert_layers: both ? stage.mixed : 0 };
  const kinds = { "": stage.dense || !mixed ? dense : mixed, expert_: mixed };
  for (const [prefix, row] of Object.entries(kinds))
    for (const [line, bytes] of Object.entries({ layer: row?.kept, layer_again: row?.again }))
      for (const [kind, name] of Object.entries(FEEDS))
        given[`${prefix}${line}_${name}_bytes`] = bytes ? bytes[kind] : 0;
  return given;
}

// The lines that the account of a stage has not.
function absentLines(spec, q, { expert_layers, stream_ranks, rank }) {
  const rules = [
    [!expert_layers, "expert_layer", "expert_layer_again", "expert_activations", "expert_again"],
    [spec.policies[q.recompute].key === "none", "layer_again", "expert_layer_again"],
    [spec.policies[q.recompute].key === "none", "again", "expert_again"],
    [rank < q.pp - 1, "logits"],
    [q.zero < 3, "gathered"],
    [stream_ranks < 2, "sequence"],
    [q.cp < 2, "ring"],
    [!q.reserve || stream_ranks < 2 || q.pp > 1, "ahead"],
    [!q.reserve, "reserve"],
  ];
  return new Set(rules.flatMap(([absent, ...lines]) => (absent ? lines : [])));
}

// The value of every line for one stage. One layer is repeated at a time: of two kinds, the one
// that needs more.
function stageMemory(spec, setting, place) {
  const q = { ...setting, ep: spec.models[setting.model].experts ? setting.ep : 1 };
  const given = stageGiven(spec, q, place);
  const absent = absentLines(spec, q, given);
  const found = sheetValues(spec.lines, given, absent);
  if (!found.again || !found.expert_again) return found;
  absent.add(found.again < found.expert_again ? "again" : "expert_again");
  return sheetValues(spec.lines, given, absent);
}
