// Sends [src, dst, chunk] of a round, on what is held: held[rank][chunk][contributor] is 1 or 0.
// The rules are those of dtlib.collectives.check; whether a send is added is not asked but follows.

const upTo = (count) => Array.from({ length: count }, (_, i) => i);

// At first every rank has its own part of every chunk.
const ownParts = (P) => upTo(P).map((rank) => upTo(P).map(() => upTo(P).map((k) => +(k === rank))));

const covers = (a, b) => b.every((count, k) => count <= a[k]);
const meet = (a, b) => upTo(a.length).filter((k) => a[k] && b[k]);
const lettersOf = (counts) => counts.map((count, k) => (count ? "abcdefgh"[k] : "")).join("");
const isWhole = (counts) => counts.every(Boolean);
const isFinished = (held) => held.every((row) => row.every(isWhole));

// A sum that has all that the receiver holds takes its place; any other is added.
const isAdded = (held, [src, dst, chunk]) => !covers(held[src][chunk], held[dst][chunk]);

// What is wrong with sends that are to happen at once, the first fault of each: { what, send }, and
// for a part that would count twice, which, and what it would be added to.
function faultsOf(held, sends) {
  const leaving = new Set(sends.map(([src, , chunk]) => `${src} ${chunk}`));
  const arrived = {};
  return sends.flatMap((send) => {
    const [src, dst, chunk] = send;
    const place = `${dst} ${chunk}`;
    const [news, here] = [held[src][chunk], held[dst][chunk]];
    const others = sends.filter(([, to, what]) => to === dst && what === chunk).length > 1;
    const sum = (arrived[place] ??= [...here]);
    const twice = meet(sum, news);
    arrived[place] = sum.map((count, k) => count || news[k]);
    if (covers(here, news)) return [{ what: "old", send }];
    if (isAdded(held, send)) return twice.length ? [{ what: "twice", send, twice, sum }] : [];
    if (others) return [{ what: "meets", send }];
    return leaving.has(place) ? [{ what: "leaves", send }] : [];
  });
}

// The sends as the library has them, [src, dst, first chunk, reduce, count]: neighbouring chunks
// between the same two ranks are one message.
function messagesOf(held, sends) {
  const all = sends.map((send) => [...send, +isAdded(held, send)]);
  all.sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[3] - b[3] || a[2] - b[2]);
  return all.reduce((messages, [src, dst, chunk, reduce]) => {
    const [from, to, first, adds, count] = messages[messages.length - 1] ?? [];
    const goesOn = from === src && to === dst && adds === reduce && first + count === chunk;
    if (goesOn) messages[messages.length - 1][4]++;
    else messages.push([src, dst, chunk, reduce, 1]);
    return messages;
  }, []);
}

// Rounds of sends, played: what is held before each and after the last, and each one's messages.
function playedRounds(P, rounds) {
  const [states, messages] = [[ownParts(P)], []];
  for (const [t, sends] of rounds.entries()) {
    messages.push(messagesOf(states[t], sends));
    states.push(afterRound(states[t], messages[t]));
  }
  return { states, messages };
}

// A round lasts as long as its busiest port needs, one in and one out of each rank; every message
// costs `alpha`, every chunk `each`.
function roundTime(messages, alpha, each) {
  const ports = {};
  for (const [src, dst, , , count] of messages)
    for (const port of [`out of ${src}`, `into ${dst}`])
      ports[port] = (ports[port] ?? 0) + alpha + count * each;
  return Math.max(0, ...Object.values(ports));
}

const timeOf = (P, rounds, { n, alpha, beta }) =>
  rounds.reduce((sum, messages) => sum + roundTime(messages, alpha, n / P / beta), 0);
const latenciesOf = (P, rounds) => timeOf(P, rounds, { n: 0, alpha: 1, beta: 1 });
const buffersOf = (P, rounds) => timeOf(P, rounds, { n: 1, alpha: 0, beta: 1 });

// How many chunks were sent that nobody used, found from the end.
function unusedIn(P, rounds) {
  const wanted = upTo(P).map(() => Array(P).fill(true));
  return [...rounds].reverse().reduce((unused, messages) => {
    const sends = messages.flatMap(([src, dst, first, reduce, count]) =>
      upTo(count).map((i) => ({ src, dst, chunk: first + i, reduce })),
    );
    const used = sends.filter(({ dst, chunk }) => wanted[dst][chunk]);
    for (const { dst, chunk, reduce } of sends) if (!reduce) wanted[dst][chunk] = false;
    for (const { src, chunk } of used) wanted[src][chunk] = true;
    return unused + sends.length - used.length;
  }, 0);
}

// What one send means: for one rank only, or for everybody, one further round the ring, or with the
// ranks' bits turned as the sender's and the receiver's are.
const TURNS = [null, (rank, k, P) => (rank + k) % P, (rank, k) => rank ^ k];

function likewise(mode, P, src, dst, chunks) {
  const turned = TURNS[mode];
  if (!turned) return chunks.map((chunk) => [src, dst, chunk]);
  const whole = chunks.length === P;
  return upTo(P).flatMap((k) => {
    const ends = [turned(src, k, P), turned(dst, k, P)];
    return chunks.map((chunk) => [...ends, whole ? chunk : turned(chunk, k, P)]);
  });
}

// The schedule as the library writes it.
function writtenSchedule(P, rounds) {
  const send = ([src, dst, chunk, reduce, count]) =>
    `Send(${src}, ${dst}, ${chunk}, ${reduce ? "True" : "False"}${count > 1 ? `, ${count}` : ""})`;
  const lines = rounds.map((messages) => `    [${messages.map(send).join(", ")}],`);
  return [`Schedule(${P}, ${P}, [`, ...lines, '], "mine")'].join("\n");
}
