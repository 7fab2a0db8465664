// An incremental parser for text/event-stream, after the HTML Standard,
// sections 9.2.5 and 9.2.6. EventSource does this for GET; a POST has to be
// read with fetch, and fetch hands out bytes cut anywhere.

/**
 * @typedef {object} SSEEvent
 * @property {string} type   "message" unless the stream names another
 * @property {string} data
 * @property {string} id     last event id, sticky as in EventSource
 */

export class SSEParser {
  // Strips one byte order mark and keeps a character that is split over two
  // chunks until its rest arrives.
  #decoder = new TextDecoder("utf-8");
  #line = "";
  #afterCR = false;
  #data = "";
  #type = "";
  #idBuffer = "";

  /**
   * @param {object} on
   * @param {(event: SSEEvent) => void} on.event
   * @param {(text: string) => void} [on.comment]
   * @param {(ms: number) => void} [on.retry]
   */
  constructor(on) {
    this.on = on;
    /** The last event id as a reconnect would send it. */
    this.lastEventId = "";
  }

  /** @param {Uint8Array} bytes the next chunk, cut anywhere */
  feed(bytes) {
    const text = this.#decoder.decode(bytes, { stream: true });
    let from = 0;
    for (let i = 0; i < text.length; i++) {
      const c = text.charCodeAt(i);
      if (c !== 10 && c !== 13) {
        this.#afterCR = false;
        continue;
      }
      // A line that ends with CR is complete at once; the LF of a CRLF may
      // come later and ends nothing.
      if (c === 10 && this.#afterCR) {
        this.#afterCR = false;
        from = i + 1;
        continue;
      }
      const line = this.#line + text.slice(from, i);
      this.#line = "";
      from = i + 1;
      this.#afterCR = c === 13;
      this.#take(line);
    }
    this.#line += text.slice(from);
  }

  // There is no end(): an event without its blank line is discarded, with its
  // id, so the end of the body has nothing to do.

  /** @param {string} line */
  #take(line) {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    if (colon === 0) return this.on.comment?.(line.slice(1));
    const name = colon < 0 ? line : line.slice(0, colon);
    const rest = colon < 0 ? "" : line.slice(colon + 1);
    this.#field(name, rest.startsWith(" ") ? rest.slice(1) : rest);
  }

  /** @param {string} name @param {string} value */
  #field(name, value) {
    if (name === "data") this.#data += value + "\n";
    else if (name === "event") this.#type = value;
    else if (name === "id" && !value.includes("\0")) this.#idBuffer = value;
    else if (name === "retry" && /^[0-9]+$/.test(value)) this.on.retry?.(Number(value));
  }

  #dispatch() {
    this.lastEventId = this.#idBuffer;
    const [data, type] = [this.#data, this.#type];
    this.#data = this.#type = "";
    if (data === "") return;
    this.on.event({ type: type || "message", data: data.slice(0, -1), id: this.lastEventId });
  }
}
