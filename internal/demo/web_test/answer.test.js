import assert from "node:assert/strict";
import { test } from "node:test";
import { Answer } from "../web/answer.js";

const chunk = (delta, more = {}) => JSON.stringify({ id: "chatcmpl-1", choices: [{ index: 0, delta, finish_reason: null }], ...more });

test("answer: text and reasoning grow", () => {
  const a = new Answer();
  for (const d of [{ role: "assistant", content: "" }, { reasoning_content: "hm" }, { content: "Hel" }, { content: "lo" }]) a.fold(chunk(d));
  assert.deepEqual([a.text, a.reasoning, a.id, a.done], ["Hello", "hm", "chatcmpl-1", false]);
});

test("answer: a tool call is joined from pieces with one index", () => {
  const a = new Answer();
  a.fold(chunk({ content: "x" }));
  a.fold(chunk({ tool_calls: [{ index: 0, id: "call_1", type: "function", function: { name: "get", arguments: "" } }] }));
  a.fold(chunk({ tool_calls: [{ index: 0, function: { arguments: '{"a"' } }] }));
  a.fold(chunk({ tool_calls: [{ index: 1, id: "call_2", function: { name: "put", arguments: "" } }] }));
  a.fold(chunk({ tool_calls: [{ index: 0, function: { arguments: ":1}" } }] }));
  assert.deepEqual(a.tools, [
    { id: "call_1", name: "get", arguments: '{"a":1}' },
    { id: "call_2", name: "put", arguments: "" },
  ]);
  assert.deepEqual(a.marks, [{ at: 1, tool: 0 }, { at: 1, tool: 1 }]);
});

test("answer: seams and tool calls stand in their order of arrival", () => {
  const a = new Answer();
  a.fold(chunk({ content: "ab" }));
  a.seam(2, 2);
  a.fold(chunk({ tool_calls: [{ index: 0, id: "c", function: { name: "get", arguments: "" } }] }));
  a.seam(3, 3);
  assert.deepEqual(a.marks, [{ at: 2, seam: { seq: 2, connection: 2 } }, { at: 2, tool: 0 }, { at: 2, seam: { seq: 3, connection: 3 } }]);
});

test("answer: finish, usage and the end marker", () => {
  const a = new Answer();
  a.fold(JSON.stringify({ choices: [{ delta: {}, finish_reason: "stop" }], usage: null }));
  a.fold(JSON.stringify({ choices: [], usage: { total_tokens: 7 } }));
  a.fold("[DONE]");
  assert.deepEqual([a.finish, a.usage.total_tokens, a.done], ["stop", 7, true]);
});

test("answer: the first error is kept, not what followed from it", () => {
  const a = new Answer();
  a.fold(JSON.stringify({ error: { message: "agent failed" } }));
  a.fold(JSON.stringify({ error: { message: "the run ended" } }));
  assert.equal(a.error.message, "agent failed");
});

test("answer: what cannot be read shows nothing and stops nothing", () => {
  const a = new Answer();
  for (const data of ["", "{", "null", "7", '{"choices":[{}]}', '{"choices":null}']) a.fold(data);
  a.fold(chunk({ content: "ok" }));
  assert.equal(a.text, "ok");
});
