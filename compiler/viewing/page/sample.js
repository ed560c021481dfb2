"use strict";
/* One question: its picture under every variant, the prompt, and what each model made of it. */

async function showSample(main, [key, dataset, id], chosen, wanted) {
  if (!id) throw new Error("the address names no question; expected #/q/RESULTS/DATASET/ID");
  const answers = await Answers.open(key);
  const sample = await answers.find(dataset, id);
  if (!wanted()) return null;
  if (sample < 0) throw new Error(`there is no question “${id}” in ${dataset}`);
  const [, of] = await Promise.all([answers.part("s", Math.floor(sample / answers.index.sample_rows)).ready, answers.details(sample)]);
  if (!wanted()) return null;
  return new SamplePage(main, answers, sample, of, chosen);
}

class SamplePage {
  constructor(main, answers, sample, of, chosen) {
    Object.assign(this, { answers, sample, of });
    this.question = answers.question(sample);
    this.asked = answers.index.variants.filter((one) => of.answers.some((answer) => answer.variant === one));
    this.variant = this.asked.includes(chosen.get("variant")) ? chosen.get("variant") : this.asked[0];
    this.models = answers.index.models.filter((one) => of.answers.some((answer) => answer.model === one));
    const named = chosen.getAll("model").filter((one) => this.models.includes(one));
    this.shown = named.length ? named : this.models.slice(0, 6);
    this.build(main);
  }

  address(change) {
    return address(["q", this.answers.key, this.of.dataset, this.of.id], { variant: this.variant === "clean" ? "" : this.variant, model: this.shown.length === this.models.length ? [] : this.shown, ...change });
  }

  back() { return lastList?.key === this.answers.key ? lastList.hash : address(["answers", this.answers.key], { variant: "clean" }); }

  build(main) {
    const { of, question } = this;
    put(main, el("section", { class: "sample" },
      el("header", null,
        el("a", { href: this.back(), class: "back", title: "Back to the table (Esc)" }, "← answers"),
        el("span", { class: "crumb" }, said(of.dataset, 80), " / ", el("b", null, said(of.id, 160))),
        el("span", { class: "steps" }, el("button", { type: "button", onclick: () => this.step(-1), title: "previous question (←, k)" }, "‹"), el("button", { type: "button", onclick: () => this.step(1), title: "next question (→, j)" }, "›"))),
      el("div", { class: "sides" },
        el("div", { class: "seen" }, this.pictures(), this.strip()),
        el("div", { class: "asked-and-said" },
          this.asked_(),
          el("p", { class: "chips" }, of.category ? el("span", { class: "chip" }, said(of.category, 120)) : null, of.answerable === false ? el("span", { class: "chip warn" }, "has no answer") : null, this.variant === "clean" ? null : el("span", { class: "chip" }, said(this.variant, 80)), of.pair ? this.partner() : null),
          this.expected(),
          of.prompts.length === 0 ? null : el("details", null, el("summary", null, "The prompt"), (this.variantOf().prompts ?? of.prompts).map((prompt) => el("pre", null, said(prompt))), el("p", { class: "quiet" }, `This is the user's turn${of.prompts.length > 1 ? " under each prompt of the spec" : ""}; ${this.whereShown()}the model's chat template is put around it, and a system message and examples if the spec has them: qualm prompt shows all of it.`)),
          this.modelPicks(),
          el("div", { class: "cards" }, this.shown.map((model) => this.card(model)))),
      ),
      this.overview(), this.lineage()));
  }

  variantOf() { return this.of.variants[this.variant] ?? {}; }

  /** The question as it was asked; under a variant that changes words, these are marked, and so are those that they replace. */
  asked_() {
    const { changes } = this.variantOf();
    if (!changes) return [el("h1", null, said(this.placed(this.of.question), 4000)), ["text", "cross"].includes(this.answers.index.changes[this.variant]) ? el("p", { class: "original quiet" }, "This variant left the words of the question as they are.") : null];
    const run = (tag, does, words) => (words ? [el(tag, null, el("span", { class: "hidden-label" }, `${does}: `), said(words, 4000)), " "] : null);
    const line = (place, tag, does) => changes.map((one) => (one[0] ? [said(one[0], 4000), " "] : run(tag, does, one[place])));
    const removed = changes.reduce((n, one) => n + (one[1] ? one[1].split(" ").length : 0), 0), added = changes.reduce((n, one) => n + (one[2] ? one[2].split(" ").length : 0), 0);
    return [el("h1", { class: "changed" }, line(2, "ins", "changed")),
      el("p", { class: "original" }, el("span", { class: "quiet" }, "Original: "), line(1, "del", "replaced"), el("small", { class: "quiet" }, `(${counted(removed, "word")} replaced by ${count(added)})`))];
  }

