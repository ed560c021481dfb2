"use strict";
/* Keys of a page: name of a button's element, or a function. Those who type into a field are left alone; a slider is no such field. */
function pageKeys(keys) {
  document.addEventListener("keydown", (event) => {
    const field = event.target.closest("input:not([type=range]):not([type=radio]), textarea, select, [contenteditable]");
    if (field) {
      if (event.key === "Escape") field.blur();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const what = keys[event.key.toLowerCase()];
    if (what === undefined) return;
    if (typeof what === "string") document.getElementById(what)?.click();
    else what();
    event.preventDefault();
  });
}
