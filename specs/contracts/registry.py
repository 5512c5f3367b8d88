"""The contracts, as data: what each claims, up to which bound, and a defect of one token that it must refute."""

from __future__ import annotations

from attrs import frozen

from evictable.specs.contracts.copies import Edit


@frozen
class Contract:
    """A harness, what CrossHair's confirmation of it says, and its mutant."""

    module: str
    """Within `evictable.specs.contracts.harnesses`."""
    function: str
    sentence: str
    bound: str
    """Which inputs all paths cover, in words."""
    mutant: Edit
    """A defect of one token, in what the harness calls."""
    of_impl: bool = False
    """It calls the built-in manager, and not only the model."""
    slow: bool = False
    """It is left to the full run."""
    seconds: float = 120.0
    """Processor time after which the verdict is that there is none: many times what it takes."""

    @property
    def name(self) -> str:
        """Stable, and unlike any other's."""
        return f"{self.module}-{self.function}".replace("_", "-")


def _of_lifecycle(function: str, sentence: str, bound: str, old: str, new: str) -> Contract:
    return Contract("lifecycle", function, sentence, bound, Edit("model.lifecycle", old, new))


def _of_law(function: str, sentence: str, bound: str, old: str, new: str, module: str = "model.laws") -> Contract:
    return Contract(
        "laws", function, f"the predicate finds a difference exactly when {sentence}", bound, Edit(module, old, new)
    )


def _of_trace(function: str, sentence: str, bound: str, old: str, new: str, slow: bool = False) -> Contract:
    return Contract("traces", function, sentence, bound, Edit("model.trace", old, new), slow=slow)


_TWO = "two blocks, each absent, pending, idle or pinned any number of times"
_OF_THREE_KEYS = f"{_TWO}; every batch of two of three keys, also repeated, absent and pending ones"
_THREE = "three blocks, each pending, idle or pinned any number of times"
_TRACE_VALUES = "17 values of every kind that JSON has, or nothing"

