"use strict";
/* The table of all answers: filters over columns in memory, texts as they come into view. Two models side by side are its other form. */

const BINS = 40;
/** Filters that are lists of values: name in the address, column, title. */
const FACETS = [
  ["verdict", "correct", "Verdict"], ["model", "model", "Model"], ["dataset", "dataset", "Dataset"], ["variant", "variant", "Variant"],
  ["category", "category", "Category"], ["answerable", "answerable", "Answerable"], ["declined", "pred_is_idk", "Abstained"], ["no_answer", "no_answer", "No answer, because"],
];
const ORDERS = { "": "as in the dataset", "confidence-": "most confident first", "confidence": "least confident first", "u-": "most uncertain first", "u": "least uncertain first" };
const OUTCOMES = ["both", "first", "second", "neither", "unscored"];
const DISAGREE = { models: "models disagree", judges: "judges disagree", clean: "verdict differs from clean" };
/** What a question's page goes through with j and k: the rows that the table last showed. */
let lastList = null;

async function showTable(main, [key], chosen, wanted) {
  const answers = await Answers.open(key);
  const state = new Chosen(answers, chosen);
  await answers.load(state.columns());
  if (!wanted()) return null;
  return new Table(main, answers, state);
}

/** What the address says is wanted. */
class Chosen {
  constructor(answers, query) {
    this.answers = answers;
    this.lists = new Map(FACETS.filter(([name, column]) => answers.has(column) || name === "verdict").map(([name]) => [name, new Set(query.getAll(name))]));
    this.est = answers.index.estimators[query.get("est")] ? query.get("est") : "";
    this.ranges = { conf: Chosen.range(query.get("conf")), u: Chosen.range(query.get("u")) };
    this.disagree = DISAGREE[query.get("disagree")] ? query.get("disagree") : "";
    this.sets = answers.has(`covered[${query.get("sets")}]`) ? query.get("sets") : "";
    this.sort = ORDERS[query.get("sort")] ? query.get("sort") : "";
    this.q = query.get("q") ?? "";
    this.beside = answers.index.models.includes(query.get("beside")) ? query.get("beside") : "";
    this.outcome = OUTCOMES.includes(query.get("outcome")) ? query.get("outcome") : "";
  }

  static range(text) {
    const parts = (text ?? "").split("..").map(Number);
    return parts.length === 2 && !parts.some(Number.isNaN) && text ? parts : null;
  }

  /** The model on the left, where two stand side by side. */
  get first() { return [...(this.lists.get("model") ?? [])].find((one) => one !== this.beside) ?? this.answers.index.models.find((one) => one !== this.beside) ?? this.beside; }

  columns() {
    const judges = [...this.answers.columns.keys()].filter((name) => name.startsWith("rated_by_"));
    return ["sample", "confidence", ...FACETS.map(([, column]) => column), ...(this.est ? [`uncertainty[${this.est}]`] : []), ...(this.disagree === "judges" ? judges : []),
      ...(this.disagree === "clean" ? ["clean_correct"] : []), ...(this.sets ? [`covered[${this.sets}]`, `set_size[${this.sets}]`] : [])];
  }

  address(change = {}) {
    const lists = Object.fromEntries([...this.lists].map(([name, values]) => [name, [...values]]));
    const ranges = Object.fromEntries(Object.entries(this.ranges).map(([name, range]) => [name, range ? range.map((x) => Number(x.toPrecision(4))).join("..") : ""]));
    return address(["answers", this.answers.key], { ...lists, est: this.est, ...ranges, disagree: this.disagree, sets: this.sets, sort: this.sort, beside: this.beside, outcome: this.outcome, q: this.q, ...change });
  }
}

class Table {
  constructor(main, answers, state) {
    this.answers = answers;
    this.state = state;
    this.cursor = -1;
    this.matches = null;
    this.build(main);
    this.filter();
    if (state.q) this.search();
    this.resized = () => this.draw(true);
    addEventListener("resize", this.resized);
  }

