pageKeys({ w: "weak", r: "right", s: "strong", n: "next", b: "back" });
