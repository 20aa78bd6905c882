"""Rows as other tools write them, by shipped card: each shape that a tool's datasets have, over the files MEDIA."""

from typing import Any

MEDIA = ("a.jpg", "b.jpg", "v.mp4")
SYSTEM = {"role": "system", "content": "Be brief."}
EARLIER = [{"role": "user", "content": "<image>Who?"}, {"role": "assistant", "content": "A dog with <image> on it."}]
CHAT = [{"from": "human", "value": "<image>\nWhat is it?"}, {"from": "gpt", "value": "A dog."}]


def messages(*turns: tuple[str, Any]) -> list[dict]:
    return [{"role": role, "content": content} for role, content in turns]


ROWS: dict[str, list[dict]] = {
    "easyr1": [
        {"problem": "<image>Find x.", "answer": "3", "images": ["a.jpg"], "problem_type": "math"},
        {
            "problem": "<video>When, in <image> and <image>?",
            "answer": '{"time": [1, 2]}',
            "images": ["b.jpg", "a.jpg"],
            "videos": ["v.mp4"],
            "problem_type": "temporal grounding",
            "data_type": "video",
            "problem_id": 12,
            "options": None,
            "preprocessed_video": "0a1b2c3d4e5f6071.pt",
            "has_offline_trajectory": True,
            "offline_output": "<think>I look.</think><answer>1 to 2</answer>",
        },
    ],
    "verl": [
        {
            "data_source": "geo3k",
            "prompt": messages(("system", "Be brief."), ("user", "<image>Find x.")),
            "images": [{"image": "a.jpg", "max_pixels": 50176}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": "3"},
            "extra_info": {"split": "train", "index": 0},
        },
        {
            "data_source": "gsm8k",
            "prompt": messages(("user", "2 + 2?"), ("assistant", "4."), ("user", "And 3 + 3?")),
            "reward_model": {"style": "rule", "ground_truth": ["6", "six"]},
        },
    ],
    "trl": [
        {"prompt": "2 + 2?", "completion": "4"},
        {"prompt": messages(("user", "Find x.")), "image": "a.jpg", "solution": "3", "level": 2},
        {
            "prompt": messages(
                ("user", [{"type": "text", "text": "Is <image> "}, {"type": "image"}, {"type": "text", "text": "old?"}])
            ),
            "images": ["b.jpg"],
            "completion": messages(("assistant", [{"type": "text", "text": "Yes."}])),
        },
        {"messages": [*messages(("system", "Be brief."), ("user", "Hi")), *messages(("assistant", "Hello"))]},
    ],
    "swift": [
        {"messages": [SYSTEM, *EARLIER, *messages(("user", "<image>And <video>?"))], "solution": "cat"}
        | {"images": ["a.jpg", "b.jpg"], "videos": ["v.mp4"]},
        {"query": "<img>a.jpg</img>55555", "response": "66666"},
        {
            "query": "<video>v.mp4</video>five",
            "response": "six",
            "history": [["AAA", "BBB"], ["<img>b.jpg</img>", "D"]],
        },
    ],
    "llamafactory": [
        {"conversations": CHAT, "images": ["a.jpg"], "system": "Be brief."},
        {"messages": [*EARLIER, *messages(("user", "<video>Why?"), ("assistant", "So."))]}
        | {"images": ["b.jpg"], "videos": ["v.mp4"], "tools": None},
        {"instruction": "<image>Describe.", "input": "In one word.", "output": "Dog.", "images": ["a.jpg"]},
    ],
    "alpaca": [
        {"instruction": "Describe <image>.", "input": "", "output": "Dog.", "images": ["a.jpg"]},
        {"instruction": "And now?", "output": "Bye.", "history": [["Hi", "Hello"]], "system": "Be brief."},
    ],
    "llava": [
        {"id": "000000033471", "image": "a.jpg", "conversations": CHAT},
        {"id": "000000033471", "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]},
    ],
    "qwen_vl": [
        {
            "image": ["a.jpg", "b.jpg"],
            "conversations": [{"from": "human", "value": "<image>\n<image>\nOlder?"}, CHAT[1]],
        },
        {"video": "v.mp4", "conversations": [{"from": "human", "value": "<video>\nWhat?"}, *CHAT[1:]]},
        {"id": "identity_0", "conversations": messages()}
        | {
            "conversations": [
                {"from": "user", "value": "Picture 1: <img>a.jpg</img>\nWhat is it?"},
                {"from": "assistant", "value": "A dog."},
            ]
        },
    ],
    "openai": [
        {
            "messages": messages(
                ("developer", "Be brief."),
                (
                    "user",
                    [
                        {"type": "image_url", "image_url": {"url": "a.jpg", "detail": "high"}},
                        {"type": "text", "text": "What is <image>?", "image_url": None},
                        {"type": "video", "video": "v.mp4"},
                        {"type": "image", "image": "b.jpg"},
                    ],
                ),
                ("assistant", "A tag."),
            )
        },
        {"messages": messages(("user", "Hi")), "answer": "Hello"},
    ],
}
