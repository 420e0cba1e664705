"""What is read from a body, and which prompts are large."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baseload_router.core.classifier import RuleClassifier, TierDecision
from baseload_router.core.facts import OpenAIRequest, prompt_of, read_facts
from baseload_router.core.policy import Policy

RULES = Policy().classifier
CLASSIFIER = RuleClassifier(RULES.min_large_chars, RULES.keywords)


def request(body: Any) -> OpenAIRequest:
    facts = read_facts(json.dumps(body).encode())
    assert facts is not None
    return facts.request


def chat(*contents: Any, role: str = "user") -> OpenAIRequest:
    return request({"messages": [{"role": role, "content": content} for content in contents]})


def tier(content: str) -> TierDecision:
    return CLASSIFIER.classify(chat(content))


def test_the_fields_that_routing_needs_are_read_and_the_rest_is_skipped() -> None:
    read = request({"model": "auto", "stream": True, "user": "u", "tools": [{"x": 1}], "prompt": "hi"})
    assert (read.model, read.stream, read.user, read.prompt) == ("auto", True, "u", "hi")


def test_json_that_is_not_an_openai_request_has_no_fields_but_is_json() -> None:
    for body in (b'{"model": 3}', b"[1, 2]", b'"text"', b'{"messages": "x"}'):
        facts = read_facts(body)
        assert facts is not None
        assert facts.text == body.decode()
        assert facts.request == OpenAIRequest()


@pytest.mark.parametrize("body", [b"", b"{", b'{"model": 3', b"{'a': 1}", b'{"a": 1} x', b'{"a": "\xff"}'])
def test_anything_else_is_no_json(body: bytes) -> None:
    assert read_facts(body) is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["model", "messages", "x"]), inner),
    )
)
def test_every_json_document_is_read(document: Any) -> None:
    facts = read_facts(json.dumps(document).encode())
    assert facts is not None


def test_the_prompt_is_what_the_user_wrote_in_every_form() -> None:
    parts = [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {}},
        {"type": "text", "text": "b"},
    ]
    assert prompt_of(chat("one", parts, None)) == "one\na\nb\n"
    assert prompt_of(chat("be brief", role="system")) == ""
    assert prompt_of(request({"prompt": "hi"})) == "hi"
    assert prompt_of(request({"prompt": ["a", "b", 17]})) == "a\nb"
    assert prompt_of(request({"prompt": None})) == ""


def test_length_decides_from_500_characters_on() -> None:
    assert tier("x" * 499) == TierDecision("small", "499 characters and no keyword")
    assert tier("x" * 500) == TierDecision("large", "500 characters, 500 or more")
    assert tier("语" * 500).tier == "large"


@pytest.mark.parametrize(
    "text",
    [
        "Analyze this",
        "some REASONING here",
        "codes",
        "my-code",
        "decode this code",
        "请分析这个",
        "推理",
        "写代码",
    ],
)
def test_a_keyword_means_large(text: str) -> None:
    assert tier(text).tier == "large"
    assert tier(text).reason.startswith("it has the word ")


@pytest.mark.parametrize(
    "text", ["What is the capital of France?", "decode", "barcode", "unreasoning", "你好"]
)
def test_a_keyword_inside_another_word_does_not_count(text: str) -> None:
    assert tier(text).tier == "small"


def test_a_word_after_other_scripts_starts_a_word() -> None:
    assert tier("写code吧").tier == "large"


@given(st.text(max_size=60), st.text(max_size=60))
def test_more_text_never_makes_a_prompt_smaller(text: str, more: str) -> None:
    if tier(text).tier == "large":
        assert tier(f"{text} {more}").tier == "large"
