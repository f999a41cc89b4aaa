// The reader's own machine: its script comes when there is one, or when it is asked for.
(() => {
  const here = document.currentScript.src;
  const machine = () => import(new URL("machine.js", here));

  function start() {
    for (const button of document.querySelectorAll("[data-your-machine]")) {
      button.disabled = false;
      button.addEventListener("click", async () => (await machine()).open(button));
    }
    if (dtKept.read("dtlib-machine") || new URLSearchParams(location.search).has("yours")) machine().then((m) => m.apply());
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
