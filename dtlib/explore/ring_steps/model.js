// The steps of a ring: work[step][rank] in whole blocks. A step lasts as long as its largest block.

const fullWork = (P) => Array.from({ length: P }, () => Array(P).fill(1));

function stepTimes(work) {
  const starts = [0];
  for (const [t, step] of work.entries()) starts.push(starts[t] + Math.max(...step));
  return starts;
}

const lastEnd = (work) => stepTimes(work)[work.length];

// In which step the queries of one rank meet the keys of another.
const stepOf = (query, key, P) => (query - key + P) % P;

// The busy share of all ranks' time.
function busyShare(work) {
  const total = work.flat().reduce((sum, share) => sum + share, 0);
  return total / (lastEnd(work) * work.length);
}
