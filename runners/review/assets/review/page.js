pageKeys({
  v: "valid", i: "invalid", w: "misplaced", s: "skip", u: "undo",
  p: () => document.querySelectorAll("#view details").forEach((d) => { d.open = !d.open; }),
  n: () => document.querySelector("#note textarea, #note input")?.focus(),
});
