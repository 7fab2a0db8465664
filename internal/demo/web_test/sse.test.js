import assert from "node:assert/strict";
import { test } from "node:test";
import { SSEParser } from "../web/sse.js";

/** Parses bytes in pieces of a size; events as type/data/id. */
function parse(bytes, size) {
  const got = { events: [], comments: [], retry: 0 };
  const parser = new SSEParser({
    event: (e) => got.events.push(`${e.type}/${e.data}/${e.id}`),
    comment: (c) => got.comments.push(c),
    retry: (ms) => (got.retry = ms),
  });
  for (let i = 0; i < bytes.length; i += size) parser.feed(bytes.subarray(i, i + size));
  return { ...got, last: parser.lastEventId };
}

const encode = (text) => new TextEncoder().encode(text);

// name, input, events, last event id, retry
const vectors = [
  ["one byte order mark is dropped", "\uFEFFdata:1\n\ndata:2\n\n", ["message/1/", "message/2/"]],
  ["a second one belongs to the field name", "\uFEFF\uFEFFdata:1\n\ndata:2\n\ndata:3\n\n", ["message/2/", "message/3/"]],
  ["comments and line ends in any mixture", "data:1\r:\0\n:\r\ndata:2\n:xxxx\rdata:3\n:data:fail\r:yyy\ndata:4\n\n", ["message/1\n2\n3\n4/"]],
  ["empty data is dispatched", "data:\n\ndata\ndata\n\ndata:test\n\n", ["message//", "message/\n/", "message/test/"]],
  ["an unfinished event is discarded with its id", "data:test1\n\nid:test\ndata:test2", ["message/test1/"]],
  ["an empty event name overrides", "event:x\nevent:\ndata:d\n\n", ["message/d/"]],
  ["an event name does not leak into the next event", "event:test\n\ndata:x\n\n", ["message/x/"]],
  ["the id is sticky until it is emptied", "id: 1\ndata:a\n\ndata:b\n\nid\ndata:c\n\nid:2\n\n", ["message/a/1", "message/b/1", "message/c/"], "2"],
  ["an id with NUL is ignored", "id:a\0b\ndata:x\n\n", ["message/x/"]],
  ["an id without data moves the cursor", "id: 7\n\n", [], "7"],
  ["an id without its blank line does not", "id: 8\ndata: x\n", []],
  ["one space after the colon is removed", "data:  two\n\ndata:\tt\n\n", ["message/ two/", "message/\tt/"]],
  ["field names are literal", "data : x\n\nDATA:x\n\n data:x\n\ndata:y\n\n", ["message/y/"]],
  ["retry is digits only, the last one wins", "retry:3000\nretry:1000x\nretry:-1\nretry:+5\nretry: 2000 \nretry:\ndata:x\n\n", ["message/x/"], "", 3000],
  ["CRLF, CR and LF", "data:a\r\n\r\ndata:b\r\rdata:c\n\n", ["message/a/", "message/b/", "message/c/"]],
  ["line ends that change inside an event", "data:a\r\ndata:b\n\rdata:c\r\n\r\n", ["message/a\nb/", "message/c/"]],
  ["other line separators are text", "data:a\u2028b\u0085c\vd\fe\n\n", ["message/a\u2028b\u0085c\vd\fe/"]],
  ["two empty data lines", "data:\r\ndata:\r\n\r\n", ["message/\n/"]],
  ["a lone comment", ": hi\n\n", []],
  ["characters of several bytes", "data:größe € 😀\n\n", ["message/größe € 😀/"]],
  ["an empty event with a comment inside", ": a\nevent: run.end\n: b\ndata: {}\nid: run_1.9\n\n", ["run.end/{}/run_1.9"], "run_1.9"],
];

for (const [name, input, events, last = "", retry = 0] of vectors) {
  test(`parser: ${name}, whatever the chunking`, () => {
    const bytes = encode(input);
    for (const size of [1, 2, 3, 4, 5, 6, 7, bytes.length]) {
      const got = parse(bytes, size);
      assert.deepEqual(got.events, events, `in pieces of ${size}`);
      assert.equal(got.last, last, `in pieces of ${size}`);
      assert.equal(got.retry, retry, `in pieces of ${size}`);
    }
  });
}

test("parser: a line that ends with CR is taken at once", () => {
  const got = parse(encode("data:a\r\r"), 8);
  assert.deepEqual(got.events, ["message/a/"]);
});

test("parser: keepalives are seen and change nothing", () => {
  const got = parse(encode("id: run_1.1\ndata: a\n\n: keepalive\n: keepalive\nid: run_1.2\ndata: b\n\n"), 5);
  assert.deepEqual(got.comments, [" keepalive", " keepalive"]);
  assert.deepEqual(got.events, ["message/a/run_1.1", "message/b/run_1.2"]);
});

test("parser: bytes that are no UTF-8 become replacement characters", () => {
  const bytes = Uint8Array.from([...encode("data:"), 0xff, ...encode("x\n\n")]);
  for (const size of [1, 3, bytes.length]) assert.deepEqual(parse(bytes, size).events, ["message/\uFFFDx/"]);
});
