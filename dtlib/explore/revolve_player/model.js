// A schedule's text, played: "K0 A0:31 T31:32 B31:32 R0 ...". Every layer that runs takes time 1.

function parseActions(text) {
  return text.split(" ").map((word) => {
    const [start, stop] = word.slice(1).split(":").map(Number);
    return { kind: word[0], start, stop: stop ?? start, word };
  });
}

// What holds after the first `done` actions: time, the running state (null after a backward pass),
// kept states since when, layers still to do, layers run without a tape, runs of every layer;
// `lines` are the moves so far, `bars` the stays of states that are over.
function playActions(actions, layers, done) {
  const now = { time: 0, running: 0, left: layers, advances: 0, most: 0 };
  const since = new Map();
  const lines = [];
  const bars = [];
  const runs = Array(layers).fill(0);
  for (const { kind, start, stop } of actions.slice(0, done)) {
    if (kind === "K") since.set(start, now.time);
    if (kind === "R") now.running = start;
    if (kind === "D") {
      bars.push([start, since.get(start), now.time]);
      since.delete(start);
    }
    if ("ATB".includes(kind)) {
      const [from, to] = kind === "B" ? [stop, start] : [start, stop];
      lines.push([kind, now.time, from, now.time + stop - start, to]);
      now.time += stop - start;
      now.running = kind === "B" ? null : stop;
    }
    if (kind === "B") now.left = start;
    if (kind === "A") {
      now.advances += stop - start;
      for (let layer = start; layer < stop; layer++) runs[layer] += 1;
    }
    now.most = Math.max(now.most, since.size);
  }
  return { ...now, kept: [...since.keys()], since, lines, bars, repeats: Math.max(0, ...runs) };
}

// What an action does, in words.
function wordsOf({ kind, start, stop }) {
  const layers = stop - start === 1 ? `layer ${start}` : `layers ${start} to ${stop - 1}`;
  return {
    K: `keep state ${start} in a slot`,
    R: `go back to the kept state ${start}`,
    D: `drop state ${start}, its slot is free`,
    A: `run ${layers}, save nothing`,
    T: `run ${layers} and keep the tape`,
    B: `backward through ${layers}`,
  }[kind];
}
