// A prefetcher, run: workers make batches, the GPU takes one, computes for a step, and again.
// The same recursion as dtlib.foundations.data.prefetcher, which a test compares it with.

function runPrefetch(fetches, step, workers, depth, inOrder) {
  const count = fetches.length;
  const batches = [];
  const free = Array(workers).fill(0);
  let outstanding = [];
  let now = 0;
  const ask = (i, time) => {
    const worker = free.indexOf(Math.min(...free));
    const begun = Math.max(time, free[worker]);
    const ready = begun + fetches[i];
    free[worker] = ready;
    batches[i] = { i, worker, asked: time, begun, ready };
    outstanding.push(batches[i]);
  };
  const next = () => {
    const key = inOrder ? (batch) => batch.i : (batch) => batch.ready;
    const best = outstanding.reduce((a, b) => (key(b) < key(a) ? b : a));
    outstanding = outstanding.filter((batch) => batch !== best);
    return best;
  };
  for (let i = 0; i < Math.min(depth, count); i++) ask(i, 0);
  for (let following = depth; following < depth + count; following++) {
    const batch = next();
    batch.taken = Math.max(now, batch.ready);
    now = batch.taken + step;
    if (following < count) ask(following, batch.taken);
  }
  return batches;
}

// The share of the time from the first step to the end of the last in which the GPU computes.
function busyShare(batches, step) {
  const taken = batches.map((batch) => batch.taken);
  const start = Math.min(...taken);
  return (batches.length * step) / (Math.max(...taken) + step - start);
}

// How many batches are ready and not taken, as [time, count] from a time on until another.
function readyTrace(batches, from, to) {
  const changes = batches.flatMap(({ ready, taken }) => [
    [ready, 1],
    [taken, -1],
  ]);
  changes.sort((a, b) => a[0] - b[0]);
  const trace = [[from, 0]];
  let count = 0;
  for (const [time, change] of changes) {
    if (time > to) break;
    count += change;
    if (time <= from) trace[0][1] = count;
    else trace.push([time, count]);
  }
  trace.push([to, trace[trace.length - 1][1]]);
  return trace;
}

// How long the GPU waited before a batch: [from, to], in the order in which it took them.
function stalls(batches, step) {
  const taken = batches.map((batch) => batch.taken).sort((a, b) => a - b);
  return taken
    .slice(1)
    .map((to, k) => [taken[k] + step, to])
    .filter(([from, to]) => to > from + 1e-9);
}
