// An offload manager in JavaScript, one file without dependencies: LRU over the evictable blocks (`lru-evictable`).
//
//   evictable check "stdio:node examples/manager.js" --max-calls 100000
//
// `Manager` is the manager. `serve` lets it be judged: JSON lines on standard input, each answered by one on standard
// output. Standard output is for answers only.
"use strict";
const fs = require("fs");

class Refused extends Error {
  constructor(name, message) {
    super(message);
    this.name = name;
  }
}

const PENDING = -1;

class Manager {
  constructor(capacity, withEvents) {
    this.capacity = capacity;
    this.withEvents = withEvents;
    this.reset();
  }

  reset() {
    this.blocks = new Map(); // key -> {slot, refCnt, owner of the store in flight}
    this.evictable = new Set(); // keys with refCnt 0, the next victim first
    this.loads = new Map(); // request -> Map(key -> loads in flight)
    this.free = [];
    this.handedOut = 0;
    this.pending = 0;
    this.events = [];
  }

  lookup(key) {
    const block = this.blocks.get(key);
    if (block === undefined) return "MISS";
    return block.refCnt === PENDING ? "HIT_PENDING" : "HIT";
  }

  prepareStore(request, keys) {
    if (new Set(keys).size !== keys.length) throw new Refused("RepeatedKey", "a key twice in one offer");
    const offer = new Set(keys);
    const fresh = keys.filter((key) => !this.blocks.has(key));
    const room = this.free.length + this.capacity - this.handedOut;
    const victims = [];
    for (const key of this.evictable) {
      if (victims.length >= fresh.length - room) break;
      if (!offer.has(key)) victims.push(key);
    }
    if (victims.length < fresh.length - room) return null;
    for (const key of victims) {
      this.evictable.delete(key);
      this.remove(key);
    }
    this.tell(true, victims);
    const slots = fresh.map((key) => {
      const slot = this.free.length > 0 ? this.free.pop() : this.handedOut++;
      this.blocks.set(key, { slot, refCnt: PENDING, owner: request });
      return slot;
    });
    this.pending += fresh.length;
    return { keys_to_store: fresh, block_ids: slots, evicted_keys: victims };
  }

  completeStore(request, keys, success) {
    const foreign = keys.find((key) => this.blocks.get(key)?.refCnt !== PENDING || this.blocks.get(key).owner !== request);
    if (foreign !== undefined) throw new Refused("NotPending", `${request} stores no ${foreign}`);
    if (new Set(keys).size !== keys.length) throw new Refused("RepeatedKey", "a key twice in one completion");
    for (const key of keys) {
      this.pending--;
      if (success) this.unused(key);
      else this.abort(key);
    }
    if (success) this.tell(false, keys);
    return null;
  }

  prepareLoad(request, keys) {
    const missing = keys.find((key) => this.lookup(key) !== "HIT");
    if (missing !== undefined) throw new Refused("NotReady", `${missing} cannot be loaded`);
    const own = this.loads.get(request) ?? new Map();
    this.loads.set(request, own);
    const slots = keys.map((key) => {
      const block = this.blocks.get(key);
      if (block.refCnt++ === 0) this.evictable.delete(key);
      own.set(key, (own.get(key) ?? 0) + 1);
      return block.slot;
    });
    return { block_ids: slots };
  }

  completeLoad(request, keys) {
    const left = new Map(this.loads.get(request));
    for (const key of keys) {
      if (!left.get(key)) throw new Refused("NotPinned", `${request} has no load of ${key} in flight`);
      left.set(key, left.get(key) - 1);
    }
    this.loads.set(request, left);
    for (const key of keys) {
      if (--this.blocks.get(key).refCnt === 0) this.unused(key);
    }
    return null;
  }

  touch(keys) {
    for (const key of [...keys].reverse()) {
      if (this.evictable.delete(key)) this.evictable.add(key);
    }
    return null;
  }

  takeEvents(limit) {
    return this.events.splice(0, limit ?? this.events.length);
  }

