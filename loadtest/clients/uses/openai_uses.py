"""OpenAI's SDK."""

import asyncio
import json
import time

from common import DOG, HI, MODEL, SMALL, TOOLS, URL, dog, flaky, idle, refused, want


def uses():
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
        idle()

    def retry():
        with flaky() as url:
            want(openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=2).chat.completions.create(model=MODEL, messages=HI, max_tokens=4).choices, "no choice")

    def schema():
        dog(chat(response_format={"type": "json_schema", "json_schema": {"name": "dog", "schema": DOG, "strict": True}}, max_tokens=80).choices[0].message.content)

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
