"use strict";
// Fetches the page again and puts its new contents in place: what is shown is made in one place, the server.
(() => {
  const every = 2000;
  let ahead = 0; // of this clock, the service's
  const left = () => {
    const shown = document.getElementById("left");
    if (!shown || !shown.dataset.deadline) return;
    const seconds = Math.max(0, (Date.parse(shown.dataset.deadline) - Date.now() - ahead) / 1000);
    const d = Math.floor(seconds / 86400), h = Math.floor(seconds / 3600) % 24, m = Math.floor(seconds / 60) % 60;
    const two = (x) => String(x).padStart(2, "0");
    shown.textContent = (d ? d + " d " : "") + (d || h ? two(h) + ":" : "") + two(m) + ":" + two(Math.floor(seconds % 60));
  };
  const sync = () => {
    const shown = document.getElementById("left");
    if (shown && shown.dataset.now) ahead = Date.parse(shown.dataset.now) - Date.now();
    left();
  };
  const refresh = async () => {
    if (document.hidden) return;
    const state = document.getElementById("connection");
    try {
      const answer = await fetch("/", { cache: "no-store" });
      if (!answer.ok) throw new Error("no answer");
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const id of ["now", "past"]) {
        const open = document.querySelector("#" + id + " details");
        const was = open ? open.open : false;
        document.getElementById(id).replaceChildren(...fresh.getElementById(id).childNodes);
        const details = document.querySelector("#" + id + " details");
        if (details) details.open = was;
      }
      document.title = fresh.title;
      if (state) state.textContent = "";
      sync();
    } catch {
      if (state) state.textContent = "No connection to the service; showing the last state that was seen.";
    }
  };
  sync();
  setInterval(left, 500);
  setInterval(refresh, every);
})();
