import assert from "node:assert/strict";
import { test } from "node:test";
import { agentSays, ENDS, PHASES, REASONS, receiptLines, STATES } from "../web/explain.js";
import { isTerminal } from "../web/wire.js";

test("explain: every state of a run has words", () => {
  const states = ["queued", "running", "waiting", "cancelling", "completed", "failed", "cancelled", "uncertain"];
  assert.deepEqual(Object.keys(STATES), states);
  assert.deepEqual(states.filter(isTerminal), ["completed", "failed", "cancelled", "uncertain"]);
});

test("explain: every outcome and every confirmation has words, and none claims more than it knows", () => {
  for (const outcome of ["cancelled_before_effect", "cancelled_after_effect", "cancellation_pending", "already_terminal"]) {
    for (const upstream of ["confirmed", "unconfirmed", "failed", "unsupported"]) {
      const body = { state: "cancelled", effect: "possible", cancel: { outcome, upstream, billing: "unknown" } };
      const lines = Object.fromEntries(receiptLines({ status: 200, body }, null).map(([name, ...rest]) => [name, rest]));
      assert.equal(lines.outcome[0], outcome);
      assert.notEqual(lines.outcome[1], "");
      assert.equal(lines.upstream[0], upstream);
      assert.notEqual(lines.upstream[1], "");
    }
  }
});

test("explain: an unconfirmed Stop does not say that the agent stopped", () => {
  const [, , , [, value, meaning]] = receiptLines({ status: 200, body: { cancel: { upstream: "unconfirmed" } } }, null);
  assert.equal(value, "unconfirmed");
  assert.match(meaning, /not known/);
});

test("explain: an accepted Stop is pending until it is settled", () => {
  const first = (state) => receiptLines({ status: 202, body: { state, cancel: {} } }, null)[0];
  assert.deepEqual(first("cancelling"), ["answer", "202", "accepted, still pending"]);
  assert.deepEqual(first("cancelled"), ["answer", "202", "accepted, and settled since"]);
});

test("explain: a refused Stop shows why, and a lost one nothing false", () => {
  assert.deepEqual(receiptLines({ status: 404, body: { detail: "no such run" } }, null)[0], ["answer", "404", "no such run"]);
  assert.deepEqual(receiptLines({ status: 0, body: null }, null)[2], ["outcome", "–", "nothing yet"]);
});

test("explain: the agent has the last word in a receipt", () => {
  const last = receiptLines({ status: 200, body: {} }, { state: "hung_up", frames: 7 }).at(-1);
  assert.deepEqual(last, ["the agent says", "hung_up", "was hung up on after 7 frames"]);
  for (const state of ["running", "finished", "failed", "hung_up"]) assert.match(agentSays({ state, frames: 7 }), /7/);
});

test("explain: no words are empty", () => {
  for (const words of [STATES, PHASES, ENDS, REASONS]) for (const [name, said] of Object.entries(words)) assert.ok(said, name);
});
