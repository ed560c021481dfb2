"use strict";
/* What all views share: elements made without ever parsing HTML, texts of strangers made visible, numbers, addresses. */

/** An element. Texts become text nodes, so nothing in them is markup; listeners are given as functions. */
function el(tag, props, ...children) {
  return fill(/^(svg|line|rect|circle|path|text|g)$/.test(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [property, one] of Object.entries(value)) node.style.setProperty(property, one);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(5).filter((child) => child !== undefined && child !== null && child !== false));
  return node;
}

/** Give an element other children; what is null is left out. */
function put(node, ...children) {
  node.replaceChildren();
  return fill(node, null, children);
}

const HIDDEN = /[\p{Cc}\p{Cs}\p{Co}\p{Cn}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u{e0000}-\u{e007f}]/gu;

/** A text in which nothing is hidden: what steers, hides or turns its neighbours around is written out, as ⟨U+202E⟩. */
function visible(text, longest = 20000) {
  const all = String(text ?? "");
  const cut = all.length > longest ? `… (${all.length.toLocaleString("en")} characters)` : "";
  return (cut ? all.slice(0, longest) : all).replace(HIDDEN, (c) => (c === "\n" ? c : c === "\t" ? " " : `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`)) + cut;
}

/** A stranger's text, on its own as far as direction goes. */
const said = (text, longest) => el("bdi", null, visible(text, longest));
/** The same, with what is between backticks as code. */
const saidWithCode = (text, longest) => el("bdi", null, withCode(visible(text, longest)));

function number(value, digits) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const text = value.toFixed(digits ?? 3);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}
const count = (n) => n.toLocaleString("en");
const counted = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;
const percent = (share) => `${number(100 * share, 1)}%`;

/** An address within the page: parts of the path, then what is chosen; what is empty is left out. */
function address(parts, chosen = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(chosen)) for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined && one !== null && one !== "") query.append(name, one);
  const text = query.toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

function read(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const decoded = (part) => { try { return decodeURIComponent(part); } catch { return part; } };
  return { parts: path.split("/").filter(Boolean).map(decoded), chosen: new URLSearchParams(query) };
}

function select(label, options, value, onchange, titles = {}) {
  return el("label", { class: "pick" }, el("span", null, label),
    el("select", { onchange: (event) => onchange(event.target.value) }, options.map((one) => el("option", { value: one, selected: one === value }, visible(titles[one] ?? one, 60)))));
}

/** A table that may be wider than its place: reached by Tab, and a sentence names the columns out of view. */
function scrollable(label, table) {
  const note = el("p", { class: "beyond quiet", role: "status" });
  const box = el("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" }, table);
  const tell = () => {
    const edge = box.getBoundingClientRect().right + 1;
    const beyond = box.scrollWidth <= box.clientWidth ? [] : [...table.querySelectorAll("thead th")].filter((one) => one.offsetWidth && one.getBoundingClientRect().right > edge).map((one) => one.textContent.trim());
    const words = beyond.length ? `Scroll sideways for ${counted(beyond.length, "more column")}: ${beyond.join(", ")}` : "";
    if (note.textContent !== words) note.textContent = words;
  };
  box.addEventListener("scroll", tell);
  new ResizeObserver(tell).observe(box);
  return el("div", null, note, box);
}

const VERDICTS = ["right", "partly", "wrong", "unscored"];
const MARKS = { right: "✓", partly: "~", wrong: "✗", unscored: "?" };
const verdictOf = (correct) => (correct === null || correct === undefined || Number.isNaN(correct) ? 3 : correct >= 1 ? 0 : correct <= 0 ? 2 : 1);
const mark = (correct) => { const name = VERDICTS[verdictOf(correct)]; return el("i", { class: `mark ${name}`, role: "img", "aria-label": name, title: name === "partly" ? `partly right: ${number(correct, 2)}` : name }, MARKS[name]); };
/** The colour of a model in a spec's results: that of the report. */
const colour = (key, model) => `var(--c${Math.max(0, site.results.find((one) => one.key === key).colours.indexOf(model)) % 8})`;
/** A text in which what is between backticks is code. */
const withCode = (text) => text.split(/`([^`]+)`/).map((part, i) => (i % 2 ? el("code", null, part) : part));
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
