// One conversation as this page sees it: the answer, the retries of it, the
// Stop receipt, and what the agent saw. No DOM here.

import { Lines } from "./lines.js";
import { Viewer } from "./viewer.js";
import { activeEventsURL, bodyOf, chat, eventsURL, fresh, Gateway, isTerminal } from "./wire.js";

/** Waits before coming back by ourselves, in ms; the last one repeats. */
const BACKOFF = [500, 1000, 2000, 4000];

export class Session {
  prompt = "";
  /** The request that started the run; null on another device. */
  request = null;
  start = 0;
  /** @type {{status: number, body: any} | null} */
  receipt = null;
  record = null;
  /** How often the agent was called, its view of our call, and its progress. */
  agent = { total: 0, call: null, points: [] };
  /** @type {Viewer[]} */
  retries = [];
  /** @type {{t: number, text: string, connection: number}[]} */
  log = [];
  /** How to come back: EventSource or fetch. */
  how = "EventSource";
  #tries = 0;
  #timers = {};
  #closed = false;

  /**
   * @param {string} conversation
   * @param {() => void} changed called after every change; draws nothing itself
   */
  constructor(conversation, changed, env = globalThis) {
    this.conversation = conversation;
    this.changed = changed;
    this.env = env;
    this.gateway = new Gateway((...args) => env.fetch(...args));
    this.#clear();
  }

