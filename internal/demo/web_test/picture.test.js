import assert from "node:assert/strict";
import { test } from "node:test";
import { colour, COLOURS, Lines } from "../web/lines.js";
import { parts, project, step } from "../web/picture.js";

test("picture: a curve is cut where another connection takes over", () => {
  const at = (connection, seq) => ({ t: seq, seq, connection });
  assert.deepEqual(parts([at(1, 1), at(1, 2), at(3, 3), at(1, 4)]), [[at(1, 1), at(1, 2)], [at(3, 3)], [at(1, 4)]]);
  assert.deepEqual(parts([]), []);
});

test("picture: time runs to the right and frames go up, inside the canvas", () => {
  const scene = { curves: [[{ t: 11_000, seq: 200, connection: 1 }]], agent: [{ t: 12_000, frames: 240 }], start: 1000, now: 21_000 };
  const view = project(scene, 600, 230);
  assert.ok(view.x(1000) < view.x(11_000) && view.x(11_000) < view.x(21_000));
  assert.ok(view.y(0) > view.y(200) && view.y(200) > view.y(240));
  assert.ok(view.x(21_000) <= 600 && view.y(240) >= 0 && view.y(0) <= 230);
  assert.equal(view.x(0), view.x(1000), "nothing lies before the beginning");
});

test("picture: an empty one has a scale too", () => {
  const view = project({ curves: [[]], agent: [], start: 0, now: 0 }, 600, 230);
  assert.ok(Number.isFinite(view.x(0)) && Number.isFinite(view.y(0)) && view.top > 0 && view.span > 0);
});

test("picture: steps are round and about as many as wanted", () => {
  for (const range of [1, 7, 20, 99, 100, 465, 7600]) {
    const s = step(range, 4);
    assert.match(String(s), /^(0\.)?0*[125]0*$/, `step ${s} of ${range}`);
    assert.ok(range / s <= 4 && range / s >= 1.5, `${range / s} steps of ${s} in ${range}`);
  }
});

test("lines: connections are numbered on, also after a reload left holes", () => {
  const lines = new Lines([{ n: 1, role: "answer" }, { n: 4, role: "answer" }]);
  assert.equal(lines.open({ role: "answer", kind: "POST", url: "/", cursor: "", last: 7, now: 1 }).n, 5);
  assert.equal(lines.all.at(-1).from, 8);
});

test("lines: colours come round again", () => {
  assert.deepEqual([colour(1), colour(COLOURS), colour(COLOURS + 1)], ["c0", `c${COLOURS - 1}`, "c0"]);
});

test("lines: the times without a connection", () => {
  const lines = new Lines();
  const open = (role, last, now) => lines.open({ role, kind: "POST", url: "/", cursor: "", last, now });
  const first = open("answer", 0, 100);
  open("retry 1", 0, 150);
  assert.deepEqual(lines.away("answer", 500), []);
  lines.close(first, "cut", 7, 200);
  assert.deepEqual(lines.away("answer", 500), [{ from: 200, to: 500, after: 7, next: undefined }]);
  const second = open("answer", 7, 300);
  assert.deepEqual(lines.away("answer", 500), [{ from: 200, to: 300, after: 7, next: second }]);
});
