// The words of the contract in plain English, as honest as the gateway is.

export const STATES = {
  queued: "waits for its turn",
  running: "the agent is answering",
  waiting: "the agent waits for input",
  cancelling: "a Stop is under way",
  completed: "the agent said that it is done",
  failed: "it ended without being whole",
  cancelled: "stopped on request",
  uncertain: "nobody can tell how it ended",
};

export const REASONS = {
  upstream_error: "the agent reported an error",
  upstream_truncated: "the agent's stream broke off without an end marker",
  upstream_unreachable: "the agent could not be reached",
  superseded: "a newer request took its place",
  owner_lost: "the gateway process that read it went away",
  gateway_stopped: "the gateway was stopped",
};

export const PHASES = {
  idle: "no connection",
  connecting: "connecting",
  live: "live",
  cut: "cut by you",
  lost: "lost, coming back",
  refused: "refused",
  gone: "run unknown",
  over: "ended",
};

/** How a connection ended, for the list of connections. */
export const ENDS = {
  "": "open",
  cut: "cut by you",
  end: "ended by the gateway",
  lost: "broke",
  network: "broke",
  closed: "closed",
  reload: "page was reloaded",
  replaced: "replaced",
};

const OUTCOMES = {
  cancelled_before_effect: "stopped before anything could have had an effect",
  cancelled_after_effect: "stopped; an effect happened or cannot be excluded",
  cancellation_pending: "asked for; not settled yet",
  already_terminal: "too late: the run had ended before",
};

const UPSTREAM = {
  confirmed: "the agent confirmed that it stopped",
  unconfirmed: "the connection to the agent was closed; whether it stopped working is not known",
  failed: "the agent refused to stop",
  unsupported: "the agent has no way to be stopped",
};

const EFFECTS = {
  none: "nothing was done in the outside world",
  possible: "a tool may have run; nobody said that none did",
  observed: "the result of a tool was seen",
};

const said = (words, key) => (key ? [key, words[key] ?? ""] : ["–", "nothing yet"]);

/**
 * The lines of a Stop receipt: name, value, meaning.
 * @param {{status: number, body: any}} receipt
 * @param {{state: string, frames: number} | null} agent what the agent saw
 */
export function receiptLines({ status, body }, agent) {
  const { cancel = {}, state, effect } = body ?? {};
  const settled = ["completed", "failed", "cancelled", "uncertain"].includes(state);
  const answered = { 200: "final", 202: settled ? "accepted, and settled since" : "accepted, still pending" };
  const lines = [
    ["answer", String(status), answered[status] ?? body?.detail ?? ""],
    ["state", ...said(STATES, state)],
    ["outcome", ...said(OUTCOMES, cancel.outcome)],
    ["upstream", ...said(UPSTREAM, cancel.upstream)],
    ["effect", ...said(EFFECTS, effect)],
    ["billing", cancel.billing ?? "–", cancel.billing === "unknown" ? "the agent reported no final usage" : ""],
  ];
  if (agent) lines.push(["the agent says", agent.state, agentSays(agent)]);
  return lines;
}

/** What the agent itself tells about its call. */
export function agentSays({ state, frames }) {
  return {
    running: `still talking, ${frames} frames so far`,
    finished: `said everything, ${frames} frames`,
    failed: `failed after ${frames} frames`,
    hung_up: `was hung up on after ${frames} frames`,
  }[state];
}
