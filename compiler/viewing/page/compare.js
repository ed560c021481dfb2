"use strict";
/* Two models, or two estimators of a model: every paired test of the run that compares them. */

const KINDS = { models: "models", estimators: "estimators of a model" };

async function showCompare(main, [key], chosen, wanted) {
  const result = site.results.find((one) => one.key === key);
  const [board, tested] = await Promise.all([scoresOf(result), chunk(`${key}/tests`).ready]);
  if (!wanted()) return null;
  for (const kind of Object.keys(KINDS)) tested[kind].rows ??= unpackedRows(tested[kind].tests);
  const pick = (name, there, first) => { const value = chosen.get(name); return there.includes(value) ? value : there.includes(first) ? first : there[0]; };
  const distinct = (rows, name) => [...new Set(rows.map((row) => row[name]))];
  const kinds = Object.keys(KINDS).filter((kind) => kind === "models" ? result.models.length > 1 : Object.keys(board.estimators).length > 1);
  const kind = pick("kind", kinds, kinds.find((one) => tested[one].rows.length));
  const title = el("header", { class: "intro" }, el("h1", null, "Compare two ", KINDS[kind] ?? "models"));
  if (!kind) { put(main, el("section", { class: "page tested" }, title, el("p", { class: "about" }, "These results have one model and no two estimators."))); return null; }

  const byEstimator = kind === "estimators";
  let rows = tested[kind].rows;
  const model = byEstimator ? pick("model", result.models) : "";
  if (byEstimator) rows = rows.filter((row) => row.model === model);
  const dataset = pick("dataset", result.datasets, rows[0]?.dataset);
  const variants = byEstimator ? distinct(rows, "variant") : [];
  const variant = pick("variant", variants, "clean") ?? "clean";
  const slices = distinct(rows, "slice");
  const slice = pick("slice", slices, "all") ?? "all";
  const names = byEstimator ? Object.keys(board.estimators) : result.models;
  const titles = byEstimator ? board.estimators : {};
  const first = rows.find((row) => row.dataset === dataset && row.variant === variant);
  const a = pick("a", names, first?.a), others = names.filter((one) => one !== a);
  const b = pick("b", others, first?.b);
  const here = rows.filter((row) => row.dataset === dataset && row.variant === variant && row.slice === slice);
  const found = here.filter((row) => row.a === a && row.b === b), turned = found.length ? [] : here.filter((row) => row.a === b && row.b === a);

  const go = (change) => { location.hash = address(["compare", key], { kind, model, dataset, variant: variant === "clean" ? "" : variant, slice: slice === "all" ? "" : slice, a, b, ...change }); };
  put(main, el("section", { class: "page tested" }, title,
    el("div", { class: "picks" },
      site.results.length > 1 ? select("Results", site.results.map((one) => one.key), key, (value) => { location.hash = address(["compare", value]); }) : null,
      kinds.length > 1 ? select("Compare", kinds, kind, (value) => { location.hash = address(["compare", key], { kind: value, dataset }); }, KINDS) : null,
      byEstimator ? select("Model", result.models, model, (value) => go({ model: value })) : null,
      select("A", names, a, (value) => go({ a: value, ...(value === b ? { b: a } : {}) }), titles),
      select("B", others, b, (value) => go({ b: value }), titles),
      result.datasets.length > 1 ? select("Dataset", result.datasets, dataset, (value) => go({ dataset: value })) : null,
      variants.length > 1 ? select("Variant", variants, variant, (value) => go({ variant: value })) : null,
      slices.length > 1 ? select("Slice", slices, slice, (value) => go({ slice: value })) : null),
    found.length || turned.length ? comparisonTable(found.length ? found : turned, tested, kind, titles) : untested(result, tested, byEstimator, a, b, dataset, titles)));
  return null;
}

