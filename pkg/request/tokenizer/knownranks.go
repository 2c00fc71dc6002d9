package tokenizer

import "fmt"

// rankFacts are what a rank file does not say.
type rankFacts struct {
	pattern string
	special func(ranks uint32) []addedToken // nil if none are known
}

// knownRanks are the published files, by their number of ranks. Special tokens
// are as in tiktoken_ext/openai_public.py and Meta's models/llama4/tokenizer.py.
var knownRanks = map[int]rankFacts{
	50256:  {"gpt2", func(uint32) []addedToken { return specials(50256, "<|endoftext|>") }},
	50280:  {"gpt2", func(uint32) []addedToken { return specials(50256, "<|endoftext|>") }},
	100256: {"cl100k", cl100kSpecials},
	128000: {"llama3", nil},
	151643: {"qwen2", qwenSpecials},
	163584: {"kimi", nil},
	199998: {"o200k", o200kSpecials},
	200000: {"llama4", llama4Specials},
}

func specials(id uint32, tokens ...string) (list []addedToken) {
	for i, token := range tokens {
		list = append(list, addedToken{ID: id + uint32(i), Content: token, Special: true})
	}
	return list
}

// reserved returns count names with numbers from first on.
func reserved(format string, first, count int) (names []string) {
	for i := range count {
		names = append(names, fmt.Sprintf(format, first+i))
	}
	return names
}

func cl100kSpecials(uint32) []addedToken {
	list := specials(100257, "<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")
	return append(list, specials(100276, "<|endofprompt|>")...)
}

func qwenSpecials(ranks uint32) []addedToken {
	return specials(ranks, "<|endoftext|>", "<|im_start|>", "<|im_end|>")
}

func o200kSpecials(ranks uint32) []addedToken {
	names := []string{"<|startoftext|>", "<|endoftext|>", "<|reserved_200000|>", "<|reserved_200001|>", "<|return|>", "<|constrain|>",
		"<|reserved_200004|>", "<|channel|>", "<|start|>", "<|end|>", "<|message|>", "<|reserved_200009|>", "<|reserved_200010|>",
		"<|reserved_200011|>", "<|call|>"}
	names = append(names, reserved("<|reserved_%d|>", 200013, 201088-200013)...)
	names[200018-199998] = "<|endofprompt|>"
	return specials(ranks, names...)
}

// llama4Tokens is how many special tokens Llama 4 has; the last ones have no
// meaning.
const llama4Tokens = 2048

func llama4Specials(ranks uint32) []addedToken {
	names := []string{"<|begin_of_text|>", "<|end_of_text|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>",
		"<|header_start|>", "<|header_end|>", "<|eom|>", "<|eot|>", "<|step|>"}
	names = append(names, reserved("<|text_post_train_reserved_special_token_%d|>", 0, 6)...)
	names = append(names, "<|python_start|>", "<|python_end|>", "<|finetune_right_pad|>")
	names = append(names, reserved("<|text_post_train_reserved_special_token_%d|>", 8, 61)...)
	names = append(names, "<|image_start|>", "<|image_end|>")
	names = append(names, reserved("<|vision_reserved_special_token_%d|>", 0, 2)...)
	names = append(names, "<|tile_x_separator|>", "<|tile_y_separator|>")
	names = append(names, reserved("<|vision_reserved_special_token_%d|>", 2, 4)...)
	names = append(names, "<|image|>", "<|vision_reserved_special_token_6|>", "<|patch|>")
	names = append(names, reserved("<|vision_reserved_special_token_%d|>", 7, 1041)...)
	names = append(names, reserved("<|reasoning_reserved_special_token_%d|>", 0, 8)...)
	names = append(names, "<|reasoning_thinking_start|>", "<|reasoning_thinking_end|>")
	names = append(names, reserved("<|reserved_special_token_%d|>", 0, llama4Tokens-len(names))...)
	return specials(ranks, names...)
}
