"use strict";
/* A run at work: its stages, how fast it goes, what it has cost. Asked again every other second. */

const EVERY = 2000;

async function showRun(main, parts, chosen, wanted) {
  const view = new RunPage(main);
  await view.ask();
  return view;
}

class RunPage {
  constructor(main) {
    this.main = main;
    this.seen = [];
    this.timer = setInterval(() => this.ask(), EVERY);
  }

  leave() {
    clearInterval(this.timer);
    this.left = true;
  }

  async ask() {
    let state;
    try {
      const reply = await fetch("live.json");
      state = reply.ok ? await reply.json() : null;
    } catch {
      state = null;
    }
    if (!this.left) this.draw(state);
  }

  draw(state) {
    if (!state) {
      put(this.main, el("p", { class: "quiet" }, "qualm view has ended; start it again to follow a run."));
      return;
    }
    const working = state.stages.findLast((one) => one.how === "at work");
    const ended = state.stages.filter((one) => one.how !== "at work");
    put(this.main, el("section", { class: "page run" },
      el("header", { class: "intro" }, el("h1", null, state.command ? "A run is in progress" : state.stages.length ? "No run is in progress; this was the last" : "No run yet"), state.command ? el("p", { class: "about" }, el("code", null, visible(state.command, 200))) : null),
      working && state.command ? this.current(working) : null,
      Object.keys(state.spent).length ? el("p", { class: "spent" }, "Spent on servers, over all runs: ", Object.entries(state.spent).map(([spec, dollars]) => el("span", { class: "chip" }, said(spec, 60), ` $${number(dollars, 2)}`))) : null,
      state.answers.length ? [el("h2", null, "Last answers"), el("table", { class: "board answered" }, el("thead", null, el("tr", null, el("th", null, "Stage"), el("th", null, "Question"), el("th", null, "Answer"))), el("tbody", null, state.answers.map((one) => el("tr", null, el("td", { class: "quiet" }, said(one.stage, 80)), el("td", null, said(one.question, 200)), el("td", null, said(one.answer, 200))))))] : null,
      ended.length ? el("table", { class: "board" }, el("thead", null, el("tr", null, el("th", null, "Stage"), el("th", null, ""), el("th", null, "Result"))), el("tbody", null, ended.reverse().map((one) => el("tr", null, el("th", null, said(one.name, 120)), el("td", { class: one.how === "failed" ? "missed" : "quiet" }, visible(one.how, 30)), el("td", { class: "counts" }, said(one.counts ?? "", 400)))))) : null,
      state.words.length ? [el("h2", null, "Last words"), el("pre", null, said(state.words.join("\n")))] : null));
  }

  current(stage) {
    this.seen = this.seen.filter((one) => one.name === stage.name && one.label === stage.label && one.done <= (stage.done ?? 0)).slice(-30);
    this.seen.push({ name: stage.name, label: stage.label, done: stage.done ?? 0, at: performance.now() });
    const first = this.seen[0], seconds = (performance.now() - first.at) / 1000;
    const rate = seconds > 1 ? ((stage.done ?? 0) - first.done) / seconds : 0;
    const left = rate > 0 && stage.total ? (stage.total - stage.done) / rate : null;
    return el("article", { class: "card" },
      el("h2", null, said(stage.name, 120)),
      el("p", null, said(stage.label ?? "", 120), stage.done === undefined ? "" : ` ${count(stage.done)}${stage.total ? ` of ${count(stage.total)}` : ""}`),
      stage.total ? el("span", { class: "sure" }, el("i", { style: { width: `${(100 * stage.done) / stage.total}%` } })) : null,
      el("p", { class: "quiet" }, [rate > 0 ? `${number(rate, rate < 10 ? 1 : 0)} per second` : null, left === null ? null : left < 90 ? `about ${Math.round(left)} s left` : `about ${Math.round(left / 60)} min left`, stage.seconds > 30 ? `last progress ${Math.round(stage.seconds)} s ago` : null].filter(Boolean).join(" · ")));
  }

  key(key) {
    if (key === "Escape") { location.hash = "#/"; return true; }
    return false;
  }
}