  leave() {
    removeEventListener("resize", this.resized);
    this.left = true;
  }

  go(change) { history.replaceState(null, "", this.state.address(change)); dispatchEvent(new HashChangeEvent("hashchange")); }

  build(main) {
    const { answers, state } = this;
    const models = answers.index.models;
    this.facets = el("div", { class: "facets" });
    this.total = el("div", { class: "total", role: "status" });
    this.box = el("input", { type: "search", placeholder: "Search questions and answers  /", "aria-label": "Search questions and answers", value: state.q, oninput: () => { clearTimeout(this.typing); this.typing = setTimeout(() => { state.q = this.box.value; history.replaceState(null, "", state.address()); this.search(); }, 200); } });
    this.space = el("div", { class: "space" });
    this.rows = el("div", { class: "rows" });
    this.list = el("div", { class: "list", onscroll: () => this.draw(), tabindex: "-1" }, this.space, this.rows);
    const orders = Object.keys(ORDERS).filter((one) => !one.startsWith("u") || state.est);
    const bar = el("div", { class: "bar" }, this.box,
      site.results.length > 1 ? select("Results", site.results.map((one) => one.key), answers.key, (key) => { location.hash = address(["answers", key], { variant: "clean" }); }) : null,
      Object.keys(answers.index.estimators).length ? select("Estimator", ["", ...Object.keys(answers.index.estimators)], state.est, (est) => this.go({ est, u: "", sort: state.sort.startsWith("u") ? "" : state.sort }), { "": "none", ...answers.index.estimators }) : null,
      state.beside ? null : select("Order", orders, state.sort, (sort) => this.go({ sort }), ORDERS),
      models.length > 1 ? select(state.beside ? `${visible(state.first, 30)} beside` : "Beside", ["", ...models.filter((one) => one !== state.first)], state.beside, (beside) => this.go({ beside, outcome: "", ...(beside ? { model: state.first } : {}) }), { "": "no other model" }) : null,
      el("button", { type: "button", class: "filter-button", "aria-expanded": "false", onclick: (event) => event.currentTarget.setAttribute("aria-expanded", document.body.classList.toggle("filtering")) }, this.nFilters ? `Filters (${this.nFilters})` : "Filters"));
    put(main, el("section", { class: `answers${state.beside ? " two" : ""}${state.est ? " with-est" : ""}` }, this.facets, el("div", { class: "results" }, bar, this.total, this.heads(), this.list)));
    document.body.classList.remove("filtering");
  }

  /** How many filters are set, which a narrow screen shows on the button alone. */
  get nFilters() {
    const { state } = this;
    return [...state.lists.values()].filter((one) => one.size).length + Object.values(state.ranges).filter(Boolean).length + (state.disagree ? 1 : 0) + (state.sets ? 1 : 0);
  }

  /** One verdict code per row. */
  get verdicts() {
    const { answers } = this;
    if (!answers.verdicts) {
      const correct = answers.data("correct");
      answers.verdicts = new Uint8Array(answers.n).fill(3);
      if (correct) for (let row = 0; row < answers.n; row++) answers.verdicts[row] = verdictOf(correct[row]);
    }
    return answers.verdicts;
  }

