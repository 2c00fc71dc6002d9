package openai

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/switchyard/switchyard/internal/splitmix"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/fields"
)

// Ask is what a body asks for.
type Ask struct {
	// Model as the client names it.
	Model string
	// Prompts are those that are asked, N answers of each.
	Prompts []*pb.Prompt
	N       int
	Chat    bool
	// Stream says that chunks come as they are made, Usage that the last one counts tokens.
	Stream, Usage bool
	// Echo says that an answer begins with its prompt.
	Echo bool
	// Logprobs is how many candidates are told of each token; nil: none are told of.
	Logprobs *int32
	// Bare says that what begins and ends a text is not put around a prompt, and Thoughts that
	// what the model thinks is told.
	Bare, Thoughts bool
	// Rest says that answers may take what their prompts leave of the context.
	Rest bool
	// Names are what the route, or this request, calls fields that the services name otherwise.
	Names map[string]string
	// IDs says that the ids of an answer's tokens are told, as vLLM's clients ask for them, and
	// Numbered that log-probabilities name tokens by their ids, as token_id:7.
	IDs, Numbered bool
}

// Answers is how many there will be.
func (a *Ask) Answers() int { return a.N * len(a.Prompts) }

// common takes the fields that chats and completions share into a, and returns the prompt that
// all of its prompts begin as.
func common(o *Object, a *Ask) *pb.Prompt {
	a.Model = Or(o, "model", "")
	if a.Model == "" {
		o.Fail(Bad("model", "you must provide a model parameter"))
	}
	a.Stream = Or(o, "stream", false)
	if options := o.Inner("stream_options"); options != nil {
		a.Usage = Or(options, "include_usage", false)
		if !a.Stream {
			o.Fail(Bad("stream_options", "stream_options is only allowed when stream is true"))
		}
		o.EndOf(options)
	}
	a.N, a.Numbered = int(Or(o, "n", int32(1))), Or(o, "return_tokens_as_token_ids", false)
	if a.N < 1 || a.N > fields.MostAnswers {
		o.Fail(Bad("n", "n is %d; it must be 1 to %d", a.N, fields.MostAnswers))
	}
	p := &pb.Prompt{}
	a.Names = map[string]string{}
	sampling(o, p)
	if from := grammar(o, p); from != "" {
		a.Names["grammar"] = from
	}
	return p
}

// sampling takes what decides about tokens.
func sampling(o *Object, p *pb.Prompt) {
	p.Temperature, p.TopP = Take[float64](o, "temperature"), Take[float64](o, "top_p")
	if k := Take[int32](o, "top_k"); k != nil {
		p.TopK = new(max(*k, 0)) // -1 is all, as elsewhere
	}
	p.RepetitionPenalty = Take[float64](o, "repetition_penalty")
	p.Seed = seed(o)
	p.Stop = stops(o)
	p.StopTokenIds = Or[[]uint32](o, "stop_token_ids", nil)
	p.IgnoreEos, p.Brownout = Or(o, "ignore_eos", false), Or(o, "brownout", "")
	further(o, p)
}

// seed folds a whole number of any sign and 64 bits into the services' 32.
func seed(o *Object) *uint32 {
	text := Take[json.Number](o, "seed")
	if text == nil {
		return nil
	}
	n, err := strconv.ParseInt(text.String(), 10, 64)
	bits := uint64(n)
	if err != nil {
		bits, err = strconv.ParseUint(text.String(), 10, 64)
	}
	if err != nil {
		o.Fail(Bad("seed", "seed is %.40s; it must be a whole number of 64 bits", text.String()))
		return nil
	}
	return new(uint32(bits ^ bits>>32)) // that is the folding
}

// stops are a string or several.
func stops(o *Object) []string {
	raw := o.Raw("stop")
	if raw == nil {
		return nil
	}
	var one string
	if kindOf(raw) == "\"" && json.Unmarshal(raw, &one) == nil {
		if one == "" {
			return nil
		}
		return []string{one}
	}
	var all []string
	if json.Unmarshal(raw, &all) != nil {
		o.Fail(Bad("stop", "stop must be a string, or a list of strings"))
	}
	return all
}

// AllThatIsLeft is how many tokens clients ask for that want no bound but the context's.
const AllThatIsLeft = -1

// maxTokens is the first of fields that is given; nil: there is no bound but what is left.
func (a *Ask) maxTokens(o *Object, names ...string) (n *int32) {
	given := false
	for _, name := range names {
		v := Take[float64](o, name)
		if v != nil && !given {
			a.Names["max_tokens"] = name
		}
		switch {
		case v == nil || given:
		case *v == AllThatIsLeft:
			a.Rest, given = true, true
		case *v != math.Trunc(*v) || *v < 0 || *v > math.MaxInt32:
			o.Fail(Bad(name, "%s is %.40s; it must be a whole number from 1 to %d", name, strconv.FormatFloat(*v, 'f', -1, 64), math.MaxInt32))
		default:
			n, given = new(int32(*v)), true
		}
	}
	return n
}

// SeedOf is the seed of one of several answers of a prompt, of which the first has the one that
// was asked for.
func SeedOf(seed uint32, answer int) uint32 {
	if answer == 0 {
		return seed
	}
	return uint32(splitmix.Mix(uint64(seed)<<32 | uint64(answer))) // any bits do
}
