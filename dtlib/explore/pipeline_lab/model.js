// A pipeline schedule, played in the page as dtlib.parallelism.pipeline.simulate plays it.

// What the library exported: for every rank two letters an action, kind and micro-batch. F, B, W and
// D (B and W at once) are of the rank's first stage, small letters of its second, and so on.
const KINDS = ["FBWD", "fbwd", "GCXE", "gcxe"];

function readActions(text, stagesOf) {
  const actions = [];
  for (let i = 0; i < text.length; i += 2) {
    const chunk = KINDS.findIndex((kinds) => kinds.includes(text[i]));
    const kind = ["F", "B", "W", "BW"][KINDS[chunk].indexOf(text[i])];
    actions.push({ kind, stage: stagesOf[chunk], batch: text.charCodeAt(i + 1) - 48 });
  }
  return actions;
}

// When every action starts and stops: as soon as its rank is free and what it needs is there.
function runPipeline({ ranks, stages }, { f, b, w }) {
  const last = Math.max(...stages.flat());
  const lists = ranks.map((text, rank) => readActions(text, stages[rank]));
  const share = (last + 1) / ranks.length;
  const length = { F: f, B: b, W: w, BW: b + w };
  const done = new Map();
  const clock = ranks.map(() => 0);
  const next = ranks.map(() => 0);
  const spans = [];
  for (let moved = true; moved; ) {
    moved = false;
    lists.forEach((list, rank) => {
      while (next[rank] < list.length) {
        const action = list[next[rank]];
        const needs = pipelineNeeds(action, last);
        if (needs.some((name) => !done.has(name))) break;
        const ready = Math.max(0, ...needs.map((name) => done.get(name)));
        const start = Math.max(clock[rank], ready);
        const stop = start + length[action.kind] / share;
        spans.push({ ...action, rank, start, stop, free: clock[rank], needs });
        for (const kind of action.kind) done.set(`${action.stage}${kind}${action.batch}`, stop);
        clock[rank] = stop;
        next[rank] += 1;
        moved = true;
      }
    });
  }
  return { spans, share, split: spans.some(({ kind }) => kind === "W"), ...pipelineSums(spans, ranks.length, share) };
}

const pipelineName = ({ stage, kind, batch }) => `${stage}${kind}${batch}`;

function pipelineNeeds({ kind, stage, batch }, last) {
  if (kind === "W") return [`${stage}B${batch}`];
  if (kind === "F") return stage ? [`${stage - 1}F${batch}`] : [];
  return [`${stage}F${batch}`, ...(stage < last ? [`${stage + 1}B${batch}`] : [])];
}

// Length, idle share, the longest wait inside a rank's own step, and what is held at the worst time.
function pipelineSums(spans, p, share) {
  const begin = Math.min(...spans.map(({ start }) => start));
  const makespan = spans.length ? Math.max(...spans.map(({ stop }) => stop)) - begin : 0;
  const work = spans.reduce((sum, { start, stop }) => sum + stop - start, 0);
  const waits = [];
  const held = [];
  for (let rank = 0; rank < p; rank++) {
    const own = spans.filter((span) => span.rank === rank);
    const busy = own.reduce((sum, { start, stop }) => sum + stop - start, 0);
    waits.push(own.length ? own[own.length - 1].stop - own[0].start - busy : 0);
    held.push(pipelineHeld(own, share));
  }
  return {
    makespan,
    idle: makespan ? 1 - work / (p * makespan) : 0,
    wait: Math.max(...waits),
    held,
    peaks: held.map((steps) => Math.max(...steps.map(([, count]) => count))),
  };
}

// How many activations a rank holds, in micro-batches of a whole stage, from each moment on.
function pipelineHeld(own, share) {
  const steps = [[0, 0]];
  let count = 0;
  for (const { kind, start, stop } of own) {
    if (kind === "F") steps.push([start, (count += 1) / share]);
    else if (kind.includes("W")) steps.push([stop, (count -= 1) / share]);
  }
  return steps;
}
