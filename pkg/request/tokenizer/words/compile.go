package words

import (
	"fmt"

	"github.com/dlclark/regexp2"
)

// Compile returns the splitter of a regular expression as tokenizer.json and
// tiktoken write them: a scanner for known ones, else a run of characters, else
// the engine. linesEnd says that $ also stands before each newline, as in
// tokenizer.json.
func Compile(pattern string, linesEnd bool) (Splitter, error) {
	if name, ok := nameOf[pattern]; ok {
		return byName[name](), nil
	}
	if s, ok := parseRun(pattern); ok {
		return s, nil
	}
	options := regexp2.RegexOptions(regexp2.None)
	if linesEnd {
		options = regexp2.Multiline
	}
	re, err := regexp2.Compile(pattern, options)
	if err != nil {
		return nil, fmt.Errorf("compiling pattern %q: %w", pattern, err)
	}
	re.MatchTimeout = matchTimeout
	return engine{re}, nil
}