  #clear() {
    this.main?.close();
    for (const viewer of this.retries) viewer.close();
    this.lines = new Lines();
    this.main = this.#viewer("answer");
    this.retries = [];
    this.receipt = this.record = this.request = null;
    this.agent = { total: this.agent.total, call: null, points: [] };
    this.start = this.env.Date.now();
  }

  #viewer(role) {
    const on = {
      changed: this.changed,
      opened: (viewer, line, response) => this.#opened(viewer, line, response),
      over: (viewer, why, what) => this.#over(viewer, why, what),
    };
    return Object.assign(new Viewer(this.lines, on, this.env), { role, conversation: this.conversation });
  }

  /** Whether a run is under way as far as this page knows. */
  get busy() {
    return this.main.phase === "connecting" || (this.main.run !== "" && !isTerminal(this.main.state) && this.main.phase !== "gone");
  }

  ask(prompt) {
    this.#clear();
    this.prompt = prompt;
    this.request = chat(prompt, this.conversation, fresh("demo-"));
    this.main.post(this.request);
  }

  /** Attaches as another viewer: to one run, or to whatever is active. */
  follow(run = "") {
    this.#clear();
    this.prompt = "";
    this.main.run = run;
    this.main.attach(run ? eventsURL(run) : activeEventsURL(this.conversation));
  }

  /** Breaks the connection and comes back after some ms; 0 is never. */
  kill(ms) {
    this.main.cut();
    this.say("connection killed");
    if (ms) this.#later("resume", ms, () => this.resume());
  }

  /** When the page comes back by itself; 0 when it does not. */
  get backAt() {
    return this.#timers.resume?.at ?? 0;
  }

  resume() {
    this.#forget("resume");
    if (this.main.run) this.main.resume(this.how);
    else if (this.request) this.main.post(this.request);
  }

  /** Sends the same request again: same key, same bytes. */
  retry() {
    const viewer = this.#viewer(`retry ${this.retries.length + 1}`);
    this.retries.push(viewer);
    viewer.post(this.request);
  }

  async stop() {
    this.receipt = await this.gateway.cancel(this.main.run);
    this.say(`POST /_runs/…/cancel → ${this.receipt.status}`);
    this.changed();
    await this.refresh();
    if (this.receipt.status === 202) this.#later("settle", 500, () => this.#settled());
  }

  // A Stop that was accepted is looked up until it is settled.
  async #settled() {
    await this.refresh();
    if (this.record && this.receipt) this.receipt = { ...this.receipt, body: this.record };
    this.changed();
    if (this.record && !isTerminal(this.record.state)) this.#later("settle", 500, () => this.#settled());
  }

  /** Reads the record, and believes its state. */
  async refresh() {
    const { run } = this.main;
    if (!run) return;
    const { status, body } = await this.gateway.record(run);
    if (this.#closed || run !== this.main.run) return;
    if (status === 200) this.#believe(body);
    if (status === 404) this.main.phase = "gone";
    this.changed();
  }

  #believe(record) {
    this.record = record;
    if (!isTerminal(this.main.state)) this.main.state = record.state;
    if (!this.request) this.#since(Date.parse(record.created_at));
    const { final_seq } = record.frames ?? {};
    if (final_seq && this.main.ledger.last >= final_seq) this.main.complete = true;
  }

  // On another device the picture begins with the run, not with this reader.
  #since(created) {
    if (created < this.start) this.start = created;
  }

  /** Asks the agent how far it is. */
  async watchAgent() {
    const { body } = await this.gateway.calls();
    if (!body || this.#closed) return;
    this.agent.total = body.total;
    const call = body.calls.find((c) => c.id === this.main.answer.id);
    if (call) {
      this.agent.call = call;
      this.#mark(call.frames);
    }
    this.changed();
  }

  #mark(frames) {
    const { points } = this.agent;
    if (points.length > 1 && points.at(-1).frames === frames && points.at(-2).frames === frames) points.pop();
    points.push({ t: this.env.Date.now(), frames });
  }

  /** Shows what this conversation has: its active run, else its last one. */
  async catchUp() {
    await this.lookAround();
    if (this.#closed || this.main.phase !== "idle") return;
    const { body } = await this.gateway.runs({ conversation_id: this.conversation, limit: 1 });
    const [last] = body?.runs ?? [];
    if (last && !this.#closed && this.main.phase === "idle") this.follow(last.run_id);
  }

  /** Notices a run that another device started in this conversation. */
  async lookAround() {
    if (this.busy) return;
    const { body } = await this.gateway.active(this.conversation);
    if (this.#closed || this.busy || body?.status !== "running" || body.run_id === this.main.run) return;
    this.say("another device asked something");
    this.follow();
  }

  #opened(viewer, line, response) {
    this.#tries = 0;
    const method = line.kind === "POST" ? "POST" : "GET";
    const sent = line.cursor && `, Last-Event-ID: ${line.cursor}`;
    const got = `→ 200${line.kind === "POST" && viewer.replayed ? ", Idempotent-Replayed: true" : ""}`;
    this.say(`${method} ${line.url}${sent} ${got}`, line.n);
    if (viewer === this.main) this.refresh();
  }

  async #over(viewer, why, what) {
    if (why === "refused") await this.#refused(viewer, what);
    else this.say({ end: "end of stream", network: "connection broke", closed: viewer.stopped ? "EventSource told to stop (204)" : "EventSource refused" }[why]);
    if (viewer !== this.main || this.#closed) return this.changed();
    await this.refresh();
    if (!viewer.complete && viewer.phase !== "gone" && (viewer.run || why === "network")) this.#comeBack();
  }

  async #refused(viewer, response) {
    this.say(`${response.status} ${response.url ? new URL(response.url).pathname : ""}`);
    if (response.status === 204) Object.assign(viewer, { stopped: true, phase: "over" });
    else viewer.problem = (await bodyOf(response)) ?? { status: response.status, title: "No stream" };
    // A start that was refused is not repeated by a reload.
    if (viewer === this.main && !viewer.run) this.request = null;
  }

  #comeBack() {
    this.#later("resume", BACKOFF[Math.min(this.#tries++, BACKOFF.length - 1)], () => this.resume());
  }

  #later(name, ms, action) {
    this.#forget(name);
    const run = () => {
      delete this.#timers[name];
      action();
    };
    this.#timers[name] = { id: this.env.setTimeout(run, ms), at: this.env.Date.now() + ms };
  }

  #forget(name) {
    if (this.#timers[name]) this.env.clearTimeout(this.#timers[name].id);
    delete this.#timers[name];
  }

  say(text, connection = 0) {
    this.log.push({ t: this.env.Date.now(), text: text.replace(/(run_\w{6})\w+/g, "$1…"), connection });
    if (this.log.length > 200) this.log.shift();
  }

  /** The page is about to go. */
  leave() {
    this.main.close("reload");
  }

  /** Ends everything; the session is not used again. */
  close() {
    this.#closed = true;
    for (const name of Object.keys(this.#timers)) this.#forget(name);
    this.main.close();
    for (const viewer of this.retries) viewer.close();
  }

  /** What survives a reload. */
  toJSON() {
    const { prompt, request, start, receipt, agent, log, lines, main } = this;
    return { prompt, request, start, receipt, agent, log, lines: lines.of("answer"), main };
  }

  /** Goes on where a reload left off. */
  restore({ lines, main, ...saved }) {
    Object.assign(this, saved);
    this.lines = new Lines(lines);
    this.main = this.#viewer("answer").restore(main);
    for (const line of lines) {
      if (!line.ended) this.lines.close(line, "reload", this.main.ledger.last, this.env.Date.now());
    }
    this.say("page reloaded");
    if (this.main.complete) this.main.phase = "over";
    if (this.main.complete) this.refresh();
    else this.resume();
    return this;
  }
}
