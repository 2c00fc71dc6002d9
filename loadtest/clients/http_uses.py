"""Clients of HTTP that we did not write, each used many times, unchanged but for its base URL.

    pip install openai anthropic litellm langchain-openai instructor openai-agents
    python http_uses.py http://127.0.0.1:8080 demo

A client that is not installed is left out. Each use prints a line of JSON: client, use, and error,
which is null where all was as the client's own documentation has it.
"""

import asyncio
import importlib.util
import inspect
import json
import os
import sys
import time

os.environ.setdefault("OPENAI_API_KEY", "none")
os.environ.setdefault("OPENAI_AGENTS_DISABLE_TRACING", "1")
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")

URL, MODEL = sys.argv[1].rstrip("/"), sys.argv[2]
ONLY = sys.argv[3:]
HI = [{"role": "user", "content": "Tell me a story about a dog."}]
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Weather of a town.", "parameters": {
    "type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}}}]
SMALL = [{"type": "function", "function": {"name": "weather", "description": "Weather of a town.", "parameters": {
    "type": "object", "properties": {"town": {"type": "string", "maxLength": 12}}, "required": ["town"]}}}]


def want(condition, what):
    if not condition:
        raise AssertionError(what)


def refused(call, error, **fields):
    """Wants a call to raise an error of a type, with fields."""
    try:
        call()
    except error as e:
        for name, value in fields.items():
            want(getattr(e, name) == value, f"{name} is {getattr(e, name)!r}, want {value!r}")
        return
    raise AssertionError("nothing was raised")


