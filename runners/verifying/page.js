"use strict";
document.addEventListener("keydown", (event) => {
  const field = event.target.closest("input, textarea, select, [contenteditable]");
  if (field) {
    if (event.key === "Escape") field.blur();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  const key = event.key.toLowerCase();
  const button = { v: "valid", i: "invalid", s: "skip", u: "undo" }[key];
  if (button) document.getElementById(button)?.click();
  else if (key === "p") document.querySelectorAll("#view details").forEach((d) => { d.open = !d.open; });
  else if (key === "n") document.querySelector("#note textarea, #note input")?.focus();
  else return;
  event.preventDefault();
});
