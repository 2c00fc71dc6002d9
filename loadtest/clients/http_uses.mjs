// OpenAI's SDK for Node and Vercel's AI SDK, as http_uses.py uses those of Python.
//
//	npm install openai ai @ai-sdk/openai-compatible
//	node http_uses.mjs http://127.0.0.1:8080 demo
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [url, model] = process.argv.slice(2);
const require = createRequire(process.cwd() + "/");
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const messages = [{ role: "user", content: "Tell me a story about a dog." }];
const want = (ok, what) => { if (!ok) throw new Error(JSON.stringify(what)); };

const clients = {
  async openai() {
    const { default: OpenAI } = await load("openai");
    const c = new OpenAI({ baseURL: url + "/v1", apiKey: "none", maxRetries: 0 });
    const chat = (more) => c.chat.completions.create({ model, messages, max_tokens: 16, temperature: 0, ...more });
    const joined = async (more) => { let t = ""; for await (const x of await chat({ stream: true, ...more })) t += x.choices[0]?.delta?.content ?? ""; return t; };
    return {
      models: async () => want((await c.models.list()).data.some((m) => m.id === model), "not listed"),
      plain: async () => want((await chat()).choices[0].message.content, "no content"),
      stream: async () => want((await joined()) === (await chat()).choices[0].message.content, "another text"),
      logprobs: async () => want((await chat({ logprobs: true, top_logprobs: 2 })).choices[0].logprobs.content.length > 0, "none"),
      helper: async () => want((await c.chat.completions.stream({ model, messages, max_tokens: 8 }).finalChatCompletion()).choices.length === 1, "no choice"),
      several: async () => want((await chat({ n: 3 })).choices.length === 3, "not three"),
      leave: async () => { const s = await chat({ stream: true, max_tokens: 200 }); for await (const _ of s) { s.controller.abort(); break; } },
      completion: async () => want((await c.completions.create({ model, prompt: "Once", max_tokens: 4 })).choices[0].text, "no text"),
      response: async () => want((await c.responses.create({ model, input: "Hello", max_output_tokens: 8 })).output_text !== undefined, "no text"),
      responses: async () => { let n = 0; for await (const e of await c.responses.create({ model, input: "Hello", max_output_tokens: 8, stream: true })) { want(e.sequence_number >= n, e); n = e.sequence_number; } },
      error: async () => { try { await chat({ model: "none" }); } catch (e) { want(e.status === 404 && e.code === "model_not_found", e); return; } want(false, "nothing was thrown"); },
    };
  },
  async ai() {
    const { generateText, streamText } = await load("ai");
    const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
    const m = createOpenAICompatible({ name: "switchyard", baseURL: url + "/v1", apiKey: "none" })(model);
    return {
      generate: async () => want((await generateText({ model: m, prompt: "Hello", maxOutputTokens: 8 })).usage.outputTokens > 0, "no tokens"),
      stream: async () => { let t = ""; for await (const x of streamText({ model: m, prompt: "Hello", maxOutputTokens: 8 }).textStream) t += x; want(t, "no text"); },
    };
  },
};

for (const [client, make] of Object.entries(clients)) {
  let uses;
  try { uses = await make(); } catch { continue; }
  for (let i = 0; i < Number(process.env.REPEAT ?? 1); i++) {
    for (const [use, run] of Object.entries(uses)) {
      let error = null;
      try { await run(); } catch (e) { error = String(e).slice(0, 500); }
      console.log(JSON.stringify({ client, use, error }));
    }
  }
}