CONTRACTS: tuple[Contract, ...] = (
    # --- the life cycle ---
    _of_lifecycle(
        "row_of_the_table",
        "each step leads where the table says, and is refused where the table has no row",
        "one block; pins, unpins and resets of any ref_cnt, the other steps up to ref_cnt 3",
        "and ref_cnt >= IDLE:\n        return ref_cnt + 1",
        "and ref_cnt > IDLE:\n        return ref_cnt + 1",
    ),
    _of_lifecycle(
        "pins_and_unpins_cancel",
        "a pin and an unpin take each other back",
        "one block, ready, pinned any number of times",
        "return ref_cnt - 1",
        "return ref_cnt - 2",
    ),
    _of_lifecycle(
        "a_store_ends_idle_or_gone",
        "a store that ends leaves its block idle, or gone if it failed; a resident block is not stored",
        "one block, absent or of ref_cnt up to 5",
        "if ref_cnt == PENDING:\n        return ABSENT",
        "if ref_cnt == PENDING:\n        return IDLE",
    ),
    _of_lifecycle(
        "two_steps_stay_in_the_life_cycle",
        "any two steps lead to a legal ref_cnt, ready when at least 0 and evictable when 0",
        "one block, absent or of ref_cnt up to 3",
        "return ref_cnt == IDLE",
        "return ref_cnt == PENDING",
    ),
    _of_lifecycle(
        "some_unpins_lead_down_to_idle",
        "`reachable` lists what up to so many unpins lead to, and nothing else",
        "one block, pinned any number of times; up to 3 unpins",
        "for _ in range(most):",
        "for _ in range(1):",
    ),
    # --- the laws ---
    _of_law(
        "evictable_iff_idle",
        "a block is listed and not idle, or idle and not listed",
        "two keys, absent or of ref_cnt up to 2, each listed or not",
        "in seen.ref_cnt.items() if ref_cnt == 0}\n    listed",
        "in seen.ref_cnt.items() if ref_cnt >= 0}\n    listed",
    ),
    _of_law(
        "counters_agree",
        "a counter is not the number of blocks that it counts",
        "two blocks of ref_cnt -1 to 1, counters from -1 to 3",
        "_count(step, lambda ref_cnt: ref_cnt == PENDING)",
        "_count(step, lambda ref_cnt: ref_cnt != PENDING)",
    ),
    _of_law(
        "slots_conserved",
        "a slot is held twice, held and free, or lost",
        "two blocks and one free slot, of three slots",
        "if not seen.accounts_for_slots() and",
        "if not seen.accounts_for_slots() or",
    ),
    _of_law(
        "ref_floor",
        "a ref_cnt is below -1",
        "two blocks of ref_cnt -4 to 1",
        "if ref_cnt < PENDING}",
        "if ref_cnt <= PENDING}",
    ),
    _of_law(
        "capacity",
        "more blocks are resident than there are slots",
        "up to 4 blocks and 4 slots",
        "if resident <= step.capacity:",
        "if resident < step.capacity:",
    ),
    _of_law(
        "legal_pins",
        "a load changes a ref_cnt otherwise than by the pins that it names, or that of a bystander",
        "one key named up to twice, from absent to ref_cnt 2, and a bystander",
        "calls.PREPARE_LOAD: (pin,),",
        "calls.PREPARE_LOAD: (unpin,),",
    ),
    _of_law(
        "legal_ends_of_stores",
        "a store's completion changes a ref_cnt otherwise than from -1 to 0, or to absent if it failed",
        "one key, named or not, from absent to ref_cnt 1",
        "if step.call.success else (abort_store,)",
        "if step.call.success else (commit_store,)",
    ),
    _of_law(
        "legal_evictions",
        "an offer changes a ref_cnt otherwise than from absent to -1, or from 0 to absent",
        "one key, offered or not, from absent to ref_cnt 2",
        "allowed += reachable(before, (evict,), 1)",
        "allowed += reachable(before, (evict,), 0)",
    ),
    _of_law(
        "pinned_stays",
        "a block in use loses its key or its slot before its own completion",
        "one block of ref_cnt -1 to 2, gone, moved or neither",
        "if ref_cnt == 0 or key in completed",
        "if ref_cnt >= 0 or key in completed",
    ),
    _of_law(
        "offer_protected",
        "a key of the offer was evicted for it",
        "two keys, absent or of ref_cnt up to 1, one of them offered or not, evicted or not",
        "key in step.before.ref_cnt and key not in step.seen.ref_cnt and key not in gone",
        "key in step.before.ref_cnt or key not in step.seen.ref_cnt and key not in gone",
    ),
    _of_law(
        "evict_order",
        "others were evicted than the order prescribes",
        "up to two victims, one of them any of three keys",
        "if set(victims) == set(right) or not step.order_is_exact:",
        "if set(victims) != set(right) or not step.order_is_exact:",
    ),
    _of_law(
        "no_false_refusal",
        "an offer is refused that had room",
        "0 to 4 to be evicted, 0 to 4 evictable",
        "return self.need <= self.available",
        "return self.need < self.available",
        "model.manager",
    ),
    _of_law(
        "all_or_nothing",
        "a refused call changed a ref_cnt or the counter",
        "one block, absent or of ref_cnt up to 1, and a counter from 0 to 2",
        '("evictable counter", before.num_evictable, seen.num_evictable)',
        '("evictable counter", before.num_pending, seen.num_evictable)',
    ),
    _of_law(
        "owner_completes",
        "a completion changed a block that it had not prepared",
        "one block, from absent to ref_cnt 2, named well or not",
        "or not step.misplaced:\n        return None\n    foreign",
        "or not step.concerned:\n        return None\n    foreign",
    ),
    _of_law(
        "drains",
        "with no transfer in flight a block is in use, or a slot lost",
        "two blocks of ref_cnt -1 to 1, a slot lost or not",
        "if lost > 0:",
        "if lost > 1:",
    ),
    _of_law(
        "progress",
        "with no transfer in flight new keys are refused that fit the cache",
        "offers of 1 to 3 new keys to 1 to 4 slots",
        "or len(plan.new) > step.capacity or",
        "or len(plan.new) >= step.capacity or",
    ),
    _of_law(
        "answers_of_lookups",
        "a lookup answers another word than the right one, or raises without an excuse",
        "all pairs of the four words",
        "if (step.misplaced or step.may_refuse) and outcome.type",
        "if (step.misplaced and step.may_refuse) and outcome.type",
    ),
    # --- batches on the model ---
    Contract(
        "batches",
        "load_of_two",
        "a load pins each key once for each time that it is named; one of a key that is not ready is found misplaced",
        _OF_THREE_KEYS,
        Edit(
            "model.manager",
            "if is_evictable(before):\n                self.order.busy(key)",
            "if is_ready(before):\n                self.order.busy(key)",
        ),
    ),
    Contract(
        "batches",
        "unload_of_two",
        "a load's completion unpins likewise, and lists what becomes idle last; one too many is found misplaced",
        f"{_OF_THREE_KEYS}; pins of the caller or of somebody else",
        Edit("model.manager", "left[key] -= 1", "left[key] -= 0"),
    ),
    Contract(
        "batches",
        "end_of_two_stores",
        "a store's completion makes its blocks idle, or gives their slots back; any other is found misplaced",
        f"{_OF_THREE_KEYS}; success or failure",
        Edit(
            "model.manager",
            "self.num_pending -= 1\n            if success:",
            "self.num_pending -= 2\n            if success:",
        ),
    ),
    Contract(
        "batches",
        "offer_of_two",
        "an offer evicts the first idle keys outside it, as many as it needs, and stores its new keys, or is refused "
        "and changes nothing",
        f"{_TWO}, no spare slot, in both orders; every offer of two of four keys, also a repeated one",
        Edit("model.orders.lru_evictable", "if key not in protected:", "if key not in chosen:"),
    ),
    Contract(
        "batches",
        "touch_of_three",
        "a touch moves the idle ones of its keys to the end, the head of the prefix last",
        f"{_THREE}; every batch of three of them, also repeated ones",
        Edit("model.orders.lru_evictable", "for key in reversed(keys):", "for key in tuple(keys):"),
        slow=True,
    ),
    # --- batches on the built-in manager ---
    Contract(
        "refinement",
        "load_of_two",
        "the built-in manager loads as the model does, or raises and changes nothing where a key is misplaced",
        _OF_THREE_KEYS,
        Edit("impl.manager", "if block.ref_cnt < 0:", "if block.ref_cnt <= 0:"),
        of_impl=True,
    ),
    Contract(
        "refinement",
        "unload_of_two",
        "the built-in manager completes loads as the model does, or raises and changes nothing where it must not",
        f"{_OF_THREE_KEYS}; pins of the caller or of somebody else",
        Edit("impl.manager", "if count == block.ref_cnt:", "if count <= block.ref_cnt:"),
        of_impl=True,
    ),
    Contract(
        "refinement",
        "end_of_two_stores",
        "the built-in manager completes stores as the model does and tells it once, or raises and changes nothing",
        f"{_OF_THREE_KEYS}; success or failure, stores of the caller or of somebody else",
        Edit(
            "impl.manager",
            "block.writer != req_id or key in pending:",
            "block.writer != req_id and key in pending:",
        ),
        of_impl=True,
    ),
    Contract(
        "refinement",
        "offer_of_two",
        "the built-in manager answers an offer as the model does, tells what it evicted, and leaves the same state",
        f"{_TWO}, in both orders, and with a spare slot in one; every offer of two of four keys, also a repeated one",
        Edit(
            "impl.manager",
            "if num_to_evict > self._num_evictable_cache_blocks - num_idle:",
            "if num_to_evict >= self._num_evictable_cache_blocks - num_idle:",
        ),
        of_impl=True,
    ),
    Contract(
        "refinement",
        "reports_of_two",
        "the built-in manager reports the usages, the sizes and the failures that the model reports, once",
        f"{_TWO}, with and without a spare slot; after an offer of two of four keys, one of them always new",
        Edit("impl.pool", "num_written = self._num_write_pending_blocks", "num_written = self._num_allocated_blocks"),
        of_impl=True,
    ),
    Contract(
        "refinement",
        "lookup_of_one",
        "the built-in manager looks up as the model does, and changes nothing",
        f"{_TWO}, in both orders; any of three keys",
        Edit("impl.manager", "if block.ref_cnt >= 0 else LookupResult", "if block.ref_cnt > 0 else LookupResult"),
        of_impl=True,
    ),
    Contract(
        "refinement",
        "touch_of_two",
        "the built-in manager touches as the model does",
        f"{_TWO}, in both orders; every batch of two of three keys, also repeated and absent ones",
        Edit(
            "impl.policies.lru",
            "in reversed(list(keys)) if key in evictable",
            "in list(list(keys)) if key in evictable",
        ),
        of_impl=True,
    ),
    Contract(
        "refinement",
        "reset_of_two",
        "the built-in manager resets as the model does",
        f"{_TWO}, with and without a spare slot",
        Edit(
            "impl.pool",
            "self._num_allocated_blocks = 0\n        self._free_list.clear()",
            "self._num_allocated_blocks = 1\n        self._free_list.clear()",
        ),
        of_impl=True,
    ),
    Contract(
        "refinement",
        "load_of_three",
        "the built-in manager loads as the model does, or raises and changes nothing where a key is misplaced",
        f"{_TWO}; every batch of three of three keys, also repeated, absent and pending ones",
        Edit("impl.manager", "block.ref_cnt += 1", "block.ref_cnt = 1"),
        of_impl=True,
        slow=True,
    ),
    Contract(
        "refinement",
        "unload_of_three",
        "the built-in manager completes loads as the model does, or raises and changes nothing where it must not",
        f"{_TWO}; every batch of three of three keys, also repeated, absent and pending ones",
        Edit("impl.pool", "counts[key] = counts.pop(key, 0) + 1", "counts[key] = counts.get(key, 0) + 1"),
        of_impl=True,
        slow=True,
    ),
    Contract(
        "refinement",
        "offer_of_three",
        "the built-in manager answers an offer as the model does, tells what it evicted, and leaves the same state",
        "three blocks, each absent, pending, idle or pinned any number of times, no spare slot; offers of three "
        "different keys, each resident or new",
        Edit("impl.manager", "protected = set(resident)", "protected = set(new)"),
        of_impl=True,
        slow=True,
    ),
    # --- policies ---
    Contract(
        "policies",
        "lru_evicts_the_first_idle",
        "LRU evicts the first idle keys that are not protected, or none and changes nothing when there are too few",
        f"{_THREE}, one of them or none protected; up to two to evict",
        Edit("impl.policies.lru", "if len(victims) < n:", "if len(victims) > n:"),
        of_impl=True,
    ),
    Contract(
        "policies",
        "lru_touch_keeps_the_head_longest",
        "an LRU touch moves the idle ones of its keys to the end, the head of the prefix last",
        "two blocks, each pending, idle or pinned any number of times, and an idle one; every batch of two of them",
        Edit("impl.policies.lru", "in reversed(list(keys)) if key in", "in sorted(list(keys)) if key in"),
        of_impl=True,
    ),
    Contract(
        "policies",
        "arc_evicts_as_the_model",
        "ARC evicts the model's victims, and remembers them in the same ghost lists",
        f"{_THREE}, some touched again; a whole target from 0 to the capacity of 3; one or two to evict",
        Edit("impl.policies.arc", "if t1_size >= target else", "if t1_size > target else"),
        of_impl=True,
        slow=True,
        seconds=300.0,
    ),
    Contract(
        "policies",
        "arc_target_moves_within_the_capacity",
        "a ghost that is touched moves ARC's target by max(1, ratio of the ghost lists), within 0 and the capacity",
        "capacities 1 to 4, any target in quarters, one ghost in its own list and up to two in the other",
        Edit(
            "impl.policies.arc",
            "self.target_t1_size = min(self.target_t1_size + gain,",
            "self.target_t1_size = max(self.target_t1_size + gain,",
        ),
        of_impl=True,
    ),
    # --- the store threshold ---
    Contract(
        "admission",
        "admitted_at_the_threshold",
        "the model admits a key from its threshold-th offer on",
        "any threshold, a key offered any number of times",
        Edit(
            "model.admission", "self.counts.get(key, 0) >= self.threshold", "self.counts.get(key, 0) > self.threshold"
        ),
    ),
    Contract(
        "admission",
        "both_admit_alike",
        "the built-in manager admits before it counts what the model admits after it counted",
        "any threshold from 2 on, two keys offered any number of times, a table of one or two",
        Edit(
            "impl.admission",
            "return self.counts.get(key, 0) + 1 >= self.store_threshold",
            "return self.counts.get(key, 0) + 1 > self.store_threshold",
        ),
        of_impl=True,
    ),
    Contract(
        "admission",
        "both_count_an_offer_alike",
        "both tables count an offer alike, hold no more than they may, and forget none of its keys",
        "two keys offered any number of times, a table of one to three, every offer of up to two of four keys",
        Edit(
            "impl.admission",
            "if len(counts) >= self.max_tracker_size:",
            "if len(counts) > self.max_tracker_size:",
        ),
        of_impl=True,
    ),
    # --- traces ---
    _of_trace(
        "any_short_line_after_a_head",
        "a text after a good first line is blank, or refused with its line number",
        "every ASCII text of up to one character, with and without a blank line before it",
        "enumerate(lines, 1)",
        "enumerate(lines, 0)",
    ),
    _of_trace(
        "any_two_words",
        "a line reads if it is blank, or is refused with its line number",
        "every line of two of 14 pieces of JSON",
        "if not isinstance(record, dict):",
        "if not isinstance(record, object):",
    ),
    _of_trace(
        "any_three_words",
        "a line reads if it is blank or a whole call, or is refused with its line number",
        "every line of three of 14 pieces of JSON",
        "if request is None:",
        "if request is True:",
        slow=True,
    ),
    _of_trace(
        "any_short_text",
        "a text reads or is refused with a line number",
        "every two lines of up to one ASCII character each",
        "except (ValueError, RecursionError) as error:",
        "except (KeyError, RecursionError) as error:",
        slow=True,
    ),
    _of_trace(
        "a_line_cut_off",
        "a line that was cut off is refused with its line number, and the whole one reads",
        "a first line and a call, cut off at every place",
        "if name == calls.LOOKUP and len(keys) != 1:",
        "if name == calls.LOOKUP and len(keys) == 1:",
    ),
    _of_trace(
        "a_head_within_bounds",
        "a first line with sizes within bounds reads, and keeps them",
        "any capacity and threshold from 1 on, any tracker size or none, 0 to 16 tiers",
        "if threshold < 1:",
        "if threshold <= 1:",
    ),
    _of_trace(
        "a_head_beyond_bounds",
        "a first line reads exactly if its sizes are within bounds",
        "capacity, threshold and tracker size from -1 to 1, tiers at both ends",
        "if not 0 <= tiers <= MOST_TIERS:",
        "if not 0 <= tiers < MOST_TIERS:",
    ),
    _of_trace(
        "any_key_within_bounds",
        "every 64-bit number is a key, at any position, and is kept",
        "one key, any number from 0 to 2**64 - 1, named once or twice; any position or none",
        "_KEYS_END = 2**64",
        "_KEYS_END = 2**63",
    ),
    _of_trace(
        "a_key_of_two_characters",
        "a text is a key exactly if it is hexadecimal",
        "any ASCII character, then a hexadecimal digit or none",
        "return len(bytes.fromhex(text)) * 2 == len(text) > 0",
        "return len(bytes.fromhex(text)) + 2 == len(text) > 0",
    ),
    _of_trace(
        "any_value_in_a_call",
        "a call reads into what it should be, or is refused with its line number",
        f"keys: {_TRACE_VALUES}; three requests and limits",
        "if limit is not None and limit < 0:",
        "if limit is not None and limit > 0:",
    ),
    _of_trace(
        "any_value_returned",
        "an answer reads, or is refused with its line number",
        f"five calls; what they return: {_TRACE_VALUES}",
        'if not isinstance(value, dict):\n        raise TraceError(number, f\'"returns" of',
        'if not isinstance(value, list):\n        raise TraceError(number, f\'"returns" of',
    ),
    _of_trace(
        "any_value_in_a_state",
        "a state reads, or is refused with its line number",
        f"counts: {_TRACE_VALUES}; four lists of free slots, three orders",
        "table = _typed(number, state, name, dict, None)",
        "table = _typed(number, state, name, list, None)",
    ),
)

_BY_NAME = {contract.name: contract for contract in CONTRACTS}


def named(name: str) -> Contract:
    """The contract of that name. Raises `KeyError` if there is none."""
    return _BY_NAME[name]
