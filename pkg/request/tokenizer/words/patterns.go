package words

import (
	"maps"
	"slices"
)

// The patterns that are matched by hand, as tokenizer.json, tiktoken and the
// models' own code write them.
const (
	contractions = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	spaces       = `\s*[\r\n]+|\s+(?!\S)|\s+`

	gpt2       = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	gpt2Quoted = `'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	r50k       = `'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s`
	cl100k     = `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s`
	llama3     = contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|` + spaces
	qwen2      = contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|` + spaces
	qwen35     = contractions + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|` + spaces

	upperLower = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`
	upperOnly  = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*`
	o200k      = upperLower + contractions + `?|` + upperOnly + contractions + `?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|` + spaces
	tekken     = upperLower + `|` + upperOnly + `|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|` + spaces
	kimi       = `[\p{Han}]+|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+` + contractions + `?|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*` + contractions + `?|` +
		`\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|` + spaces

	deepseek3 = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+" +
		`|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|` + spaces
)

// byName are the patterns that people name, with the scanners that match them.
var byName = map[string]func() Splitter{
	"gpt2": func() Splitter { return scanner(gpt2Words{Classes()}.scan) },
	"cl100k": func() Splitter {
		return scanner((&wordStyle{Table: Classes(), letters: Letter, rest: Rest, digits: 3, endFirst: true}).scan)
	},
	"llama3": func() Splitter {
		return scanner((&wordStyle{Table: Classes(), letters: Letter, rest: Rest, digits: 3}).scan)
	},
	"qwen2": func() Splitter {
		return scanner((&wordStyle{Table: Classes(), letters: Letter, rest: Rest, digits: 1}).scan)
	},
	"qwen3.5": func() Splitter {
		return scanner((&wordStyle{Table: Classes(), letters: Letter | Mark, rest: RestBare, digits: 1}).scan)
	},
	"o200k":     func() Splitter { return scanner(newCaseStyle().scan) },
	"llama4":    func() Splitter { return scanner(newCaseStyle().scan) },
	"tekken":    func() Splitter { return scanner(newTekken().scan) },
	"kimi":      func() Splitter { return scanner(newKimi().scan) },
	"deepseek3": func() Splitter { return scanner(deepseekWords{Classes()}.scan) },
}

// nameOf are the sources of those patterns.
var nameOf = map[string]string{
	gpt2: "gpt2", gpt2Quoted: "gpt2", r50k: "gpt2", cl100k: "cl100k", llama3: "llama3", qwen2: "qwen2", qwen35: "qwen3.5",
	o200k: "o200k", tekken: "tekken", kimi: "kimi", deepseek3: "deepseek3",
}

// Named returns the splitter of a pattern by its name, such as "cl100k".
func Named(name string) (Splitter, bool) {
	known, ok := byName[name]
	if !ok {
		return nil, false
	}
	return known(), true
}

// Names returns the names that Named knows.
func Names() []string { return slices.Sorted(maps.Keys(byName)) }
