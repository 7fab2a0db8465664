// The requests of the page: one to the agent, the others to the run resources
// of the gateway in front of it.

export const CHAT = "/v1/chat/completions";

/** A request as it is sent, and sent again: same key, same bytes. */
export function chat(prompt, conversation, key) {
  return {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      Accept: "text/event-stream",
      "X-Conversation-Id": conversation,
      "Idempotency-Key": key,
    },
    body: JSON.stringify({
      model: "demo-1",
      stream: true,
      stream_options: { include_usage: true },
      messages: [{ role: "user", content: prompt }],
    }),
  };
}

const runURL = (run) => `/_runs/${encodeURIComponent(run)}`;

/** The frames of a run after a number; 0 is from the beginning. */
export const eventsURL = (run, after = 0) => `${runURL(run)}/events${after ? `?after=${run}.${after}` : ""}`;

export const activeEventsURL = (conversation) =>
  `/_runs/active/events?conversation_id=${encodeURIComponent(conversation)}`;

/** Run resources, each answered with {status, body}; body is null without JSON. */
export class Gateway {
  /** @param {typeof fetch} fetch */
  constructor(fetch) {
    this.fetch = fetch;
  }

  record = (run) => this.#json(runURL(run));
  cancel = (run) => this.#json(`${runURL(run)}/cancel`, { method: "POST" });
  active = (conversation) => this.#json(`/_runs/active?conversation_id=${encodeURIComponent(conversation)}`);
  runs = (query = {}) => this.#json(`/_runs?${new URLSearchParams(query)}`);
  /** What the agent itself saw: the one resource that is not the gateway's. */
  calls = () => this.#json("/agent/calls");

  async #json(url, init) {
    try {
      const response = await this.fetch(url, { headers: { Accept: "application/json" }, ...init });
      return { status: response.status, body: await bodyOf(response) };
    } catch {
      return { status: 0, body: null }; // nobody answers; the caller asks again
    }
  }
}

/** The JSON of a response, a problem included. */
export async function bodyOf(response) {
  const isJSON = /json/.test(response.headers.get("Content-Type") ?? "");
  return isJSON ? response.json() : null;
}

/** A fresh id with 80 random bits. */
export function fresh(prefix) {
  const bytes = crypto.getRandomValues(new Uint8Array(10));
  return prefix + Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}

/** The run is over, one way or another. */
export const isTerminal = (state) => ["completed", "failed", "cancelled", "uncertain"].includes(state);
