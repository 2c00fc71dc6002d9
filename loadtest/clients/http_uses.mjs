// OpenAI's SDK for Node and Vercel's AI SDK, as http_uses.py uses those of Python.
//
//	npm install openai ai @ai-sdk/openai-compatible
//	node http_uses.mjs http://127.0.0.1:8080 demo
import http from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [url, model] = process.argv.slice(2);
const require = createRequire(process.cwd() + "/");
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const messages = [{ role: "user", content: "Tell me a story about a dog." }];
const want = (ok, what) => { if (!ok) throw new Error(JSON.stringify(what)); };
const dogSchema = { type: "object", properties: { name: { type: "string", maxLength: 12 }, age: { type: "integer", minimum: 0, maximum: 9 } }, required: ["name", "age"], additionalProperties: false };
const townSchema = { type: "object", properties: { town: { type: "string", maxLength: 12 } }, required: ["town"], additionalProperties: false };
const isDog = (d) => want(d.name.length <= 12 && d.age >= 0 && d.age <= 9 && Object.keys(d).length === 2, d);

// refused wants a call to throw an error with a status and a code.
async function refused(call, status, code) {
  let error;
  try { await call(); } catch (e) { error = e; }
  want(error && (error.status ?? error.statusCode) === status && (code === undefined || error.code === code), error ? String(error) : "nothing was thrown");
}

// idle wants the gateway to have no answer under way soon.
async function idle() {
  for (let i = 0; i < 100; i++) {
    if (/^switchyard_http_streams(\{[^}]*\})? 0$/m.test(await (await fetch(url + "/metrics")).text())) return;
    await new Promise((r) => setTimeout(r, 50));
  }
  want(false, "an answer goes on without its client");
}

