"use strict";
(() => {
  const form = document.getElementById("filters");
  if (!form) return;
  const cards = [...document.querySelectorAll(".card")];
  const update = () => {
    const want = Object.fromEntries(new FormData(form));
    let shown = 0;
    for (const card of cards) {
      let any = false;
      for (const row of card.querySelectorAll(".answers li")) {
        const fits = ["model", "verdict", "why"].every((k) => !want[k] || row.dataset[k] === want[k]);
        row.hidden = !fits;
        any = any || fits;
      }
      card.hidden = !any || (want.dataset !== "" && card.dataset.dataset !== want.dataset);
      shown += card.hidden ? 0 : 1;
    }
    document.getElementById("shown").textContent = shown + " of " + cards.length + " shown";
  };
  form.hidden = false;
  form.addEventListener("change", update);
  update();
})();
