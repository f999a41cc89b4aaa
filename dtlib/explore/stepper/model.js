// A schedule played: counts[rank][chunk][contributor] before the first round and after each.
// The rule is that of dtlib.collectives.check.states: everybody reads, then every receiver keeps
// or adds. `dropped` is a message to leave out: [round, position], or null.

function playSchedule({ start, rounds }, dropped = null) {
  const states = [start];
  rounds.forEach((round, t) => {
    const sent = round.filter((_, i) => !(dropped && dropped[0] === t && dropped[1] === i));
    states.push(afterRound(states[t], sent));
  });
  return states;
}

// What is held after the sends [src, dst, first chunk, reduce, count] of a round.
function afterRound(before, sends) {
  const after = before.map((row) => row.map((counts) => counts));
  for (const adds of [false, true]) {
    for (const [src, dst, first, reduce, count] of sends) {
      if (Boolean(reduce) !== adds) continue;
      for (let chunk = first; chunk < first + count; chunk++) {
        const arriving = before[src][chunk];
        after[dst][chunk] = adds
          ? after[dst][chunk].map((held, k) => held + arriving[k])
          : [...arriving];
      }
    }
  }
  return after;
}

const sameCounts = (a, b) => a.every((count, k) => count === b[k]);

// The cells that end wrong: [rank, chunk] where the last state differs from the goal.
function wrongCells(last, goal, wanted) {
  return goal.flatMap((row, rank) =>
    row.flatMap((counts, chunk) =>
      wanted[rank][chunk] && !sameCounts(last[rank][chunk], counts) ? [[rank, chunk]] : [],
    ),
  );
}

// Chunks that each rank has sent after `done` rounds.
function chunksSent({ P, rounds }, done, dropped = null) {
  const sent = Array(P).fill(0);
  rounds.slice(0, done).forEach((round, t) =>
    round.forEach(([src, , , , count], i) => {
      if (!(dropped && dropped[0] === t && dropped[1] === i)) sent[src] += count;
    }),
  );
  return sent;
}

function describeSend([src, dst, chunk, reduce, count]) {
  const what = count === 1 ? `chunk ${chunk}` : `chunks ${chunk}..${chunk + count - 1}`;
  return `${src}→${dst} ${reduce ? "adds" : "keeps"} ${what}`;
}