  pictures() {
    const names = this.question.pictures ?? [];
    if (!names.length) return el("p", { class: "no-picture" }, "This question has no image.");
    const made = names.map((_, i) => this.answers.pictureUnder(this.sample, this.variant, i));
    const absent = this.of.missing.length ? `The dataset has no file of ${this.of.missing.map((one) => `“${visible(one, 120)}”`).join(", ")}.` : "";
    if (absent || !made[0]) return el("p", { class: "no-picture" }, absent || this.notPublished());
    const image = (src, i) => el("img", { src, alt: `image ${i + 1} of the question`, decoding: "async", onerror: (event) => event.target.replaceWith(el("p", { class: "no-picture" }, "This image cannot be shown: its file is absent from this site, unreadable or too large.")) });
    if (made.length === 1) return el("div", { class: "pictures" }, image(made[0], 0));
    const ids = this.ids(), frame = (i) => / *#frame=(\d+)$/.exec(ids[i] ?? "")?.[1];
    return el("div", { class: "pictures several" }, made.map((src, i) => el("figure", null, image(src, i), el("figcaption", null, String(i + 1), frame(i) === undefined ? null : el("small", { class: "quiet" }, ` frame ${frame(i)}`)))));
  }

  /** Why a published page lacks an image that the dataset has. */
  notPublished() {
    const { index } = this.answers, licence = index.licences[this.of.dataset];
    const what = index.pictures === "none" ? "Images are not published on this site (--images none)." : "Images under variants are not published on this site (--images clean).";
    return `${what}${licence ? ` Licence of ${visible(this.of.dataset, 80)}: ${visible(licence, 300)}.` : ""} qualm view shows them where the results are.`;
  }

  /** Ids of the pictures: a list of them in the place of one. */
  ids() { try { const ids = JSON.parse(this.of.image ?? ""); return Array.isArray(ids) ? ids : []; } catch { return []; } }

  /** A question with a number in the place of each mark of where one of its several pictures stands. */
  placed(question) {
    const n = this.question.pictures?.length ?? 0, parts = String(question ?? "").split("<image>");
    return n > 1 && parts.length === n + 1 ? parts.reduce((text, part, i) => `${text}[image ${i}]${part}`) : question;
  }

  whereShown() {
    const n = this.question.pictures?.length ?? 0;
    if (!n) return "";
    return n > 1 && this.placed(this.of.question) !== this.of.question ? "the images stand where it has <image>, and " : `the ${n > 1 ? "images stand" : "image stands"} before it, and `;
  }

  strip() {
    if (this.asked.length < 2) return null;
    return el("div", { class: "strip", role: "group", "aria-label": "Variants" }, this.asked.map((variant) => {
      const picture = this.answers.pictureUnder(this.sample, variant);
      const verdicts = this.shown.map((model) => this.answer(model, variant)).filter(Boolean);
      return el("a", { href: this.address({ variant: variant === "clean" ? "" : variant }), "aria-current": variant === this.variant ? "true" : null },
        picture ? el("img", { src: picture, alt: "", loading: "lazy", decoding: "async", onerror: (event) => event.target.replaceWith(el("span", { class: "blank" })) }) : el("span", { class: "blank" }, this.answers.index.changes[variant] === "text" ? "Aa" : ""),
        el("span", null, said(variant, 60)), el("small", null, verdicts.slice(0, 6).map((one) => mark(one.correct))));
    }));
  }

  answer(model, variant) { return this.of.answers.find((one) => one.model === model && one.variant === variant); }

  expected() {
    const { question } = this;
    const notScored = this.shown.every((model) => this.answer(model, this.variant)?.correct === undefined);
    return el("p", { class: "expected" }, el("span", null, "Expected "), question.expected ? el("b", null, said(question.expected, 1000)) : el("em", null, "no reference answer"), notScored ? el("span", { class: "quiet" }, " (not scored under this variant)") : null);
  }

  partner() {
    return el("a", { class: "chip", href: address(["answers", this.answers.key], { variant: "clean", q: this.of.pair }) }, "its pair");
  }

