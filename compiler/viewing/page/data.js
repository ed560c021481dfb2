"use strict";
/* Chunks: fetched over HTTP, loaded as scripts where the page was opened from disk; each once. */

const FROM_DISK = location.protocol === "file:";
const chunks = new Map();
const waiting = new Map();

/** What the file of a chunk calls when it runs as a script. */
function qualmChunk(name, packed) {
  waiting.get(name)?.(packed);
  waiting.delete(name);
}

function packedFromDisk(name, path) {
  return new Promise((resolve, reject) => {
    waiting.set(name, resolve);
    const script = el("script", { src: path, onerror: () => reject(new Error(`${path} is missing; publish the page again`)), onload: () => script.remove() });
    document.head.append(script);
  });
}

async function packedFromServer(path) {
  const reply = await fetch(path);
  if (!reply.ok) throw new Error(`${path}: ${reply.status} ${reply.statusText}`);
  const text = await reply.text();
  return text.slice(text.indexOf(',"') + 2, text.lastIndexOf('"'));
}

function bytesOf(packed) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(packed);
  const text = atob(packed);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

async function unpacked(name) {
  const path = `data/${name.split("/").map(encodeURIComponent).join("/")}.js`;
  const packed = await (FROM_DISK ? packedFromDisk(name, path) : packedFromServer(path));
  const stream = new Blob([bytesOf(packed)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

/** The content of a chunk, `ready` once it is there. `made` turns bytes into it. */
function chunk(name, made = asJson) {
  let entry = chunks.get(name);
  if (!entry) {
    entry = { value: undefined };
    entry.ready = unpacked(name).then((bytes) => (entry.value = made(bytes)));
    entry.ready.catch(() => chunks.delete(name));
    chunks.set(name, entry);
  }
  return entry;
}

const asJson = (bytes) => JSON.parse(new TextDecoder().decode(bytes));
const ARRAYS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array };
const asArray = (type) => (bytes) => new ARRAYS[type](bytes);

/** All answers of one spec: columns, and texts in blocks. */
class Answers {
  static of = new Map();

  static async open(key) {
    if (!Answers.of.has(key)) {
      const opened = chunk(`${key}/index`).ready.then((index) => new Answers(key, index));
      opened.catch(() => Answers.of.delete(key));
      Answers.of.set(key, opened);
    }
    return Answers.of.get(key);
  }

  constructor(key, index) {
    this.key = key;
    this.index = index;
    this.n = index.rows;
    this.columns = new Map(index.columns.map((column, place) => [column.name, { ...column, place }]));
    this.starts = null;
  }

  has(name) { return this.columns.has(name); }
  values(name) { return this.columns.get(name)?.values ?? []; }

  /** Load columns; then `data` has them at once. */
  async load(names) {
    await Promise.all(names.filter((name) => this.has(name)).map(async (name) => {
      const column = this.columns.get(name);
      column.data ??= await chunk(`${this.key}/c/${column.place}`, asArray(column.type)).ready;
    }));
  }

  data(name) { return this.columns.get(name)?.data; }

  /** What a row has in a column: a text, a number, or null. */
  value(name, row) {
    const column = this.columns.get(name);
    if (!column?.data) return null;
    const one = column.data[row];
    return column.values ? column.values[one] ?? null : Number.isNaN(one) ? null : one;
  }

  /** Where each question's rows begin, and where the last ones end: rows lie question by question. */
  rowsOf(sample) {
    if (!this.starts) {
      const data = this.data("sample");
      this.starts = new Uint32Array(this.index.samples + 1).fill(this.n);
      for (let row = this.n - 1; row >= 0; row--) this.starts[data[row]] = row;
    }
    return [this.starts[sample], this.starts[sample + 1]];
  }

  part(kind, number) { return chunk(`${this.key}/${kind}/${number}`); }
  text(row) { const size = this.index.text_rows; return this.part("t", Math.floor(row / size)).value?.[row % size]; }
  question(sample) { const size = this.index.sample_rows; return this.part("s", Math.floor(sample / size)).value?.[sample % size]; }

  /** Wait for the texts and questions of rows. */
  async texts(rows) {
    const sample = this.data("sample");
    const wanted = new Set();
    for (const row of rows) wanted.add(`t ${Math.floor(row / this.index.text_rows)}`).add(`s ${Math.floor(sample[row] / this.index.sample_rows)}`);
    const missing = [...wanted].map((one) => this.part(...one.split(" "))).filter((entry) => entry.value === undefined);
    await Promise.all(missing.map((entry) => entry.ready));
  }

  dataset(sample) {
    let first = 0;
    for (const [place, one] of this.index.datasets.entries()) { first += one.samples; if (sample < first) return { ...one, place }; }
    return null;
  }

  /** The number of the question of this name; -1 if there is none. */
  async find(dataset, id) {
    const ids = await chunk(`${this.key}/ids`, asArray("u4")).ready;
    let value = 0x811c9dc5;
    for (const byte of new TextEncoder().encode(`${dataset}\0${id}`)) value = Math.imul(value ^ byte, 0x01000193) >>> 0;
    for (let sample = ids.indexOf(value); sample >= 0; sample = ids.indexOf(value, sample + 1)) {
      const question = (await this.part("s", Math.floor(sample / this.index.sample_rows)).ready)[sample % this.index.sample_rows];
      if (question.id === id && this.dataset(sample).name === dataset) return sample;
    }
    return -1;
  }

  async details(sample) {
    const size = this.index.detail_samples;
    return (await this.part("d", Math.floor(sample / size)).ready)[sample % size];
  }

  picture(sample, number = 0) {
    const names = this.question(sample)?.pictures;
    if (this.index.pictures === "none" || !names || names[number] === undefined) return null;
    return `pictures/${encodeURIComponent(this.key)}/${this.dataset(sample).place}/${names[number]}.webp`;
  }

  /** The picture of a question under a variant: its own where the variant is of words alone; null where the page has none. */
  pictureUnder(sample, variant, number = 0) {
    if (variant === "clean" || this.index.changes[variant] === "text") return this.picture(sample, number);
    if (this.index.pictures !== "all" || !this.picture(sample, number)) return null;
    return `pictures/${encodeURIComponent(this.key)}/${this.dataset(sample).place}/${sample}-${this.index.variants.indexOf(variant)}-${number}.webp`;
  }
}
