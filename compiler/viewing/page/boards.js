"use strict";
/* The leaderboard: one metric drawn with its intervals over all specs, and all metrics in numbers. */

/** The scores of a spec as rows. */
async function scoresOf(result) {
  const board = await chunk(`${result.key}/board`).ready;
  board.rows ??= unpackedRows(board).map((row) => Object.assign(row, { result }));
  return board;
}

/** Rows that were packed by column. */
function unpackedRows(table) {
  const names = Object.entries(table.columns);
  return Array.from({ length: table.n }, (_, i) => {
    const row = {};
    for (const [name, values] of names) row[name] = values.codes ? values.texts[values.codes[i]] ?? null : values[i];
    return row;
  });
}

const ARROWS = { true: "↑", false: "↓" };
/** What a row is a candidate with, beside its model. */
const wayOf = (row) => row.estimator ?? row.calibrator ?? (row.conformal ? [row.conformal, row.nonconformity].filter(Boolean).join(" / ") : "");
/** The same measurement of every candidate: the label without what is in brackets. */
const familyOf = (row) => (wayOf(row) ? row.label.replace(/\[.*\]$/s, "[]") : row.label);

async function showBoards(main, parts, chosen, wanted) {
  const boards = await Promise.all(site.results.map(scoresOf));
  if (!wanted()) return null;
  const all = boards.flatMap((board) => board.rows);
  const metrics = Object.assign({}, ...boards.map((board) => board.metrics));
  const estimators = Object.assign({}, ...boards.map((board) => board.estimators));
  const distinct = (rows, of) => [...new Set(rows.map(of))];
  const pick = (name, there, first) => { const value = chosen.get(name); return there.includes(value) ? value : there.includes(first) ? first : there[0]; };

  const datasets = distinct(all, (row) => row.dataset);
  const plain = all.find((row) => row.label === "accuracy" && row.variant === "clean" && row.value !== null && !row.dataset.startsWith("macro:"));
  const dataset = pick("dataset", datasets, plain?.dataset);
  let rows = all.filter((row) => row.dataset === dataset);
  const variants = distinct(rows, (row) => row.variant);
  const variant = pick("variant", variants, "clean");
  rows = rows.filter((row) => row.variant === variant);
  const slices = distinct(rows, (row) => row.slice);
  const slice = pick("slice", slices, "all");
  rows = rows.filter((row) => row.slice === slice);
  const families = distinct(rows, familyOf);
  const family = pick("metric", families, ["accuracy", "lave_idk_accuracy", "confidence_weighted_accuracy"].find((one) => families.includes(one)));
  const byEstimator = families.filter((one) => rows.some((row) => row.estimator && familyOf(row) === one));
  const beside = family.endsWith("[]") ? null : byEstimator.find((one) => one.startsWith("auroc")) ?? byEstimator[0] ?? families.find((one) => /^auroc(@|$)/.test(one) && one !== family);

  const to = (change) => address([], { dataset, variant: variant === "clean" ? "" : variant, slice: slice === "all" ? "" : slice, metric: family, ...change });
  const go = (change) => { location.hash = to(change); };
  const title = (one) => { const row = rows.find((r) => familyOf(r) === one); const of = metrics[row.metric]; return `${capital(of.title)}${row.metric === "auroc" && !wayOf(row) ? " of confidence" : ""}${sweepOf(one)}`; };
  const arrow = (one) => ARROWS[metrics[rows.find((r) => familyOf(r) === one).metric].higher_is_better] ?? "";
  const groups = [["of models", families.filter((f) => !f.endsWith("[]"))], ["of estimators, sets and calibrators", families.filter((f) => f.endsWith("[]"))]];

  put(main, 
    el("section", { class: "page" },
      el("header", { class: "intro" },
        el("h1", null, said(site.title, 120)),
        site.results.length === 1 && site.results[0].description ? el("p", { class: "about" }, saidWithCode(site.results[0].description, 600)) : null),
      el("div", { class: "controls" },
        el("div", { class: "tabs", role: "group", "aria-label": "Dataset" }, datasets.map((one) => el("a", { href: to({ dataset: one, variant: "", slice: "" }), "aria-current": one === dataset ? "true" : null }, said(one.replace(/^macro:/, "mean over "), 60)))),
        el("div", { class: "picks" },
          variants.length > 1 ? select("Variant", variants, variant, (value) => go({ variant: value })) : null,
          slices.length > 1 ? select("Slice", slices, slice, (value) => go({ slice: value })) : null)),
      el("div", { class: "board-parts" },
        el("nav", { class: "metrics", "aria-label": "Metrics" }, groups.filter(([, of]) => of.length).map(([name, of]) =>
          el("div", null, groups[1][1].length ? el("h3", null, name) : null, of.map((one) => el("a", { href: to({ metric: one }), "aria-current": one === family ? "true" : null }, title(one), " ", el("span", { class: "arrow" }, arrow(one))))))),
        el("div", null, [family, beside].filter(Boolean).map((one) => { const of = rows.filter((row) => familyOf(row) === one); return el("div", { class: "drawing" },
          el("h2", null, title(one), one.endsWith("[]") && of[0].estimator ? el("small", null, "of estimators, ") : null, el("small", null, { "↑": "higher is better", "↓": "lower is better" }[arrow(one)] ?? "")),
          intervals(of, estimators, variant, arrow(one)),
          legend(of)); }))),
      matrix(rows, families.filter((f) => !f.endsWith("[]")), title, arrow, to, family),
      site.results.length > 1 ? lines() : null));
  return { key: () => false };
}

