import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { address, hashOf, lastConversation, load, save } from "../web/keep.js";

class FakeStorage extends Map {
  setItem = (name, value) => void this.set(name, value);
  getItem = (name) => this.get(name) ?? null;
}

beforeEach(() => {
  globalThis.sessionStorage = new FakeStorage();
  globalThis.localStorage = new FakeStorage();
});

test("keep: an address names a conversation, and maybe a run", () => {
  assert.deepEqual(address("#conversation=c%3A1&run=run_1"), { conversation: "c:1", run: "run_1" });
  assert.deepEqual(address(hashOf("a~b:c@d")), { conversation: "a~b:c@d", run: null });
  assert.deepEqual(address(""), { conversation: null, run: null });
});

test("keep: what one tab saved is its own", () => {
  save("conv-1", { text: "half" });
  assert.deepEqual(load("conv-1"), { text: "half" });
  assert.equal(load("conv-2"), null);
  globalThis.sessionStorage = new FakeStorage(); // another tab
  assert.equal(load("conv-1"), null);
  assert.equal(lastConversation(), "conv-1");
});

test("keep: a browser without storage works", () => {
  globalThis.sessionStorage = globalThis.localStorage = undefined;
  assert.doesNotThrow(() => save("conv-1", {}));
  assert.deepEqual([load("conv-1"), lastConversation()], [null, null]);
});

test("keep: what cannot be read is nothing", () => {
  globalThis.sessionStorage.setItem("agent-runs-demo:conv-1", "{");
  assert.equal(load("conv-1"), null);
});