  /** Every filter that is set, as a function of rows. */
  filters() {
    const { answers, state } = this;
    const made = [];
    for (const [name, column] of FACETS) {
      const wanted = state.lists.get(name);
      if (name === "model" && state.beside) {
        const data = answers.data(column), first = answers.values(column).indexOf(state.first);
        made.push({ name, pass: (row) => data[row] === first });
        continue;
      }
      if (!wanted?.size) continue;
      const data = name === "verdict" ? this.verdicts : answers.data(column);
      if (!data) continue;
      const values = name === "verdict" ? VERDICTS : answers.values(column);
      const keep = new Uint8Array(values.length + 1);
      values.forEach((value, code) => { keep[code] = wanted.has(String(value)) ? 1 : 0; });
      keep[values.length] = wanted.has("none") ? 1 : 0;
      made.push({ name, pass: (row) => keep[data[row]] });
    }
    const ranges = [["conf", "confidence"], ["u", `uncertainty[${state.est}]`]];
    for (const [name, column] of ranges) {
      const data = answers.data(column), range = state.ranges[name];
      if (range && data) made.push({ name, pass: (row) => data[row] >= range[0] && data[row] <= range[1] });
    }
    if (state.disagree) { const flags = this.disagreeing(); made.push({ name: "disagree", pass: (row) => flags[row] }); }
    if (state.sets && answers.data(`covered[${state.sets}]`)) { const data = answers.data(`covered[${state.sets}]`); made.push({ name: "sets", pass: (row) => data[row] === 1 }); }
    if (state.q && this.matches) { const { rows, samples } = this.matches, sample = answers.data("sample"); made.push({ name: "q", pass: (row) => rows[row] || samples[sample[row]] }); }
    return made;
  }

  /** Rows whose question has answers of other verdicts by other models, by other judges, or under the clean variant. */
  disagreeing() {
    const { answers, state } = this;
    const flags = new Uint8Array(answers.n);
    const verdict = this.verdicts;
    if (state.disagree === "models") {
      this.eachGroup((start, end) => {
        let seen = 0;
        for (let row = start; row < end; row++) if (verdict[row] < 3) seen |= 1 << verdict[row];
        if (seen & (seen - 1)) flags.fill(1, start, end);
      });
    } else if (state.disagree === "judges") {
      const ratings = [...answers.columns.keys()].filter((name) => name.startsWith("rated_by_")).map((name) => answers.data(name)).filter(Boolean);
      for (let row = 0; row < answers.n; row++) {
        let low = Infinity, high = -Infinity;
        for (const data of ratings) { const one = data[row]; if (one < low) low = one; if (one > high) high = one; }
        flags[row] = high - low >= 0.5 ? 1 : 0;
      }
    } else {
      const clean = answers.data("clean_correct");
      if (clean) for (let row = 0; row < answers.n; row++) flags[row] = !Number.isNaN(clean[row]) && verdict[row] < 3 && verdictOf(clean[row]) !== verdict[row] ? 1 : 0;
    }
    return flags;
  }

  /** Calls with first and last row of the answers of all models to a question under a variant. */
  eachGroup(call) {
    const sample = this.answers.data("sample"), variant = this.answers.data("variant"), n = this.answers.n;
    for (let start = 0, row = 1; row <= n; row++) if (row === n || sample[row] !== sample[start] || variant?.[row] !== variant?.[start]) { call(start, row); start = row; }
  }

  /** Rows that pass, and for each filter how many would with it alone undone. */
  filter() {
    const { answers, state } = this;
    const filters = this.filters();
    const failed = new Uint8Array(answers.n), by = new Uint8Array(answers.n);
    filters.forEach(({ pass }, i) => { for (let row = 0; row < answers.n; row++) if (!pass(row)) { failed[row]++; by[row] = i; } });
    this.failed = failed; this.by = by; this.active = filters.map((one) => one.name);
    if (state.beside) this.pairUp(failed);
    else {
      let n = 0;
      for (let row = 0; row < answers.n; row++) if (!failed[row]) n++;
      const order = new Uint32Array(n);
      for (let row = 0, i = 0; row < answers.n; row++) if (!failed[row]) order[i++] = row;
      this.order = this.sorted(order);
    }
    this.cursor = -1;
    this.drawFacets();
    this.drawTotal();
    this.list.scrollTop = 0;
    this.draw(true);
  }

