// Stands for modules of Node that the packages name and a page never calls.
const absent = () => absent;
class Stream {}
module.exports = Object.assign(absent, {
  default: absent, log: absent, callback: absent, load: absent, enable: absent,
  cloneDeep: (x) => x, inherits: (a, b) => Object.setPrototypeOf(a.prototype, b.prototype), inspect: String,
  Readable: Stream, ReadableStream: globalThis.ReadableStream, Writable: Stream, URL: globalThis.URL,
});
