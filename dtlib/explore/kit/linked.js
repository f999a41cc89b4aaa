// A widget's state as an address can carry it, "P=8&n=1000000": what differs from its start, each value
// as JSON. What the browser keeps for its reader is nobody else's, and has no address.

function linkedOf(parts, spec, { now, set, reset }) {
  if (parts.kept || !spec.controls.length) return null;
  const start = settled(parts, spec, startOf(parts, spec));
  const differs = ([name, value]) => JSON.stringify(value) !== JSON.stringify(start[name]);
  return {
    text: () =>
      new URLSearchParams(Object.entries(now()).filter(differs).map(([name, value]) => [name, JSON.stringify(value)])).toString(),
    // An address may be old, or written by hand: of it the widget takes what it knows, or nothing.
    take(text) {
      reset();
      try {
        set(stateIn(text, spec, start));
      } catch {
        reset();
      }
    },
  };
}

// Of a text, the names that a start has, with values that their controls have.
function stateIn(text, { controls }, start) {
  const allowed = Object.fromEntries(controls.map(({ name, values }) => [name, values]));
  const told = [...new URLSearchParams(text)].map(([name, json]) => [name, JSON.parse(json)]);
  return Object.fromEntries(
    told.filter(([name, value]) => name in start && (allowed[name]?.includes(value) ?? true)),
  );
}