def uses_openai():
    import openai

    c = openai.OpenAI(base_url=URL + "/v1", api_key="none", max_retries=0)
    chat = lambda **k: c.chat.completions.create(**{"model": MODEL, "messages": HI, "max_tokens": 24, "temperature": 0, **k})
    text = lambda **k: c.completions.create(**{"model": MODEL, "prompt": "Once upon a time", "max_tokens": 12, "temperature": 0, **k})
    streamed = lambda s: "".join(x.choices[0].delta.content or "" for x in s if x.choices)

    def models():
        want(MODEL in [m.id for m in c.models.list()], "the model is not listed")

    def retrieve():
        want(c.models.retrieve(MODEL).id == MODEL, "another model")

    def plain():
        r = chat()
        want(r.choices[0].message.content and r.usage.completion_tokens > 0 and r.choices[0].finish_reason in ("stop", "length"), r)

    def stream():
        want(streamed(chat(stream=True)) == chat().choices[0].message.content, "a stream is another text")

    def stream_usage():
        *_, last = chat(stream=True, stream_options={"include_usage": True})
        want(last.usage.total_tokens > 0 and last.choices == [], last)

    def stream_helper():
        with c.chat.completions.stream(model=MODEL, messages=HI, max_tokens=200, stop=["."]) as s:
            kinds = {e.type for e in s}
            want("content.delta" in kinds and s.get_final_completion().choices[0].message.content is not None, kinds)

    def several():
        r = chat(n=3, temperature=1, seed=7)
        want([x.index for x in r.choices] == [0, 1, 2] and len({x.message.content for x in r.choices}) > 1, r)

    def several_streamed():
        want({x.choices[0].index for x in chat(n=2, stream=True) if x.choices} == {0, 1}, "indices")

    def seeded():
        a, b = (chat(temperature=1, seed=2**40 + 5) for _ in range(2))
        want(a.choices[0].message.content == b.choices[0].message.content and a.system_fingerprint == b.system_fingerprint, "equal seeds, other texts")

    def logprobs():
        r = chat(logprobs=True, top_logprobs=3).choices[0].logprobs.content
        want(r and all(t.logprob <= 0 and len(t.top_logprobs) == 3 and bytes(t.bytes) is not None for t in r), r)

    def stop():
        r = chat(stop=["."])
        want("." not in r.choices[0].message.content and r.choices[0].finish_reason in ("stop", "length"), r)

    def tools():
        want(chat(tools=TOOLS, tool_choice="auto").choices[0].message is not None, "no message")

    def tool_required():
        r = chat(tools=SMALL, tool_choice="required", max_tokens=80).choices[0]
        want(r.finish_reason == "tool_calls" and json.loads(r.message.tool_calls[0].function.arguments)["town"] is not None, r)

    def tool_named():
        r = chat(tools=SMALL, tool_choice={"type": "function", "function": {"name": "weather"}}, max_tokens=80).choices[0].message.tool_calls[0]
        want(r.function.name == "weather" and r.id and r.type == "function", r)

    def tool_streamed():
        with c.chat.completions.stream(model=MODEL, messages=HI, tools=SMALL, tool_choice="required", max_tokens=80) as s:
            for _ in s:
                pass
            want("town" in json.loads(s.get_final_completion().choices[0].message.tool_calls[0].function.arguments), "no town")

    def parts():
        want(chat(messages=[{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]).choices, "no choice")

    def completion():
        want(text().choices[0].text, "no text")

    def completion_batch():
        r = text(prompt=["Once", "Two"], n=2)
        want([x.index for x in r.choices] == [0, 1, 2, 3], r)

    def completion_echo():
        r = text(echo=True, logprobs=2, max_tokens=1).choices[0]
        want(r.text.startswith("Once upon a time") and r.logprobs.token_logprobs[0] is None and len(r.logprobs.tokens) == len(r.logprobs.top_logprobs), r)

    def completion_stream():
        want("".join(x.choices[0].text for x in text(stream=True) if x.choices) == text().choices[0].text, "a stream is another text")

    def raw():
        r = c.chat.completions.with_raw_response.create(model=MODEL, messages=HI, max_tokens=2)
        want(r.headers["x-request-id"] and r.parse()._request_id == r.headers["x-request-id"], r.headers)

    def idempotent():
        key = f"key-{time.time_ns()}"
        a, b = (chat(temperature=1, extra_headers={"Idempotency-Key": key}).choices[0].message.content for _ in range(2))
        want(a == b, "the same key has two answers")
        refused(lambda: chat(max_tokens=3, extra_headers={"Idempotency-Key": key}), openai.UnprocessableEntityError)

    def leave():
        with chat(stream=True, max_tokens=200) as s:
            next(iter(s))

    def errors():
        refused(lambda: chat(model="none"), openai.NotFoundError, code="model_not_found")
        refused(lambda: chat(temperature=1000), openai.BadRequestError, param="temperature")
        refused(lambda: chat(messages=[]), openai.BadRequestError, param="messages")
        refused(lambda: chat(messages=[{"role": "user", "content": "dog " * 5000}]), openai.BadRequestError, code="context_length_exceeded")

    def asynchronous():
        async def run():
            async with openai.AsyncOpenAI(base_url=URL + "/v1", api_key="none") as a:
                got = await asyncio.gather(*(a.chat.completions.create(model=MODEL, messages=HI, max_tokens=8) for _ in range(8)))
                want(all(g.choices[0].message.content for g in got), got)
        asyncio.run(run())

    def response():
        r = c.responses.create(model=MODEL, input="Hello", max_output_tokens=12)
        want(r.output_text is not None and r.usage.output_tokens > 0 and r.status in ("completed", "incomplete"), r)
        want(c.responses.retrieve(r.id).output_text == r.output_text, "another text later")

    def response_stream():
        kinds, text = [], ""
        for e in c.responses.create(model=MODEL, input=[{"role": "user", "content": "Hello"}], max_output_tokens=12, stream=True):
            kinds.append(e.type)
            text += e.delta if e.type == "response.output_text.delta" else ""
        want(kinds[0] == "response.created" and kinds[-1] in ("response.completed", "response.incomplete") and e.response.output_text == text, kinds)

    def response_background():
        r = c.responses.create(model=MODEL, input="Hello", max_output_tokens=40, background=True)
        want(r.status == "queued", r.status)
        while r.status in ("queued", "in_progress"):
            time.sleep(0.05)
            r = c.responses.retrieve(r.id)
        want(r.status in ("completed", "incomplete"), r)
        all_events = list(c.responses.retrieve(r.id, stream=True))
        rest = list(c.responses.retrieve(r.id, stream=True, starting_after=all_events[5].sequence_number))
        want([e.sequence_number for e in rest] == [e.sequence_number for e in all_events[6:]], "another rest")

    def response_tools():
        tool = {"type": "function", "name": "weather", "parameters": SMALL[0]["function"]["parameters"], "strict": True}
        r = c.responses.create(model=MODEL, input="Hello", tools=[tool], tool_choice="required", max_output_tokens=80)
        want(r.output[0].type == "function_call" and "town" in json.loads(r.output[0].arguments), r)
        with c.responses.stream(model=MODEL, input="Hello", tools=[tool], tool_choice="required", max_output_tokens=80) as s:
            kinds = {e.type for e in s}
            want("response.function_call_arguments.delta" in kinds and s.get_final_response().output[0].arguments, kinds)

    def response_cancel():
        r = c.responses.create(model=MODEL, input="Hello", background=True, extra_body={"temperature": 1})
        want(c.responses.cancel(r.id).status in ("cancelled", "completed", "incomplete"), "not cancelled")
        refused(lambda: c.responses.retrieve("resp_none.demo"), openai.NotFoundError)

    return locals()


def uses_anthropic():
    import anthropic

    c = anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0)
    ask = lambda **k: c.messages.create(**{"model": MODEL, "max_tokens": 1024, "messages": HI, "extra_body": {"temperature": 0}, **k})

    def plain():
        r = ask()
        want(r.content[0].text and r.stop_reason in ("end_turn", "max_tokens") and r.usage.output_tokens > 0, r)

    def stream():
        with c.messages.stream(model=MODEL, max_tokens=20, messages=HI, extra_body={"temperature": 0}) as s:
            text = "".join(s.text_stream)
            want(s.get_final_message().content[0].text == text == ask(max_tokens=20).content[0].text, "another text")

    def system():
        want(ask(system=[{"type": "text", "text": "Be brief."}], stop_sequences=["."]).content, "no content")

    def tools():
        want(ask(tools=[{"name": "weather", "input_schema": {"type": "object"}}]).content is not None, "no content")

    def tool_any():
        r = ask(tools=[{"name": "weather", "input_schema": SMALL[0]["function"]["parameters"]}], tool_choice={"type": "any"}, max_tokens=80)
        want(r.stop_reason == "tool_use" and "town" in r.content[0].input, r)

    def tool_streamed():
        with c.messages.stream(model=MODEL, max_tokens=80, messages=HI, tools=[{"name": "weather", "input_schema": SMALL[0]["function"]["parameters"]}], tool_choice={"type": "tool", "name": "weather"}) as s:
            want("town" in s.get_final_message().content[0].input, "no town")

    def results():
        want(ask(messages=HI + [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "weather", "input": {"town": "x"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "rain"}]}]).content, "no content")

    def count():
        want(c.messages.count_tokens(model=MODEL, messages=HI).input_tokens == ask(max_tokens=1).usage.input_tokens, "another count")

    def errors():
        refused(lambda: ask(model="none"), anthropic.NotFoundError)
        refused(lambda: ask(extra_body={"temperature": 1000}), anthropic.BadRequestError)

    return locals()


