// Tests a manager in JavaScript with golden traces, without Python:
//
//   node examples/golden.js specs/golden/lru-evictable.jsonl [./leaky_manager.js]
//
// Exit code 0 if every call of every trace came to what the file says, else 1 and the first difference.
"use strict";
const fs = require("fs");
const path = require("path");
const { isDeepStrictEqual } = require("util");
const { answers } = require("./manager.js");

const sorted = (keys) => [...keys].sort();

// Of events: what is told of each key, in its sequence. How facts are gathered into events is free.
function facts(events) {
  const told = {};
  for (const event of events) for (const key of event.keys) (told[key] ??= []).push(event.removed);
  return told;
}

// One trace. Slots are free: `own` holds those that this manager took, and it must stick to them.
class Comparison {
  constructor(head) {
    this.capacity = head.capacity;
    this.own = new Map();
    this.state = { ref_cnt: {}, evictable: [] };
  }

  // What is wrong with `answer` to the recorded call, or null.
  difference(record, answer) {
    if ("raises" in answer) return `raises ${answer.raises}: ${answer.message}`;
    this.state = record.state ?? this.state; // without one it is as before
    return this.inAnswer(record, record.returns, answer.returns) ?? this.inState(answer.state);
  }

  inAnswer(record, expected, returns) {
    if (record.call === "take_events") return this.same("events", facts(expected), facts(returns));
    if (record.call === "prepare_load") {
      return this.same("slots", record.keys.map((key) => this.own.get(String(key))), returns.block_ids);
    }
    if (record.call !== "prepare_store" || expected === null || returns === null) {
      return this.same("answer", expected, returns);
    }
    for (const key of expected.evicted_keys) this.own.delete(String(key));
    const taken = new Set(this.own.values());
    for (const slot of returns.block_ids) {
      if (taken.has(slot) || slot < 0 || slot >= this.capacity) return `slot ${slot} is not free`;
      taken.add(slot);
    }
    returns.keys_to_store.forEach((key, place) => this.own.set(String(key), returns.block_ids[place]));
    return (
      this.same("keys to store", expected.keys_to_store, returns.keys_to_store) ??
      this.same("evicted keys", sorted(expected.evicted_keys), sorted(returns.evicted_keys))
    );
  }

  inState(state) {
    for (const key of [...this.own.keys()]) if (!(key in this.state.ref_cnt)) this.own.delete(key);
    return (
      this.same("ref_cnt", this.state.ref_cnt, state.ref_cnt) ??
      this.same("slots", Object.fromEntries(this.own), state.slots) ??
      this.same("evictable", this.state.evictable, state.evictable) ??
      this.same("free slots", this.capacity - this.own.size, state.num_free)
    );
  }

  same(what, expected, seen) {
    if (isDeepStrictEqual(expected, seen)) return null;
    return `${what}: expected ${JSON.stringify(expected)}, observed ${JSON.stringify(seen)}`;
  }
}

function main(file, manager = "./manager.js") {
  const answer = answers(require(path.resolve(__dirname, manager)).Manager);
  let comparison = null;
  let traces = 0;
  let calls = 0;
  const lines = fs.readFileSync(file, "utf8").split("\n");
  for (const [place, line] of lines.entries()) {
    if (line === "") continue;
    const record = JSON.parse(line);
    const said = answer(record);
    if ("evictable_trace" in record) {
      comparison = new Comparison(record);
      traces++;
      continue;
    }
    calls++;
    const difference = comparison.difference(record, said);
    if (difference !== null) {
      console.log(`${file}:${place + 1}: ${record.call}(${record.keys ?? ""}): ${difference}`);
      return 1;
    }
  }
  console.log(`${file}: ${calls} calls in ${traces} traces are right`);
  return calls > 0 ? 0 : 1;
}

process.exit(main(...process.argv.slice(2)));
