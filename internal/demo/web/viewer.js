// One reader of one run: it may change connections as often as it likes, and
// counts frames over all of them. The page has one for the answer it shows and
// one more for each retry.

import { Answer } from "./answer.js";
import { Ledger, parseCursor } from "./ledger.js";
import { readByEventSource, readByFetch } from "./reader.js";
import { CHAT, eventsURL } from "./wire.js";

/** Points of the picture that are closer than this, in ms, become one. */
const SHARP = 80;

export class Viewer {
  /** answer, or which retry. */
  role = "answer";
  run = "";
  conversation = "";
  /** Of the run: "" until known, running, waiting, cancelling or terminal. */
  state = "";
  /** Of the reader: a key of PHASES. */
  phase = "idle";
  /** Whether this reader has everything that it will ever get. */
  complete = false;
  /** The problem body of a refusal. */
  problem = null;
  /** Whether the answer to the POST said Idempotent-Replayed. */
  replayed = false;
  /** The data of run.end or stream_expired, once seen. */
  end = null;
  expired = null;
  reconnects = 0;
  /** Whether the gateway stopped the EventSource after the end, with 204. */
  stopped = false;
  ledger = new Ledger();
  answer = new Answer();
  /** @type {{t: number, seq: number, connection: number}[]} */
  points = [];
  /**
   * The keepalives, where they fell in the picture.
   * @type {{t: number, seq: number, connection: number}[]}
   */
  pulses = [];
  #reader = null;
  #line = null;
  /** How often the reader of now has opened. */
  #opens = 0;

  /**
   * @param {import("./lines.js").Lines} lines all connections of the page
   * @param {object} on
   * @param {() => void} on.changed
   * @param {(viewer: Viewer, line: object, response?: Response) => void} on.opened
   * @param {(viewer: Viewer, why: string, what: any) => void} on.over
   */
  constructor(lines, on, env = globalThis) {
    this.lines = lines;
    this.on = on;
    this.env = env;
  }

  /** Starts a run, or asks for the same one again. */
  post(request) {
    this.#connect("POST", CHAT, (hooks) => readByFetch(CHAT, request, hooks, this.env));
  }

  /** Attaches to the run behind url with the browser's EventSource. */
  attach(url) {
    this.#connect("EventSource", url, (hooks) => readByEventSource(url, hooks, this.env));
  }

  /**
   * Goes on after the last frame seen. An EventSource cannot set a header on
   * its first request, so it names the cursor in the URL; fetch sends the
   * Last-Event-ID that an EventSource sends when it reconnects by itself.
   */
  resume(how) {
    const { run, ledger } = this;
    if (how !== "fetch") return this.attach(eventsURL(run, ledger.last));
    const headers = { Accept: "text/event-stream" };
    if (ledger.last > 0) headers["Last-Event-ID"] = `${run}.${ledger.last}`;
    this.#connect("fetch", eventsURL(run), (hooks) => readByFetch(eventsURL(run), { headers }, hooks, this.env));
  }

  /** Breaks the connection, as a tunnel would. The run knows nothing of it. */
  cut() {
    this.close("cut");
    this.phase = "cut";
    this.on.changed();
  }

  close(why = "replaced") {
    this.#reader?.close();
    this.#reader = null;
    this.#hangUp(why);
  }

  #connect(kind, url, open) {
    this.close();
    this.phase = "connecting";
    this.problem = null;
    this.#opens = 0;
    this.#reader = open({
      open: (response) => this.#opened(kind, url, response),
      event: (event) => this.#event(event),
      keepalive: () => this.#keepalive(),
      lost: () => this.#lost(),
      over: (why, what) => this.#over(kind, why, what),
    });
    this.on.changed();
  }

  #opened(kind, url, response) {
    const { last } = this.ledger;
    const { role } = this;
    const again = this.#opens++ > 0;
    if (this.lines.of(role).length > 0) this.reconnects++;
    // An EventSource names its place in a header when it comes back by itself.
    const cursor = last > 0 && (kind === "fetch" || again) ? `${this.run}.${last}` : "";
    const line = (this.#line = this.lines.open({ role, kind, url, cursor, last, now: this.env.Date.now() }));
    if (last > 0) this.answer.seam(last + 1, line.n);
    this.phase = "live";
    this.state ||= "running";
    if (response) this.#headers(kind, response.headers);
    this.on.opened(this, line, response);
    this.on.changed();
  }

  #headers(kind, headers) {
    this.run ||= headers.get("X-Run-Id") ?? "";
    this.conversation = headers.get("X-Conversation-Id") ?? this.conversation;
    if (kind === "POST") this.replayed = headers.get("Idempotent-Replayed") === "true";
  }

  #keepalive() {
    this.pulses.push({ t: this.env.Date.now(), seq: this.ledger.last, connection: this.#line.n });
    this.on.changed();
  }

  // An EventSource reconnects after every end of body, the proper one too, and
  // is stopped by the 204 it then gets.
  #lost() {
    this.#hangUp(this.complete ? "end" : "lost");
    this.phase = this.complete ? "over" : "lost";
    this.on.changed();
  }

  #over(kind, why, what) {
    this.#reader = null;
    // The answer to a POST has no control events: its proper end is the end.
    if (why === "end" && kind === "POST") this.complete = true;
    if (why === "closed") this.stopped = this.complete;
    this.#hangUp(why);
    this.phase = { end: "over", refused: "refused", network: "lost", closed: "over" }[why];
    this.on.changed();
    this.on.over(this, why, what);
  }

  #hangUp(why) {
    if (this.#line) this.lines.close(this.#line, why, this.ledger.last, this.env.Date.now());
    this.#line = null;
  }

  #event({ type, data, id }) {
    if (type === "run.state") this.state = JSON.parse(data).state;
    else if (type === "stream_expired") this.#expired(JSON.parse(data));
    else this.#frame(type, data, parseCursor(id));
    this.on.changed();
  }

  #frame(type, data, cursor) {
    if (!cursor) return;
    this.run ||= cursor.run;
    const fresh = this.ledger.take(cursor.seq, this.#line.n);
    this.#line.frames++;
    this.#point(cursor.seq);
    if (!fresh) return;
    if (type === "run.end") this.#ended(JSON.parse(data));
    else this.answer.fold(data);
  }

  #ended(end) {
    this.end = end;
    this.state = end.state;
    this.complete = true;
  }

  // Frames that were trimmed from a run still going on are a hole, not the end.
  #expired(expired) {
    this.expired = expired;
    this.run ||= expired.run_id;
    this.state = expired.state;
    this.complete = expired.reason !== "trimmed";
  }

  // A replay of hundreds of frames in one instant is one vertical stroke: the
  // first and the newest point of it are enough.
  #point(seq) {
    const point = { t: this.env.Date.now(), seq, connection: this.#line.n };
    const [before, last] = this.points.slice(-2);
    const same = before?.connection === point.connection && last?.connection === point.connection;
    if (same && point.t - before.t < SHARP) this.points.pop();
    this.points.push(point);
  }

  /** What survives a reload. */
  toJSON() {
    const { lines, on, env, problem, phase, role, ...kept } = this;
    return kept;
  }

  restore({ ledger, answer, ...saved }) {
    return Object.assign(this, saved, { ledger: new Ledger(ledger), answer: new Answer(answer) });
  }
}
