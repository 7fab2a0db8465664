import assert from "node:assert/strict";
import { test } from "node:test";
import { Ledger, parseCursor } from "../web/ledger.js";

test("cursor: run and number", () => {
  assert.deepEqual(parseCursor("run_7x9k.184"), { run: "run_7x9k", seq: 184 });
});

test("cursor: what is not ours is none", () => {
  for (const id of ["", "184", "run_7x9k", "run_7x9k.", "run_7x9k.1a", "x.1", "run_A.1", "run_a.1.2"]) assert.equal(parseCursor(id), null, id);
});

test("ledger: frames in order are new, without gaps and duplicates", () => {
  const l = new Ledger();
  assert.deepEqual([1, 2, 3].map((seq) => l.take(seq, 1)), [true, true, true]);
  assert.deepEqual([l.frames, l.duplicates, l.gaps, l.last], [3, 0, 0, 3]);
});

test("ledger: a frame that comes again is a duplicate and not shown", () => {
  const l = new Ledger();
  for (const seq of [1, 2, 3]) l.take(seq, 1);
  assert.deepEqual([2, 3, 4].map((seq) => l.take(seq, 2)), [false, false, true]);
  assert.deepEqual([l.frames, l.duplicates, l.gaps, l.last], [4, 2, 0, 4]);
});

test("ledger: each missing frame is a gap", () => {
  const l = new Ledger();
  for (const seq of [1, 5, 6, 8]) l.take(seq, 1);
  assert.deepEqual([l.frames, l.gaps, l.last], [4, 4, 8]);
});

test("ledger: the tape tells which connection brought what", () => {
  const l = new Ledger();
  for (const seq of [1, 2]) l.take(seq, 1);
  for (const seq of [3, 4, 6]) l.take(seq, 4);
  assert.deepEqual(l.tape, [
    { connection: 1, from: 1, to: 2 },
    { connection: 4, from: 3, to: 4 },
    { connection: 4, from: 6, to: 6 },
  ]);
});

test("ledger: survives a reload as JSON", () => {
  const l = new Ledger();
  for (const seq of [1, 2]) l.take(seq, 1);
  const again = new Ledger(JSON.parse(JSON.stringify(l)));
  assert.equal(again.take(2, 2), false);
  assert.equal(again.take(3, 2), true);
  assert.deepEqual([again.frames, again.duplicates, again.gaps], [3, 1, 0]);
});