  modelPicks() {
    if (this.models.length < 2) return null;
    const toggle = (model) => { const next = this.shown.includes(model) ? this.shown.filter((one) => one !== model) : this.models.filter((one) => one === model || this.shown.includes(one)); return next.length ? next : [model]; };
    return el("div", { class: "tabs", role: "group", "aria-label": "Models" }, this.models.map((model) => { const answer = this.answer(model, this.variant); return el("a", { href: this.address({ model: toggle(model) }), "aria-current": this.shown.includes(model) ? "true" : null }, el("i", { class: "dot", style: { background: colour(this.answers.key, model) } }), said(model, 60), " ", answer ? mark(answer.correct) : null); }));
  }

  card(model) {
    const answer = this.answer(model, this.variant);
    const head = el("h2", null, el("i", { class: "dot", style: { background: colour(this.answers.key, model) } }), said(model, 80));
    if (!answer) return el("article", { class: "card" }, head, el("p", { class: "quiet" }, "was not asked this question under this variant."));
    const verdict = VERDICTS[verdictOf(answer.correct)];
    return el("article", { class: `card ${verdict}` },
      el("header", null, head, el("span", { class: `verdict ${verdict}` }, MARKS[verdict], " ", verdict === "partly" ? `partly right (${number(answer.correct, 2)})` : verdict)),
      this.words(answer),
      answer.thinking ? el("details", null, el("summary", null, "Its thinking"), el("pre", null, said(answer.thinking))) : null,
      answer.confidence === undefined ? null : el("div", { class: "meter" }, el("span", null, "Confidence"), el("span", { class: "sure" }, el("i", { style: { width: `${100 * answer.confidence}%` } })), el("b", null, number(answer.confidence)), answer.said_confidence ? el("small", { class: "quiet" }, "said “", said(answer.said_confidence, 80), "”") : null),
      this.options(answer), this.draws(answer), this.estimators(answer), this.judges(answer));
  }

  /** The answer, each token coloured by how likely it was; as a strip of tokens below where words and tokens are not the same. */
  words(answer) {
    const text = answer.text ?? "";
    const logprobs = answer.token_logprobs;
    const words = text.match(/\s*\S+/g) ?? [];
    if (!text) return el("p", { class: "text" }, el("em", { class: "quiet" }, said(answer.no_answer ? `no answer: ${answer.no_answer}` : "empty answer", 200)));
    const choice = answerText(text, this.question);
    if (!logprobs?.length) return el("p", { class: "text" }, said(choice));
    const tone = (x) => `color-mix(in srgb, var(--wrong) ${Math.round(78 * (1 - Math.exp(x)) ** 0.7)}%, transparent)`;
    const title = (i) => `p = ${number(Math.exp(logprobs[i]), 4)}${answer.token_entropies?.[i] === undefined ? "" : `, entropy ${number(answer.token_entropies[i])} nats`}`;
    const ends = logprobs.length - words.length;
    const alike = (ends === 0 || ends === 1) && words.length <= 2000;
    const strip = el("span", { class: "tokens", role: "img", "aria-label": "probability of each token" }, logprobs.slice(0, 400).map((x, i) => el("i", { title: `token ${i + 1}: ${title(i)}`, style: { background: tone(x), height: `${6 + 16 * Math.exp(x)}px` } })));
    const worst = logprobs.reduce((low, x) => Math.min(low, x ?? 0), 0);
    return el("div", { class: "text" },
      el("p", null, alike && choice === text ? words.map((word, i) => el("span", { class: "token", title: title(i), style: { "--tone": tone(logprobs[i]) } }, said(word))) : said(choice)),
      el("p", { class: "quiet strip-of-tokens" }, strip, ` ${counted(logprobs.length, "token")}, least likely p = ${number(Math.exp(worst), 4)}${alike && ends === 1 ? "; the last one ends the answer" : ""}`));
  }

  options(answer) {
    const { choices, answer: right } = this.question;
    if (!choices) return null;
    const sets = answer.sets ?? [];
    const odds = answer.options ?? [];
    const picked = odds.length ? odds.indexOf(Math.max(...odds.map((x) => x ?? -1))) : answer.predicted;
    const short = (set) => (sets.some((one) => one.setting !== sets[0].setting) ? `${set.setting} ${set.score}` : set.score);
    return scrollable("Options", el("table", { class: "options" },
      sets.length ? el("thead", null, el("tr", null, el("th"), el("th", null, el("small", null, "probability")), sets.map((set) => el("th", { title: `conformal set of ${visible(set.setting, 60)}${set.is_calibration ? "; this question was used to calibrate it" : ""}` }, el("small", null, said(short(set), 30)))))) : null,
      el("tbody", null, choices.map((one, i) => el("tr", { class: i === right ? "truth" : null },
        el("th", null, el("b", null, optionLabel(i)), " ", said(one, 300), i === right ? el("i", { class: "mark right", title: "the right option" }, "✓") : null, i === picked ? el("small", { class: "picked" }, "chosen") : null),
        el("td", null, odds[i] === undefined || odds[i] === null ? null : [el("span", { class: "sure" }, el("i", { style: { width: `${100 * odds[i]}%` } })), el("span", { class: "num" }, number(odds[i]))]),
        sets.map((set) => el("td", { class: "in-set" }, set.options.includes(i) ? el("i", { title: `in the set of ${visible(set.score, 40)}` }, "●") : ""))))),
      sets.length ? el("tfoot", null, el("tr", null, el("td", { colspan: 2 }, el("small", { class: "quiet" }, sets[0].is_calibration ? "Conformal sets; this question was used to calibrate them." : "● in the conformal set")), sets.map((set) => el("td", { class: "in-set" }, el("small", { class: set.covered ? "quiet" : "missed", title: `the right option is ${set.covered ? "" : "not "}in the set` }, set.covered ? "covers" : "misses"))))) : null));
  }