  unused(key) {
    this.blocks.get(key).refCnt = 0;
    this.evictable.add(key);
  }

  abort(key) {
    this.remove(key);
  }

  remove(key) {
    this.free.push(this.blocks.get(key).slot);
    this.blocks.delete(key);
  }

  tell(removed, keys) {
    if (this.withEvents && keys.length > 0) this.events.push({ removed, keys: [...keys] });
  }

  state() {
    const refCnt = {};
    const slots = {};
    for (const [key, block] of this.blocks) {
      refCnt[nameOf(key)] = block.refCnt;
      slots[nameOf(key)] = block.slot;
    }
    return {
      ref_cnt: refCnt,
      slots,
      evictable: [...this.evictable],
      num_resident: this.blocks.size,
      num_evictable: this.evictable.size,
      num_pending: this.pending,
      num_free: this.free.length + this.capacity - this.handedOut,
      num_events: this.events.length,
      free: this.free,
      handed_out: this.handedOut,
    };
  }
}

// A name in an object is a string: hexadecimal digits that would read as an integer begin with 0x.
function nameOf(key) {
  return typeof key === "string" && /^[0-9]+$/.test(key) ? `0x${key}` : String(key);
}

// What a call of the trace format comes to.
function perform(manager, call) {
  switch (call.call) {
    case "lookup":
      return manager.lookup(call.keys[0]);
    case "prepare_store":
      return manager.prepareStore(call.request, call.keys);
    case "complete_store":
      return manager.completeStore(call.request, call.keys, call.success);
    case "prepare_load":
      return manager.prepareLoad(call.request, call.keys);
    case "complete_load":
      return manager.completeLoad(call.request, call.keys);
    case "touch":
      return manager.touch(call.keys);
    case "take_events":
      return manager.takeEvents(call.limit);
    case "reset_cache":
      manager.reset();
      return null;
    case "get_stats":
      return {}; // it has none
    case "on_new_request":
    case "on_request_finished":
      return null; // the order does not depend on requests
    default:
      throw new Refused("UnknownCall", call.call);
  }
}

// A fresh manager as a head line says; or an error, if there can be none.
function construct(Kind, head) {
  if (head.policy !== "lru") return [null, { error: `there is no policy ${head.policy}, only lru` }];
  if (head.store_threshold > 1) return [null, { error: "there is no store threshold: leave it at 1" }];
  const manager = new Kind(head.capacity, head.events);
  return [manager, { evictable_stdio: 1, name: "manager.js", version: "1", profile: "lru-evictable" }];
}

function answers(Kind) {
  let manager = null;
  let shows = false;
  return (record) => {
    let answer;
    if ("evictable_trace" in record) {
      [manager, answer] = construct(Kind, record);
      shows = manager !== null && record.state !== false; // after each call, unless nobody wants it
    } else {
      try {
        answer = { returns: perform(manager, record) };
      } catch (error) {
        if (!(error instanceof Refused)) throw error; // a crash is a crash
        answer = { raises: error.name, message: error.message };
      }
    }
    if (shows) answer.state = manager.state();
    return answer;
  };
}

// Reads and writes without a turn of the event loop: that is what takes the time otherwise.
function serve(Kind) {
  const answer = answers(Kind);
  const buffer = Buffer.alloc(1 << 16);
  let heard = "";
  const decoder = new (require("string_decoder").StringDecoder)("utf8");
  for (;;) {
    let size;
    try {
      size = fs.readSync(0, buffer, 0, buffer.length, null);
    } catch (error) {
      if (error.code === "EAGAIN") continue;
      throw error;
    }
    if (size === 0) return;
    const lines = (heard + decoder.write(buffer.subarray(0, size))).split("\n");
    heard = lines.pop();
    for (const line of lines) {
      const said = Buffer.from(JSON.stringify(answer(JSON.parse(line))) + "\n");
      for (let written = 0; written < said.length; ) written += fs.writeSync(1, said, written);
    }
  }
}

module.exports = { Manager, answers, serve };
if (require.main === module) serve(Manager);
