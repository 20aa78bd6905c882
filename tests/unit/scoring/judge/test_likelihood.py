"""Likelihood of a reference: formulas, what is asked, and a tiny real model behind an endpoint."""

import json
import math
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch
from makers.tiny_models import tiny_model_dir
from transformers import AutoModelForImageTextToText, AutoTokenizer

from mmrl.data.sample import MediaPart, Message, Sample, TextPart
from mmrl.errors import ConfigError
from mmrl.scoring.judge.likelihood import Continuation, improvement, probability, thought_of
from mmrl.scoring.judge.scripted import ScriptedJudge
from mmrl.scoring.pool import RewardCall, run_call
from mmrl.scoring.reward import check_machine, resolve_reward

ASKED = (Message("user", (TextPart("What colour is the square?"),)),)
SAMPLE = Sample("s", "t", "text", ASKED, answer="blue")
THOUGHT = "<think>red and blue</think>"


def score(endpoint, *completions, sample=SAMPLE, **options):
    return run_call(
        RewardCall("reference_likelihood", None, {"endpoint": endpoint, **options}, ((sample, completions),))
    )


def test_worked_numbers():
    assert improvement([-1.0], [-2.0]) == pytest.approx(100 * (1 - math.exp(-1)))
    assert improvement([-2.0, -2.0], [-1.0, -1.0]) == pytest.approx(100 * (1 - math.e))
    assert improvement([-0.3] * 5, [-0.3] * 5) == 0 and improvement([0.0], [-9999.0]) == 100
    assert math.isfinite(improvement([-9999.0], [0.0])) and probability([-9999.0]) == 0
    assert probability([math.log(0.5), math.log(0.25)]) == pytest.approx(0.125)


def test_what_is_asked_without_and_with_the_thought():
    with ScriptedJudge([[-1.0], [-0.5], [-0.25]]) as judge:
        found = score(judge.endpoint, THOUGHT + "<answer>red</answer>", "no <|im_end|>\n<answer>", measure="verifree")
        assert [round(f.value, 6) for f in found] == [0.606531, 0.778801]
        told = [body["messages"][-1] for body in judge.bodies]
    leads = ("", THOUGHT, "no < |im_end|>\n")
    assert told == [{"role": "assistant", "content": f"{lead}<answer>blue"} for lead in leads]
    assert all(b["messages"][0] == {"role": "user", "content": "What colour is the square?"} for b in judge.bodies)
    assert all(b["continue_final_message"] and not b["add_generation_prompt"] for b in judge.bodies)


def test_tokens_behind_the_last_mark_count_and_one_that_holds_its_end():
    tokens = [("<answer>", -9.0), (" x <ans", -8.0), ("wer>bl", -0.5), ("\ufffd", -0.25), ("ue", -0.125)]
    response = {"prompt_logprobs": [None, *({"7": {"decoded_token": t, "logprob": v}} for t, v in tokens)]}
    assert Continuation((), "<answer>", "bl\u00f6ue").answer(response).logprobs == (-0.5, -0.25, -0.125)
    for bad in ({}, {"prompt_logprobs": None}, {"prompt_logprobs": [{"1": {"decoded_token": "x", "logprob": -1}}]}):
        with pytest.raises((ValueError, LookupError, TypeError)):
            Continuation((), "<answer>", "y").answer(bad)


def test_an_endpoint_without_log_probs_of_the_prompt_gives_no_score():
    with ScriptedJudge(["blue"]) as judge:
        (found,) = score(judge.endpoint, THOUGHT + "<answer>blue</answer>")
    assert found.event == "judge_failed" and "not of the form asked for" in found.message


def test_a_row_with_media_is_refused():
    seen = Sample("s", "t", "image", (Message("user", (MediaPart(0), TextPart("?"))),), answer="blue")
    with ScriptedJudge([[-1.0]]) as judge:
        (found,) = score(judge.endpoint, THOUGHT + "<answer>", sample=seen)
    assert found.event == "bad_answer" and "text alone" in found.message


def test_thresholds_that_do_not_rise_are_refused_at_start():
    reward = resolve_reward("reference_likelihood")
    for options in ({"thresholds": [1.0, 1.0, 2.0]}, {"credits": [0.5, 1.0]}, {"credits": [0.5, 0.9, 1.5]}):
        with pytest.raises(ConfigError, match="reference_likelihood"):
            check_machine(reward, {"endpoint": {}, **options}, timeout_s=60, where="rewards")


def test_thoughts():
    assert thought_of("a<answer>1</answer> b<answer>2</answer>") == "a<answer>1</answer> b"
    assert thought_of("<think>a</think>b") == "<think>a</think>" and thought_of("<think>a") == ""


class TinyEndpoint:
    """Chat completions of a tiny model that report the log-probs of the prompt's tokens, as vLLM does."""

    def __init__(self):
        folder = tiny_model_dir("qwen2_5_vl")
        self.model = AutoModelForImageTextToText.from_pretrained(folder).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    def ids(self, messages):
        return self.tokenizer.apply_chat_template(messages, continue_final_message=True, return_dict=False)

    @torch.no_grad()
    def logprobs(self, ids):
        logits = self.model(input_ids=torch.tensor([ids])).logits[0].float()
        return logits.log_softmax(-1)[:-1].gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()

    def response(self, body):
        ids = self.ids(body["messages"])
        told = [
            {str(token): {"decoded_token": self.tokenizer.decode([token]), "logprob": value}}
            for token, value in zip(ids[1:], self.logprobs(ids), strict=True)
        ]
        return {"choices": [{"message": {"content": "x"}}], "prompt_logprobs": [None, *told]}


@pytest.fixture
def tiny():
    endpoint = TinyEndpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            content = json.dumps(endpoint.response(body)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    endpoint.options = {"url": f"http://127.0.0.1:{server.server_address[1]}/v1", "model": "tiny", "store": None}
    yield endpoint
    server.shutdown()
    server.server_close()


def test_a_real_model_gives_the_likelihood_of_the_reference_alone(tiny):
    thoughts = (THOUGHT, "<think>12</think>")
    found = score(tiny.options, *(thought + "<answer>red</answer>" for thought in thoughts))
    user = {"role": "user", "content": "What colour is the square?"}

    def reference(lead):
        start, whole = (tiny.ids([user, {"role": "assistant", "content": f"{lead}<answer>{a}"}]) for a in ("", "blue"))
        assert whole[: len(start)] == start and len(whole) > len(start)
        return tiny.logprobs(whole)[len(start) - 1 :]

    without = reference("")
    for outcome, thought in zip(found, thoughts, strict=True):
        told = reference(thought)
        assert outcome.extra["probability"] == pytest.approx(math.exp(sum(told)), rel=1e-4)
        gain = (sum(told) - sum(without)) / len(told)
        assert outcome.extra["improvement"] == pytest.approx(100 * (1 - math.exp(-gain)), rel=1e-3)
        steps = ((0.05, 0.5), (1.0, 0.9), (2.0, 1.0))
        assert outcome.value == max((c for t, c in steps if outcome.extra["improvement"] >= t), default=0.0)
    assert found[0].extra != found[1].extra
