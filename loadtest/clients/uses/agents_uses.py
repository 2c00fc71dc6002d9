"""OpenAI's Agents SDK."""

import asyncio

from common import MODEL, URL, flaky, idle, refused, want


def uses():
    from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, SQLiteSession, function_tool, handoff, set_tracing_disabled
    import openai
    from openai import AsyncOpenAI
    from pydantic import BaseModel, Field

    set_tracing_disabled(True)
    chat, responses = OpenAIChatCompletionsModel, OpenAIResponsesModel
    short = ModelSettings(max_tokens=160, temperature=0)

    class Dog(BaseModel):
        name: str = Field(max_length=12)
        age: int = Field(ge=0, le=9)

    def agent(kind, url=URL, model=MODEL, **k):
        client = AsyncOpenAI(base_url=url + "/v1", api_key="none", max_retries=2)
        return Agent(**{"name": "a", "instructions": "Be kind.", "model_settings": short, "model": kind(model=model, openai_client=client), **k})

    def run(a, text="Hello", **k):
        return asyncio.run(Runner.run(a, text, **k))

    def called(kind, streamed=False):
        towns = []

        @function_tool(strict_mode=False)
        def weather(town: str) -> str:
            """Weather of a town."""
            towns.append(town)
            return "rain"

        a = agent(kind, tools=[weather], tool_use_behavior="stop_on_first_tool", model_settings=ModelSettings(max_tokens=400, temperature=0, tool_choice="required"))

        async def go():
            if not streamed:
                return await Runner.run(a, "Hello")
            r = Runner.run_streamed(a, "Hello")
            async for _ in r.stream_events():
                pass
            return r
        want(asyncio.run(go()).final_output == "rain" and len(towns) == 1, towns)

    def streamed(kind):
        async def go():
            r = Runner.run_streamed(agent(kind), "Hello")
            kinds = [e.data.type async for e in r.stream_events() if e.type == "raw_response_event"]
            want("response.output_text.delta" in kinds and kinds[-1] == "response.completed", kinds)
            want(r.final_output is not None, "nothing")
        asyncio.run(go())

    def plain_chat():
        want(run(agent(chat)).final_output is not None, "nothing")

    def plain_responses():
        want(run(agent(responses)).final_output is not None, "nothing")

    def greedy():
        want(run(agent(chat)).final_output == run(agent(chat)).final_output, "another text")

    def stream_chat():
        streamed(chat)

    def stream_responses():
        streamed(responses)

    def tool_chat():
        called(chat)

    def tool_responses():
        called(responses)

    def tool_chat_streamed():
        called(chat, streamed=True)

    def tool_responses_streamed():
        called(responses, streamed=True)

    def schema_chat():
        want(isinstance(run(agent(chat, output_type=Dog)).final_output, Dog), "no dog")

    def schema_responses():
        want(isinstance(run(agent(responses, output_type=Dog)).final_output, Dog), "no dog")

    def hand_off():
        b = agent(chat, name="b")
        r = run(agent(chat, handoffs=[handoff(b)], model_settings=ModelSettings(max_tokens=160, temperature=0, tool_choice="required")))
        want(r.last_agent.name == "b", r.last_agent.name)

    def turns():
        r = run(agent(chat))
        want(run(agent(chat), r.to_input_list() + [{"role": "user", "content": "Go on."}]).final_output is not None, "nothing")

    def turns_responses():
        r = run(agent(responses))
        want(run(agent(responses), r.to_input_list() + [{"role": "user", "content": "Go on."}]).final_output is not None, "nothing")

    def session():
        s = SQLiteSession("s")
        for text in ("Hello", "Go on."):
            want(run(agent(chat), text, session=s).final_output is not None, "nothing")

    def usage():
        u = run(agent(chat)).context_wrapper.usage
        want(u.requests == 1 and u.output_tokens > 0, u)

    def at_once():
        async def go():
            got = await asyncio.gather(*(Runner.run(agent(chat), "Hello") for _ in range(6)))
            want(len({g.final_output for g in got}) == 1, "greedy answers differ")
        asyncio.run(go())

    def sampled():
        want(run(agent(chat, model_settings=ModelSettings(max_tokens=12, temperature=1, top_p=0.9, frequency_penalty=0.1, presence_penalty=0.1))).final_output is not None, "nothing")

    def errors():
        refused(lambda: run(agent(chat, model="none")), openai.NotFoundError, code="model_not_found")
        refused(lambda: run(agent(responses, model="none")), openai.NotFoundError, code="model_not_found")

    def retry():
        with flaky() as url:
            want(run(agent(chat, url=url)).final_output is not None, "nothing")

    def leave():
        async def go():
            r = Runner.run_streamed(agent(chat, model_settings=ModelSettings(max_tokens=300)), "Tell me a story.")
            async for _ in r.stream_events():
                r.cancel()
                break
        asyncio.run(go())
        idle()

    return locals()
