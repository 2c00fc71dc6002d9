package words

import (
	"fmt"
	"strings"

	"github.com/dlclark/regexp2"
)

// escaped writes line ends as the known patterns do; some files have them as
// they are.
var escaped = strings.NewReplacer("\r", `\r`, "\n", `\n`)

// Compile returns the splitter of a regular expression as tokenizer.json and
// tiktoken write them: a scanner for known ones, else a run of characters, else
// the engine. linesEnd says that $ also stands before each newline, as in
// tokenizer.json.
func Compile(pattern string, linesEnd bool) (Splitter, error) {
	if name, ok := nameOf[escaped.Replace(pattern)]; ok {
		return byName[name](), nil
	}
	if s, ok := parseRun(pattern); ok {
		return s, nil
	}
	options := regexp2.None
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
