"use strict";
(() => {
  const announce = () => {
    for (const box of document.querySelectorAll(".scroll, .panels")) {
      if (!box.clientWidth) continue;
      const end = box.getBoundingClientRect().right + 1;
      const row = [...box.querySelectorAll("thead tr")].pop();
      const what = row ? "column" : "panel";
      const hidden = [...(row ? row.cells : box.children)].filter((cell) => cell.getBoundingClientRect().right > end).length;
      let hint = box.previousElementSibling;
      if (!hint || !hint.classList.contains("more-columns")) {
        if (!hidden) continue;
        hint = document.createElement("p");
        hint.className = "more-columns";
        box.before(hint);
        box.tabIndex = 0;
        box.setAttribute("role", "region");
        box.setAttribute("aria-label", "Scrolls sideways");
        box.addEventListener("scroll", announce, { passive: true });
      }
      hint.textContent = hidden ? hidden + " more " + what + (hidden === 1 ? "" : "s") + ": scroll sideways →" : "\u00a0";
    }
  };
  announce();
  addEventListener("resize", announce);
  document.addEventListener("toggle", announce, true);
})();
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