  draws(answer) {
    if (!answer.draws?.length) return null;
    const of = new Map();
    for (const draw of answer.draws) { const said = draw.text.trim() || `\u0000${draw.no_answer ? `no answer: ${draw.no_answer}` : "empty answer"}`; of.set(said, (of.get(said) ?? 0) + 1); }
    const n = answer.draws.length;
    return el("section", null, el("h3", null, `${counted(n, "sampled answer")}, ${of.size === 1 ? "all alike" : `${count(of.size)} different`}`), el("ul", { class: "draws" }, [...of].sort((a, b) => b[1] - a[1]).map(([text, times]) => el("li", null, el("span", { class: "sure" }, el("i", { style: { width: `${(100 * times) / n}%` } })), el("b", null, `${times}×`), text.startsWith("\u0000") ? el("em", { class: "quiet" }, said(text.slice(1), 200)) : said(text, 2000)))));
  }

  estimators(answer) {
    const values = Object.entries(answer.uncertainty ?? {});
    const asked = [["P(True), asked whether its answer is true", answer.p_true], ["P(True), also shown its sampled answers", answer.p_true_sampling], ["P(yes), asked whether its answer is right", answer.p_yes]].filter(([, value]) => value !== undefined);
    if (!values.length && !asked.length) return null;
    const clean = this.variant === "clean" ? null : this.answer(answer.model, "clean")?.uncertainty;
    const place = (share) => (share === undefined ? null : el("span", { class: "sure-value", title: `more uncertain than ${percent(share)} of this model's answers` }, el("span", { class: "sure" }, el("i", { style: { width: `${100 * share}%` } })), `${Math.floor(100 * share)}%`));
    const small = (text) => el("small", null, text);
    return el("section", null, el("h3", null, "Uncertainty ", el("small", { class: "quiet" }, "higher is more uncertain; percentile: share of this model's answers in these results that are less uncertain")), scrollable("Uncertainty", el("table", { class: "values" },
      el("thead", null, el("tr", null, el("th", { scope: "col" }, small("estimator")), el("th", { scope: "col" }, small("value")), el("th", { scope: "col" }, small("percentile")), clean ? el("th", { scope: "col" }, small("clean value")) : null)),
      el("tbody", null,
        values.map(([name, value]) => el("tr", null, el("th", { scope: "row" }, el("a", { href: address(["answers", this.answers.key], { model: answer.model, variant: this.variant, dataset: this.of.dataset, est: name, sort: "u-" }), title: "all answers by this estimator" }, said(this.answers.index.estimators[name] ?? name, 80))), el("td", null, number(value, 4)), el("td", null, place(answer.percentile?.[name])), clean ? el("td", { class: "quiet" }, clean[name] === undefined ? "–" : number(clean[name], 4)) : null)),
        asked.map(([name, value]) => el("tr", { class: "asked-outright" }, el("th", { scope: "row" }, name), el("td", null, number(value, 4)), el("td"), clean ? el("td") : null))))));
  }

  judges(answer) {
    if (!answer.judges?.length) return null;
    return el("section", null, el("h3", null, answer.judges.length > 1 ? "Judges" : "Judge"), el("ul", { class: "judges" }, answer.judges.map((one) => el("li", null, mark(one.rating), el("b", null, said(one.judge, 60)), one.rating === undefined ? " gives no rating" : ` rates it ${number(one.rating, 2)}`,
      one.pred_is_idk ? el("span", { class: "chip" }, "a refusal") : null, one.gt_is_idk ? el("span", { class: "chip" }, "abstaining is right") : null, one.parse_ok === false ? el("span", { class: "chip warn" }, "reply could not be read") : null,
      Object.entries(one.marks ?? {}).map(([name, value]) => el("span", { class: "chip" }, said(name, 40), ` ${number(value, 2)}`)),
      one.reply ? el("pre", null, said(one.reply)) : null))));
  }