def uses_litellm():
    import litellm

    litellm.suppress_debug_info = True
    ask = lambda **k: litellm.completion(**{"model": "openai/" + MODEL, "api_base": URL + "/v1", "api_key": "none", "messages": HI, "max_tokens": 12, **k})

    def plain():
        want(ask().choices[0].message.content, "no content")

    def stream():
        want("".join(x.choices[0].delta.content or "" for x in ask(stream=True)), "no content")

    def tools():
        want(ask(tools=TOOLS).choices, "no choice")

    def asynchronous():
        want(asyncio.run(litellm.acompletion(model="openai/" + MODEL, api_base=URL + "/v1", api_key="none", messages=HI, max_tokens=4)).choices, "no choice")

    def errors():
        refused(lambda: ask(model="openai/none"), litellm.NotFoundError)
        refused(lambda: ask(messages=[{"role": "user", "content": "dog " * 5000}]), litellm.ContextWindowExceededError)

    return locals()


def uses_langchain_openai():
    from langchain_openai import ChatOpenAI, OpenAI

    c = ChatOpenAI(model=MODEL, base_url=URL + "/v1", api_key="none", max_tokens=12, temperature=0)

    def invoke():
        want(c.invoke("Hello").content, "no content")

    def stream():
        want("".join(x.content for x in c.stream("Hello")) == c.invoke("Hello").content, "another text")

    def batch():
        want(len(c.batch(["Hello", "Good day", "Hi"])) == 3, "not three")

    def tools():
        want(c.bind_tools(TOOLS).invoke("Hello") is not None, "nothing")
        want(c.bind_tools(SMALL, tool_choice="any").invoke("Hello", max_tokens=80).tool_calls[0]["args"]["town"] is not None, "no town")

    def llm():
        want(OpenAI(model=MODEL, base_url=URL + "/v1", api_key="none", max_tokens=8).invoke("Once"), "no text")

    return locals()