const sweepOf = (family) => { const at = family.replace(/\[\]$/, "").split("@").slice(1).join("@"); return at ? ` (${visible(at, 60)})` : ""; };

/** Rows of one metric, each a point with its interval, grouped by what was ranked together, best first. */
function intervals(rows, estimators, variant, arrow) {
  const ends = rows.flatMap((row) => [row.low ?? row.value, row.high ?? row.value, row.target]).filter((x) => x !== null && x !== undefined);
  if (!ends.length) return el("p", { class: "quiet" }, "This metric has no value here. ", said(rows.find((row) => row.why)?.why ?? "", 300));
  const axis = scale(Math.min(...ends), Math.max(...ends));
  const nameOf = rankingsOf(rows);
  const groups = Map.groupBy ? Map.groupBy(rows, nameOf) : rows.reduce((map, row) => map.set(nameOf(row), [...(map.get(nameOf(row)) ?? []), row]), new Map());
  const several = groups.size > 1;
  const sign = arrow === "↓" ? 1 : -1;
  const bySize = (a, b) => (a.value === null) - (b.value === null) || sign * (a.value - b.value);
  const list = el("div", { class: "intervals" }, el("div", { class: "axis" }, el("span"), el("span", { class: "track" }, axis.ticks.map((tick) => el("i", { style: { left: `${axis.at(tick)}%` } }, axis.label(tick)))), el("span"), el("span")));
  for (const [name, of] of groups) {
    if (several && name) list.append(el("h4", null, said(name, 120)));
    for (const row of [...of].sort(bySize)) list.append(interval(row, axis, estimators, variant));
  }
  return list;
}

function groupOf(row) {
  const spec = site.results.length > 1 ? row.result.key : "";
  return row.estimator || row.conformal || row.calibrator ? [spec, row.model].filter(Boolean).join(" · ") : spec;
}

/** What a row stands below: who was asked a part of the questions was ranked apart from the others, and stands apart from them. */
function rankingsOf(rows) {
  const largest = new Map();
  for (const row of rows) if (row.leader && !(largest.get(groupOf(row))?.candidates >= row.candidates)) largest.set(groupOf(row), row);
  const apart = (row) => row.leader && row.leader !== largest.get(groupOf(row)).leader;
  return (row) => [groupOf(row), apart(row) ? `asked only a part of the questions, ranked with ${row.leader}` : ""].filter(Boolean).join(" · ");
}

/** The scored share of a row, and what its value would be if all unread answers were wrong or right, where more than 1% are unread. */
function unread(row) {
  if (row.scored_share === null || row.scored_share === undefined || row.scored_share > 0.99) return "";
  const bounds = row.value_if_wrong === null || row.value_if_right === null ? "" : `: ${number(row.value_if_wrong, row.decimals)} to ${number(row.value_if_right, row.decimals)} with the unread`;
  return `, scored ${Math.floor(1000 * row.scored_share) / 10}%${bounds}`;
}