  /** Every model under every variant. */
  overview() {
    if (this.asked.length < 2 && this.models.length < 2) return null;
    return el("section", { class: "overview" }, el("h2", null, "All answers to this question"), scrollable("All answers to this question", el("table", { class: "board all" },
      el("thead", null, el("tr", null, el("th", null, "Variant"), this.models.map((model) => el("th", null, el("i", { class: "dot", style: { background: colour(this.answers.key, model) } }), said(model, 60))))),
      el("tbody", null, this.asked.map((variant) => el("tr", { class: variant === this.variant ? "here" : null }, el("th", null, el("a", { href: this.address({ variant: variant === "clean" ? "" : variant }) }, said(variant, 80))), this.models.map((model) => {
        const answer = this.answer(model, variant);
        return el("td", null, answer ? [mark(answer.correct), answer.text ? said(answerText(answer.text, this.question), 80) : el("em", { class: "quiet" }, said(answer.no_answer ? `no answer: ${answer.no_answer}` : "empty answer", 200)), answer.confidence === undefined ? null : el("small", null, number(answer.confidence, 2))] : "–");
      })))))));
  }

  lineage() {
    const { of, answers } = this;
    const files = answers.index.files;
    const digests = [...new Set(this.shown.map((model) => this.answer(model, this.variant)?.input_digest).filter(Boolean))];
    const entries = [["Made by", of.source], ["Group", of.group], ["Pair", of.pair], ["Image", of.image], ...Object.entries(of.meta ?? {}), ["Input digest", digests.join(" ")], ["Dataset", files.datasets[of.dataset]],
      ...this.shown.map((model) => [`Answers of ${model}`, files.generations[model.split("+")[0]]?.[of.dataset]])].filter(([, value]) => value);
    return el("section", { class: "lineage" }, el("h2", null, "Where it comes from"), el("dl", null, entries.map(([name, value]) => [el("dt", null, said(name, 80)), el("dd", null, said(value, 600))])),
      files.generations[this.shown[0].split("+")[0]]?.[of.dataset] ? el("p", { class: "quiet" }, el("code", null, `qualm lineage ${visible(files.generations[this.shown[0].split("+")[0]][of.dataset], 200)}`), " says which stage made that file, and from what.") : null);
  }

  /** The next question of the table, or of the dataset. */
  async step(by) {
    const { answers } = this;
    const samples = answers.data("sample");
    let next = this.sample + by, model = this.shown, variant = this.variant;
    if (lastList?.key === answers.key && samples && lastList.order.length) {
      const order = lastList.order;
      let place = lastList.cursor >= 0 && samples[order[lastList.cursor]] === this.sample ? lastList.cursor : order.findIndex((row) => samples[row] === this.sample);
      if (place >= 0) {
        do place += by; while (place >= 0 && place < order.length && samples[order[place]] === this.sample && answers.value("variant", order[place]) === this.variant);
        if (place < 0 || place >= order.length) return;
        lastList.cursor = place;
        next = samples[order[place]];
        variant = answers.value("variant", order[place]);
        if (!lastList.others && this.shown.length === 1) model = [answers.value("model", order[place])];
      }
    }
    if (next < 0 || next >= answers.index.samples) return;
    const question = (await answers.part("s", Math.floor(next / answers.index.sample_rows)).ready)[next % answers.index.sample_rows];
    location.hash = address(["q", answers.key, answers.dataset(next).name, question.id], { variant: variant === "clean" ? "" : variant, model: model.length === this.models.length ? [] : model });
  }

  key(key) {
    if (key === "Escape") { location.hash = this.back(); return true; }
    if (key === "j" || key === "ArrowRight") { this.step(1); return true; }
    if (key === "k" || key === "ArrowLeft") { this.step(-1); return true; }
    if ((key === "ArrowDown" || key === "ArrowUp") && this.asked.length > 1) {
      const place = this.asked.indexOf(this.variant) + (key === "ArrowDown" ? 1 : -1);
      if (place >= 0 && place < this.asked.length) history.replaceState(null, "", this.address({ variant: this.asked[place] === "clean" ? "" : this.asked[place] })), dispatchEvent(new HashChangeEvent("hashchange"));
      return true;
    }
    if (key === "/") { location.hash = this.back(); return true; }
    return false;
  }
}
