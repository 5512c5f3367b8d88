"""`evictable oracle` at the end of a pipe."""

from __future__ import annotations

import json
import subprocess

from commandline import SCRIPT, Run

HEAD = '{"evictable_trace": 1, "capacity": 1}\n'
LOOKUP = '{"call": "lookup", "request": "r1", "keys": [3]}\n'
WRONG = '{"call": "lookup", "request": "r1", "keys": [3], "returns": "HIT"}\n'


def asked(text: str, *arguments: str) -> tuple[int, list[dict[str, object]], str]:
    done = subprocess.run([SCRIPT, "oracle", *arguments], input=text, capture_output=True, text=True, timeout=60)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_each_answer_is_there_before_the_next_question() -> None:
    with subprocess.Popen([SCRIPT, "oracle"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for question in (HEAD, LOOKUP, LOOKUP):
            process.stdin.write(question)
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
        assert "MISS" == answer["returns"]
        process.stdin.close()
        assert 0 == process.wait()


def test_a_wrong_answer_is_exit_code_1() -> None:
    code, answers, err = asked(HEAD + WRONG)
    assert (1, False, "") == (code, answers[-1]["right"], err)


def test_a_head_may_be_given_as_options() -> None:
    code, (answer,), _ = asked(LOOKUP, "--capacity", "4", "--policy", "arc")
    assert (0, "MISS") == (code, answer["returns"])


def test_a_bad_line_is_answered_by_an_error_and_ends_it() -> None:
    code, answers, err = asked(HEAD + "\n" + LOOKUP + "nonsense\n" + LOOKUP)
    assert 2 == code
    assert "MISS" == answers[1]["returns"]
    assert "line 4: not a JSON object" in str(answers[2]["error"])
    assert 3 == len(answers)
    assert err.startswith("evictable: oracle: line 4: not a JSON object")


def test_the_oracle_is_a_manager_that_conforms(evictable: Run) -> None:
    done = evictable("check", f"stdio:{SCRIPT} oracle", "--max-calls", 1500, "--discipline", "careless")
    assert (0, "1 conform") == (done.returncode, done.stdout.splitlines()[-1])