  sorted(order) {
    const { state, answers } = this;
    if (!state.sort) return order;
    const data = answers.data(state.sort.startsWith("u") ? `uncertainty[${state.est}]` : "confidence");
    if (!data) return order;
    const down = state.sort.endsWith("-") ? -1 : 1;
    return order.sort((a, b) => { const x = data[a], y = data[b]; return Number.isNaN(x) ? (Number.isNaN(y) ? a - b : 1) : Number.isNaN(y) ? -1 : down * (x - y) || a - b; });
  }

  /** Questions that both models answered, with the row of each. */
  pairUp(failed) {
    const { answers, state } = this;
    const model = answers.data("model"), names = answers.values("model");
    const a = names.indexOf(state.first), b = names.indexOf(state.beside);
    const left = [], right = [];
    this.eachGroup((start, end) => {
      let one = -1, other = -1;
      for (let row = start; row < end; row++) { if (model[row] === a) one = row; else if (model[row] === b) other = row; }
      if (one >= 0 && other >= 0 && !failed[one]) { left.push(one); right.push(other); }
    });
    const verdict = this.verdicts;
    const outcome = (i) => { const x = verdict[left[i]], y = verdict[right[i]]; return x === 3 || y === 3 ? "unscored" : x === 0 && y === 0 ? "both" : x === 0 ? "first" : y === 0 ? "second" : "neither"; };
    this.outcomes = Object.fromEntries(OUTCOMES.map((one) => [one, 0]));
    const keep = [];
    for (let i = 0; i < left.length; i++) { const one = outcome(i); this.outcomes[one]++; if (!state.outcome || one === state.outcome) keep.push(i); }
    this.order = Uint32Array.from(keep, (i) => left[i]);
    this.others = Uint32Array.from(keep, (i) => right[i]);
  }

  /** How often each value of a facet occurs among rows that all other filters let through. */
  tally(name, data, size) {
    const counts = new Uint32Array(size);
    const own = this.active.indexOf(name);
    for (let row = 0; row < this.answers.n; row++) if (!this.failed[row] || (this.failed[row] === 1 && this.by[row] === own)) counts[data[row]]++;
    return counts;
  }

  drawFacets() {
    const { answers, state } = this;
    const parts = [];
    const set = Object.values(state.ranges).some(Boolean) || state.disagree || state.q || state.sets || [...state.lists.values()].some((one) => one.size);
    parts.push(el("div", { class: "facet-head" }, el("b", null, "Filters"), set ? el("a", { href: address(["answers", answers.key], { est: state.est, beside: state.beside }) }, "clear") : null));
    for (const [name, column, title] of FACETS) {
      const chosen = state.lists.get(name);
      if (!chosen || (name === "model" && state.beside)) continue;
      const data = name === "verdict" ? this.verdicts : answers.data(column);
      if (!data) continue;
      const values = name === "verdict" ? VERDICTS : answers.values(column);
      if (values.length < 2 && !chosen.size && name !== "no_answer") continue;
      const counts = this.tally(name, data, values.length + 1);
      const entries = values.map((value, code) => [String(value), counts[code]]).filter(([value, n]) => n || chosen.has(value));
      if (name !== "verdict" && counts[values.length] && name !== "no_answer") entries.push(["none", counts[values.length]]);
      parts.push(this.facet(name, title, entries, chosen));
    }
    for (const [name, column, title] of [["conf", "confidence", "Confidence"], ["u", `uncertainty[${state.est}]`, answers.index.estimators[state.est]]]) if (answers.data(column)) parts.push(this.histogram(name, title, answers.data(column)));
    parts.push(this.others_());
    put(this.facets, ...parts);
  }