def uses_agents():
    from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)

    def run(kind):
        client = AsyncOpenAI(base_url=URL + "/v1", api_key="none")
        agent = Agent(name="a", instructions="Be kind.", model=kind(model=MODEL, openai_client=client))
        want(asyncio.run(Runner.run(agent, "Hello")).final_output is not None, "nothing")

    def chat():
        run(OpenAIChatCompletionsModel)

    def responses():
        run(OpenAIResponsesModel)

    return locals()

def uses_instructor():
    """Answers of a form, by instructor's modes: a class of ours comes back, whatever the model knows."""
    from enum import Enum
    from typing import Annotated, Literal, Optional, Union

    import instructor
    import openai
    from pydantic import BaseModel, Field, StringConstraints, field_validator

    Name = Annotated[str, StringConstraints(max_length=16)]
    Digit = Annotated[int, Field(ge=0, le=9)]

    class Colour(Enum):
        red, blue = "red", "blue"

    class Dog(BaseModel):
        """A dog."""
        name: Name
        age: Digit
        colour: Colour

    class Kennel(BaseModel):
        dogs: Annotated[list[Dog], Field(min_length=1, max_length=2)]
        owner: Optional[Name]

    class Cat(BaseModel):
        kind: Literal["cat"]
        lives: Digit

    class Bird(BaseModel):
        kind: Literal["bird"]
        flies: bool

    class Pet(BaseModel):
        pet: Union[Cat, Bird]

    class Score(BaseModel):
        score: Annotated[float, Field(ge=0, le=1, multiple_of=0.25)]

    raw = openai.OpenAI(base_url=URL + "/v1", api_key="none", max_retries=0)
    by = {mode: instructor.from_openai(raw, mode=mode) for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA)}
    tools = by[instructor.Mode.TOOLS]
    ask = lambda of, client=tools, **k: client.chat.completions.create(**{"model": MODEL, "messages": HI, "max_tokens": 160, "temperature": 0, "max_retries": 1, "response_model": of, **k})

    def dog():
        want(isinstance(ask(Dog), Dog), "no dog")

    def strict():
        want(isinstance(ask(Dog, by[instructor.Mode.TOOLS_STRICT]), Dog), "no dog")

    def schema():
        want(isinstance(ask(Dog, by[instructor.Mode.JSON_SCHEMA]), Dog), "no dog")

    def nested():
        want(ask(Kennel).dogs, "no dogs")

    def nested_schema():
        want(ask(Kennel, by[instructor.Mode.JSON_SCHEMA]).dogs, "no dogs")

    def union():
        want(ask(Pet).pet.kind in ("cat", "bird"), "no pet")

    def enum():
        want(ask(Dog).colour in Colour, "no colour")

    def number():
        want(ask(Score).score * 4 % 1 == 0, "no quarter")

    def literal():
        want(ask(Literal["yes", "no"]) in ("yes", "no"), "neither")

    def boolean():
        want(ask(bool) in (True, False), "neither")

    def seeds():
        a, b = (ask(Dog, temperature=1, seed=s) for s in (1, 1))
        want(a.model_dump() == b.model_dump(), "equal seeds, other dogs")

    def warm():
        for s in range(5):
            want(isinstance(ask(Kennel, temperature=1.5, seed=s), Kennel), "no kennel")

    def completion():
        dog, r = tools.chat.completions.create_with_completion(model=MODEL, messages=HI, max_tokens=160, response_model=Dog)
        want(r.choices[0].message.tool_calls[0].function.name == "Dog" and isinstance(dog, Dog), r)

    def partial():
        *_, last = tools.chat.completions.create_partial(model=MODEL, messages=HI, max_tokens=160, response_model=Cat)
        want(last.kind == "cat" and last.lives is not None, last)

    def partial_schema():
        *_, last = by[instructor.Mode.JSON_SCHEMA].chat.completions.create_partial(model=MODEL, messages=HI, max_tokens=160, response_model=Dog)
        want(last.name is not None, last)

    def iterable():
        class Colours(BaseModel):
            colour: Colour
        got = list(tools.chat.completions.create_iterable(model=MODEL, messages=HI, max_tokens=60, response_model=Colours))
        want(all(isinstance(x, Colours) for x in got), got)

    def validator():
        class Small(Dog):
            @field_validator("age")
            @classmethod
            def young(cls, v):
                if v > 9:
                    raise ValueError("too old")
                return v
        want(ask(Small).age <= 9, "old")

    def retries():
        from instructor.core import InstructorRetryException

        class Never(Dog):
            @field_validator("age")
            @classmethod
            def never(cls, v):
                raise ValueError("never")
        refused(lambda: ask(Never, max_retries=2), InstructorRetryException)

    def asynchronous():
        a = instructor.from_openai(openai.AsyncOpenAI(base_url=URL + "/v1", api_key="none"), mode=instructor.Mode.TOOLS)

        async def run():
            return await asyncio.gather(*(a.chat.completions.create(model=MODEL, messages=HI, max_tokens=160, response_model=Dog, seed=s) for s in range(4)))
        want(all(isinstance(d, Dog) for d in asyncio.run(run())), "no dog")

    def provider():
        c = instructor.from_provider("openai/" + MODEL, base_url=URL + "/v1", api_key="none")
        want(isinstance(c.chat.completions.create(messages=HI, max_tokens=160, response_model=Dog), Dog), "no dog")

    return locals()


CLIENTS = {"openai": uses_openai, "anthropic": uses_anthropic, "litellm": uses_litellm, "langchain_openai": uses_langchain_openai, "agents": uses_agents, "instructor": uses_instructor}
REPEAT = int(os.environ.get("REPEAT", "1"))

for name, uses in CLIENTS.items():
    if importlib.util.find_spec(name) is None or ONLY and name not in ONLY:
        continue
    every = {k: f for k, f in uses().items() if inspect.isfunction(f) and f.__qualname__.endswith("<locals>." + k) and not inspect.signature(f).parameters}
    for use, run in list(every.items()) * REPEAT:
        error = None
        try:
            run()
        except Exception as e:  # whatever a client raises
            error = f"{type(e).__name__}: {e}"[:500]
        print(json.dumps({"client": name, "use": use, "error": error}), flush=True)