function interval(row, axis, estimators, variant) {
  const way = wayOf(row);
  const name = way ? estimators[way] ?? way : row.model;
  const rank = row.is_best ? "best" : row.may_be_best ? "lead" : "";
  const tone = colour(row.result.key, row.model);
  const whole = row.value !== null;
  const blind = !way && row.result.blind.includes(row.model);
  const words = whole ? `${number(row.value, row.decimals)}${row.low === null ? "" : `, ${Math.round(100 * row.level)}% interval ${number(row.low, row.decimals)} to ${number(row.high, row.decimals)}`}, n = ${count(row.n)}${row.n_unscored ? `, ${count(row.n_unscored)} unscored` : ""}${unread(row)}${row.candidates ? `; ${row.not_comparable ? "not ranked: scored shares differ" : row.is_best ? "significantly better than all others" : row.may_be_best ? "statistically tied with the best" : "significantly worse than the best"} (${row.rank_low ? `rank ${row.rank_low} to ${row.rank_high} of ` : ""}${row.candidates} candidates)` : ""}${row.low === null && row.why_no_interval ? `; no interval: ${visible(row.why_no_interval, 200)}` : ""}` : visible(row.why ?? "undefined", 300);
  return el("a", { class: `interval ${rank}`, title: words, href: address(["answers", row.result.key], { dataset: row.dataset.startsWith("macro:") ? "" : row.dataset, model: row.model, variant, est: row.estimator ?? "" }) },
    el("b", null, said(name, 80)),
    el("span", { class: "track", style: { color: tone } },
      axis.ticks.map((tick) => el("u", { style: { left: `${axis.at(tick)}%` } })),
      row.target !== null && row.target !== undefined ? el("em", { style: { left: `${axis.at(row.target)}%` }, title: `target ${number(row.target, row.decimals)}` }) : null,
      row.low !== null && row.high !== null && whole ? el("s", { style: { left: `${axis.at(row.low)}%`, width: `${axis.at(row.high) - axis.at(row.low)}%` } }) : null,
      whole ? el("i", { style: { left: `${axis.at(row.value)}%` } }) : null),
    el("span", { class: "value" }, whole ? number(row.value, row.decimals) : el("em", null, "undefined"), row.low === null || !whole ? null : el("small", null, `${number(row.low, row.decimals)} – ${number(row.high, row.decimals)}`)),
    el("span", { class: "n" }, `n = ${count(row.n)}${row.n_unscored ? `, ${count(row.n_unscored)} unscored` : ""}`, unread(row) ? el("small", null, unread(row).replace(/^, /, "")) : null),
    el("span", { class: blind || !row.may_be_best ? "tag quiet" : "tag", title: blind ? "a baseline that does not see the image, so it is not ranked with the models" : null }, blind ? "blind" : row.not_comparable ? "not ranked" : row.is_best ? "best" : row.may_be_best && row.candidates > 1 ? "tied for best" : row.rank_low ? `rank ${row.rank_low}${row.rank_high > row.rank_low ? `–${row.rank_high}` : ""}` : ""));
}

/** A linear axis with round ticks. */
function scale(low, high) {
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  const [from, to] = [low - room, high + room];
  const raw = (to - from) / 5;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((one) => one >= raw);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const ticks = [];
  for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) ticks.push(tick);
  return { ticks, at: (x) => (100 * (x - from)) / (to - from), label: (x) => number(x, digits) };
}

