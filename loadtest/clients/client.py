"""A producer that knows CONTRACT.md's words and nats-py, and nothing of ours.

It streams the same prompt twice, through `ask` as text and through `prompt`
as JSON, and prints what it got as one JSON object.

    pip install nats-py
    python client.py nats://127.0.0.1:4222 demo 'Once upon a time'
"""

import asyncio
import json
import sys

import nats

PREFIX = "switchyard"
TIMEOUT = 60  # seconds until the next chunk


async def ask(nc, model, text):
    """Text in, text out: the answer ends with the message whose headers carry the rest, empty but for errors."""
    inbox = nc.new_inbox()
    answer = await nc.subscribe(inbox)
    await nc.publish(f"{PREFIX}.ask.{model}", text.encode(), reply=inbox)
    chunks = {}
    while True:
        msg = await answer.next_msg(timeout=TIMEOUT)
        headers = msg.headers or {}
        if headers.get("Status") == "503":
            raise SystemExit(f"no replica serves {model}")
        if "Switchyard-Finish-Reason" in headers:
            break
        chunks[int(headers["Switchyard-Index"])] = msg.data
    await answer.unsubscribe()
    text = b"".join(chunks[i] for i in sorted(chunks)).decode()
    return {"text": text, "headers": dict(headers)}


async def prompt(nc, model, text):
    """JSON in, JSON out: the acknowledgement is the acceptance, chunks go to reply_to."""
    inbox = nc.new_inbox()
    answer = await nc.subscribe(inbox)
    body = json.dumps({"text": text, "reply_to": inbox, "max_tokens": 24})
    ack = await nc.jetstream().publish(f"{PREFIX}.prompt.{model}", body.encode())
    chunks = {}
    while True:
        msg = await answer.next_msg(timeout=TIMEOUT)
        chunk = json.loads(msg.data)
        if chunk["index"] >= 0 or not chunk["finish_reason"]:
            chunks.setdefault(chunk["index"], chunk["text"])
        if chunk["finish_reason"]:
            break
    await answer.unsubscribe()
    return {
        "stream": ack.stream,
        "text": "".join(chunks[i] for i in sorted(chunks)),
        "indices": sorted(chunks),
        "last": chunk,
    }


async def main(url, model, text):
    nc = await nats.connect(url)
    try:
        print(json.dumps({"ask": await ask(nc, model, text), "prompt": await prompt(nc, model, text)}))
    finally:
        await nc.close()


asyncio.run(main(*sys.argv[1:]))
