"""LangChain."""

import asyncio
import json

from common import DOG, MODEL, SMALL, TOOLS, URL, dog, flaky, idle, refused, want


def uses():
    import openai
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_openai import ChatOpenAI, OpenAI

    at = {"model": MODEL, "base_url": URL + "/v1", "api_key": "none"}
    c = ChatOpenAI(**at, max_tokens=12, temperature=0)
    long = ChatOpenAI(**at, max_tokens=160, temperature=0)
    titled = {"title": "Dog", "description": "A dog.", **DOG}

    def invoke():
        r = c.invoke("Hello")
        want(r.content and r.response_metadata["finish_reason"] in ("stop", "length"), r)

    def stream():
        want("".join(x.content for x in c.stream("Hello")) == c.invoke("Hello").content, "another text")

    def usage():
        want(c.invoke("Hello").usage_metadata["output_tokens"] > 0, "no usage")

    def stream_usage():
        whole = None
        for x in ChatOpenAI(**at, max_tokens=8, stream_usage=True).stream("Hello"):
            whole = x if whole is None else whole + x
        want(whole.usage_metadata["output_tokens"] > 0, whole)

    def batch():
        want(len(c.batch(["Hello", "Good day", "Hi"])) == 3, "not three")

    def tools():
        want(c.bind_tools(TOOLS).invoke("Hello") is not None, "nothing")

    def tool_any():
        want(long.bind_tools(SMALL, tool_choice="any").invoke("Hello").tool_calls[0]["args"]["town"] is not None, "no town")

    def tool_named():
        want(long.bind_tools(SMALL, tool_choice="weather").invoke("Hello").tool_calls[0]["name"] == "weather", "another tool")

    def tool_streamed():
        whole = None
        for x in long.bind_tools(SMALL, tool_choice="any").stream("Hello"):
            whole = x if whole is None else whole + x
        want(whole.tool_calls[0]["args"]["town"] is not None, whole)

    def results():
        call = {"id": "a", "name": "weather", "args": {"town": "x"}}
        want(c.bind_tools(TOOLS).invoke([HumanMessage("Hello"), AIMessage("", tool_calls=[call]), ToolMessage("rain", tool_call_id="a")]) is not None, "nothing")

    def schema():
        dog(json.dumps(long.with_structured_output(titled, method="json_schema").invoke("Hello")))

    def schema_by_call():
        dog(json.dumps(long.with_structured_output(titled, method="function_calling").invoke("Hello")))

    def logprobs():
        r = ChatOpenAI(**at, max_tokens=6, logprobs=True, top_logprobs=2).invoke("Hello").response_metadata["logprobs"]["content"]
        want(r and len(r[0]["top_logprobs"]) == 2, r)

    def stop():
        want("." not in long.invoke("Tell me a story.", stop=["."]).content, "a stop string is told")

    def seeded():
        a, b = (ChatOpenAI(**at, max_tokens=12, temperature=1, seed=9).invoke("Hello").content for _ in range(2))
        want(a == b, "equal seeds, other texts")

    def chain():
        want((ChatPromptTemplate.from_messages([("system", "Be brief."), ("user", "{x}")]) | c | StrOutputParser()).invoke({"x": "Hello"}), "no text")

    def asynchronous():
        async def run():
            want(len(await c.abatch(["a", "b", "c", "d"])) == 4, "not four")
            want("".join([x.content async for x in c.astream("Hello")]), "no text")
            kinds = {e["event"] async for e in c.astream_events("Hello", version="v2")}
            want("on_chat_model_stream" in kinds and "on_chat_model_end" in kinds, kinds)
        asyncio.run(run())

    def response():
        want(ChatOpenAI(**at, use_responses_api=True, max_tokens=12).invoke("Hello").text is not None, "no text")

    def llm():
        want(OpenAI(**at, max_tokens=8).invoke("Once"), "no text")

    def llm_streamed():
        want("".join(OpenAI(**at, max_tokens=8).stream("Once")), "no text")

    def llm_batch():
        want(len(OpenAI(**at, max_tokens=4).batch(["Once", "Two"])) == 2, "not two")

    def errors():
        refused(lambda: ChatOpenAI(**{**at, "model": "none"}).invoke("Hello"), openai.NotFoundError, code="model_not_found")

    def retry():
        with flaky() as url:
            want(ChatOpenAI(**{**at, "base_url": url + "/v1"}, max_tokens=4, max_retries=2).invoke("Hello").content, "no content")

    def leave():
        s = ChatOpenAI(**at, max_tokens=300).stream("Tell me a story.")
        next(s)
        s.close()
        idle()

    return locals()
