// What a capacity does to loads: the same as dtlib.parallelism.fill_experts.

function fillExperts(loads, factor) {
  const total = loads.reduce((sum, load) => sum + load, 0);
  const capacity = Math.ceil((factor * total) / loads.length);
  const kept = loads.reduce((sum, load) => sum + Math.min(load, capacity), 0);
  const places = capacity * loads.length;
  return {
    capacity,
    dropped: (total - kept) / total,
    wasted: (places - kept) / places,
    busiest: (Math.max(...loads) * loads.length) / total,
  };
}
