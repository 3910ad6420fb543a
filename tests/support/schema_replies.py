"""What servers do with the schema of a reply: ignore it, write JSON of it, or refuse it in the words of real ones."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container
from typing import Any

from fault_kinds import Fault

Verdict = Callable[[dict[str, Any]], "Fault | bool"]
"""What a server makes of ``response_format``: it honours it (True), ignores it (False), or refuses the request."""

TYPES = ("json_schema", "json_object")

REFUSALS = {
    "OpenAI": "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model. Learn more "
    "about supported models at the Structured Outputs guide: https://platform.openai.com/docs/guides",
    "OpenAI before": "Unrecognized request argument supplied: response_format",
    "Azure": "response_format value as json_schema is enabled only for api versions 2024-08-01-preview and later",
    "DeepSeek": "This response_format type is unavailable now",
    "Groq": "This model does not support response format `json_schema`. See supported models",
    "text-generation-inference": "Failed to deserialize the JSON body into the target type: response_format.type: "
    "unknown variant `json_schema`, expected `json_object` or `regex` at line 1 column 90",
    "LiteLLM": "UnsupportedParamsError: tiny does not support parameters: ['response_format'], for model=tiny",
}
"""Refusals of schemas as such."""

REFUSALS_OF_ONE = {
    "OpenAI": "Invalid schema for response_format 'ranking': In context=(), 'maxItems' is not permitted.",
    "llama.cpp": "Failed to initialize samplers: failed to parse grammar",
    "llama.cpp, conversion": "JSON schema conversion failed: Unrecognized schema",
    "vLLM": "Failed to convert the grammar from JSON schema to EBNF",
    "Gemini": "The specified schema produces a constraint that has too many states for serving.",
}
"""Refusals of one schema."""

LLAMA_CPP_PYTHON = (
    "1 validation error:\n  {'type': 'literal_error', 'loc': ('body', 'response_format', 'type'), 'msg': \"Input should"
    " be 'text' or 'json_object'\", 'input': 'json_schema', 'ctx': {'expected': \"'text' or 'json_object'\"}}"
)
"""With this the server of llama-cpp-python fails (HTTP 500) at ``json_schema``."""


def ignore(requested: dict[str, Any]) -> bool:
    return False


def honour(requested: dict[str, Any]) -> bool:
    return True


def refuse(said: str, *, status: int = 400, kinds: Container[str] = TYPES, key: str = "") -> Verdict:
    """Refuse the types ``kinds`` of schemas, or only those that have ``key``; honour others."""

    def verdict(requested: dict[str, Any]) -> Fault | bool:
        has_key = not key or key in schema_of(requested)["properties"]
        return Fault(status=status, said=said) if has_key and requested["type"] in kinds else True

    return verdict


VERDICTS = {"ignored": ignore, "honoured": honour, "refused": refuse(REFUSALS["DeepSeek"])}


def schema_of(requested: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = requested["json_schema"]["schema"] if "json_schema" in requested else requested["schema"]
    return found


def in_schema(good: Any, schema: dict[str, Any]) -> Any:
    """The reply ``good`` of the chat API with its text as JSON of ``schema``."""
    choices = [one | {"message": _written(one["message"], schema)} for one in good.get("choices", ())]
    return {**good, "choices": choices} if choices else good


def _written(message: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    return message | {"content": json_reply(message["content"], schema)}


def json_reply(text: str, schema: dict[str, Any]) -> str:
    """The reply ``text`` of `fault_replies` as JSON of ``schema``; one that is JSON stays as it is."""
    if text.startswith("{"):
        return text
    return json.dumps({key: _value(text, key, one) for key, one in schema["properties"].items()})


def _value(text: str, key: str, schema: dict[str, Any]) -> Any:
    if schema["type"] == "array":
        return _items(text, schema["items"])
    if schema["type"] == "integer":
        return int(re.findall(r"\d+", text)[0])
    near = next((line for line in text.splitlines() if line.startswith(f"{key}:")), text).lower()
    return max((one for one in schema["enum"] if one.lower() in near), key=len)


def _items(text: str, schema: dict[str, Any]) -> list[Any]:
    lines = [line.removeprefix("- ") for line in text.splitlines()]
    if schema["type"] == "integer":
        return [int(number) for number in re.findall(r"\d+", text)]
    if schema["type"] == "string":
        return [line for line in lines if line != "NONE"]
    match [*schema["properties"]]:
        case ["query", "probability"]:
            found = re.findall(r"<query>(.*)</query>\n<probability>(.*)</probability>", text)
            return [{"query": query, "probability": float(probability)} for query, probability in found]
        case ["kind", "what"]:
            return [dict(zip(("kind", "what"), line.split(": ", 1), strict=True)) for line in lines[1:]]
        case ["field", "operator", "value"] as keys:
            found = re.findall(r'^"(.*)" (\S+) "(.*)"$', text, re.MULTILINE)
            return [dict(zip(keys, condition, strict=True)) for condition in found]
        case keys:
            return [dict(zip(keys, line.split(" | "), strict=True)) for line in lines if "|" in line]
