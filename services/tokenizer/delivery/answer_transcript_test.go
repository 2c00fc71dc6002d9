package delivery

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/transcript"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// TestTranscripts replays token logs and shows the chunks that they make. Events:
//
//	accept prompt= max= stop=A|B seed= from= rest=   a new log; the Detokenizer keeps rest until the end
//	claim EPOCH               an owner of the log
//	score POSITION logprob=   logprob "none": it has none
//	token TEXT id= index= last= logprob=   what the Detokenizer makes of it; last=yes: a stop token
//	end REASON code= message=
//	packed from=              the whole log in one record, to a reader who begins at from
func TestTranscripts(t *testing.T) {
	transcript.Run(t, "testdata/*.txt", func(t testing.TB) transcript.Machine {
		return (&logReader{t: t}).event
	})
}

// logReader reads a log as the owner of its shard does.
type logReader struct {
	t      testing.TB
	texts  []string // of the tokens
	rest   string
	epoch  uint64
	from   int32
	next   int // token
	chain  tokenlog.Chain
	packer tokenlog.Packer
	detok  *script
	answer *answer
}

// script is a Detokenizer that says what the transcript does.
type script struct {
	texts []string
	rest  string
}

func (s *script) Push(uint32) string {
	text := s.texts[0]
	s.texts = s.texts[1:]
	return text
}

func (s *script) Flush() string { return s.rest }

// The model of transcripts.
var transcriptRules = tokenlog.Rules{Model: 7, Vocab: 100, Positions: 100}

func (g *logReader) event(t testing.TB, e *transcript.Event) []string {
	switch e.Name {
	case "accept":
		return g.accept(e)
	case "claim":
		g.epoch = uint64(whole(t, e.Arg(t, 0)))
		return g.take(&pb.Record{Writer: "attention-" + e.Arg(t, 0), Epoch: g.epoch, Kind: &pb.Record_Claim{Claim: &pb.Claim{}}})
	case "score":
		s := &pb.Score{Position: int32(whole(t, e.Arg(t, 0)))}
		if e.Text("logprob", "") != "none" {
			lp := float32(e.Float(t, "logprob", -1))
			s.Logprob = &lp
		}
		return g.take(&pb.Record{Epoch: g.epoch, Kind: &pb.Record_Score{Score: s}})
	case "token":
		return g.take(g.token(e))
	case "end":
		end := &pb.Terminal{FinishReason: e.Arg(t, 0)}
		if e.Has("code") {
			end.Error = &pb.Error{Code: e.Text("code", ""), Message: e.Text("message", "")}
		}
		return g.take(&pb.Record{Kind: &pb.Record_Terminal{Terminal: end}})
	case "packed":
		return g.packed(e)
	}
	e.Fatalf(t, "there is no such event")
	return nil
}

func whole(t testing.TB, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (g *logReader) accept(e *transcript.Event) []string {
	a := &pb.Accept{
		Identity:     &pb.Identity{Version: schemas.Version, Model: transcriptRules.Model},
		PromptTokens: int32(e.Int(g.t, "prompt", 1)), MaxTokens: int32(e.Int(g.t, "max", 9)),
		Seed: uint32(e.Int(g.t, "seed", 0)), FromIndex: int32(e.Int(g.t, "from", 0)),
	}
	if stop := e.Text("stop", ""); stop != "" {
		a.Stop = strings.Split(stop, "|")
	}
	*g = logReader{t: g.t, rest: e.Text("rest", ""), from: a.FromIndex, packer: tokenlog.Packer{Limit: 1 << 16}}
	g.open()
	return g.take(&pb.Record{Kind: &pb.Record_Accept{Accept: a}})
}

// open begins to read a log.
func (g *logReader) open() { g.chain, g.answer = tokenlog.NewChain(transcriptRules), nil }

func (g *logReader) token(e *transcript.Event) *pb.Record {
	index := e.Int(g.t, "index", g.next)
	tok := &pb.Token{Index: int32(index), Id: uint32(e.Int(g.t, "id", 10+index)), Stop: e.Text("last", "") == "yes"}
	if e.Has("logprob") {
		tok.Logprobs = &pb.TokenLogprobs{Index: tok.Index, Chosen: &pb.TokenLogprob{Id: tok.Id, Logprob: float32(e.Float(g.t, "logprob", 0))}}
	}
	if index == g.next {
		g.next++
		g.texts = append(g.texts, e.Arg(g.t, 0))
		if g.detok != nil {
			g.detok.texts = []string{e.Arg(g.t, 0)}
		}
	}
	return &pb.Record{Epoch: g.epoch, Kind: &pb.Record_Token{Token: tok}}
}

// take is what a record makes of the log.
func (g *logReader) take(r *pb.Record) (told []string) {
	records, err := g.chain.Take(r)
	if err != nil {
		return []string{err.Error()}
	}
	for _, r := range records {
		if r.GetAccept() != nil {
			g.detok = &script{texts: g.texts, rest: g.rest}
			g.answer = newAnswer("r", r.GetAccept(), g.detok)
		}
		g.packer.Add(r)
		if c := g.answer.push(r); c != nil {
			told = append(told, show(c, g.from))
		}
	}
	return told
}

func (g *logReader) packed(e *transcript.Event) []string {
	reader := &logReader{t: g.t, texts: g.texts, rest: g.rest, from: int32(e.Int(g.t, "from", 0))}
	p := g.packer.Packed()
	if p == nil {
		return []string{"the log cannot be packed"}
	}
	reader.open()
	return reader.take(&pb.Record{Kind: &pb.Record_Packed{Packed: p}})
}

func show(c *pb.Chunk, from int32) string {
	line := fmt.Sprintf("chunk %d %q", c.Index, c.Text)
	if len(c.TokenIds) > 0 {
		line += fmt.Sprintf(" ids=%v", c.TokenIds)
	}
	for _, lp := range c.Logprobs {
		line += fmt.Sprintf(" logprob=%g", lp.Chosen.Logprob)
	}
	if c.Score != nil {
		line += fmt.Sprintf(" score of %d", c.Score.Position)
		if c.Score.Logprob != nil {
			line += fmt.Sprintf(" (%g)", *c.Score.Logprob)
		}
	}
	if c.Seed != 0 {
		line += fmt.Sprintf(" seed=%d", c.Seed)
	}
	if c.FinishReason != "" {
		line += fmt.Sprintf(" end by %s after %d+%d tokens", c.FinishReason, c.Usage.PromptTokens, c.Usage.CompletionTokens)
	}
	if c.Error != nil {
		line += fmt.Sprintf(" (%s: %s)", c.Error.Code, c.Error.Message)
	}
	if !wants(c, Beginning(from)) {
		line += ", not sent"
	}
	return line
}

func (*script) Piece(id uint32) []byte { return []byte{byte(id)} }