function legend(rows) {
  const ranked = rows.some((row) => row.candidates > 1 && !row.not_comparable);
  const incomparable = rows.some((row) => row.not_comparable);
  const level = rows.find((row) => row.level)?.level;
  const averaged = rows[0].dataset === "macro:datasets" ? [...new Set(rows.map((row) => row.result))] : [];
  return el("p", { class: "note" },
    averaged.map((one) => `Mean over ${visible(one.datasets.join(", "), 300)}${averaged.length > 1 ? ` (${visible(one.key, 60)})` : ""}. `),
    level ? `Bars are pointwise ${Math.round(100 * level)}% intervals. ` : null,
    ranked ? "“best”: significantly better than every other candidate. “tied for best”: no candidate is significantly better. “rank 2–5”: the ranks that the tests allow (paired differences over resamples of whole groups, corrected). " : rows.length > 1 && !incomparable ? "No ranking was tested here: overlapping or separate intervals do not decide one. " : null,
    incomparable ? "“not ranked”: the models' shares of scored answers differ by more than 2 points, so the order may come from what was left out. The range is the value if all unread answers were wrong, and if all were right. " : null,
    new Set(rows.map((row) => row.result)).size > 1 ? "Rows of different specs are not tested against each other; qualm compare does that." : null);
}

/** All metrics of models in numbers. */
function matrix(rows, families, title, arrow, to, family) {
  const several = new Set(rows.map((row) => row.result)).size > 1;
  const models = [...new Map(rows.filter((row) => !wayOf(row)).map((row) => [`${row.result.key}\n${row.model}`, row])).values()]
    .sort((a, b) => site.results.indexOf(a.result) - site.results.indexOf(b.result) || a.result.models.indexOf(a.model) - b.result.models.indexOf(b.model));
  if (!models.length || families.length < 2) return null;
  const cells = new Map(rows.filter((row) => !wayOf(row)).map((row) => [`${row.result.key}\n${row.model}\n${row.label}`, row]));
  return el("section", { class: "numbers" }, el("h2", null, "All metrics"),
    rows.some((row) => !wayOf(row) && row.may_be_best) ? el("p", { class: "note" }, "Bold: best. Underlined: tied for best.") : null,
    scrollable("All metrics", el("table", { class: "board" },
      el("thead", null, el("tr", null, el("th", { scope: "col" }, "Model"), families.map((one) => el("th", { scope: "col", class: one === family ? "here" : null }, el("a", { href: to({ metric: one }) }, title(one), " ", el("span", { class: "arrow" }, arrow(one))))))),
      el("tbody", null, models.map((model) => el("tr", null,
        el("th", { scope: "row" }, el("i", { class: "dot", style: { background: colour(model.result.key, model.model) } }), said(model.model, 60), several ? el("small", null, said(model.result.key, 60)) : null),
        families.map((one) => {
          const row = cells.get(`${model.result.key}\n${model.model}\n${one}`);
          if (!row) return el("td", { class: "none" }, "–");
          return el("td", { class: `${row.is_best ? "best" : row.may_be_best && row.candidates > 1 ? "lead" : ""}`, title: row.why ? visible(row.why, 300) : `n = ${count(row.n)}${unread(row)}` }, el("span", null, number(row.value, row.decimals)), row.low === null ? null : el("small", null, `${number(row.low, row.decimals)} – ${number(row.high, row.decimals)}`));
        })))))));
}

function lines() {
  return el("section", { class: "specs" }, el("h2", null, "What was measured"), el("dl", null, site.results.map((one) => [
    el("dt", null, el("a", { href: address(["answers", one.key], { variant: "clean" }) }, said(one.title, 120))),
    el("dd", null, one.revision ? [said(`at ${one.revision}`, 80), ". "] : null, saidWithCode(one.description, 600), " ", el("span", { class: "quiet" }, namedModels(one.models.filter((name) => !one.blind.includes(name))), `; datasets: `, said(one.datasets.join(", "), 300)), one.sources.map(sourceOf)),
  ])));
}

/** The number of models, and the names of a few; the boards above name all. */
function namedModels(names) {
  return [counted(names.length, "model"), names.length <= 8 ? [": ", said(names.join(", "), 300)] : null];
}

/** Where a dataset is from: its title, linked to the source, revision and licence. */
function sourceOf({ dataset, title, source, licence, revision }) {
  const linked = /^https:\/\/\S+$/.test(source) ? el("a", { href: source, rel: "noopener noreferrer" }, said(source.replace(/^https:\/\//, ""), 120)) : said(source, 120);
  return el("p", { class: "source" }, said(`${dataset}: ${title}`, 160), ". Source: ", linked, revision ? [" at ", said(revision.slice(0, 7), 7)] : null, ". Licence: ", said(licence || "not stated", 160), ".");
}