/** Why a pair has no test, and what makes one: a button where the page is served, and the command. */
function untested(result, tested, byEstimator, a, b, dataset, titles) {
  const named = (name) => el("b", null, said(titles[name] ?? name, 80));
  const words = el("p", { class: "untested", role: "status" }, "This run has no test of ", named(a), " and ", named(b), " here. ", withCode(tested[byEstimator ? "estimators" : "models"].none),
    byEstimator || result.revision ? null : [" ", el("code", null, `qualm compare ${visible(result.spec, 80)} ${visible(a, 80)} ${visible(b, 80)}`), " tests this pair."]);
  if (byEstimator || !site.live) return words;
  const place = el("div", null, words, el("p", null, el("button", { type: "button", class: "test-now", onclick: async () => {
    put(place, el("p", { class: "untested", role: "status" }, "Testing this pair…"));
    try {
      const now = await chunk(`${result.key}/p/${result.models.indexOf(a) * result.models.length + result.models.indexOf(b)}`).ready;
      const rows = unpackedRows(now.tests).filter((row) => row.dataset === dataset);
      put(place, ...(rows.length ? comparisonTable(rows, { level: tested.level, models: now }, "models", titles) : [el("p", { class: "untested", role: "status" }, "The two share no metric on this dataset.")]));
    } catch (error) { put(place, words, el("p", { class: "warning" }, visible(error.message, 400))); }
  } }, "Test this pair now")));
  return place;
}

function comparisonTable(rows, tested, kind, titles) {
  const [{ a, b }] = rows, called = (name) => visible(titles[name] ?? name, 60);
  const margins = rows.some((row) => row.margin !== null);
  const signed = (x, digits) => (x === null || x === undefined ? "–" : `${x > 0 ? "+" : ""}${number(x, digits)}`);
  const columns = [
    [called(a), (row) => number(row.value_a, row.decimals)], [called(b), (row) => number(row.value_b, row.decimals)],
    [`difference, ${called(b)} − ${called(a)}`, (row) => signed(row.difference, row.decimals)],
    [`${Math.round(100 * tested.level)}% interval`, (row) => (row.low === null || row.high === null ? "none" : `${signed(row.low, row.decimals)} to ${signed(row.high, row.decimals)}`)],
    [rows.every((row) => row.p === row.p_adjusted) ? "p" : "corrected p", (row) => number(row.p_adjusted, 4)],
    ...(margins ? [["p, equal", (row) => number(row.p_equivalent, 4)], ["p, not worse", (row) => number(row.p_not_worse, 4)]] : []),
    ["n", (row) => count(row.n)],
    [`verdict on ${called(b)}`, (row) => el("span", { class: `finding ${/^significantly (better|worse)/.exec(row.finding)?.[1] ?? ""}` }, visible(row.finding, 400))],
  ];
  const shares = [...new Set(rows.map((row) => row.shares).filter(Boolean))];
  return [shares.length ? el("p", { class: "warning" }, `${capital(visible(shares.join("; "), 400))}. The comparison is over the questions on which both are scored.`) : null,
    scrollable("Tested differences", el("table", { class: "board cells", role: "table" },
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, el("th", { scope: "col", role: "columnheader" }, "metric"), columns.map(([name]) => el("th", { scope: "col", role: "columnheader" }, name)))),
    el("tbody", { role: "rowgroup" }, rows.map((row) => el("tr", { role: "row" }, el("th", { scope: "row", role: "rowheader" }, capital(visible(row.title, 160)), " ", el("span", { class: "arrow" }, ARROWS[row.higher_is_better] ?? "")),
      columns.map(([name, of]) => el("td", { role: "cell", "data-label": name }, el("span", null, of(row))))))))),
    el("p", { class: "note" }, tested[kind].note, " An interval is for its difference alone. “Statistically tied” is no evidence of equality.",
      margins ? ` p, equal: that the difference is within the margin; p, not worse: that ${called(b)} is not worse by it.` : "",
      rows.some((row) => row.compared_by) ? " Calibration errors are compared by their squared bias-corrected error, since the plain estimate is biased." : "")];
}
