// What a rank of some split must hold: the counts that feed the lines, as dtlib.memory has them.
// Every amount of bytes is a formula of the library, evaluated by the sheet.

const STATE = ["weights", "gradients", "passing", "main", "master", "moments"];
const FEEDS = ["stream", "split", "keys", "pair"];
const FEED_NAMES = { stream: "stream", split: "split", keys: "key", pair: "pair" };

// Why there is no such split, or nothing.
function refusedSplit(spec, q) {
  const model = spec.models[q.model];
  const shown = (n) => formatQuantity(n, "", 6);
  if (!model.tps.includes(q.tp))
    return `${model.label} cannot be cut into ${q.tp} equal parts: heads, inner numbers or words do not divide.`;
  if (q.pp > model.layers)
    return `${model.label} has ${shown(model.layers)} layers, too few for ${q.pp} stages.`;
  if (q.sequence_parallel && q.tp > 1 && (q.seq / q.cp) % q.tp)
    return `${shown(q.seq / q.cp)} tokens do not divide among ${q.tp} ranks.`;
  if (!model.experts) return "";
  if (model.experts % q.ep) return `${q.ep} ranks cannot share ${model.experts} experts equally.`;
  if ((q.dp * q.cp) % q.ep)
    return `${q.ep} expert-parallel ranks need as many ranks with other data: replicas times context-parallel ranks, here ${q.dp * q.cp}, must be a multiple of ${q.ep}.`;
  return "";
}

// Parameters of one rank: its layers, its tables, its experts.
function stageParams(model, q, first, layers) {
  const dense = clampCount(model.layers - model.expertLayers - first, layers);
  const [start, end] = [first === 0, first + layers === model.layers];
  const copies = {
    first: +start,
    last: +end,
    "either end": +(start || end),
    dense,
    mixed: layers - dense,
    all: layers,
    experts: layers - dense,
  };
  const ways = { whole: 1, tp: q.tp, "kv heads": Math.min(q.tp, model.kvHeads) };
  const found = { layers: 0, tables: 0, experts: 0 };
  for (const { home, cut, kind, count } of model.groups) {
    const parts = ways[cut] * (home === "experts" ? q.ep : 1);
    found[kind] += (copies[home] * count) / parts;
  }
  return found;
}

const clampCount = (value, high) => Math.max(0, Math.min(value, high));

// All given quantities of one stage's sheet, and the names of the lines that it has not.
function stageGiven(spec, setting, place) {
  const model = spec.models[setting.model];
  const q = { ...setting, ep: model.experts ? setting.ep : 1 };
  const stages = spec.stagesOf(model, q.pp);
  const first = stages.slice(0, place).reduce((sum, n) => sum + n, 0);
  const layers = stages[place];
  const held = stageParams(model, q, first, layers);
  const dense = clampCount(model.layers - model.expertLayers - first, layers);
  const policy = spec.policies[q.recompute];
  const streamRanks = q.sequence_parallel ? q.tp : 1;
  const given = {
    seq: q.seq,
    micro_batch: q.micro_batch,
    tp: q.tp,
    cp: q.cp,
    p: q.pp,
    rank: place,
    hidden: model.hidden,
    vocab: model.vocab,
    kv_heads: model.kvHeads,
    stream_ranks: streamRanks,
    segment: policy.segment,
    stage: q.zero,
    dp: q.dp * q.cp,
    hbm: spec.gpus[q.gpu].hbm,
    rank_params: held.layers + held.tables,
    layer_params: held.layers + held.experts,
    expert_params: held.experts,
    expert_dp: (q.dp * q.cp) / q.ep,
    m: q.micro_batches,
    logit_width: spec.widths.logit,
    stage_layers: layers,
    ring_key_bytes: model.keyBytes,
    ahead_bytes: spec.widths.ahead,
    all_layers: layers,
    reserve_share: spec.reserveShare,
  };
  for (const part of STATE) given[`${part}_width`] = spec.recipes[q.recipe][part];
  // A stage of one kind of layer has no line of the other kind, whichever it is.
  const both = dense > 0 && dense < layers;
  const tokens = model.tokens[`${policy.key} ${q.flash}`];
  const kinds = { "": dense || !tokens.mixed ? tokens.dense : tokens.mixed, expert_: tokens.mixed };
  given.layers = both ? dense : layers;
  given.expert_layers = both ? layers - dense : 0;
  for (const [prefix, row] of Object.entries(kinds))
    for (const [line, bytes] of Object.entries({ layer: row?.kept, layer_again: row?.again }))
      for (const feed of FEEDS)
        given[`${prefix}${line}_${FEED_NAMES[feed]}_bytes`] = bytes ? bytes[feed] : 0;
  const absent = new Set();
  const drop = (when, ...names) => when && names.forEach((name) => absent.add(name));
  drop(!both, "expert_layer", "expert_layer_again", "expert_activations", "expert_again");
  drop(policy.key === "none", "layer_again", "expert_layer_again", "again", "expert_again");
  drop(place < q.pp - 1, "logits");
  drop(q.zero < 3, "gathered");
  drop(streamRanks < 2, "sequence");
  drop(q.cp < 2, "ring");
  drop(!q.reserve || streamRanks < 2 || q.pp > 1, "ahead");
  drop(!q.reserve, "reserve");
  return { given, absent };
}

// The sheet of one stage: the value of every line. One layer is repeated at a time: of two kinds
// the one that needs more.
function memoryModel(spec) {
  spec.stagesOf = (model, pp) => model.stages.find((stages) => stages.length === pp);
  const sheet = sheetModel({ inputs: [], fixed: [], lines: spec.lines });
  const evaluate = (q, place) => {
    const { given, absent } = stageGiven(spec, q, place);
    let found = sheet.evaluate(given, absent);
    if (found.again && found.expert_again) {
      absent.add(found.again < found.expert_again ? "again" : "expert_again");
      found = sheet.evaluate(given, absent);
    }
    return found;
  };
  return { evaluate, places: sheet.places };
}

// The terms of an account that are there, in the order of the bar.
function memoryTerms(spec, found) {
  const sums = Object.fromEntries(spec.lines.filter((l) => l.sum).map((l) => [l.key, l.sum]));
  const terms = sums.memory.flatMap((part) => sums[part] ?? [part]);
  const of = (name) => terms.filter((term) => term.replace("expert_", "") === name);
  const names = [...new Set(terms.map((term) => term.replace("expert_", "")))];
  return names.flatMap(of).filter((term) => found[term] > 0);
}
