"use strict";
/* Addresses to views, and what keys do. */

const VIEWS = { "": showBoards, compare: showCompare, answers: showTable, q: showSample, run: showRun };
let site = null;
let shown = null;

async function start() {
  const main = document.getElementById("main");
  try {
    site = await chunk("index").ready;
    document.title = visible(site.title, 80);
    put(document.getElementById("changed"), site.results.flatMap((one) => one.changed).map((notice) => el("p", null, visible(notice, 600))));
    await go();
    addEventListener("hashchange", go);
  } catch (error) {
    put(main, el("p", { class: "quiet" }, `The page's data could not be loaded: ${visible(error.message, 300)}`));
  }
}

async function go() {
  const { parts, chosen } = read(location.hash);
  const view = VIEWS[parts[0] ?? ""] ?? showBoards;
  const turn = (go.turn = (go.turn ?? 0) + 1);
  const stillWanted = () => go.turn === turn;
  shown?.leave?.();
  shown = null;
  document.body.dataset.view = parts[0] ?? "boards";
  navigation(parts);
  const main = document.getElementById("main");
  try {
    if (view !== showBoards && view !== showRun) known(parts);
    const made = await view(main, parts.slice(1), chosen, stillWanted);
    if (stillWanted()) shown = made ?? null;
    else made?.leave?.();
  } catch (error) {
    if (stillWanted()) put(main, el("p", { class: "quiet" }, `This could not be shown: ${visible(error.message, 300)}`));
    console.error(error);
  }
}

/** Answers are of one set of results: the first one where the address names none. */
function known(parts) {
  const keys = site.results.map((one) => one.key);
  if (parts.length === 1 && keys.length) parts.push(keys[0]);
  if (keys.includes(parts[1])) return;
  const there = keys.length > 8 ? `${keys.slice(0, 8).join(", ")} and ${keys.length - 8} more` : keys.join(", ");
  throw new Error(`there are no results “${parts[1] ?? ""}” on this page; there are: ${there || "none"}`);
}

function navigation(parts) {
  const here = parts[0] ?? "";
  const key = site.results.find((one) => one.key === parts[1])?.key ?? site.results[0]?.key;
  const link = (name, to, view) => el("a", { href: to, "aria-current": here === view ? "page" : null }, name);
  put(document.getElementById("nav"), 
    link("Leaderboard", "#/", ""),
    ...(key ? [link("Compare", address(["compare", key]), "compare"), link("Answers", address(["answers", key], { variant: "clean" }), "answers")] : []),
    ...(site.live ? [link("Run", "#/run", "run")] : []),
  );
}

const KEYS = [
  ["j  k", "next and previous answer; on a question's page, next and previous question"],
  ["↵", "open the answer"],
  ["←  →", "previous and next question"],
  ["↑  ↓", "other variants of the question"],
  ["/", "search questions and answers"],
  ["Esc", "back"],
  ["g", "leaderboard"],
  ["?", "these keys"],
];

function help() {
  const dialog = el("dialog", { class: "help", onclose: () => dialog.remove(), onclick: (event) => event.target === dialog && dialog.close() },
    el("h2", null, "Keys"), el("dl", null, KEYS.map(([key, does]) => [el("dt", null, el("kbd", null, key)), el("dd", null, does)])),
    el("form", { method: "dialog" }, el("button", null, "Close")));
  document.body.append(dialog);
  dialog.showModal();
}

document.getElementById("keys").addEventListener("click", help);
document.addEventListener("keydown", (event) => {
  const field = event.target.closest?.("input:not([type=checkbox]):not([type=range]), select, textarea");
  if (field) {
    if (event.key === "Escape") field.blur();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.key === "?") help();
  else if (event.key === "g") location.hash = "#/";
  else if (shown?.key?.(event.key, event) !== true) return;
  event.preventDefault();
});
start();