// flaky runs use with the gateway's URL behind a server that first refuses as a gateway does
// whose model is not ready.
async function flaky(use) {
  let asked = 0;
  const server = http.createServer(async (q, a) => {
    const body = [];
    for await (const part of q) body.push(part);
    if (++asked === 1) {
      a.writeHead(503, { "Content-Type": "application/json", "Retry-After": "1" });
      return a.end('{"error":{"message":"wait","type":"server_error","param":null,"code":"model_not_ready"}}');
    }
    const got = await fetch(url + q.url, { method: q.method, headers: { "Content-Type": "application/json" }, body: Buffer.concat(body) });
    a.writeHead(got.status, { "Content-Type": got.headers.get("content-type") });
    a.end(Buffer.from(await got.arrayBuffer()));
  });
  await new Promise((r) => server.listen(0, "127.0.0.1", r));
  try {
    await use(`http://127.0.0.1:${server.address().port}`);
    want(asked === 2, `asked ${asked} times`);
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

const clients = {
  async openai() {
    const { default: OpenAI } = await load("openai");
    const c = new OpenAI({ baseURL: url + "/v1", apiKey: "none", maxRetries: 0 });
    const chat = (more, options) => c.chat.completions.create({ model, messages, max_tokens: 16, temperature: 0, ...more }, options);
    const joined = async (more) => { let t = ""; for await (const x of await chat({ stream: true, ...more })) t += x.choices[0]?.delta?.content ?? ""; return t; };
    const tools = [{ type: "function", function: { name: "weather", parameters: townSchema } }];
    const respond = (more) => c.responses.create({ model, input: "Hello", max_output_tokens: 8, ...more });
    const done = async (r) => { while (["queued", "in_progress"].includes(r.status)) { await new Promise((f) => setTimeout(f, 50)); r = await c.responses.retrieve(r.id); } return r; };
    return {
      models: async () => want((await c.models.list()).data.some((m) => m.id === model), "not listed"),
      retrieve: async () => want((await c.models.retrieve(model)).id === model, "another model"),
      plain: async () => want((await chat()).choices[0].message.content, "no content"),
      stream: async () => want((await joined()) === (await chat()).choices[0].message.content, "another text"),
      usage: async () => { let last; for await (const x of await chat({ stream: true, stream_options: { include_usage: true } })) last = x; want(last.usage.total_tokens > 0 && last.choices.length === 0, last); },
      logprobs: async () => want((await chat({ logprobs: true, top_logprobs: 2 })).choices[0].logprobs.content.every((t) => t.top_logprobs.length === 2), "none"),
      helper: async () => want((await c.chat.completions.stream({ model, messages, max_tokens: 8 }).finalChatCompletion()).choices.length === 1, "no choice"),
      several: async () => want((await chat({ n: 3 })).choices.length === 3, "not three"),
      seeded: async () => { const [a, b] = await Promise.all([1, 2].map(() => chat({ temperature: 1, seed: 7 }))); want(a.choices[0].message.content === b.choices[0].message.content, "equal seeds, other texts"); },
      stop: async () => want(!(await chat({ stop: ["."], max_tokens: 60 })).choices[0].message.content.includes("."), "a stop string is told"),
      tool: async () => { const r = (await chat({ tools, tool_choice: "required", max_tokens: 80 })).choices[0]; want(r.finish_reason === "tool_calls" && "town" in JSON.parse(r.message.tool_calls[0].function.arguments), r); },
      tool_streamed: async () => { const r = await c.chat.completions.stream({ model, messages, tools, tool_choice: "required", max_tokens: 80 }).finalChatCompletion(); want("town" in JSON.parse(r.choices[0].message.tool_calls[0].function.arguments), r); },
      schema: async () => isDog(JSON.parse((await chat({ max_tokens: 80, response_format: { type: "json_schema", json_schema: { name: "dog", schema: dogSchema, strict: true } } })).choices[0].message.content)),
      leave: async () => { const s = await chat({ stream: true, max_tokens: 200 }); for await (const _ of s) { s.controller.abort(); break; } await idle(); },
      retry: async () => flaky(async (at) => want((await new OpenAI({ baseURL: at + "/v1", apiKey: "none", maxRetries: 2 }).chat.completions.create({ model, messages, max_tokens: 4 })).choices[0].message.content, "no content")),
      idempotent: async () => { const headers = { "Idempotency-Key": `node-${Date.now()}-${Math.random()}`.replace(".", "-") }; const [a, b] = [await chat({ temperature: 1 }, { headers }), await chat({ temperature: 1 }, { headers })]; want(a.choices[0].message.content === b.choices[0].message.content, "the same key has two answers"); },
      completion: async () => want((await c.completions.create({ model, prompt: "Once", max_tokens: 4 })).choices[0].text, "no text"),
      completion_streamed: async () => { let t = ""; for await (const x of await c.completions.create({ model, prompt: "Once", max_tokens: 4, stream: true })) t += x.choices[0]?.text ?? ""; want(t, "no text"); },
      response: async () => want((await respond()).output_text !== undefined, "no text"),
      responses: async () => { let n = 0; for await (const e of await respond({ stream: true })) { want(e.sequence_number >= n, e); n = e.sequence_number; } },
      background: async () => want(["completed", "incomplete"].includes((await done(await respond({ background: true }))).status), "not ended"),
      cancel: async () => want(["cancelled", "completed", "incomplete"].includes((await c.responses.cancel((await respond({ background: true, max_output_tokens: 200 })).id)).status), "not cancelled"),
      error: async () => { await refused(() => chat({ model: "none" }), 404, "model_not_found"); await refused(() => chat({ temperature: 1000 }), 400); },
    };
  },
  async ai() {
    const { generateText, jsonSchema, Output, streamText, tool } = await load("ai");
    const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
    const made = (baseURL, more) => createOpenAICompatible({ name: "switchyard", baseURL: baseURL + "/v1", apiKey: "none", supportsStructuredOutputs: true, includeUsage: true, ...more });
    const provider = made(url), m = provider(model), base = { model: m, prompt: "Hello", maxOutputTokens: 12, temperature: 0, maxRetries: 0 };
    const tools = { weather: tool({ description: "Weather of a town.", inputSchema: jsonSchema(townSchema) }) };
    const joined = async (stream) => { let t = ""; for await (const x of stream) t += x; return t; };
    const structured = { ...base, maxOutputTokens: 80, output: Output.object({ schema: jsonSchema(dogSchema) }) };
    return {
      generate: async () => want((await generateText(base)).text, "no text"),
      usage: async () => { const u = (await generateText(base)).usage; want(u.outputTokens > 0 && u.inputTokens > 0, u); },
      greedy: async () => want((await generateText(base)).text === (await generateText(base)).text, "another text"),
      stream: async () => want((await joined(streamText(base).textStream)) === (await generateText(base)).text, "another text"),
      stream_usage: async () => { const r = streamText(base); await joined(r.textStream); want((await r.usage).outputTokens > 0, await r.usage); },
      finish: async () => { const r = streamText(base); await joined(r.textStream); want(["stop", "length"].includes(await r.finishReason), await r.finishReason); },
      chat: async () => want((await generateText({ ...base, prompt: undefined, messages })).text, "no text"),
      turns: async () => want((await generateText({ ...base, prompt: undefined, messages: [...messages, { role: "assistant", content: "Once." }, { role: "user", content: [{ type: "text", text: "Go on." }] }] })).text, "no text"),
      seeded: async () => { const [a, b] = await Promise.all([1, 2].map(() => generateText({ ...base, temperature: 1, seed: 7 }))); want(a.text === b.text, "equal seeds, other texts"); },
      sampled: async () => want((await generateText({ ...base, temperature: 1, topP: 0.9, frequencyPenalty: 0.1, presencePenalty: 0.1 })).text, "no text"),
      stop: async () => want(!(await generateText({ ...base, maxOutputTokens: 60, stopSequences: ["."] })).text.includes("."), "a stop string is told"),
      tool_auto: async () => want((await generateText({ ...base, tools })).finishReason, "no reason"),
      tool: async () => { const r = await generateText({ ...base, maxOutputTokens: 80, tools, toolChoice: "required" }); want(r.toolCalls[0].toolName === "weather" && "town" in r.toolCalls[0].input && r.finishReason === "tool-calls", r.toolCalls); },
      tool_named: async () => want((await generateText({ ...base, maxOutputTokens: 80, tools, toolChoice: { type: "tool", toolName: "weather" } })).toolCalls.length === 1, "no call"),
      tool_streamed: async () => { const r = streamText({ ...base, maxOutputTokens: 80, tools, toolChoice: "required" }); await joined(r.textStream); want("town" in (await r.toolCalls)[0].input, await r.toolCalls); },
      schema: async () => isDog((await generateText(structured)).output),
      schema_streamed: async () => { const r = streamText(structured); await joined(r.textStream); isDog(await r.output); },
      completion: async () => want((await generateText({ ...base, model: provider.completionModel(model) })).text, "no text"),
      several: async () => want((await Promise.all([1, 2, 3, 4, 5, 6].map(() => generateText(base)))).every((r) => r.text), "no text"),
      retry: async () => flaky(async (at) => want((await generateText({ ...base, model: made(at)(model), maxRetries: 2 })).text, "no text")),
      leave: async () => { const stop = new AbortController(); const r = streamText({ ...base, maxOutputTokens: 300, abortSignal: stop.signal }); for await (const _ of r.textStream) { stop.abort(); break; } await idle(); },
      error: async () => refused(() => generateText({ ...base, model: provider("none") }), 404),
    };
  },
};

for (const [client, make] of Object.entries(clients)) {
  let uses;
  try { uses = await make(); } catch (e) { if (e.code !== "MODULE_NOT_FOUND") throw e; continue; }
  for (let i = 0; i < Number(process.env.REPEAT ?? 1); i++) {
    for (const [use, run] of Object.entries(uses)) {
      let error = null;
      try { await run(); } catch (e) { error = String(e).slice(0, 500); }
      console.log(JSON.stringify({ client, use, error }));
    }
  }
}
