"""Anthropic's SDK."""

import asyncio

from common import HI, MODEL, SMALL, URL, flaky, idle, refused, want


def uses():
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

    def tool_named():
        r = ask(tools=[{"name": "weather", "input_schema": SMALL[0]["function"]["parameters"]}], tool_choice={"type": "tool", "name": "weather"}, max_tokens=80)
        want([b.type for b in r.content] == ["tool_use"] and r.content[0].name == "weather" and r.content[0].id, r)

    def tool_none():
        r = ask(tools=[{"name": "weather", "input_schema": {"type": "object"}}], tool_choice={"type": "none"}, max_tokens=20)
        want(all(b.type == "text" for b in r.content), r)

    def greedy():
        want(ask(max_tokens=20).content[0].text == ask(max_tokens=20).content[0].text, "another text")

    def turns():
        r = ask(messages=HI + [{"role": "assistant", "content": [{"type": "text", "text": "Once"}]}, {"role": "user", "content": [{"type": "text", "text": "Go on."}, {"type": "text", "text": "Please."}]}], max_tokens=8)
        want(r.role == "assistant" and r.usage.input_tokens > 0, r)

    def stop_sequence():
        r = ask(stop_sequences=["."])
        want("." not in r.content[0].text, r)

    def sampled():
        want(ask(extra_body={"temperature": 1, "top_k": 20, "top_p": 0.9}, metadata={"user_id": "u"}, max_tokens=8).content, "no content")

    def events():
        kinds = [e.type for e in ask(stream=True, max_tokens=12)]
        want(kinds[0] == "message_start" and kinds[-1] == "message_stop" and "content_block_delta" in kinds and "message_delta" in kinds, kinds)

    def raw():
        r = c.messages.with_raw_response.create(model=MODEL, max_tokens=2, messages=HI)
        want(r.headers["x-request-id"] and r.parse().content, r.headers)

    def asynchronous():
        async def run():
            async with anthropic.AsyncAnthropic(base_url=URL, api_key="none") as a:
                got = await asyncio.gather(*(a.messages.create(model=MODEL, max_tokens=6, messages=HI) for _ in range(6)))
                want(all(g.content[0].text for g in got), got)
                async with a.messages.stream(model=MODEL, max_tokens=6, messages=HI) as s:
                    want("".join([t async for t in s.text_stream]), "no text")
        asyncio.run(run())

    def leave():
        with c.messages.stream(model=MODEL, max_tokens=400, messages=HI) as s:
            next(iter(s.text_stream))
        idle()

    def retry():
        with flaky() as url:
            want(anthropic.Anthropic(base_url=url, api_key="none", max_retries=2).messages.create(model=MODEL, max_tokens=4, messages=HI).content, "no content")

    def count():
        want(c.messages.count_tokens(model=MODEL, messages=HI).input_tokens == ask(max_tokens=1).usage.input_tokens, "another count")

    def errors():
        refused(lambda: ask(model="none"), anthropic.NotFoundError)
        refused(lambda: ask(extra_body={"temperature": 1000}), anthropic.BadRequestError)

    return locals()
