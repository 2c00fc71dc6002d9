package record

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/switchyard/switchyard/pkg/request/tokenizer"
)

// bytesPerToken is more than what a token of most texts has.
const bytesPerToken = 6

// prompt is a sequence to be recorded: its prompt, later with its answer.
type prompt struct {
	domain int
	ids    []uint32
	length int // of the prompt
}

// choose makes prompts of a domain's documents until their rows reach the wanted
// number: of each document one piece, in the order and from the line that the
// seed says.
func (s *Settings) choose(t *tokenizer.Tokenizer, domain int, documents []string) (list []prompt, err error) {
	r := rand.New(rand.NewPCG(s.Seed, uint64(domain)))
	rows := 0
	for _, i := range r.Perm(len(documents)) {
		if rows >= s.Tokens {
			break
		}
		ids, err := t.EncodePrompt(piece(documents[i], s.PromptTokens*bytesPerToken, r), true)
		if err != nil {
			return nil, fmt.Errorf("encoding a text: %w", err)
		}
		ids = ids[:min(len(ids), s.PromptTokens)]
		if len(ids) == 0 {
			continue
		}
		list = append(list, prompt{domain, ids, len(ids)})
		rows += len(ids) + s.AnswerTokens
	}
	return list, nil
}

// piece is at most about size bytes of a text, from the start of a line.
func piece(text string, size int, r *rand.Rand) string {
	if len(text) <= size {
		return text
	}
	from := r.IntN(len(text) - size + 1)
	line := strings.LastIndexByte(text[:from], '\n') + 1
	if from-line > size { // a text without lines
		line = from
	}
	return strings.ToValidUTF8(text[line:line+size], "")
}