  facet(name, title, entries, chosen) {
    const LONG = 10;
    const most = Math.max(1, ...entries.map(([, n]) => n));
    const line = ([value, n]) => el("label", { class: `value${name === "verdict" ? ` ${value}` : ""}`, style: { "--share": `${(100 * n) / most}%` } },
      el("input", { type: "checkbox", checked: chosen.has(value), onchange: (event) => { event.target.checked ? chosen.add(value) : chosen.delete(value); this.go(); } }),
      el("span", null, name === "model" ? el("i", { class: "dot", style: { background: colour(this.answers.key, value) } }) : null, said({ true: "yes", false: "no", none: "not known" }[value] ?? value, 80)), el("small", null, count(n)));
    const more = entries.slice(LONG);
    return el("fieldset", null, el("legend", null, title), entries.slice(0, LONG).map(line), more.length ? el("details", { open: more.some(([value]) => chosen.has(value)) }, el("summary", null, `${more.length} more`), more.map(line)) : null);
  }

  /** Where values lie, right and wrong; a part of it is chosen by dragging over it. */
  histogram(name, title, data) {
    const own = this.active.indexOf(name), verdict = this.verdicts;
    let low = Infinity, high = -Infinity;
    for (let row = 0; row < data.length; row++) { const x = data[row]; if (x < low) low = x; if (x > high) high = x; }
    if (name === "conf") { low = Math.min(low, 0); high = Math.max(high, 1); }
    if (!(high > low)) return null;
    const right = new Uint32Array(BINS), rest = new Uint32Array(BINS);
    let none = 0;
    for (let row = 0; row < data.length; row++) {
      if (this.failed[row] && !(this.failed[row] === 1 && this.by[row] === own)) continue;
      const x = data[row];
      if (Number.isNaN(x)) { none++; continue; }
      const bin = Math.min(BINS - 1, Math.floor((BINS * (x - low)) / (high - low)));
      (verdict[row] === 0 ? right : rest)[bin]++;
    }
    let most = 1;
    for (let i = 0; i < BINS; i++) most = Math.max(most, right[i] + rest[i]);
    const height = (n) => (n ? Math.max(1, 44 * Math.sqrt(n / most)) : 0);
    const bars = [];
    for (let i = 0; i < BINS; i++) {
      const whole = height(right[i] + rest[i]), part = (whole * rest[i]) / (right[i] + rest[i] || 1);
      if (whole) bars.push(el("rect", { class: "right", x: i * 5, y: 46 - whole, width: 4, height: Math.max(0, whole - part) }), el("rect", { class: "wrong", x: i * 5, y: 46 - part, width: 4, height: part }));
    }
    const range = this.state.ranges[name];
    const at = (x) => (200 * (x - low)) / (high - low);
    const band = el("rect", { class: "band", y: 0, height: 46, x: range ? at(range[0]) : 0, width: range ? Math.max(1, at(range[1]) - at(range[0])) : 0 });
    const drawing = el("svg", { viewBox: "0 0 200 48", preserveAspectRatio: "none", role: "img", "aria-label": `${title}: how many answers at which value` }, band, bars);
    const place = (event) => { const box = drawing.getBoundingClientRect(); return Math.max(0, Math.min(1, (event.clientX - box.left) / box.width)); };
    drawing.addEventListener("pointerdown", (event) => {
      const from = place(event);
      const move = (e) => { band.setAttribute("x", 200 * Math.min(from, place(e))); band.setAttribute("width", 200 * Math.abs(place(e) - from)); };
      drawing.setPointerCapture(event.pointerId);
      drawing.addEventListener("pointermove", move);
      drawing.addEventListener("pointerup", (e) => {
        drawing.removeEventListener("pointermove", move);
        const ends = [from, place(e)].sort((a, b) => a - b).map((x) => low + x * (high - low));
        this.state.ranges[name] = ends[1] - ends[0] < (high - low) / 100 ? null : ends;
        this.go();
      }, { once: true });
    });
    const end = (i, label) => el("input", { type: "number", step: "any", "aria-label": `${title}: ${label}`, value: range ? Number(range[i].toPrecision(4)) : "", placeholder: number(i ? high : low, 2), onchange: (event) => {
      const now = this.state.ranges[name] ?? [low, high];
      now[i] = event.target.value === "" ? (i ? high : low) : Number(event.target.value);
      this.state.ranges[name] = now[0] <= low && now[1] >= high ? null : now;
      this.go();
    } });
    return el("fieldset", { class: "range" }, el("legend", null, visible(title, 60)), drawing, el("div", { class: "ends" }, end(0, "from"), el("span", null, "to"), end(1, "to")), none ? el("p", { class: "quiet" }, `${count(none)} without a value`) : null);
  }

