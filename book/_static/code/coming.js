// The line that says how far Python has come. It is seen, and not read out at every step.
import { element } from "./element.js";

const MB = (bytes) => (bytes / 1e6).toFixed(1);

export function coming(cancel) {
  const bar = element("progress", { "aria-label": "Python comes into the page", value: 0 });
  const words = element("span");
  const line = element("div", { class: "dt-coming", hidden: true }, bar, words, element("button", { type: "button", onclick: cancel }, "Cancel"));
  return {
    element: line,
    hide: () => (line.hidden = true),
    show(progress, total, left) {
      line.hidden = false;
      bar.max = total || 1;
      bar.value = progress;
      words.textContent = said(progress, total, left);
    },
  };
}

function said(progress, total, left) {
  if (!total) return "Python comes into the page.";
  if (progress >= total) return "Python starts.";
  const time = progress && Number.isFinite(left) ? `, ${Math.ceil(left)} s left` : "";
  return `Python comes into the page: ${MB(progress)} of ${MB(total)} MB${time}. This browser keeps it.`;
}
