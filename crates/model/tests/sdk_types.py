"""Holds what our code sends, and what the tests' servers say, against the types of the providers' own Python SDKs.

Usage: sdk_types.py DIRECTORY, which holds {requests,replies}/API-PROCESS-NUMBER.json as the tests write them.
"""

import collections.abc
import json
import os
import sys
import types
import typing
from pathlib import Path

import anthropic.types
import anthropic.types.message_create_params
import google.genai.types
import openai.types.chat
import openai.types.chat.completion_create_params
import openai.types.responses
import openai.types.responses.response_create_params
import pydantic
import typing_extensions



class GoogleRequest(pydantic.BaseModel):
    """A request of `generateContent`, which the SDK has no type of its own for; its parts forbid what they do not name."""

    model_config = pydantic.ConfigDict(extra="forbid", val_json_bytes="base64")

    contents: list[google.genai.types.Content]
    systemInstruction: google.genai.types.Content | None = None
    generationConfig: google.genai.types.GenerationConfig | None = None
    tools: list[google.genai.types.Tool] | None = None
    toolConfig: google.genai.types.ToolConfig | None = None


REQUESTS = {
    "openai": openai.types.chat.completion_create_params.CompletionCreateParamsNonStreaming,
    "openai-responses": openai.types.responses.response_create_params.ResponseCreateParamsNonStreaming,
    "anthropic": anthropic.types.message_create_params.MessageCreateParamsNonStreaming,
    "google": GoogleRequest,
}
REPLIES = {
    "openai": openai.types.chat.ChatCompletion,
    "openai-responses": openai.types.responses.Response,
    "anthropic": anthropic.types.Message,
    "google": google.genai.types.GenerateContentResponse,
}
LISTS = {"openai": "messages", "openai-responses": "input", "anthropic": "messages", "google": "contents"}
# Nonsense that must be noticed in the first entry of the list.
NONSENSE = {"google": (("parts", "nothing"), ("nonsense", 1))}


def strict(kind: typing.Any, made: dict) -> typing.Any:
    """The same type, but with lists that are looked at at once, and without fields that it does not name."""
    if typing_extensions.is_typeddict(kind):
        if kind not in made:
            made[kind] = typing.Any  # What holds itself is not followed again.
            hints = typing_extensions.get_type_hints(kind, include_extras=False)
            needed = kind.__required_keys__
            fields = {
                name: typing_extensions.Required[strict(hint, made)]
                if name in needed
                else typing_extensions.NotRequired[strict(hint, made)]
                for name, hint in hints.items()
            }
            made[kind] = typing_extensions.TypedDict(kind.__name__, fields)
            made[kind].__pydantic_config__ = pydantic.ConfigDict(extra="forbid")
        return made[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is None:
        return kind
    if origin is typing.Annotated:
        return strict(arguments[0], made)
    if origin in (typing.Union, types.UnionType):
        return typing.Union[tuple(strict(argument, made) for argument in arguments if is_plain(argument))]
    if origin is collections.abc.Iterable or getattr(origin, "__name__", "") == "SequenceNotStr" or origin is list:
        return list[strict(arguments[0], made)]
    if origin is dict:
        return dict[arguments[0], strict(arguments[1], made)]
    return kind


def is_plain(kind: typing.Any) -> bool:
    """Whether JSON can be this: open files, paths and objects of the SDK itself cannot be sent as they are."""
    files = (typing.IO, collections.abc.Buffer if hasattr(collections.abc, "Buffer") else bytes, os.PathLike)
    if kind in files or typing.get_origin(kind) in files:
        return False
    return not (isinstance(kind, type) and issubclass(kind, pydantic.BaseModel))


def without_extensions(api: str, body: dict) -> dict:
    """Without what is right but not in the types: thoughts for compatible servers; chance, for models that know it."""
    body = json.loads(json.dumps(body))
    if api == "openai":
        for message in body["messages"]:
            message.pop("reasoning_content", None)
    if api == "anthropic":
        for name in ("temperature", "top_p", "top_k"):
            body.pop(name, None)
    return body


def check_request(api: str, body: dict, adapters: dict) -> None:
    if api not in adapters:
        adapters[api] = pydantic.TypeAdapter(strict(REQUESTS[api], {}))
    if api == "google":
        adapters[api].validate_json(json.dumps(body))
    else:
        adapters[api].validate_python(body)


def notices(api: str, body: dict, adapters: dict) -> bool:
    """Whether nonsense deep inside is noticed: a check without teeth is none."""
    for key, value in NONSENSE.get(api, (("role", "nobody"), ("nonsense", 1))):
        broken = json.loads(json.dumps(body))
        broken[LISTS[api]][0][key] = value
        try:
            check_request(api, broken, adapters)
            return False
        except pydantic.ValidationError:
            pass
    return True


def main() -> int:
    place = Path(sys.argv[1])
    adapters: dict = {}
    counts = {"requests": dict.fromkeys(REQUESTS, 0), "replies": dict.fromkeys(REPLIES, 0)}
    failed = 0
    for kind in counts:
        for path in sorted((place / kind).glob("*.json")):
            api = path.stem.rsplit("-", 2)[0]
            if api not in REQUESTS:
                continue
            body = json.loads(path.read_text())
            try:
                if kind == "requests":
                    body = without_extensions(api, body)
                    check_request(api, body, adapters)
                    assert notices(api, body, adapters), "nonsense passes too"
                elif api == "google":
                    REPLIES[api].model_validate_json(json.dumps(body))
                else:
                    REPLIES[api].model_validate(body)
            except (AssertionError, pydantic.ValidationError) as error:
                failed += 1
                print(f"{path.name}: {error}\n{json.dumps(body)[:2000]}")
            counts[kind][api] += 1
    print(counts)
    few = [(kind, api) for kind, of in counts.items() for api, count in of.items() if count < 5]
    if few:
        print(f"too few of {few}: did the tests write them?")
    return 1 if failed or few else 0


if __name__ == "__main__":
    sys.exit(main())