  others_() {
    const { answers, state } = this;
    const judges = [...answers.columns.keys()].filter((name) => name.startsWith("rated_by_")).length;
    const possible = Object.keys(DISAGREE).filter((one) => (one === "models" ? answers.index.models.length > 1 : one === "judges" ? judges > 1 : answers.has("clean_correct")));
    const sets = [...answers.columns.keys()].filter((name) => name.startsWith("covered[")).map((name) => name.slice(8, -1));
    const radio = (group, value, label, checked, onchange) => el("label", { class: "value" }, el("input", { type: "checkbox", checked, onchange: (event) => onchange(event.target.checked ? value : "") }), el("span", null, visible(label, 60)));
    return [
      possible.length ? el("fieldset", null, el("legend", null, "Disagreement"), possible.map((one) => radio("disagree", one, DISAGREE[one], state.disagree === one, (disagree) => this.go({ disagree })))) : null,
      sets.length ? el("fieldset", null, el("legend", null, "Conformal set misses the right option"), sets.map((one) => radio("sets", one, one, state.sets === one, (value) => this.go({ sets: value })))) : null,
    ].flat().filter(Boolean).reduce((all, one) => { all.append(one); return all; }, el("div"));
  }

  drawTotal() {
    const { answers, state } = this;
    if (state.beside) {
      const words = { both: "both right", first: `only ${visible(state.first, 40)}`, second: `only ${visible(state.beside, 40)}`, neither: "neither right", unscored: "not both scored" };
      const whole = Object.values(this.outcomes).reduce((a, b) => a + b, 0);
      put(this.total, el("div", { class: "outcomes" }, Object.entries(this.outcomes).filter(([name, n]) => n || name !== "unscored").map(([name, n]) =>
        el("a", { href: state.address({ outcome: state.outcome === name ? "" : name }), class: `outcome ${name}`, "aria-current": state.outcome === name ? "true" : null }, el("b", null, count(n)), el("span", null, words[name]), el("small", null, whole ? percent(n / whole) : "")))));
      return;
    }
    const tally = [0, 0, 0, 0];
    for (const row of this.order) tally[this.verdicts[row]]++;
    const n = this.order.length;
    put(this.total, 
      el("span", null, el("b", null, count(n)), n === answers.n ? counted(n, " answer").replace(/^[\d,]+/, "") : ` of ${counted(answers.n, "answer")}`),
      n ? el("span", { class: "stack", title: "share of the answers below" }, tally.map((of, i) => (of ? el("i", { class: VERDICTS[i], style: { "flex-grow": of } }) : null))) : null,
      el("span", { class: "quiet" }, tally.map((of, i) => (of ? `${count(of)} ${VERDICTS[i]}` : "")).filter(Boolean).join(" · ")),
      this.searching ? el("span", { class: "quiet" }, this.searching) : null);
  }

  get height() { return innerWidth < 760 ? (this.state.beside ? 150 : 116) + (this.state.est ? 20 : 0) : 62; }

