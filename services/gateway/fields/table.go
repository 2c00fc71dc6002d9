package fields

import (
	"slices"

	"github.com/switchyard/switchyard/schemas"
)

// Reasons that several fields have.
const (
	notServed = "it is not served here"
	order     = "which request is served first follows from its key's tenant and class"
	telling   = "it is for the client's own books"
	caching   = "prompts that begin alike are cached in any case"
	textOnly  = "answers are text of the model alone"
	template  = "the model's own template is used"
)

// MostAnswers bounds the prompts of a request, and with n of each its answers.
const MostAnswers = 128

// bounds are those of all routes that have the field. Services look at what they bound, too: here is
// what is refused before it is read.
var bounds = slices.Concat(
	sizes(64+1+schemas.MaxModelToken, "model"), // with its owner
	sizes(64, "brownout", "reasoning_effort", "verbosity", "reasoning.effort", "output_config.effort", "text.verbosity", "messages[].role", "input[].role", "thinking.type", "tool_choice.type", "tools[].type"),
	sizes(256, "messages[].name", "messages[].tool_call_id", "input[].call_id", "input[].name", "tools[].name", "tools[].function.name", "tool_choice.name", "tool_choice.function.name"),
	sizes(512, "metadata.*"), sizes(1024, "user", "stop[]", "stop_sequences[]", "include[]"), sizes(32<<10, "stop"),
	sizes(64<<10, "chat_template_kwargs", "tool_choice"),
	sizes(128<<10, "response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "output_format", "output_config", "text"),
	lists(16, "stop", "stop_sequences"), lists(64, "metadata", "include"), lists(MostAnswers, "prompt"),
	lists(1024, "logit_bias", "tools", "documents", "messages[].tool_calls", "tool_choice.tools", "tool_choice.allowed_tools.tools"),
	lists(4096, "structured_outputs.choice", "guided_choice", "chat_template_kwargs"),
	lists(16384, "messages", "input", "system", "messages[].content", "input[].content"),
	[]Field{{Path: "stop_token_ids", Bound: Bound{MostNumbers: 1024}}},
)

// sizes are values of at most so many bytes.
func sizes(most int, paths ...string) []Field {
	return all(Field{Bound: Bound{MostBytes: most}}, paths...)
}

// lists have at most so many elements, and objects fields.
func lists(most int, paths ...string) []Field { return all(Field{Bound: Bound{Most: most}}, paths...) }

// The routes, each with all of its fields.
var (
	Chat = route("/v1/chat/completions", common, chat, message,
		done("max_completion_tokens", "max_tokens", "logprobs", "top_logprobs", "reasoning_effort", "verbosity", "include_reasoning", "return_token_ids"),
		unless("answers are text", "modalities", `"text"`),
		refused(textOnly, "audio", "functions", "function_call"),
		also(textOnly, "web_search_options", "{}"),
		unless("thoughts are told apart from the answer", "separate_reasoning", "true"),
	)
	Completion = route("/v1/completions", common,
		done("prompt", "max_tokens", "max_completion_tokens", "echo", "logprobs", "special_tokens", "add_special_tokens", "return_token_ids"),
		[]Field{{Path: "best_of", Fate: Refused, Why: "it can only be n", Nothing: []string{"1"}, Like: "n"}},
		refused("text is only added behind a prompt", "suffix"),
	)
	Responses = route("/v1/responses",
		done("model", "input", "instructions", "stream", "background", "store", "metadata", "temperature", "top_p", "user", "max_output_tokens",
			"tools", "tool_choice", "parallel_tool_calls", "text", "reasoning", "include", "brownout"),
		hints(telling, "safety_identifier", "client_metadata"), hints(order, "service_tier"), hints(caching, "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"),
		hints("events are not padded", "stream_options"),
		hints("a prompt that is too long is refused in any case", "truncation"), hints("tools that are run elsewhere are left out", "max_tool_calls"),
		hints("the client decides what it sends of the conversation", "context_management"),
		refused("responses are not kept as conversations: send the whole of it as input", "previous_response_id", "conversation", "prompt"),
		refused(notServed, "top_logprobs"),
	)
	Messages = route("/v1/messages", conversation,
		done("max_tokens", "stream", "temperature", "top_p", "top_k", "stop_sequences", "brownout", "output_format", "output_config.format"),
	)
	CountTokens = route("/v1/messages/count_tokens", conversation,
		hints("no token is made", "max_tokens", "stream", "temperature", "top_p", "top_k", "stop_sequences", "brownout", "output_format", "output_config.format"),
	)
	Tokenize = route("/tokenize", chat, message,
		done("model", "prompt", "return_token_strs", "special_tokens", "add_special_tokens", "reasoning_effort", "verbosity"),
	)
	Detokenize = route("/detokenize", done("model", "tokens"))
)

// sampled decide about the tokens of an answer.
var sampled = done("temperature", "top_p", "top_k", "min_p", "min_tokens", "repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias", "seed",
	"stop", "stop_token_ids", "ignore_eos", "brownout")

// common are those of chats and completions.
var common = slices.Concat(
	done("model", "stream", "stream_options", "stream_options.include_usage", "n", "return_tokens_as_token_ids"), sampled,
	done("response_format", "structured_outputs", "structured_outputs.json", "structured_outputs.regex", "structured_outputs.choice", "structured_outputs.grammar",
		"structured_outputs.json_object", "structured_outputs.disable_any_whitespace", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "guided_json_object"),
	hints("a schema that is not known is refused, and no other engine tried", "structured_outputs.disable_fallback"),
	refused(notServed, "structured_outputs.disable_additional_properties"),
	hints("events are not padded", "stream_options.include_obfuscation"),
	hints("the last event counts", "stream_options.continuous_usage_stats"),
	hints(telling, "user", "store", "metadata", "safety_identifier", "request_id"),
	hints(order, "service_tier", "priority"),
	hints(caching, "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "prediction"),
	hints("it is for beams, which are not served", "length_penalty"),
	hints("special tokens are not shown", "spaces_between_special_tokens"),
	unless("special tokens are not shown", "skip_special_tokens", "true"),
	refused(notServed, "include_stop_str_in_output", "use_beam_search", "truncate_prompt_tokens", "bad_words", "logits_processors", "allowed_token_ids",
		"kv_transfer_params", "mm_processor_kwargs", "cache_salt"),
	also(notServed, "prompt_logprobs", "0"),
)

// chat are those of a conversation in OpenAI's form.
var chat = slices.Concat(
	done("messages", "tools", "tool_choice", "parallel_tool_calls", "chat_template_kwargs", "documents", "add_generation_prompt", "continue_final_message",
		"reasoning", "thinking", "thinking.type", "enable_thinking"),
	hints("how much is thought is the model's", "thinking.budget_tokens", "thinking.clear_thinking"),
	hints("it is for routers before several servers", "provider", "route", "transforms", "usage", "session_id"),
	refused(template, "chat_template"),
)

var message = slices.Concat(
	done("messages[].role", "messages[].name", "messages[].content", "messages[].tool_calls", "messages[].tool_call_id", "messages[].reasoning_content", "messages[].reasoning", "messages[].prefix", "messages[].partial"),
	hints(caching, "messages[].cache_control"),
	hints("answers have them, and a template has no place for them", "messages[].refusal", "messages[].annotations", "messages[].audio", "messages[].id", "messages[].index",
		"messages[].provider_specific_fields", "messages[].thinking_blocks", "messages[].reasoning_details"),
	refused("tool_calls take its place", "messages[].function_call"),
)

// conversation are those of one in Anthropic's form.
var conversation = slices.Concat(
	done("model", "messages", "system", "tools", "tools[].type", "tools[].name", "tools[].description", "tools[].input_schema", "tool_choice", "thinking", "thinking.type",
		"output_config", "output_config.effort"),
	hints("how much is thought is the model's", "thinking.budget_tokens", "output_config.task_budget"), hints("thoughts are told in any case", "thinking.display"),
	hints("the client decides what it sends of the conversation", "context_management"),
	hints("tools that are run elsewhere are left out", "mcp_servers", "container"),
	hints(caching, "cache_control", "tools[].cache_control"),
	hints("the client decides about it", "tools[].strict", "tools[].input_examples", "tools[].eager_input_streaming", "tools[].defer_loading", "tools[].allowed_callers"),
	hints(telling, "metadata", "diagnostics"), hints(order, "service_tier", "inference_geo", "speed"),
)
