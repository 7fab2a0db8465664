// What a reload must not lose. The answer and its cursor are stored together,
// so they always belong together. They are kept per tab: a second tab is a
// second device. Across tabs only the name of the last conversation is kept.

const TAB = "agent-runs-demo:";
const LAST = "agent-runs-demo-last";

/** Storage may be forbidden; then a reload replays from the beginning. */
function tolerate(action) {
  try {
    return action();
  } catch {
    return null;
  }
}

export const save = (conversation, state) =>
  tolerate(() => {
    sessionStorage.setItem(TAB + conversation, JSON.stringify(state));
    localStorage.setItem(LAST, conversation);
  });

export const load = (conversation) => tolerate(() => JSON.parse(sessionStorage.getItem(TAB + conversation)));

export const lastConversation = () => tolerate(() => localStorage.getItem(LAST));

/** The conversation and run that the address names. */
export function address(hash) {
  const names = new URLSearchParams(hash.replace(/^#/, ""));
  return { conversation: names.get("conversation"), run: names.get("run") };
}

export const hashOf = (conversation) => `#conversation=${encodeURIComponent(conversation)}`;
