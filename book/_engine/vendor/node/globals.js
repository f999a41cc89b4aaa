// The globals of Node that the packages use.
export const process = {
  env: {}, argv: [], pid: 1, platform: "linux", browser: true, cwd: () => "/", emitWarning() {},
  nextTick: (f, ...given) => queueMicrotask(() => f(...given)), umask: () => 0, getuid: () => 0, getgid: () => 0,
};
export { Buffer } from "buffer";