  /** Only rows in view exist; texts of those are fetched. */
  draw(anew = false) {
    if (this.left) return;
    const height = this.height, n = Math.min(this.order.length, Math.floor(15e6 / height));
    this.space.style.height = `${n * height}px`;
    const first = Math.max(0, Math.floor(this.list.scrollTop / height) - 4), last = Math.min(n, first + Math.ceil(this.list.clientHeight / height) + 9);
    if (!anew && this.from === first && this.to === last) return;
    [this.from, this.to] = [first, last];
    const rows = [];
    for (let i = first; i < last; i++) rows.push(this.row(i, height));
    if (!this.order.length) rows.push(el("p", { class: "quiet none" }, "No answer matches all of these filters."));
    put(this.rows, ...rows);
    const { answers } = this;
    const lacking = [...this.order.subarray(first, last), ...(this.others?.subarray(first, last) ?? [])]
      .filter((row) => answers.text(row) === undefined || !answers.question(answers.data("sample")[row]));
    clearTimeout(this.fetching);
    if (lacking.length) this.fetching = setTimeout(() => answers.texts(lacking).then(() => this.draw(true)).catch((error) => console.error(error)), 30);
  }

  row(i, height) {
    const { answers, state } = this;
    const row = this.order[i], sample = answers.data("sample")[row], question = answers.question(sample);
    const picture = question ? answers.picture(sample) : null;
    const variant = answers.value("variant", row), category = answers.value("category", row);
    const cell = (r, of) => { const text = answers.text(r); return el("span", { class: "said" }, mark(answers.value("correct", r)), of ? el("i", { class: "dot", style: { background: colour(answers.key, of) } }) : null, of ? el("span", { class: "label" }, visible(of, 40), " ") : null, text === undefined ? el("span", { class: "quiet" }, "…") : text === null || text === "" ? el("em", { class: "quiet" }, answers.value("no_answer", r) ?? "empty answer") : said(answerText(text, question), 300), of ? sure(answers.value("confidence", r)) : null); };
    const fact = (name, label, value) => el("span", { class: name }, el("span", { class: "label" }, label, " "), value);
    return el("a", { class: `row${i === this.cursor ? " here" : ""}`, href: question ? this.link(sample, row, question) : "#", style: { top: `${i * height}px`, height: `${height}px` }, onclick: () => { this.cursor = i; this.keep(); } },
      picture ? el("img", { src: picture, alt: "", loading: "lazy", decoding: "async", width: 46, height: 46 }) : el("span", { class: "blank" }),
      el("span", { class: "words" },
        el("span", { class: "asked" }, question ? said(question.question, 300) : "…"),
        state.beside ? null : cell(row)),
      state.beside ? el("span", { class: "pair" }, cell(row, state.first), cell(this.others[i], state.beside)) : null,
      el("span", { class: "facts" },
        fact("wanted", "expected", question?.expected ? said(question.expected, 200) : el("em", { class: "quiet" }, question ? "no reference" : "…")),
        state.beside ? null : fact("confidence", "confidence", sure(answers.value("confidence", row)) ?? "–"),
        state.est ? fact("est", visible(answers.index.estimators[state.est], 60), number(answers.value(`uncertainty[${state.est}]`, row), 3)) : null),
      el("span", { class: "where" }, state.beside ? null : el("b", null, el("i", { class: "dot", style: { background: colour(answers.key, answers.value("model", row)) } }), said(answers.value("model", row), 40)), el("span", null, said([variant === "clean" ? "" : variant, category].filter(Boolean).join(" · "), 80))));
  }

  /** Headings of the rows; each row says them again to screen readers, and in words where there is no room for columns. */
  heads() {
    const { answers, state } = this;
    const names = state.beside ? ["question", [el("span", null, visible(state.first, 40)), el("span", null, visible(state.beside, 40))], "expected", state.est ? answers.index.estimators[state.est] : null, "category"]
      : ["question and answer", "expected", "confidence", state.est ? answers.index.estimators[state.est] : null, "model, category"];
    return el("div", { class: "row heads", "aria-hidden": "true" }, el("span"), names.filter((one) => one !== null).map((one) => el("span", Array.isArray(one) ? { class: "pair" } : null, Array.isArray(one) ? one : visible(one, 60))));
  }

