// Two ways to read the frames of a run. Both report in the same words:
//
//   open(response)   headers are there; an EventSource has no response to show
//   event(event)     one event with an id
//   keepalive()      a comment went by; an EventSource hides them
//   lost()           an EventSource lost its connection and will try again
//   over(why, what)  nothing more will come:
//       "end"      the body ended properly
//       "refused"  another status than 200, or not a stream; what = Response
//       "network"  the connection broke; what = Error
//       "closed"   an EventSource was told to stop: 204 or a refusal
//
// close() ends either at once and reports nothing more.

import { SSEParser } from "./sse.js";

/** What EventSource listens to by name; unnamed events are always heard. */
const CONTROL = ["run.end", "run.state", "stream_expired"];

/**
 * Reads with fetch: any method, any header, and nothing hidden.
 * @param {string} url @param {RequestInit} init
 */
export function readByFetch(url, init, on, env = globalThis) {
  const abort = new AbortController();
  const tell = (name, ...args) => abort.signal.aborted || on[name](...args);
  const parser = new SSEParser({
    event: (event) => tell("event", event),
    comment: () => tell("keepalive"),
  });
  const read = async () => {
    const response = await env.fetch(url, { ...init, signal: abort.signal });
    if (response.status !== 200 || !isStream(response)) return tell("over", "refused", response);
    tell("open", response);
    const body = response.body.getReader();
    for (let piece = await body.read(); !piece.done; piece = await body.read()) parser.feed(piece.value);
    tell("over", "end");
  };
  const done = read().catch((error) => tell("over", "network", error));
  return { close: () => abort.abort(), done };
}

function isStream(response) {
  const type = response.headers.get("Content-Type") ?? "";
  return /^text\/event-stream\s*(;|$)/i.test(type);
}

/**
 * Reads with the browser's own EventSource, which reconnects by itself, sends
 * Last-Event-ID by itself, and stops only at a 204 or another refusal. It is
 * deliberately not closed when the run ends: the gateway stops it.
 * @param {string} url
 */
export function readByEventSource(url, on, env = globalThis) {
  const source = new env.EventSource(url);
  const event = (e) => on.event({ type: e.type, data: e.data, id: e.lastEventId });
  source.onopen = () => on.open();
  source.onmessage = event;
  for (const name of CONTROL) source.addEventListener(name, event);
  source.onerror = () => (source.readyState === 2 ? on.over("closed") : on.lost());
  return { close: () => source.close() };
}
