// A stored run, unpacked: one object for each layer, with what happened to it when.
function unpackRun([time, began, start], fetches, computing, latency) {
  let [b, t] = [0, 0];
  const layers = began.map((step, i) => {
    b += step;
    t += start[i];
    const left = b + fetches[i];
    return { i, began: b, left, ready: left + latency, start: t, stop: t + computing };
  });
  return { time, layers };
}

// How long nothing was computed before that moment.
function waitedBefore(layers, end) {
  let [waited, done] = [0, 0];
  for (const layer of layers) {
    if (done >= end) break;
    waited += Math.min(layer.start, end) - done;
    done = layer.stop;
  }
  return waited;
}
