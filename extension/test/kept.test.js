import assert from "node:assert/strict";
import test from "node:test";
import { CONTRACT } from "../contract.js";
import { Kept } from "../kept.js";

const { keptFrames, keptBytes } = CONTRACT.limits;
const fill = (kept, n, text = (seq) => `f${seq}`) => {
  for (let i = 0; i < n; i++) kept.add(text);
};

test("numbers rise by one from 1, over acknowledgements too", () => {
  const kept = new Kept();
  assert.deepEqual([kept.first, kept.last], [1, 0]);
  assert.equal(kept.add((seq) => `a${seq}`), "a1");
  fill(kept, 2);
  kept.acknowledge(3);
  assert.deepEqual([kept.first, kept.last], [4, 3]);
  assert.equal(kept.add((seq) => `b${seq}`), "b4");
});

test("resume sends what is above the acknowledged number, in order and again", () => {
  const kept = new Kept();
  fill(kept, 5);
  assert.deepEqual(kept.resume(2), ["f3", "f4", "f5"]);
  assert.deepEqual(kept.resume(2), ["f3", "f4", "f5"], "until they are acknowledged");
  assert.deepEqual(kept.resume(5), []);
});

test("an old acknowledgement changes nothing", () => {
  const kept = new Kept();
  fill(kept, 5);
  kept.acknowledge(4);
  kept.acknowledge(1);
  assert.deepEqual(kept.resume(4), ["f5"]);
});

test("beyond the number of frames the oldest go, and the gap names them", () => {
  const kept = new Kept();
  fill(kept, keptFrames + 3);
  assert.deepEqual([kept.first, kept.last], [4, keptFrames + 3]);
  const texts = kept.resume(1);
  assert.deepEqual(JSON.parse(texts[0]), { type: "gap", from: 2, to: 3 });
  assert.equal(texts.length, keptFrames + 1);
  assert.equal(texts[1], "f4");
});

test("beyond the bytes too, even a single frame", () => {
  const kept = new Kept();
  fill(kept, 4, () => "x".repeat(keptBytes / 2));
  assert.deepEqual([kept.first, kept.last], [3, 4]);
  fill(kept, 1, () => "x".repeat(keptBytes + 1));
  assert.deepEqual(kept.resume(0), ['{"type":"gap","from":1,"to":5}']);
  assert.equal(kept.add((seq) => `f${seq}`), "f6", "and it goes on");
  assert.deepEqual(kept.resume(5), ["f6"]);
});

test("an acknowledgement of dropped frames leaves no gap", () => {
  const kept = new Kept();
  fill(kept, keptFrames + 3);
  assert.equal(kept.resume(3)[0], "f4");
});

test("a frame that cannot be encoded takes no number", () => {
  const kept = new Kept();
  assert.throws(() => kept.add(() => JSON.stringify(1n)));
  assert.equal(kept.add((seq) => `f${seq}`), "f1");
});
