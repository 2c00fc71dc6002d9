"""LiteLLM."""

import asyncio
import json

from common import DOG, HI, MODEL, SMALL, TOOLS, URL, dog, flaky, idle, refused, want


def uses():
    import litellm

    litellm.suppress_debug_info = True
    ask = lambda **k: litellm.completion(**{"model": "openai/" + MODEL, "api_base": URL + "/v1", "api_key": "none", "messages": HI, "max_tokens": 12, **k})

    def plain():
        want(ask().choices[0].message.content, "no content")

    def stream():
        want("".join(x.choices[0].delta.content or "" for x in ask(stream=True)), "no content")

    def stream_usage():
        *_, last = ask(stream=True, stream_options={"include_usage": True})
        want(last.usage.completion_tokens > 0, last)

    def rebuilt():
        chunks = list(ask(stream=True, temperature=0))
        want(litellm.stream_chunk_builder(chunks, messages=HI).choices[0].message.content == ask(temperature=0).choices[0].message.content, "another text")

    def tools():
        want(ask(tools=TOOLS).choices, "no choice")

    def tool_required():
        call = ask(tools=SMALL, tool_choice="required", max_tokens=80).choices[0].message.tool_calls[0]
        want(json.loads(call.function.arguments)["town"] is not None and call.function.name == "weather", call)

    def tool_named():
        r = ask(tools=SMALL, tool_choice={"type": "function", "function": {"name": "weather"}}, max_tokens=80).choices[0]
        want(r.message.tool_calls[0].function.name == "weather" and r.finish_reason == "tool_calls", r)

    def tool_streamed():
        chunks = list(ask(tools=SMALL, tool_choice="required", max_tokens=80, stream=True))
        want("town" in json.loads(litellm.stream_chunk_builder(chunks).choices[0].message.tool_calls[0].function.arguments), "no town")

    def results():
        call = {"id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"town":"x"}'}}
        want(ask(messages=HI + [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "a", "content": "rain"}], tools=TOOLS).choices, "no choice")

    def logprobs():
        r = ask(logprobs=True, top_logprobs=2).choices[0].logprobs.content
        want(r and all(t.logprob <= 0 and len(t.top_logprobs) == 2 for t in r), r)

    def schema():
        dog(ask(response_format={"type": "json_schema", "json_schema": {"name": "dog", "schema": DOG, "strict": True}}, max_tokens=80).choices[0].message.content)

    def json_object():
        want(ask(response_format={"type": "json_object"}, temperature=0).choices[0].message.content.startswith("{"), "no object")

    def several():
        want([x.index for x in ask(n=3, temperature=1, seed=3).choices] == [0, 1, 2], "not three")

    def seeded():
        a, b = (ask(temperature=1, seed=5).choices[0].message.content for _ in range(2))
        want(a == b, "equal seeds, other texts")

    def stop():
        want("." not in ask(stop=["."], max_tokens=60).choices[0].message.content, "a stop string is told")

    def text():
        want(litellm.text_completion(model="text-completion-openai/" + MODEL, api_base=URL + "/v1", api_key="none", prompt="Once", max_tokens=6).choices[0].text, "no text")

    def messages():
        r = litellm.completion(model="anthropic/" + MODEL, api_base=URL, api_key="none", messages=HI, max_tokens=8)
        want(r.choices[0].message.content and r.usage.prompt_tokens > 0, r)

    def response():
        r = litellm.responses(model="openai/" + MODEL, api_base=URL + "/v1", api_key="none", input="Hello", max_output_tokens=8)
        want(r.output[0].content[0].text is not None, r)

    def batch():
        got = litellm.batch_completion(model="openai/" + MODEL, api_base=URL + "/v1", api_key="none", messages=[HI] * 4, max_tokens=4)
        want(len(got) == 4 and all(g.choices[0].message.content for g in got), got)

    def router():
        to = lambda model: {"model_name": model, "litellm_params": {"model": "openai/" + model, "api_base": URL + "/v1", "api_key": "none"}}
        r = litellm.Router(model_list=[to("none"), to(MODEL)], fallbacks=[{"none": [MODEL]}], num_retries=0)
        want(r.completion(model="none", messages=HI, max_tokens=4).choices[0].message.content, "no content")

    def retry():
        with flaky() as url:
            want(ask(api_base=url + "/v1", num_retries=2, max_retries=2).choices[0].message.content, "no content")

    def leave():
        s = ask(stream=True, max_tokens=300)
        next(s)
        s.completion_stream.close()
        idle()

    def streams():
        async def run():
            text = ""
            async for x in await litellm.acompletion(model="openai/" + MODEL, api_base=URL + "/v1", api_key="none", messages=HI, max_tokens=8, stream=True):
                text += x.choices[0].delta.content or ""
            want(text, "no text")
        asyncio.run(run())

    def asynchronous():
        want(asyncio.run(litellm.acompletion(model="openai/" + MODEL, api_base=URL + "/v1", api_key="none", messages=HI, max_tokens=4)).choices, "no choice")

    def errors():
        refused(lambda: ask(model="openai/none"), litellm.NotFoundError)
        refused(lambda: ask(messages=[{"role": "user", "content": "dog " * 5000}]), litellm.ContextWindowExceededError)

    return locals()