  link(sample, row, question) {
    const { answers, state } = this;
    const variant = answers.value("variant", row);
    return address(["q", answers.key, answers.dataset(sample).name, question.id], { variant: variant === "clean" ? "" : variant, model: state.beside ? [state.first, state.beside] : answers.value("model", row) });
  }

  keep() { lastList = { key: this.answers.key, order: this.order, others: this.others, hash: location.hash, cursor: this.cursor, table: this.state }; }

  /** Free text: everything in lower case, block by block, as far as it has come. */
  async search() {
    const { answers, state } = this;
    const words = state.q.trim().toLowerCase();
    const turn = (this.turn = (this.turn ?? 0) + 1);
    if (!words) { this.matches = null; this.searching = ""; this.filter(); return; }
    const found = { rows: new Uint8Array(answers.n), samples: new Uint8Array(answers.index.samples) };
    const jobs = [["s", answers.index.samples, answers.index.sample_rows], ["t", answers.n, answers.index.text_rows]].flatMap(([kind, n, size]) => Array.from({ length: Math.ceil(n / size) }, (_, i) => [kind, i, size]));
    let done = 0, shownAt = 0;
    const show = () => { this.matches = found; this.searching = done < jobs.length ? `searching… ${Math.round((100 * done) / jobs.length)}%` : ""; this.filter(); };
    const work = async () => {
      for (let job = jobs.pop(); job; job = jobs.length ? jobs.pop() : undefined) {
        const [kind, i, size] = job;
        const part = await answers.part(kind, i).ready;
        if (this.turn !== turn || this.left) return;
        part.forEach((one, k) => {
          const text = kind === "t" ? one ?? "" : `${one.question}\n${one.id}\n${(one.references ?? []).join("\n")}\n${(one.choices ?? []).join("\n")}`;
          if (text.toLowerCase().includes(words)) (kind === "t" ? found.rows : found.samples)[i * size + k] = 1;
        });
        done++;
        if (performance.now() - shownAt > 400) { show(); shownAt = performance.now(); }
      }
    };
    const whole = jobs.length;
    jobs.reverse();
    await Promise.all([work(), work(), work(), work(), work(), work()]);
    if (this.turn === turn && !this.left) { done = whole; this.searching = ""; this.matches = found; this.filter(); }
  }

  key(key) {
    if (key === "/") { this.box.focus(); this.box.select(); return true; }
    if (key === "j" || key === "k") {
      this.cursor = Math.max(0, Math.min(this.order.length - 1, this.cursor + (key === "j" ? 1 : -1)));
      const top = this.cursor * this.height;
      if (top < this.list.scrollTop) this.list.scrollTop = top;
      if (top + this.height > this.list.scrollTop + this.list.clientHeight) this.list.scrollTop = top + this.height - this.list.clientHeight;
      this.draw(true);
      return true;
    }
    if (key === "Enter" && this.cursor >= 0) { this.keep(); this.rows.querySelector(".here")?.click(); return true; }
    if (key === "Escape") { if (this.state.q) { this.box.value = ""; this.go({ q: "" }); } else location.hash = "#/"; return true; }
    return false;
  }
}

/** The letter of an option, or its number from 1 after the 26th. */
function optionLabel(i) {
  return i < 26 ? String.fromCharCode(65 + i) : String(i + 1);
}

/** Of multiple choice a label says little: its option stands beside it. */
function answerText(text, question) {
  const label = /^\s*\(?([A-Z]|\d+)\)?[.:]?\s*$/.exec(text)?.[1];
  const option = label && question?.choices?.find((_, i) => optionLabel(i) === label);
  return option ? `${label}. ${option}` : text;
}

/** A confidence as a number beside its bar. */
function sure(confidence) {
  return confidence === null ? null : el("span", { class: "sure-value" }, el("span", { class: "sure" }, el("i", { style: { width: `${100 * confidence}%` } })), number(confidence, 2));
}
