// A step in a ZeRO stage, as the library has exported it: what is held, sent, and said of it.

const zeroBytes = (spec, { zero, ranks, micro_batches }) =>
  spec.bytes[`${zero} ${ranks} ${micro_batches}`];

const zeroRun = (spec, { zero, micro_batches }) => spec.runs[`${zero} ${micro_batches}`];

// What a task may ask, besides the choices.
function zeroValues(spec, state) {
  const mine = zeroBytes(spec, state);
  const plain = zeroBytes(spec, { ...state, zero: 0 });
  const plainTotal = plain.sent[plain.sent.length - 1];
  const peak = Math.max(...mine.held);
  const total = mine.sent[mine.sent.length - 1];
  return {
    peak,
    total,
    held_share: peak / Math.max(...plain.held),
    sent_share: plainTotal ? total / plainTotal : 1,
  };
}

// What a rank holds of a unit as strips: [from, to, whether it is complete], in shares of the unit.
// Rank r owns part r. Hatched is a gradient of the rank's own samples only, or a weight that is old.
function zeroStrips(letter, rank, ranks) {
  const own = [rank / ranks, (rank + 1) / ranks, true];
  return {
    p: [own],
    w: [[0, 1, true]],
    s: [[0, 1, false], own],
    n: [],
    o: [[0, 1, false]],
    b: [[0, 1, false], own],
    sum: [[0, 1, true]],
  }[letter];
}

// An action in words.
function zeroWords([kind, unit, batch], zero, many) {
  const of = many && batch >= 0 ? ` of micro-batch ${batch}` : "";
  const words = {
    gather:
      zero === 3
        ? `all-gather: every rank gets the whole weights of layer ${unit}`
        : `all-gather: every rank gets the new weights of layer ${unit}`,
    forward: `forward pass through layer ${unit}${of}`,
    backward: `backward pass through layer ${unit}${of}`,
    release: `layer ${unit} is released: each rank keeps its part`,
    reduce: `reduce-scatter: each rank gets its part of the gradient's sum of layer ${unit}`,
    "all-reduce": `all-reduce: every rank gets the whole sum of the gradients of layer ${unit}`,
    update: zero === 0 ? "every rank updates all weights" : "each rank updates the part it owns",
  };
  return words[kind];
}
