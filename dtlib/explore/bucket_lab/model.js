// One step in k equal buckets: when each piece of the backward pass and each all-reduce begins and
// ends, in ms. Beside the network the arithmetic runs at 1 - share of its speed.
function bucketSteps({ k, backward, start, share }, comm) {
  const [piece, cost] = [backward / k, comm / k + start];
  const slowed = piece / (1 - share);
  let [now, busy] = [0, 0];
  return Array.from({ length: k }, (_, i) => {
    const beside = Math.max(0, busy - now);
    const began = now;
    now += slowed <= beside ? slowed : piece + share * beside;
    const sent = Math.max(now, busy);
    busy = sent + cost;
    return { i, began, ready: now, sent, over: busy };
  });
}
