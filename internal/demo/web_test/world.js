// A browser and a gateway for tests: time stands still until it is moved, and
// every request waits until the test answers it.

export class World {
  now = 1_000_000;
  timers = [];
  /** Requests by fetch, oldest first. */
  requests = [];
  /** @type {FakeEventSource[]} */
  sources = [];
  /** Answers to requests that come by themselves, by "METHOD path". */
  answers = {};

  constructor() {
    const world = this;
    this.Date = { now: () => world.now };
    this.EventSource = class extends FakeEventSource {
      constructor(url) {
        super(url);
        world.sources.push(this);
      }
    };
  }

  setTimeout = (action, ms) => {
    const timer = { action, at: this.now + ms };
    this.timers.push(timer);
    return timer;
  };

  clearTimeout = (timer) => {
    this.timers = this.timers.filter((t) => t !== timer);
  };

  fetch = (url, init = {}) => {
    const method = init.method ?? "GET";
    const answer = this.answers[`${method} ${url.split("?")[0]}`];
    return new Promise((resolve, reject) => {
      const request = { url, method, init, stream: null, resolve, reject };
      this.requests.push(request);
      init.signal?.addEventListener("abort", () => {
        const error = new DOMException("aborted", "AbortError");
        reject(error);
        request.stream?.break(error);
      });
      if (answer) resolve(answer(request));
    });
  };

  /** The newest request of a kind. */
  request(method, path) {
    return this.requests.findLast((r) => r.method === method && r.url.split("?")[0] === path);
  }

  /** Moves time on, and runs what is due. */
  async pass(ms) {
    this.now += ms;
    const due = this.timers.filter((t) => t.at <= this.now);
    this.timers = this.timers.filter((t) => t.at > this.now);
    for (const timer of due) timer.action();
    await settle();
  }
}

class FakeEventSource {
  readyState = 0;
  listeners = {};

  constructor(url) {
    this.url = url;
  }

  addEventListener(name, listener) {
    this.listeners[name] = listener;
  }

  open() {
    this.readyState = 1;
    this.onopen();
  }

  emit(type, data, lastEventId) {
    const listener = type === "message" ? this.onmessage : this.listeners[type];
    if (this.readyState !== 2) listener({ type, data, lastEventId });
  }

  /** The connection is gone; a browser will try again. */
  lose() {
    this.readyState = 0;
    this.onerror();
  }

  /** The answer was 204, or anything else that is no stream. */
  stop() {
    this.readyState = 2;
    this.onerror();
  }

  close() {
    this.readyState = 2;
  }
}

/** The body of a streamed answer. */
export class Stream {
  constructor(headers = {}, status = 200) {
    const body = new ReadableStream({ start: (control) => (this.control = control) });
    this.response = new Response(body, { status, headers: { "Content-Type": "text/event-stream", ...headers } });
  }

  async push(text) {
    this.control.enqueue(new TextEncoder().encode(text));
    await settle();
  }

  async end() {
    this.control.close();
    await settle();
  }

  async break(error = new TypeError("network error")) {
    this.control.error(error);
    await settle();
  }
}

export const json = (body, status = 200) =>
  new Response(JSON.stringify(body), { status, headers: { "Content-Type": status < 400 ? "application/json" : "application/problem+json" } });

/** Lets everything happen that needs no time. */
export async function settle() {
  for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
}

/** One frame of text as the gateway sends it. */
export const frame = (run, seq, content) => `id: ${run}.${seq}\ndata: ${text(content)}\n\n`;

export const text = (content) => JSON.stringify({ id: "chatcmpl-1", choices: [{ index: 0, delta: { content }, finish_reason: null }] });
